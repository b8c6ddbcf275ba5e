//! Fragments that wait for the rest of their packet: they pass as they came, once the whole packet may.

use scalebricks_graph::Meta;
use scalebricks_wire::packet::DatagramId;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// How long they wait: the longer of the two lifetimes of incomplete packets (RFC 8200 §4.5).
const LIFETIME: Duration = Duration::from_secs(60);

/// A packet that is not complete: the input where its fragments came, and its identification.
pub(crate) type Whole = (usize, DatagramId);

#[derive(Debug)]
struct Parts<P> {
    since: Duration,
    serial: u64,
    packets: Vec<(P, Meta)>,
}

/// Fragments by packet: bounded, the oldest packet's go first.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    most: usize,
    held: usize,
    serial: u64,
    /// The hash has a random key, as attackers choose the fragments.
    parts: HashMap<Whole, Parts<P>>,
    order: VecDeque<(Whole, u64)>,
}

impl<P> Waiting<P> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, held: 0, serial: 0, parts: HashMap::new(), order: VecDeque::new() }
    }

    /// Fragments now.
    pub(crate) const fn len(&self) -> usize {
        self.held
    }

    /// Keeps a fragment. Returns how many others, or itself, had to go.
    pub(crate) fn keep(&mut self, whole: Whole, packet: (P, Meta), now: Duration) -> usize {
        if self.most == 0 {
            return 1;
        }
        let mut gone = 0;
        while self.held >= self.most {
            gone += self.forget_oldest();
        }
        if !self.parts.contains_key(&whole) {
            self.serial += 1;
            self.order.push_back((whole, self.serial));
        }
        let serial = self.serial;
        let parts =
            self.parts.entry(whole).or_insert_with(|| Parts { since: now, serial, packets: Vec::new() });
        parts.packets.push(packet);
        self.held += 1;
        if self.order.len() > 2 * self.most {
            let parts = &self.parts;
            self.order
                .retain(|(whole, serial)| parts.get(whole).is_some_and(|parts| parts.serial == *serial));
        }
        gone
    }

    /// The fragments of a packet, in order of arrival.
    pub(crate) fn take(&mut self, whole: &Whole) -> Vec<(P, Meta)> {
        let packets = self.parts.remove(whole).map(|parts| parts.packets).unwrap_or_default();
        self.held -= packets.len();
        packets
    }

    /// Drops fragments that have waited too long. Returns how many.
    pub(crate) fn expire(&mut self, now: Duration) -> usize {
        let mut gone = 0;
        while let Some((whole, serial)) = self.order.front() {
            let parts = self.parts.get(whole).filter(|parts| parts.serial == *serial);
            if parts.is_some_and(|parts| now.saturating_sub(parts.since) < LIFETIME) {
                break;
            }
            gone += self.forget_oldest();
        }
        gone
    }

    fn forget_oldest(&mut self) -> usize {
        let Some((whole, serial)) = self.order.pop_front() else {
            return std::mem::take(&mut self.held); // not reached: every packet is in order
        };
        let is_it = self.parts.get(&whole).is_some_and(|parts| parts.serial == serial);
        if is_it { self.take(&whole).len() } else { 0 }
    }

    /// Removes all.
    pub(crate) fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        while let Some((whole, _)) = self.order.pop_front() {
            self.take(&whole).into_iter().for_each(|(packet, meta)| to(packet, meta));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(id: u32) -> Whole {
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        (0, DatagramId { src: address, dst: address, protocol: 17, id })
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_go() {
        let mut waiting = Waiting::new(3);
        let second = Duration::from_secs(1);
        let mut keep = |id, now| waiting.keep(whole(id), (id, Meta::default()), second * now);
        assert_eq!([keep(1, 0), keep(1, 1), keep(2, 2), keep(3, 3)], [0, 0, 0, 2]);
        assert_eq!(waiting.take(&whole(1)).len(), 0);
        assert_eq!(waiting.take(&whole(2)).len(), 1);
        assert_eq!(waiting.keep(whole(2), (2, Meta::default()), second * 10), 0);
        assert_eq!((waiting.expire(second * 62), waiting.len()), (0, 2));
        assert_eq!((waiting.expire(second * 63), waiting.len()), (1, 1));
        for id in 0..1_000 {
            waiting.keep(whole(id), (id, Meta::default()), second * 64);
            assert!(waiting.len() <= 3 && waiting.order.len() <= 7);
        }
        let mut rest = 0;
        waiting.drain(&mut |_, _| rest += 1);
        assert_eq!((rest, waiting.len()), (3, 0));
        assert_eq!(Waiting::new(0).keep(whole(1), (1, Meta::default()), second), 1);
    }
}
