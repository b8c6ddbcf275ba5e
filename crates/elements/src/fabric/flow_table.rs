//! A bounded table of flows and their paths.

use scalebricks_types::NodeId;
use std::time::Duration;

/// Entries of a set: a flow can be in any of one set.
const WAYS: usize = 4;

/// How long a path stays the same: the gap between two packets of a flow that begins a new flowlet (RouteBricks §6.1).
pub(crate) const DELTA: Duration = Duration::from_millis(100);

/// A flow: 24 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlowEntry {
    /// Last arrival, nanoseconds.
    last: u64,
    /// Which flow of the set; 0 for none.
    tag: u32,
    /// Packets of the flowlet.
    pub(crate) packets: u32,
    /// The flowlet's first node after the input node.
    pub(crate) path: u8,
    /// The flowlet did not fit its path: its packets are sprayed.
    pub(crate) is_sprayed: bool,
}

impl FlowEntry {
    /// The flowlet's path.
    pub(crate) const fn path(&self) -> NodeId {
        NodeId::new(self.path)
    }
}

/// What a packet is to its flow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The first of a flowlet: the entry has no path yet. `evicts`: another flow, not idle yet, lost its entry.
    First { evicts: bool },
    /// A later one.
    Later,
}

/// Flows by hash, in sets of four. A new flow replaces the one of its set that has been idle for longest. Memory is
/// allocated once: 24 bytes per flow. Two flows with one hash share an entry, hence a path.
#[derive(Debug)]
pub(crate) struct FlowTable {
    sets: Box<[[FlowEntry; WAYS]]>,
    delta: u64,
}

impl FlowTable {
    /// Room for about this many flows, rounded up to a power of two, at most 2^24.
    pub(crate) fn new(flows: usize, delta: Duration) -> Self {
        let sets = flows.clamp(WAYS, 1 << 24).next_power_of_two() / WAYS;
        Self { sets: vec![[FlowEntry::default(); WAYS]; sets].into(), delta: nanos(delta) }
    }

    /// Notes a packet of the flow with this hash.
    #[inline]
    pub(crate) fn arrive(&mut self, hash: u64, now: Duration) -> (&mut FlowEntry, Arrival) {
        let (now, tag) = (nanos(now), (hash >> 32) as u32 | 1);
        let (count, delta) = (self.sets.len(), self.delta);
        let set = &mut self.sets[hash as usize & (count - 1)];
        let at = set.iter().position(|entry| entry.tag == tag);
        let (at, is_there) = match at {
            Some(at) => (at, true),
            None => (oldest(set), false),
        };
        let entry = &mut set[at];
        let idle = now.saturating_sub(entry.last);
        let arrival = if is_there && idle <= delta {
            Arrival::Later
        } else {
            Arrival::First { evicts: !is_there && entry.tag != 0 && idle <= delta }
        };
        if arrival == Arrival::Later {
            entry.last = entry.last.max(now);
            entry.packets = entry.packets.saturating_add(1);
        } else {
            *entry = FlowEntry { last: now, tag, packets: 1, path: 0, is_sprayed: false };
        }
        (entry, arrival)
    }

    /// Flows of which a packet came within delta.
    #[cfg(test)]
    pub(crate) fn active(&self, now: Duration) -> usize {
        let now = nanos(now);
        let is_active = |flow: &&FlowEntry| flow.tag != 0 && now.saturating_sub(flow.last) <= self.delta;
        self.sets.iter().flatten().filter(is_active).count()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A free entry, or the one idle for longest.
fn oldest(set: &[FlowEntry; WAYS]) -> usize {
    let age = |entry: &FlowEntry| (entry.tag != 0, entry.last);
    (1..WAYS).fold(0, |oldest, at| if age(&set[at]) < age(&set[oldest]) { at } else { oldest })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn an_entry_is_small_and_the_table_is_bounded() {
        assert_eq!(size_of::<FlowEntry>(), 24);
        assert_eq!(FlowTable::new(0, DELTA).sets.len(), 1);
        assert_eq!(FlowTable::new(usize::MAX, DELTA).sets.len(), (1 << 24) / WAYS);
        let mut table = FlowTable::new(4, DELTA);
        for flow in 0..9u64 {
            let (_, arrival) = table.arrive(flow << 33, Duration::from_millis(flow));
            assert_eq!(arrival, Arrival::First { evicts: flow >= 4 });
        }
        assert_eq!(table.active(Duration::from_millis(9)), 4);
        let late = table.arrive(77 << 33, Duration::from_secs(9)).1;
        assert_eq!(late, Arrival::First { evicts: false }, "the others are idle");
    }

    proptest! {
        /// With room for all flows it is the map of each flow's last arrival and packets.
        #[test]
        fn flowlets_begin_after_gaps(arrivals in prop::collection::vec((0..4u64, 0..180u64), 1..80)) {
            let mut table = FlowTable::new(64, DELTA);
            let mut flows: HashMap<u64, (u64, u32)> = HashMap::new();
            let mut now = 0;
            for (flow, gap) in arrivals {
                now += gap;
                let (entry, arrival) = table.arrive(flow << 33 | flow, Duration::from_millis(now));
                let known = flows.entry(flow).or_insert((u64::MAX, 0));
                let is_later = known.0 != u64::MAX && now - known.0 <= 100;
                *known = (now, if is_later { known.1 + 1 } else { 1 });
                prop_assert_eq!(arrival == Arrival::Later, is_later);
                prop_assert_eq!(entry.packets, known.1);
            }
        }
    }
}
