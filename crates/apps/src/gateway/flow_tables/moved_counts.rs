//! Counts that move between nodes: those that arrived with a flow, and those waiting to follow one.

use scalebricks_elements::gateway::flow::FlowCount;
use scalebricks_types::Teid;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// How long counts wait here for their flow before they are sent on to its node.
pub const STRAY_PATIENCE: Duration = Duration::from_secs(5);

/// Counts beside the workers' counters, about 50 bytes for each flow that has any.
#[derive(Debug, Default)]
pub(super) struct MovedCounts {
    /// Counts from other nodes, as far as known here.
    counts: HashMap<Teid, FlowCount>,
    /// Flows that were not here when their first counts came, since the last [`MovedCounts::expire`].
    strays: Vec<Teid>,
    /// The same, with the time when their counts are sent on.
    waiting: VecDeque<(Duration, Vec<Teid>)>,
    /// Counts to send elsewhere.
    departed: HashMap<Teid, FlowCount>,
}

impl MovedCounts {
    pub(super) fn add(&mut self, uplink: Teid, count: FlowCount, is_here: bool) {
        let is_first = !self.counts.contains_key(&uplink);
        *self.counts.entry(uplink).or_default() += count;
        if is_first && !is_here {
            self.strays.push(uplink);
        }
    }

    pub(super) fn get(&self, uplink: Teid) -> Option<FlowCount> {
        self.counts.get(&uplink).copied()
    }

    /// Records a flow's departure, with its counts here.
    pub(super) fn depart(&mut self, uplink: Teid, mut count: FlowCount) {
        count += self.counts.remove(&uplink).unwrap_or_default();
        *self.departed.entry(uplink).or_default() += count;
    }

    /// Sends on counts that have waited long enough for flows that are not here.
    pub(super) fn expire(&mut self, now: Duration, is_here: impl Fn(Teid) -> bool) {
        while self.waiting.front().is_some_and(|(until, _)| *until <= now) {
            for uplink in self.waiting.pop_front().into_iter().flat_map(|(_, strays)| strays) {
                if !is_here(uplink) && self.counts.contains_key(&uplink) {
                    self.depart(uplink, FlowCount::default());
                }
            }
        }
        if !self.strays.is_empty() {
            self.waiting.push_back((now.saturating_add(STRAY_PATIENCE), std::mem::take(&mut self.strays)));
        }
    }

    /// Number of flows whose counts wait for them.
    pub(super) fn strays(&self) -> usize {
        self.strays.len() + self.waiting.iter().map(|(_, strays)| strays.len()).sum::<usize>()
    }

    pub(super) fn take_departed(&mut self) -> Vec<(Teid, FlowCount)> {
        std::mem::take(&mut self.departed).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(downstream_packets: u64) -> FlowCount {
        FlowCount { downstream_packets, ..FlowCount::default() }
    }

    #[test]
    fn counts_wait_for_their_flow_and_then_go_on() {
        let mut carried = MovedCounts::default();
        let (here, away, late) = (Teid::new(1), Teid::new(2), Teid::new(3));
        carried.add(here, packets(1), true);
        carried.add(away, packets(10), false);
        carried.add(late, packets(100), false);
        carried.add(away, packets(20), false);
        assert_eq!((carried.get(away), carried.strays()), (Some(packets(30)), 2));
        carried.expire(Duration::ZERO, |_| false);
        carried.expire(STRAY_PATIENCE / 2, |_| false);
        assert_eq!((carried.take_departed(), carried.strays()), (Vec::new(), 2), "too early");
        carried.expire(STRAY_PATIENCE, |uplink| uplink == late);
        assert_eq!(carried.take_departed(), [(away, packets(30))]);
        assert_eq!(carried.take_departed(), []);
        assert_eq!((carried.get(here), carried.get(away)), (Some(packets(1)), None));
        carried.depart(late, packets(5));
        carried.depart(late, packets(6));
        assert_eq!(carried.take_departed(), [(late, packets(111))]);
        assert_eq!(carried.strays(), 0);
    }
}
