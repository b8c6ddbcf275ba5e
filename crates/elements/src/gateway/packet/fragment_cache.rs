//! Remembers the flow of a datagram's first fragment, so that later fragments, which carry no ports, can follow it.
//! Bounded: a full cache forgets its oldest datagram.

use scalebricks_types::FlowKey;
pub use scalebricks_wire::packet::DatagramId;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Datagrams remembered per node.
pub const CAPACITY: usize = 4_096;

/// How long a first fragment is remembered: the reassembly timeout of RFC 8200 §4.5.
pub const LIFETIME: Duration = Duration::from_secs(60);

/// The flows of fragmented datagrams in transit. The hash has a random key, since attackers choose the fragments.
#[derive(Debug, Default)]
pub struct FragmentCache {
    flows: HashMap<DatagramId, (FlowKey, Duration)>,
    /// In order of arrival. A datagram seen again is here twice; the newer entry counts.
    arrivals: VecDeque<(DatagramId, Duration)>,
}

impl FragmentCache {
    /// Remembers the flow of a datagram whose first fragment passed at time `now`.
    pub fn learn(&mut self, datagram: DatagramId, flow: FlowKey, now: Duration) {
        while self.arrivals.len() >= CAPACITY
            || self.arrivals.front().is_some_and(|&(_, at)| at + LIFETIME < now)
        {
            self.forget_oldest();
        }
        self.flows.insert(datagram, (flow, now));
        self.arrivals.push_back((datagram, now));
    }

    /// The flow of a datagram, if its first fragment passed within [`LIFETIME`].
    pub fn flow(&self, datagram: &DatagramId, now: Duration) -> Option<FlowKey> {
        let &(flow, at) = self.flows.get(datagram)?;
        (at + LIFETIME >= now).then_some(flow)
    }

    fn forget_oldest(&mut self) {
        let Some((datagram, arrived)) = self.arrivals.pop_front() else { return };
        if self.flows.get(&datagram).is_some_and(|&(_, at)| at == arrived) {
            self.flows.remove(&datagram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::Teid;
    use std::net::IpAddr;

    fn datagram(id: u32) -> DatagramId {
        DatagramId { src: IpAddr::V4(1.into()), dst: IpAddr::V4(2.into()), protocol: 17, id }
    }

    fn flow(n: u32) -> FlowKey {
        FlowKey::teid(Teid::new(n))
    }

    #[test]
    fn forgets_the_oldest_when_full_and_the_old_in_time() {
        let mut cache = FragmentCache::default();
        let at = |n: u32| Duration::from_millis(u64::from(n));
        for n in 0..=CAPACITY as u32 {
            cache.learn(datagram(n), flow(n), at(n));
        }
        let now = at(CAPACITY as u32);
        assert_eq!(cache.flow(&datagram(0), now), None);
        assert_eq!(cache.flow(&datagram(1), now), Some(flow(1)));
        assert_eq!(cache.flow(&datagram(1), at(1) + LIFETIME), Some(flow(1)));
        assert_eq!(cache.flow(&datagram(1), at(2) + LIFETIME), None);
        assert_eq!(cache.flows.len(), CAPACITY);
    }

    #[test]
    fn a_repeated_datagram_keeps_its_younger_entry() {
        let mut cache = FragmentCache::default();
        cache.learn(datagram(7), flow(1), Duration::ZERO);
        cache.learn(datagram(7), flow(2), Duration::from_secs(50));
        let later = Duration::from_secs(70);
        cache.learn(datagram(8), flow(3), later); // the first entry for 7 has expired and goes
        assert_eq!(cache.flow(&datagram(7), later), Some(flow(2)));
        for n in 0..2 * CAPACITY as u32 {
            cache.learn(datagram(7), flow(n), later);
            assert!(cache.arrivals.len() <= CAPACITY);
        }
        assert_eq!(cache.flows.len(), 1);
    }
}
