//! What flows have carried: while they are here, when they leave, and when they come from another node.

use super::FlowTables;
use scalebricks_elements::gateway::flow::{FlowCount, FlowCounters};
use scalebricks_types::{FlowIndex, Teid};
use std::sync::Arc;
use std::time::Duration;

/// Flows that depart in one call of [`FlowTables::expire`] at most: some 50 ms of work.
pub const DEPARTURES: usize = 1 << 16;

impl FlowTables {
    /// Whether a flow has keys here, or had until a moment ago: its counts belong here.
    pub fn is_here(&self, uplink: Teid) -> bool {
        self.flows.index(uplink).is_some()
    }

    /// Flows that counts were carried over for and wait, at least some of them because the flows are not here. Cost: looks at
    /// some hundred lists.
    pub fn strays(&self) -> usize {
        self.carried.strays()
    }

    /// What a flow has carried, here and before it came, as far as that has been carried over; `None` if nothing is
    /// known of it here. A worker that counts meanwhile may be seen between a packet and its bytes.
    pub fn count(&self, uplink: Teid) -> Option<FlowCount> {
        let live = self.flows.index(uplink).map(|index| live(&self.counters, index));
        let carried = self.carried.get(uplink);
        (live.is_some() || carried.is_some()).then(|| live.into_iter().chain(carried).sum())
    }

    /// Adds what a flow has carried at nodes it was at before. Exactly once for each departure: a count that comes twice is
    /// added twice.
    ///
    /// If the flow is not here, the count waits [`STRAY_PATIENCE`](super::STRAY_PATIENCE) for it, and is then handed out with those
    /// that have departed: the flow has gone on.
    pub fn carry_over(&mut self, uplink: Teid, count: FlowCount) {
        let is_here = self.flows.index(uplink).is_some();
        self.carried.add(uplink, count, is_here);
    }

    /// Lets those flows depart for which no worker can count here any more, up to [`DEPARTURES`] of them; to be called now
    /// and then, some times a second say. Whether there are more, for which to call it again at once. A flow whose last key
    /// has left departs at the second call after that at the earliest. `now` is the time since any fixed moment, the same
    /// for all calls.
    ///
    /// Cost: one locked instruction a worker, and about a microsecond for each flow that departs.
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

    /// The counts of flows that have left, to be carried over to where they are now, or to be reported if they are
    /// nowhere; each is handed out once. A flow that left several times since the last call is there once, with the sum.
    pub fn take_departed(&mut self) -> Vec<(Teid, FlowCount)> {
        self.carried.take_departed()
    }
}

/// What all workers have counted at a place.
fn live(counters: &[Arc<FlowCounters>], index: FlowIndex) -> FlowCount {
    counters.iter().map(|counters| counters.read(index)).sum()
}
