//! Transfers the counts of flows that left a node to the flows' current nodes: each count is delivered once.
//!
//! Counts travel in *parcels*, one to each node at a time, numbered from 1. The receiver accepts the next number and confirms it
//! by a *receipt*; a repeated parcel only gets another receipt. The sender keeps a parcel until it has its receipt, and repeats
//! it every [`RESEND`]. Waiting counts of one flow for one node are added up.
//!
//! ```text
//! post ─▶ fresh ─ place ─▶ waiting for a node ─▶ parcel under way ─ receipt ─▶ done: the receiver has delivered it
//!            │  ▲                │ it is not alive
//!            │  └────────────────┘
//!            ├─▶ back: the flow is here
//!            └─▶ held ─ it is nowhere for some time ─▶ ended
//! ```
//!
//! **Between processes, not lives.** A receiver knows what it delivered until its process ends, which is longer than its life: a
//! node that was wrongly removed begins a new life and still has its counts. So a parcel names two [`ProcessId`]s, and is
//! ignored if either process has ended.
//!
//! **Guarantees.** While no process ends, each count is delivered exactly once, whatever messages are lost, duplicated or
//! reordered, and whichever nodes are wrongly removed. When a process ends, the counts that it held are lost. Of the counts sent
//! to it, the one parcel without a receipt may have been delivered and passed on before: it is not repeated but counted as
//! [lost](CourierStats::lost). So no count is delivered twice, and each pair of nodes loses the counts of at most
//! [`PARCEL_FLOWS`] flows beyond those of the ended process. A parcel to a node that stays away stays unconfirmed.
//!
//! A state machine without I/O. Memory: about 60 bytes per waiting flow, and a parcel of up to 40 KiB per node.

use borsh::{BorshDeserialize, BorshSerialize};
mod destination;
#[cfg(test)]
mod tests;

use crate::codec::{Encoded, checked};
use destination::Destination;
use scalebricks_types::{NodeId, Teid};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::time::Duration;

/// A parcel without a receipt is repeated after this time.
pub const RESEND: Duration = Duration::from_millis(200);

/// Flows of one parcel, at most: 36 KiB of counts.
pub const PARCEL_FLOWS: usize = 1_024;

/// A flow that no node has for this time has ended.
pub const ENDED_AFTER: Duration = Duration::from_secs(5);

/// A flow at a node that is not alive for this time has ended: it would have been given to another node.
pub const LOST_SIGHT_AFTER: Duration = Duration::from_secs(60);

/// Flows that wait, from which on no more should be posted.
pub const ENOUGH: usize = 1 << 18;

/// Between two looks where held flows are.
const LOOK: Duration = Duration::from_millis(500);

/// A start of a process: higher than those of all that were started before, in the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct ProcessId(pub u64);

/// Four counters of a flow, opaque here. Sums stop at the highest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub struct Count(pub [u64; 4]);

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        for (counter, more) in self.0.iter_mut().zip(other.0) {
            *counter = counter.saturating_add(more);
        }
    }
}

/// Between two nodes' couriers.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Packet {
    /// Asks for the receiver's process. Answered by a receipt.
    Hello(ProcessId),
    /// Counts.
    Parcel(Parcel),
    /// They were delivered.
    Receipt(Receipt),
}

impl Encoded for Packet {
    const NAME: &'static str = "courier packet";
}

/// Counts of flows, on their way.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct Parcel {
    /// The sending process.
    pub from: ProcessId,
    /// The receiving process; any other ignores the parcel.
    pub to: ProcessId,
    /// Its number among those between the two, from 1.
    pub number: u64,
    /// By uplink TEID, ascending; 1 to [`PARCEL_FLOWS`] of them.
    pub counts: Vec<(Teid, Count)>,
}

impl BorshDeserialize for Parcel {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |(from, to, number, counts): (_, _, _, Vec<(Teid, Count)>)| {
            if number == 0 {
                Err("parcel number 0")
            } else if counts.is_empty() || counts.len() > PARCEL_FLOWS {
                Err("a parcel without flows or with too many")
            } else if !counts.is_sorted_by(|(one, _), (next, _)| one < next) {
                Err("the flows of a parcel are not in ascending order")
            } else {
                Ok(Self { from, to, number, counts })
            }
        })
    }
}

/// Confirms parcels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Receipt {
    /// The process that delivered them.
    pub from: ProcessId,
    /// Whose parcels.
    pub to: ProcessId,
    /// Up to this number; 0: none.
    pub number: u64,
}

/// Where a flow is, according to the node's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Here.
    Here,
    /// At another node, which may be none that is alive.
    At(NodeId),
    /// The tables name this node, which has no such flow.
    Nowhere,
    /// The tables cannot tell at the moment.
    Unknown,
}

/// The result of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// To deliver: add them to the flows' counts here.
    pub counts: Vec<(Teid, Count)>,
    /// To be sent to whom it came from.
    pub reply: Option<Packet>,
}

/// The work that is due.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Work {
    /// To be sent.
    pub packets: Vec<(NodeId, Packet)>,
    /// Counts of flows that are here again.
    pub back: Vec<(Teid, Count)>,
    /// Counts of flows that have ended.
    pub ended: Vec<(Teid, Count)>,
}

/// Counters of the courier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CourierStats {
    /// Flows' counts whose receipt came. A flow counts each time.
    pub sent_flows: u64,
    /// Flows' counts delivered here.
    pub delivered_flows: u64,
    /// Parcels sent once more.
    pub resent: u64,
    /// Parcels that came though they had been delivered.
    pub duplicates: u64,
    /// Packets of an earlier incarnation, to an earlier incarnation, or with an impossible number.
    pub strange: u64,
    /// Flows whose counts were under way to a process that ended, and that may have received them.
    pub lost_flows: u64,
    /// Their sums.
    pub lost: Count,
}

/// The state of a sending node.
#[derive(Debug)]
struct Sender {
    process: ProcessId,
    /// The last number delivered.
    delivered: u64,
}

/// A node's courier. See the [module](self).
#[derive(Debug)]
pub struct Courier {
    process: ProcessId,
    alive: BTreeSet<NodeId>,
    /// Counts without a known destination yet.
    fresh: BTreeMap<Teid, Count>,
    /// Those of flows without a place to send them to, and since when.
    held: BTreeMap<Teid, (Count, Duration)>,
    next_look: Duration,
    destinations: BTreeMap<NodeId, Destination>,
    senders: BTreeMap<NodeId, Sender>,
    stats: CourierStats,
}

impl Courier {
    /// The courier of a process that has just started. Other nodes are not alive before [`Courier::set_alive`].
    pub fn new(process: ProcessId) -> Self {
        Self {
            process,
            alive: BTreeSet::new(),
            fresh: BTreeMap::new(),
            held: BTreeMap::new(),
            next_look: Duration::ZERO,
            destinations: BTreeMap::new(),
            senders: BTreeMap::new(),
            stats: CourierStats::default(),
        }
    }

    /// The counters.
    pub const fn stats(&self) -> CourierStats {
        self.stats
    }

    /// Flows whose counts wait here, and flows whose counts are in parcels without a receipt.
    pub fn flows(&self) -> (usize, usize) {
        let waiting: usize = self.destinations.values().map(Destination::waiting).sum();
        let under_way = self.destinations.values().map(Destination::under_way).sum();
        (self.fresh.len() + self.held.len() + waiting, under_way)
    }

    /// Whether more may be posted. Respecting it bounds the memory.
    pub fn has_room(&self) -> bool {
        self.flows().0 < ENOUGH
    }

    /// A flow has left this node, and has counted this here.
    pub fn post(&mut self, flow: Teid, count: Count) {
        *self.fresh.entry(flow).or_default() += count;
    }

    /// Sets which nodes are alive. Counts that wait for others get another destination.
    pub fn set_alive(&mut self, alive: BTreeSet<NodeId>) {
        self.alive = alive;
        for (_, destination) in self.destinations.iter_mut().filter(|(node, _)| !self.alive.contains(node)) {
            for (flow, count) in destination.give_back() {
                *self.fresh.entry(flow).or_default() += count;
            }
        }
    }

    /// Handles a packet of another node. Its counts must be delivered: they are not sent again.
    pub fn receive(&mut self, from: NodeId, packet: Packet) -> Received {
        let process = match &packet {
            Packet::Hello(process) => *process,
            Packet::Parcel(parcel) => parcel.from,
            Packet::Receipt(receipt) => receipt.from,
        };
        if !self.meet(from, process) {
            self.stats.strange += 1;
            return Received::default();
        }
        match packet {
            Packet::Hello(_) => Received { reply: self.receipt(from), ..Received::default() },
            Packet::Parcel(parcel) => self.parcel(from, parcel),
            Packet::Receipt(receipt) => {
                if receipt.to == self.process
                    && let Some(destination) = self.destinations.get_mut(&from)
                {
                    self.stats.sent_flows += destination.receipted(receipt.number) as u64;
                }
                Received::default()
            }
        }
    }

    /// Notes a node's process. False if that process has ended.
    fn meet(&mut self, node: NodeId, process: ProcessId) -> bool {
        let sender = self.senders.entry(node).or_insert(Sender { process, delivered: 0 });
        if process < sender.process {
            return false;
        }
        if process > sender.process {
            *sender = Sender { process, delivered: 0 };
        }
        for (_, count) in self.destinations.entry(node).or_default().meet(process) {
            self.stats.lost_flows += 1;
            self.stats.lost += count;
        }
        true
    }

    fn parcel(&mut self, from: NodeId, parcel: Parcel) -> Received {
        let Some(sender) = self.senders.get_mut(&from) else { return Received::default() };
        let mut counts = Vec::new();
        if parcel.to != self.process {
            self.stats.strange += 1; // the receipt says who is here
        } else if parcel.number == sender.delivered + 1 {
            sender.delivered = parcel.number;
            self.stats.delivered_flows += parcel.counts.len() as u64;
            counts = parcel.counts;
        } else if parcel.number <= sender.delivered {
            self.stats.duplicates += 1;
        } else {
            self.stats.strange += 1;
            return Received::default();
        }
        Received { counts, reply: self.receipt(from) }
    }

    /// The receipt for everything delivered from a node.
    fn receipt(&self, node: NodeId) -> Option<Packet> {
        let Sender { process, delivered } = *self.senders.get(&node)?;
        Some(Packet::Receipt(Receipt { from: self.process, to: process, number: delivered }))
    }

    /// Returns the work that is due. Call it several times a second and after every packet. `place` returns where a flow is.
    pub fn poll(&mut self, now: Duration, mut place: impl FnMut(Teid) -> Place) -> Work {
        let mut work = Work::default();
        for (flow, count) in std::mem::take(&mut self.fresh) {
            self.put(flow, count, now, now, place(flow), &mut work);
        }
        if now >= self.next_look {
            self.next_look = now + LOOK;
            for (flow, (count, since)) in std::mem::take(&mut self.held) {
                self.put(flow, count, since, now, place(flow), &mut work);
            }
        }
        for (&node, destination) in self.destinations.iter_mut().filter(|(node, _)| self.alive.contains(node))
        {
            if let Some((packet, is_again)) = destination.poll(self.process, now) {
                self.stats.resent += u64::from(is_again);
                work.packets.push((node, packet));
            }
        }
        work
    }

    /// Puts a flow's counts, held since some time, where they belong.
    fn put(
        &mut self,
        flow: Teid,
        count: Count,
        since: Duration,
        now: Duration,
        place: Place,
        work: &mut Work,
    ) {
        let patience = match place {
            Place::Here => return work.back.push((flow, count)),
            Place::At(node) if self.alive.contains(&node) => {
                return self.destinations.entry(node).or_default().add(flow, count);
            }
            Place::At(_) => LOST_SIGHT_AFTER,
            Place::Nowhere => ENDED_AFTER,
            Place::Unknown => Duration::MAX,
        };
        if now.saturating_sub(since) >= patience {
            return work.ended.push((flow, count));
        }
        // Counts that come later for the same flow do not wait longer.
        self.held.entry(flow).or_insert((Count::default(), since)).0 += count;
    }
}
