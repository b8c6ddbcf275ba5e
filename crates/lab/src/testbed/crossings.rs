//! How often captured packets crossed the fabric: not at all if they entered at their handling node, otherwise once, directly
//! to the handling node (at most twice in architectures with a detour).

use super::capture::{Gtpu, Seen};
use super::plan::{Family, GATEWAY, NodePort, Plan, STATION, Ue};
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::fabric::mac::{FabricMac, OutputPort, Phase};
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Findings that are reported.
const REPORTED: usize = 5;

/// The message type of a G-PDU.
const GPDU: u8 = 255;

/// From a phone, or to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Direction {
    Up,
    Down,
}

/// Frames of one phone, family and direction.
#[derive(Debug, Default)]
struct Passage {
    /// By ingress node.
    entered: BTreeMap<NodeId, u64>,
    /// By sender and receiver on the fabric.
    crossed: BTreeMap<(NodeId, NodeId), u64>,
    /// By the node they left.
    left: BTreeMap<NodeId, u64>,
}

/// The findings in a capture.
#[derive(Debug, Default)]
pub struct Findings {
    /// Users' packets that entered.
    pub entered: u64,
    /// Frames on the fabric.
    pub crossed: u64,
    /// Frames with a checksum that tshark verified as correct.
    pub verified: u64,
    /// Errors: their number, and the first of them.
    pub wrong: (usize, Vec<String>),
}

impl Findings {
    fn add(&mut self, what: String) {
        self.wrong.0 += 1;
        if self.wrong.1.len() < REPORTED {
            self.wrong.1.push(what);
        }
    }
}

/// Checks a capture of all nodes' bridge ports, from before the first packet to after the last.
pub fn judge(frames: &[Seen], plan: &Plan) -> Findings {
    let mut findings = Findings::default();
    let ues: HashMap<IpAddr, (Ue, Family)> =
        plan.ues().flat_map(|ue| Family::ALL.map(|family| (ue.address(family), (ue, family)))).collect();
    let mut passages: BTreeMap<(u16, u8, Direction), Passage> = BTreeMap::new();
    for frame in frames {
        findings.verified += u64::from(frame.right > 0);
        if let Some(problem) = &frame.problem {
            findings.add(format!("frame {}, {}: {problem}", frame.number, whereabouts(frame)));
        }
        let known = frame.inner.and_then(|(src, dst)| {
            let from = ues.get(&src).map(|(ue, family)| (*ue, *family, Direction::Up));
            from.or_else(|| ues.get(&dst).map(|(ue, family)| (*ue, *family, Direction::Down)))
        });
        let Some((ue, family, direction)) = known else {
            if is_probe(frame) {
                if let Err(wrong) = not_flooded(frame) {
                    findings.add(format!("frame {}: {wrong}", frame.number));
                }
            } else if frame.link == NodePort::Fabric {
                findings.add(format!("frame {}: a packet of no phone on the fabric", frame.number));
            }
            continue;
        };
        let passage = passages.entry((ue.number, family as u8, direction)).or_default();
        if let Err(wrong) = place(frame, ue, family, direction, passage) {
            findings.add(format!("frame {}: {wrong}", frame.number));
        }
    }
    for (&(number, family, direction), passage) in &passages {
        let Some(ue) = plan.ues().nth(usize::from(number)) else { continue };
        findings.entered += passage.entered.values().sum::<u64>();
        findings.crossed += passage.crossed.values().sum::<u64>();
        if let Err(wrong) = check_path(passage, ue.node, plan.architecture) {
            let family = if family == 0 { Family::V4 } else { Family::V6 };
            findings.add(format!("{direction:?} {}: {wrong}", ue.address(family)));
        }
    }
    if findings.entered == 0 {
        findings.add("no packet of a phone was captured".to_owned());
    }
    // Otherwise tshark may not have verified checksums at all. Each packet is captured where it enters and where it leaves.
    if findings.verified < findings.entered + findings.crossed {
        findings.add(format!("checksums were verified in {} frames only", findings.verified));
    }
    findings
}

/// Where a frame was captured, its direction, and its addresses.
fn whereabouts(frame: &Seen) -> String {
    let is_sent = frame.src == Plan::mac(frame.node, frame.link);
    let sender = if is_sent { "sent by it" } else { "sent to it" };
    let ends = frame.inner.or(frame.outer);
    let ends = ends.map_or_else(String::new, |(src, dst)| format!(", {src} to {dst}"));
    format!("{:?} of node {}, {sender}{ends}", frame.link, frame.node.get())
}

/// Whether it is a probe between nodes.
fn is_probe(frame: &Seen) -> bool {
    let to = FabricMac::decode(frame.dst).filter(|_| frame.link == NodePort::Fabric);
    to.is_some_and(|to| to.phase == Phase::Probe)
}

/// Checks that a frame on the fabric was captured at its sender or receiver.
fn not_flooded(frame: &Seen) -> Result<(), String> {
    let ends = [frame.dst, frame.src].map(FabricMac::decode);
    if ends.iter().flatten().any(|end| end.node == frame.node) {
        return Ok(());
    }
    Err(format!("the switch flooded {} to node {}", frame.dst, frame.node.get()))
}

/// Counts a frame by its place, and checks its addresses.
fn place(
    frame: &Seen,
    ue: Ue,
    family: Family,
    direction: Direction,
    passage: &mut Passage,
) -> Result<(), String> {
    let is_from_node = frame.src == Plan::mac(frame.node, frame.link);
    let is_to_node = frame.dst == Plan::mac(frame.node, frame.link);
    match (frame.link, direction) {
        (NodePort::Internet, _) if frame.gtpu.is_some() => return Err("GTP-U on the Internet".to_owned()),
        (NodePort::Internet, Direction::Down) if is_to_node => count(&mut passage.entered, frame.node),
        (NodePort::Internet, Direction::Up) if is_from_node => count(&mut passage.left, frame.node),
        (NodePort::Ran, Direction::Up) if is_to_node => {
            tunnel(frame, (IpAddr::V4(STATION), IpAddr::V4(GATEWAY)), ue.uplink_teid(family), ue)?;
            count(&mut passage.entered, frame.node);
        }
        (NodePort::Ran, Direction::Down) if is_from_node => {
            tunnel(frame, (IpAddr::V4(GATEWAY), IpAddr::V4(STATION)), ue.downlink_teid(family), ue)?;
            count(&mut passage.left, frame.node);
        }
        (NodePort::Fabric, _) => {
            let to = FabricMac::decode(frame.dst).ok_or("no fabric address")?;
            let from = FabricMac::decode(frame.src).ok_or("not from a fabric address")?;
            let expected =
                if direction == Direction::Up { OutputPort::Internet } else { OutputPort::BaseStation };
            if to.port != expected {
                return Err("the fabric address has the wrong port".to_owned());
            }
            not_flooded(frame)?;
            // It is captured at both ends; only the receiver's is counted.
            if to.node == frame.node {
                *passage.crossed.entry((from.node, to.node)).or_default() += 1;
            }
        }
        _ => return Err(format!("from {} to {} at node {}", frame.src, frame.dst, frame.node.get())),
    }
    Ok(())
}

fn count(counts: &mut BTreeMap<NodeId, u64>, node: NodeId) {
    *counts.entry(node).or_default() += 1;
}

fn tunnel(frame: &Seen, outer: (IpAddr, IpAddr), teid: u32, ue: Ue) -> Result<(), String> {
    let expected = Gtpu { message: GPDU, teid, qfi: ue.qfi() };
    if frame.gtpu != Some(expected) {
        return Err(format!("{:?} in place of {expected:?}", frame.gtpu));
    }
    if frame.outer == Some(outer) { Ok(()) } else { Err(format!("outer addresses {:?}", frame.outer)) }
}

/// Checks the path of the packets of one phone, family and direction.
fn check_path(passage: &Passage, handling: NodeId, architecture: Architecture) -> Result<(), String> {
    let Passage { entered, crossed, left } = passage;
    let total: u64 = entered.values().sum();
    if left.iter().any(|(node, _)| *node != handling) || left.values().sum::<u64>() != total {
        return Err(format!("{} entered, left {}", describe(entered), describe(left)));
    }
    let is_right = match architecture {
        Architecture::ScaleBricks | Architecture::FullDuplication => {
            let expected: BTreeMap<_, _> = entered
                .iter()
                .filter(|(ingress, _)| **ingress != handling)
                .map(|(ingress, count)| ((*ingress, handling), *count))
                .collect();
            *crossed == expected
        }
        // At most twice.
        Architecture::HashPartition | Architecture::Vlb => crossed.values().sum::<u64>() <= 2 * total,
    };
    if is_right {
        Ok(())
    } else {
        Err(format!("{} entered, crossed the fabric {crossed:?}", describe(entered)))
    }
}

fn describe(counts: &BTreeMap<NodeId, u64>) -> String {
    let parts: Vec<_> =
        counts.iter().map(|(node, count)| format!("{count} at node {}", node.get())).collect();
    if parts.is_empty() { "nowhere".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests;
