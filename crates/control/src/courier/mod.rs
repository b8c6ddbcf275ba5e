//! Counts of flows that left a node, on their way to where the flows are now: each is delivered once.
//!
//! What goes to a node goes in *parcels*, one under way at a time, numbered from 1. The receiver takes the next number and says
//! so by a *receipt*; what it has had it only receipts again. The sender keeps a parcel until its receipt is there, and sends it
//! again every [`RESEND`]. Counts of a flow that wait for the same node become one.
//!
//! ```text
//!  post ─▶ fresh ─ place ─▶ waiting for a node ─▶ parcel under way ─ receipt ─▶ gone: the receiver has delivered it
//!            │  ▲                │ it is not alive
//!            │  └────────────────┘
//!            ├─▶ back: the flow is here
//!            └─▶ held ─ it is nowhere for some time ─▶ ended
//! ```
//!
//! **Between processes, not lives.** What has been delivered is known for as long as the receiver's memory lasts. That ends with its
//! process, not with its life: a node that was only taken for dead begins a new life and still has all its counts. So
//! parcels are between two [`ProcessId`]s, and bear both. A parcel for a process that is no more is not taken. One that came late
//! from such a process is not either.
//!
//! **What is exact.** As long as no process ends, each count is delivered exactly once, whatever is lost, doubled or overtaken on
//! the way, and whoever is taken for dead meanwhile. When a process ends, all counts that it had are gone with it. Of what others had
//! sent it, the one parcel without a receipt may have been delivered before, and passed on: it is not
//! sent again, but [lost](CourierStats::lost). So a count is never delivered twice, and for each pair of nodes at most
//! [`PARCEL_FLOWS`] flows' counts are lost that were not with the process. A parcel to a node that stays away stays under way.
//!
//! A machine without I/O. Memory: about 60 bytes for each flow that waits, and a parcel of up to 40 KiB for each node.

mod codec;
mod lane;
#[cfg(test)]
mod tests;

pub use codec::COURIER_VERSION;

use lane::Lane;
use scalebricks_types::{NodeId, Teid};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is not receipted is sent again after so long.
pub const RESEND: Duration = Duration::from_millis(200);

/// Flows of one parcel, at most: 36 KiB of counts.
pub const PARCEL_FLOWS: usize = 1_024;

/// A flow that is nowhere for so long has ended.
pub const ENDED_AFTER: Duration = Duration::from_secs(5);

/// A flow at a node that is not alive for so long has ended: it would have been given to another.
pub const LOST_SIGHT_AFTER: Duration = Duration::from_secs(60);

/// Flows that wait, from which on no more should be posted.
pub const ENOUGH: usize = 1 << 18;

/// Between two looks where held flows are.
const LOOK: Duration = Duration::from_millis(500);

/// A start of a process: higher than those of all that were started before, in the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u64);

/// Four counters of a flow, opaque here. Sums stop at the highest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count(pub [u64; 4]);

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        for (counter, more) in self.0.iter_mut().zip(other.0) {
            *counter = counter.saturating_add(more);
        }
    }
}

/// Between two nodes' couriers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// Who is there? Answered by a receipt.
    Hello(ProcessId),
    /// Counts.
    Parcel(Parcel),
    /// They were delivered.
    Receipt(Receipt),
}

/// Counts of flows, on their way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// Who sends it.
    pub from: ProcessId,
    /// Who is to deliver it, and nobody else.
    pub to: ProcessId,
    /// Its number among those between the two, from 1.
    pub number: u64,
    /// By uplink TEID, ascending; 1 to [`PARCEL_FLOWS`] of them.
    pub counts: Vec<(Teid, Count)>,
}

/// What has been delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Who delivered.
    pub from: ProcessId,
    /// Whose parcels.
    pub to: ProcessId,
    /// Up to this number; 0: none.
    pub number: u64,
}

/// Where a flow is, as its node's tables say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Here.
    Here,
    /// At another node, which may be none that is alive.
    At(NodeId),
    /// The tables name this node, which has no such flow.
    Nowhere,
    /// The tables cannot tell as they are now.
    Unknown,
}

/// What came of a packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// To be delivered: added to what the flows have counted here.
    pub counts: Vec<(Teid, Count)>,
    /// To be sent to whom it came from.
    pub reply: Option<Packet>,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Work {
    /// To be sent.
    pub packets: Vec<(NodeId, Packet)>,
    /// Counts of flows that are here again.
    pub back: Vec<(Teid, Count)>,
    /// Counts of flows that have ended.
    pub ended: Vec<(Teid, Count)>,
}

/// How it went so far.
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
    /// Packets of a process that is no more, for one, or with a number that cannot be.
    pub strange: u64,
    /// Flows' counts that were under way to a process that ended: that may have had them.
    pub lost_flows: u64,
    /// What these were.
    pub lost: Count,
}

/// What has come from a node.
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
    /// Counts that nobody has looked for a place for yet.
    fresh: BTreeMap<Teid, Count>,
    /// Those of flows without a place to send them to, and since when.
    held: BTreeMap<Teid, (Count, Duration)>,
    next_look: Duration,
    lanes: BTreeMap<NodeId, Lane>,
    senders: BTreeMap<NodeId, Sender>,
    stats: CourierStats,
}

impl Courier {
    /// That of a process that has just started. Others are not alive before [`Courier::set_alive`] says so.
    pub fn new(process: ProcessId) -> Self {
        Self {
            process,
            alive: BTreeSet::new(),
            fresh: BTreeMap::new(),
            held: BTreeMap::new(),
            next_look: Duration::ZERO,
            lanes: BTreeMap::new(),
            senders: BTreeMap::new(),
            stats: CourierStats::default(),
        }
    }

    /// How it went so far.
    pub const fn stats(&self) -> CourierStats {
        self.stats
    }

    /// Flows whose counts wait here, and flows whose counts are under way to another node, which may have them.
    pub fn flows(&self) -> (usize, usize) {
        let waiting: usize = self.lanes.values().map(Lane::waiting).sum();
        let under_way = self.lanes.values().map(Lane::under_way).sum();
        (self.fresh.len() + self.held.len() + waiting, under_way)
    }

    /// Whether more may be posted. Who posts nothing more for as long as not bounds what waits here.
    pub fn has_room(&self) -> bool {
        self.flows().0 < ENOUGH
    }

    /// A flow has left this node, and has counted this here.
    pub fn post(&mut self, flow: Teid, count: Count) {
        *self.fresh.entry(flow).or_default() += count;
    }

    /// Who is alive. What waits for others finds another place.
    pub fn set_alive(&mut self, alive: BTreeSet<NodeId>) {
        self.alive = alive;
        for (_, lane) in self.lanes.iter_mut().filter(|(node, _)| !self.alive.contains(node)) {
            for (flow, count) in lane.give_back() {
                *self.fresh.entry(flow).or_default() += count;
            }
        }
    }

    /// A packet came from another node. What it has for delivery must be delivered: it will not come again.
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
                    && let Some(lane) = self.lanes.get_mut(&from)
                {
                    self.stats.sent_flows += lane.receipted(receipt.number) as u64;
                }
                Received::default()
            }
        }
    }

    /// A node speaks. False: it is a process of it that is no more.
    fn meet(&mut self, node: NodeId, process: ProcessId) -> bool {
        let sender = self.senders.entry(node).or_insert(Sender { process, delivered: 0 });
        if process < sender.process {
            return false;
        }
        if process > sender.process {
            *sender = Sender { process, delivered: 0 };
        }
        for (_, count) in self.lanes.entry(node).or_default().meet(process) {
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

    /// What has been delivered of what a node sent.
    fn receipt(&self, node: NodeId) -> Option<Packet> {
        let Sender { process, delivered } = *self.senders.get(&node)?;
        Some(Packet::Receipt(Receipt { from: self.process, to: process, number: delivered }))
    }

    /// What is to be done now. To be called some times a second, and after everything that came. `place` says where a flow is.
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
        for (&node, lane) in self.lanes.iter_mut().filter(|(node, _)| self.alive.contains(node)) {
            if let Some((packet, is_again)) = lane.poll(self.process, now) {
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
                return self.lanes.entry(node).or_default().add(flow, count);
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
