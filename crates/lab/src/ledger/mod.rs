//! Follows every packet that is put into a cluster until it has left once, or was dropped once with a reason.
//!
//! Packets are identified by their tag, from 0 in each round. Messages use the numbers that the sender assigns; for a capture they
//! are those of Wireshark. The ledger compares each packet that leaves with the expected node, port, tunnel and every octet of the
//! user's packet. It parses frames at fixed offsets with code that shares nothing with the data plane, so an error in `wire` cannot
//! hide itself. At the end of a round it visits each packet: one that neither left nor was dropped is *lost*.
//!
//! Every packet counts once as out, dropped or lost. A packet with an error also counts as *misdelivered*.

mod cause;
mod frame;
mod problem;
mod reassembly;
#[cfg(test)]
mod tests;

pub use cause::DropCause;
pub use problem::Problems;

use frame::Outer;
use problem::Violation;
use reassembly::Reassembly;
use scalebricks_apps::gateway::Dropped;
use scalebricks_elements::gateway::packet::oversize::ICMP_PIECE;
use scalebricks_elements::gateway::{DropReason, OutputPort};
use scalebricks_io::Tag;
use scalebricks_types::{NodeId, Qfi, Teid};
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

/// How a packet must leave.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The handling node of its flow.
    pub node: NodeId,
    /// To the base stations if it came from the Internet, and the reverse.
    pub output: OutputPort,
    /// Downstream: the tunnel it must be in.
    pub teid: Teid,
    /// Downstream: the tunnel's base station.
    pub base_station: Ipv4Addr,
    /// Downstream: the QFI of its PDU session container; `None` if there must be no container.
    pub qfi: Option<Qfi>,
    /// The user's IP packet.
    pub inner: &'a [u8],
}

/// The counts of all packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets put in. `packets_in = packets_out + sum(dropped) + lost`.
    pub packets_in: u64,
    /// Packets that left, with or without errors. A fragmented packet counts once.
    pub packets_out: u64,
    /// Packets that were dropped and did not leave, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets that neither left nor were dropped, and those of which only some fragments left.
    pub lost: u64,
    /// Packets that left twice, at the wrong place or changed, that were dropped twice, after they had left, or without cause;
    /// and packets that were never put in.
    pub misdelivered: u64,
    /// Crossings of the fabric by the packets that left.
    pub hops_total: u64,
    /// Most crossings by one packet.
    pub hops_max: u8,
    /// Outer fragments that left.
    pub fragments_made: u64,
    /// Packets that left as outer fragments.
    pub packets_fragmented: u64,
    /// ICMP errors that left.
    pub icmp_sent: u64,
    /// The errors.
    pub problems: Problems,
}

impl Totals {
    /// Dropped packets, whatever the reason.
    #[cfg(test)]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Adds the totals of other packets.
    pub fn add(&mut self, more: &Self) {
        // The pattern has all fields, so that a new one cannot be forgotten.
        let Self {
            packets_in,
            packets_out,
            dropped,
            lost,
            misdelivered,
            hops_total,
            hops_max,
            fragments_made,
            packets_fragmented,
            icmp_sent,
            problems,
        } = more;
        self.packets_in += packets_in;
        self.packets_out += packets_out;
        for (&reason, count) in dropped {
            *self.dropped.entry(reason).or_default() += count;
        }
        self.lost += lost;
        self.misdelivered += misdelivered;
        self.hops_total += hops_total;
        self.hops_max = self.hops_max.max(*hops_max);
        self.fragments_made += fragments_made;
        self.packets_fragmented += packets_fragmented;
        self.icmp_sent += icmp_sent;
        self.problems.merge(problems);
    }

    /// Crossings of the fabric per packet that left.
    pub fn hops_mean(&self) -> f64 {
        if self.packets_out == 0 { 0.0 } else { self.hops_total as f64 / self.packets_out as f64 }
    }
}

/// The state of one packet of the round.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states of a machine")]
#[derive(Debug, Clone, Copy, Default)]
struct PacketState {
    /// The packet's number in messages.
    number: u64,
    left: bool,
    answered: bool,
    wrong: bool,
    /// Some of its fragments left, not all.
    partial: bool,
    dropped: Option<DropReason>,
}

/// Follows all packets.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    round: Vec<PacketState>,
    partial: HashMap<u64, Reassembly>,
    totals: Totals,
}

impl Ledger {
    /// A ledger without packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a round of packets with these numbers, tagged from 0. Ends the previous round.
    pub fn begin_round(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.end_round();
        self.round.extend(numbers.into_iter().map(|number| PacketState { number, ..PacketState::default() }));
    }

    /// A frame left the cluster, and must be as `expected`. Cost: one pass over the frame; it allocates for fragments only.
    pub fn left(&mut self, node: NodeId, output: OutputPort, tag: Tag, frame: &[u8], expected: &Expected) {
        if tag.piece == ICMP_PIECE {
            return self.answered(output, tag, frame, expected.inner);
        }
        let verdict = match expected.output {
            OutputPort::Internet => frame::check_upstream(frame, expected.inner).map(|()| None),
            OutputPort::BaseStation => frame::check_outer(frame, expected.base_station).and_then(|outer| {
                if outer.is_fragment() {
                    return Ok(Some(outer));
                }
                frame::check_tunnel(&outer, expected).map(|()| None)
            }),
        };
        let verdict = verdict.map_err(Violation::from);
        let place = if node != expected.node {
            Err(Violation::Node { expected: expected.node, seen: node })
        } else if output != expected.output {
            Err(Violation::Port { expected: expected.output, seen: output })
        } else {
            Ok(())
        };
        if let Err(violation) = place {
            self.wrong(tag.id, &violation);
        }
        match verdict {
            Ok(None) => self.leaves(tag),
            Ok(Some(fragment)) => self.fragment_left(tag, &fragment, expected),
            Err(violation) => {
                self.wrong(tag.id, &violation);
                self.leaves(tag);
            }
        }
    }

    /// A frame left the cluster that should have been dropped because of `why`.
    pub fn left_wrongly(&mut self, tag: Tag, why: &'static str) {
        self.wrong(tag.id, &Violation::ShouldHaveBeenDropped(why));
        self.leaves(tag);
    }

    /// A packet with these causes was dropped. It is misdelivered unless one of them permits the reason.
    pub fn dropped(&mut self, dropped: &Dropped, causes: &[DropCause]) {
        let Some(packet) = self.packet(dropped.tag.id) else {
            return self.wrong(dropped.tag.id, &Violation::Unknown);
        };
        if packet.dropped.replace(dropped.reason).is_some() {
            self.wrong(dropped.tag.id, &Violation::DroppedTwice(dropped.reason));
        }
        if !causes.iter().any(|cause| cause.calls_for(dropped.reason)) {
            self.wrong(dropped.tag.id, &Violation::WronglyDropped(dropped.reason));
        }
    }

    /// Ends the round: adds each of its packets to the totals.
    pub fn end_round(&mut self) {
        let incomplete: Vec<u64> = self.partial.drain().map(|(id, _)| id).collect();
        for id in incomplete {
            if let Some(packet) = self.packet(id) {
                packet.partial = true;
                let number = packet.number;
                self.totals.problems.add(number, &Violation::FragmentMissing);
            }
        }
        for fate in std::mem::take(&mut self.round) {
            self.close(fate);
        }
    }

    /// The totals of all rounds that have ended.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    fn close(&mut self, packet: PacketState) {
        // A packet that is only partial counts as lost.
        let mut wrong = packet.wrong || packet.partial && (packet.left || packet.dropped.is_some());
        let mut also_wrong = |ledger: &mut Self, violation| {
            wrong = true;
            ledger.totals.problems.add(packet.number, &violation);
        };
        if packet.answered && packet.dropped != Some(DropReason::FragmentationNeeded) {
            also_wrong(self, Violation::AnsweredOnly);
        }
        if let (true, Some(reason)) = (packet.left, packet.dropped) {
            also_wrong(self, Violation::LeftAndDropped(reason));
        }
        self.totals.packets_in += 1;
        match packet {
            PacketState { left: true, .. } => self.totals.packets_out += 1,
            PacketState { dropped: Some(reason), .. } => {
                *self.totals.dropped.entry(reason.name()).or_default() += 1;
            }
            _ => {
                self.totals.lost += 1;
                if !packet.partial {
                    self.totals.problems.add(packet.number, &Violation::Lost);
                }
            }
        }
        self.totals.misdelivered += u64::from(wrong);
    }

    fn packet(&mut self, id: u64) -> Option<&mut PacketState> {
        self.round.get_mut(usize::try_from(id).ok()?)
    }

    /// A whole packet left, with or without errors.
    fn leaves(&mut self, tag: Tag) {
        let Some(packet) = self.packet(tag.id) else { return self.wrong(tag.id, &Violation::Unknown) };
        if std::mem::replace(&mut packet.left, true) {
            return self.wrong(tag.id, &Violation::Twice);
        }
        self.totals.hops_total += u64::from(tag.hops);
        self.totals.hops_max = self.totals.hops_max.max(tag.hops);
    }

    fn fragment_left(&mut self, tag: Tag, fragment: &Outer<'_>, expected: &Expected) {
        self.totals.fragments_made += 1;
        let partial = self.partial.entry(tag.id).or_default();
        let payload = match partial.add(fragment) {
            Ok(None) => return,
            Ok(Some(payload)) => payload,
            Err(error) => return self.wrong(tag.id, &error.into()),
        };
        self.partial.remove(&tag.id);
        self.totals.packets_fragmented += 1;
        if let Err(error) = frame::check_tunnel(&Outer { payload: &payload, ..*fragment }, expected) {
            self.wrong(tag.id, &error.into());
        }
        self.leaves(tag);
    }

    /// An ICMP error about this user's packet left. [`Ledger::left`] recognises ICMP errors by their tag; this is for packets that
    /// must not leave.
    pub fn answered(&mut self, output: OutputPort, tag: Tag, answer: &[u8], about: &[u8]) {
        self.totals.icmp_sent += 1;
        let verdict = if output == OutputPort::Internet {
            frame::check_answer(answer, about).map_err(Violation::from)
        } else {
            Err(Violation::Port { expected: OutputPort::Internet, seen: output })
        };
        if let Err(violation) = verdict {
            self.wrong(tag.id, &violation);
        }
        let Some(packet) = self.packet(tag.id) else { return self.wrong(tag.id, &Violation::Unknown) };
        if std::mem::replace(&mut packet.answered, true) {
            self.wrong(tag.id, &Violation::Twice);
        }
    }

    fn wrong(&mut self, id: u64, violation: &Violation) {
        let number = if let Some(packet) = self.packet(id) {
            packet.wrong = true;
            packet.number
        } else {
            // The number of a packet that was never put in is its tag.
            self.totals.misdelivered += 1;
            id
        };
        self.totals.problems.add(number, violation);
    }
}
