//! How often packets crossed the fabric, from what was captured: a packet that entered where it is handled never, any
//! other once, straight to its handling node (twice at most where the architecture makes detours).

use super::capture::{Gtpu, Seen};
use super::plan::{Family, GATEWAY, Link, Plan, STATION, Ue};
use scalebricks_apps::gateway::Architecture;
use scalebricks_elements::gateway::fabric::mac::{FabricMac, OutputPort, Phase};
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Findings that are told.
const TOLD: usize = 5;

/// A G-PDU.
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

/// What a capture shows.
#[derive(Debug, Default)]
pub struct Findings {
    /// Packets of users that entered.
    pub entered: u64,
    /// Frames on the fabric.
    pub crossed: u64,
    /// Frames with a checksum that tshark computed anew and found right.
    pub verified: u64,
    /// What is wrong: how many things, and the first of them.
    pub wrong: (usize, Vec<String>),
}

impl Findings {
    fn add(&mut self, what: String) {
        self.wrong.0 += 1;
        if self.wrong.1.len() < TOLD {
            self.wrong.1.push(what);
        }
    }
}

/// Judges a capture taken at all nodes' ends of the bridges, from before the first packet to after the last.
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
            } else if frame.link == Link::Fabric {
                findings.add(format!("frame {}: no phone's packet on the fabric", frame.number));
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
        if let Err(wrong) = weigh(passage, ue.node, plan.architecture) {
            let family = if family == 0 { Family::V4 } else { Family::V6 };
            findings.add(format!("{direction:?} {}: {wrong}", ue.address(family)));
        }
    }
    if findings.entered == 0 {
        findings.add("no packet of a phone was captured".to_owned());
    }
    // Else tshark was told to verify nothing, and found nothing wrong: each packet is seen where it enters and leaves.
    if findings.verified < findings.entered + findings.crossed {
        findings.add(format!("checksums were verified in {} frames only", findings.verified));
    }
    findings
}

/// Where a frame was seen, who sent it, and between whom it goes.
fn whereabouts(frame: &Seen) -> String {
    let is_sent = frame.src == Plan::mac(frame.node, frame.link);
    let sender = if is_sent { "sent by it" } else { "sent to it" };
    let ends = frame.inner.or(frame.outer);
    let ends = ends.map_or_else(String::new, |(src, dst)| format!(", {src} to {dst}"));
    format!("{:?} of node {}, {sender}{ends}", frame.link, frame.node.get())
}

/// Whether nodes probe each other by it.
fn is_probe(frame: &Seen) -> bool {
    let to = FabricMac::decode(frame.dst).filter(|_| frame.link == Link::Fabric);
    to.is_some_and(|to| to.phase == Phase::Probe)
}

/// A frame on the fabric is at the node that sent it, or at the one that it is for.
fn not_flooded(frame: &Seen) -> Result<(), String> {
    let ends = [frame.dst, frame.src].map(FabricMac::decode);
    if ends.iter().flatten().any(|end| end.node == frame.node) {
        return Ok(());
    }
    Err(format!("the switch flooded {} to node {}", frame.dst, frame.node.get()))
}

/// Counts a frame where it belongs.
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
        (Link::Internet, _) if frame.gtpu.is_some() => return Err("GTP-U on the Internet".to_owned()),
        (Link::Internet, Direction::Down) if is_to_node => count(&mut passage.entered, frame.node),
        (Link::Internet, Direction::Up) if is_from_node => count(&mut passage.left, frame.node),
        (Link::Ran, Direction::Up) if is_to_node => {
            tunnel(frame, (IpAddr::V4(STATION), IpAddr::V4(GATEWAY)), ue.uplink_teid(family), ue)?;
            count(&mut passage.entered, frame.node);
        }
        (Link::Ran, Direction::Down) if is_from_node => {
            tunnel(frame, (IpAddr::V4(GATEWAY), IpAddr::V4(STATION)), ue.downlink_teid(family), ue)?;
            count(&mut passage.left, frame.node);
        }
        (Link::Fabric, _) => {
            let to = FabricMac::decode(frame.dst).ok_or("no fabric address")?;
            let from = FabricMac::decode(frame.src).ok_or("not from a fabric address")?;
            let expected =
                if direction == Direction::Up { OutputPort::Internet } else { OutputPort::BaseStation };
            if to.port != expected {
                return Err("the fabric address tells the wrong port".to_owned());
            }
            not_flooded(frame)?;
            // It is seen at both ends; the receiver's counts.
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

/// Whether the packets of one phone, family and direction went the right way.
fn weigh(passage: &Passage, handling: NodeId, architecture: Architecture) -> Result<(), String> {
    let Passage { entered, crossed, left } = passage;
    let total: u64 = entered.values().sum();
    if left.iter().any(|(node, _)| *node != handling) || left.values().sum::<u64>() != total {
        return Err(format!("{} entered, left {}", tell(entered), tell(left)));
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
        // Twice at most, and all come to the handling node but those that were there.
        Architecture::HashPartition | Architecture::Vlb => crossed.values().sum::<u64>() <= 2 * total,
    };
    if is_right { Ok(()) } else { Err(format!("{} entered, crossed the fabric {crossed:?}", tell(entered))) }
}

fn tell(counts: &BTreeMap<NodeId, u64>) -> String {
    let parts: Vec<_> =
        counts.iter().map(|(node, count)| format!("{count} at node {}", node.get())).collect();
    if parts.is_empty() { "nowhere".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests;
