//! Follows every packet put into a cluster until it has left once, or was dropped once, by name.
//!
//! Packets are told apart by their tag, from 0 in each round; messages name them by the numbers their sender gives, which
//! for a capture are those that Wireshark shows. What leaves is compared with what the sender of the packet
//! expects: node, port, tunnel, and each octet the user sees. Frames are read here at fixed offsets, by code that
//! shares nothing with the data plane's, so that an error in one is not excused by the other. At the end of a round
//! each number is looked at: a packet that neither left nor was dropped is *lost*, whatever the sums say.
//!
//! Every packet is counted once as out, dropped or lost; one that misbehaved is *misdelivered* besides.

mod frame;
mod ground;
mod problem;
mod reassembly;
#[cfg(test)]
mod tests;

pub use ground::Ground;
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

/// How a packet ought to leave.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The node its flow is pinned to.
    pub node: NodeId,
    /// To the base stations if it was put in from the Internet, and the other way round.
    pub output: OutputPort,
    /// Downstream: the tunnel it must be in.
    pub teid: Teid,
    /// Downstream: where the tunnel must lead.
    pub base_station: Ipv4Addr,
    /// Downstream: the QoS flow its PDU session container must name; without one there must be no container.
    pub qfi: Option<Qfi>,
    /// The user's IP packet.
    pub inner: &'a [u8],
}

/// What became of all packets so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets put in. `packets_in = packets_out + sum(dropped) + lost`.
    pub packets_in: u64,
    /// Packets that left, rightly or wrongly; a fragmented one counts once.
    pub packets_out: u64,
    /// Packets that were dropped and did not leave, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Packets never seen again, and those of which only some fragments left.
    pub lost: u64,
    /// Packets that left twice, elsewhere or changed, were dropped twice or though they had left, or were dropped
    /// though nothing was wrong with them; and packets that were never put in.
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
    /// What went wrong.
    pub problems: Problems,
}

impl Totals {
    /// Dropped packets, whatever the reason.
    #[cfg(test)]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Crossings of the fabric per packet that left.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a mean of that many packets has no use for its last bits"
    )]
    pub fn hops_mean(&self) -> f64 {
        if self.packets_out == 0 { 0.0 } else { self.hops_total as f64 / self.packets_out as f64 }
    }
}

/// What is known of one packet of the round.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not the states of a machine")]
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    /// How messages call the packet.
    number: u64,
    left: bool,
    answered: bool,
    wrong: bool,
    /// Some of its fragments left, not all.
    partial: bool,
    dropped: Option<DropReason>,
}

/// The account of all packets.
#[derive(Debug, Default)]
pub struct Ledger {
    round: Vec<Fate>,
    partial: HashMap<u64, Reassembly>,
    totals: Totals,
}

impl Ledger {
    /// An empty account.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a round of packets with these numbers, tagged 0 and following. A round that was not ended is ended.
    pub fn begin_round(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.end_round();
        self.round.extend(numbers.into_iter().map(|number| Fate { number, ..Fate::default() }));
    }

    /// A frame left the cluster, and should have left as `expected` says. Cost: one pass over the frame; memory is
    /// taken for fragments only.
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

    /// A frame left the cluster that should have been dropped: `why` says for what reason.
    pub fn left_wrongly(&mut self, tag: Tag, why: &'static str) {
        self.wrong(tag.id, &Violation::ShouldHaveBeenDropped(why));
        self.leaves(tag);
    }

    /// A packet was dropped of which `grounds` are known. It is misdelivered unless one of them calls for the drop.
    pub fn dropped(&mut self, dropped: &Dropped, grounds: &[Ground]) {
        let Some(fate) = self.fate(dropped.tag.id) else {
            return self.wrong(dropped.tag.id, &Violation::Unknown);
        };
        if fate.dropped.replace(dropped.reason).is_some() {
            self.wrong(dropped.tag.id, &Violation::DroppedTwice(dropped.reason));
        }
        if !grounds.iter().any(|ground| ground.calls_for(dropped.reason)) {
            self.wrong(dropped.tag.id, &Violation::WronglyDropped(dropped.reason));
        }
    }

    /// Ends the round: looks at each of its packets and adds it to the totals.
    pub fn end_round(&mut self) {
        let incomplete: Vec<u64> = self.partial.drain().map(|(id, _)| id).collect();
        for id in incomplete {
            if let Some(fate) = self.fate(id) {
                fate.partial = true;
                let number = fate.number;
                self.totals.problems.add(number, &Violation::FragmentMissing);
            }
        }
        for fate in std::mem::take(&mut self.round) {
            self.close(fate);
        }
    }

    /// What became of the packets of all rounds that were ended.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    fn close(&mut self, fate: Fate) {
        // Partial and nothing else is lost.
        let mut wrong = fate.wrong || fate.partial && (fate.left || fate.dropped.is_some());
        let mut also_wrong = |ledger: &mut Self, violation| {
            wrong = true;
            ledger.totals.problems.add(fate.number, &violation);
        };
        if fate.answered && fate.dropped != Some(DropReason::FragmentationNeeded) {
            also_wrong(self, Violation::AnsweredOnly);
        }
        if let (true, Some(reason)) = (fate.left, fate.dropped) {
            also_wrong(self, Violation::LeftAndDropped(reason));
        }
        self.totals.packets_in += 1;
        match fate {
            Fate { left: true, .. } => self.totals.packets_out += 1,
            Fate { dropped: Some(reason), .. } => {
                *self.totals.dropped.entry(reason.name()).or_default() += 1;
            }
            _ => {
                self.totals.lost += 1;
                if !fate.partial {
                    self.totals.problems.add(fate.number, &Violation::Lost);
                }
            }
        }
        self.totals.misdelivered += u64::from(wrong);
    }

    fn fate(&mut self, id: u64) -> Option<&mut Fate> {
        self.round.get_mut(usize::try_from(id).ok()?)
    }

    /// A whole packet left, rightly or not.
    fn leaves(&mut self, tag: Tag) {
        let Some(fate) = self.fate(tag.id) else { return self.wrong(tag.id, &Violation::Unknown) };
        if std::mem::replace(&mut fate.left, true) {
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

    /// An ICMP error left that a node made about this packet of the user's. [`Ledger::left`] tells them apart by their
    /// tag; this is for packets that should not leave.
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
        let Some(fate) = self.fate(tag.id) else { return self.wrong(tag.id, &Violation::Unknown) };
        if std::mem::replace(&mut fate.answered, true) {
            self.wrong(tag.id, &Violation::Twice);
        }
    }

    fn wrong(&mut self, id: u64, violation: &Violation) {
        let number = if let Some(fate) = self.fate(id) {
            fate.wrong = true;
            fate.number
        } else {
            // A packet that was never put in has no number but its tag.
            self.totals.misdelivered += 1;
            id
        };
        self.totals.problems.add(number, violation);
    }
}
