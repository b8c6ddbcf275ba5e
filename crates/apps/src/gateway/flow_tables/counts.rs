//! Counters of flows: while they are here, when they leave, and when they arrive from another node.

use super::FlowTables;
use scalebricks_elements::gateway::flow::{FlowCount, FlowCounters};
use scalebricks_types::{FlowIndex, Teid};
use std::sync::Arc;
use std::time::Duration;

/// Most flows that depart in one call of [`FlowTables::expire`]: some 50 ms of work.
pub const DEPARTURES: usize = 1 << 16;

impl FlowTables {
    /// Whether a flow has keys here, or had until recently: its counts belong here.
    pub fn is_here(&self, uplink: Teid) -> bool {
        self.flows.index(uplink).is_some()
    }

    /// Number of flows whose carried-over counts wait, at least some of them because the flows are not here. Cost:
    /// reads some hundred lists.
    pub fn strays(&self) -> usize {
        self.carried.strays()
    }

    /// A flow's counts, here and as far as they were carried over; `None` if nothing is known of it here. A concurrent
    /// read may see a packet before its bytes.
    pub fn count(&self, uplink: Teid) -> Option<FlowCount> {
        let live = self.flows.index(uplink).map(|index| live(&self.counters, index));
        let carried = self.carried.get(uplink);
        (live.is_some() || carried.is_some()).then(|| live.into_iter().chain(carried).sum())
    }

    /// Adds a flow's counts from earlier nodes. Call it exactly once per departure: a repeated count is added again.
    ///
    /// If the flow is not here, the count waits [`STRAY_PATIENCE`](super::STRAY_PATIENCE) for it, and is then handed
    /// out with the departed ones: the flow has moved on.
    pub fn carry_over(&mut self, uplink: Teid, count: FlowCount) {
        let is_here = self.flows.index(uplink).is_some();
        self.carried.add(uplink, count, is_here);
    }

    /// Lets up to [`DEPARTURES`] flows depart that no worker can count here any more. Call it a few times per second.
    /// Returns whether there are more, in which case call it again at once. A flow whose last key has left departs at
    /// the second call after that at the earliest. `now` is the time since a fixed moment, the same for all calls.
    ///
    /// Cost: one locked instruction per worker, and about a microsecond per departing flow.
    pub fn expire(&mut self, now: Duration) -> bool {
        if self.since.as_ref().is_some_and(|since| self.marks.all_passed(since)) {
            self.since = None;
        }
        let mut is_more = false;
        if self.since.is_none() {
            let (counters, carried) = (&self.counters, &mut self.carried);
            let depart = |uplink, index| carried.depart(uplink, live(counters, index));
            is_more = self.flows.end_grace(DEPARTURES, depart);
            if self.flows.begin_grace() {
                self.since = Some(self.marks.all());
            }
        }
        self.carried.expire(now, |uplink| self.flows.index(uplink).is_some());
        is_more
    }

    /// The counts of departed flows, to be carried over to their current nodes, or reported if they have none; each is
    /// returned once. A flow that left several times since the last call appears once, with the sum.
    pub fn take_departed(&mut self) -> Vec<(Teid, FlowCount)> {
        self.carried.take_departed()
    }
}

/// The sum of all workers' counters at an index.
fn live(counters: &[Arc<FlowCounters>], index: FlowIndex) -> FlowCount {
    counters.iter().map(|counters| counters.read(index)).sum()
}
