//! The sending end to one node.

use super::{Count, PARCEL_FLOWS, Packet, Parcel, ProcessId, RESEND};
use scalebricks_types::Teid;
use std::collections::BTreeMap;
use std::time::Duration;

/// The sender's end.
#[derive(Debug, Default)]
pub(super) struct Destination {
    /// The receiving process; `None` before the node has answered.
    process: Option<ProcessId>,
    waiting: BTreeMap<Teid, Count>,
    /// The parcel for `process` that has no receipt.
    parcel: Vec<(Teid, Count)>,
    /// The number of that, or of the last one.
    number: u64,
    next_send: Duration,
}

impl Destination {
    /// Flows that wait for a parcel.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Flows of the parcel without a receipt.
    pub(super) fn under_way(&self) -> usize {
        self.parcel.len()
    }

    pub(super) fn add(&mut self, flow: Teid, count: Count) {
        *self.waiting.entry(flow).or_default() += count;
    }

    /// Takes back the counts that were never sent.
    pub(super) fn give_back(&mut self) -> BTreeMap<Teid, Count> {
        std::mem::take(&mut self.waiting)
    }

    /// The node is now this process. Returns the counts that the process before it may or may not have received.
    pub(super) fn meet(&mut self, process: ProcessId) -> Vec<(Teid, Count)> {
        if self.process == Some(process) {
            return Vec::new();
        }
        (self.process, self.number, self.next_send) = (Some(process), 0, Duration::ZERO);
        std::mem::take(&mut self.parcel)
    }

    /// The process has had all parcels up to this one. How many flows were in those that it was not known of.
    pub(super) fn receipted(&mut self, number: u64) -> usize {
        if number != self.number {
            return 0;
        }
        self.next_send = Duration::ZERO;
        std::mem::take(&mut self.parcel).len()
    }

    /// The packet to send now, and whether it is a repetition.
    pub(super) fn poll(&mut self, from: ProcessId, now: Duration) -> Option<(Packet, bool)> {
        let is_again = !self.parcel.is_empty();
        if now < self.next_send || (!is_again && self.waiting.is_empty()) {
            return None;
        }
        self.next_send = now + RESEND;
        let Some(to) = self.process else { return Some((Packet::Hello(from), false)) };
        if !is_again {
            self.number += 1;
            while self.parcel.len() < PARCEL_FLOWS
                && let Some(next) = self.waiting.pop_first()
            {
                self.parcel.push(next);
            }
        }
        let parcel = Parcel { from, to, number: self.number, counts: self.parcel.clone() };
        Some((Packet::Parcel(parcel), is_again))
    }
}
