//! Packets of a queue: whole bursts that came by value, then packets that came in slots.
//!
//! A burst is stored and taken as a whole: two moves of a few hundred octets, instead of four moves for each packet. Bursts
//! that come while packets of slots are stored are added to these one by one, so packets leave in the order in which they
//! came.

use scalebricks_graph::{Frame, Meta, SlotList};
use scalebricks_io::{Burst, PacketBuf};
use std::collections::VecDeque;
use std::mem::swap;

/// The packets, first in, first out.
#[derive(Debug)]
pub(crate) struct Stored<P> {
    /// In front of all `slots`. None is empty, and a burst that fits into the last one is added to it.
    bursts: VecDeque<Burst<P>>,
    /// Number of packets in `bursts`.
    by_value: usize,
    slots: VecDeque<(P, Meta)>,
}

impl<P> Default for Stored<P> {
    fn default() -> Self {
        Self { bursts: VecDeque::new(), by_value: 0, slots: VecDeque::new() }
    }
}

impl<P> Stored<P> {
    /// Number of packets.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.by_value + self.slots.len()
    }
}

impl<P: PacketBuf> Stored<P> {
    /// The end of the queue, for packets that come in slots.
    pub(crate) const fn slots(&mut self) -> &mut VecDeque<(P, Meta)> {
        &mut self.slots
    }

    /// Adds packets that come by value, but at most `room`. The others stay in the burst.
    #[inline]
    pub(crate) fn add(&mut self, packets: &mut Burst<P>, room: usize) {
        let count = packets.len().min(room);
        if count == 0 {
            return;
        }
        if !self.slots.is_empty() {
            self.slots.extend(packets.drain(..count).map(|packet| (packet, Meta::default())));
            return;
        }
        self.by_value += count;
        match self.bursts.back_mut() {
            Some(last) if last.remaining_capacity() >= count => last.extend(packets.drain(..count)),
            _ if count < packets.len() => self.bursts.push_back(packets.drain(..count).collect()),
            _ => self.bursts.push_back(packets.take()),
        }
    }

    /// Takes up to `want` packets from the front into a burst, as far as it has room; returns their number.
    #[inline]
    pub(crate) fn take(&mut self, want: usize, into: &mut Burst<P>) -> usize {
        let (before, want) = (into.len(), want.min(into.remaining_capacity()));
        let mut came = 0;
        while came < want {
            let left = want - came;
            let Some(first) = self.bursts.front_mut() else { break };
            if into.is_empty() && first.len() <= left {
                swap(into, first);
            } else {
                let count = left.min(first.len());
                into.extend(first.drain(..count));
            }
            came = into.len() - before;
            if self.bursts.front().is_some_and(Burst::is_empty) {
                self.bursts.pop_front();
            }
        }
        self.by_value -= came;
        while came < want {
            let Some((packet, _)) = self.slots.pop_front() else { break };
            into.push(packet);
            came += 1;
        }
        came
    }

    /// Moves up to `want` packets from the front into slots and adds the slots to `into`, in order. Stops early if no slot
    /// is free.
    pub(crate) fn put(&mut self, want: usize, into: &mut SlotList, frame: &mut Frame<P>) {
        let until = into.len().saturating_add(want);
        while into.len() < until
            && let Some(first) = self.bursts.front_mut()
        {
            let (before, count) = (into.len(), (until - into.len()).min(first.len()));
            let mut some: Burst<P> = first.drain(..count).collect();
            frame.put_burst(&mut some, into, |_| Meta::default());
            self.by_value -= into.len() - before;
            if !some.is_empty() {
                // No slot is free: back to the front.
                some.extend(first.drain(..));
                swap(first, &mut some);
                return;
            }
            if self.bursts.front().is_some_and(Burst::is_empty) {
                self.bursts.pop_front();
            }
        }
        frame.put_waiting(&mut self.slots, until - into.len(), into);
    }

    /// Removes all packets, in order.
    pub(crate) fn drain(&mut self, to: &mut dyn FnMut(P, Meta)) {
        self.by_value = 0;
        self.bursts.drain(..).flatten().for_each(|packet| to(packet, Meta::default()));
        self.slots.drain(..).for_each(|(packet, meta)| to(packet, meta));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_io::{Packet, Pool};

    #[derive(Debug, Clone)]
    enum Step {
        Bursts(usize, usize),
        Slots(usize),
        Take(usize, usize),
        Put(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..=32usize, 0..40usize).prop_map(|(count, room)| Step::Bursts(count, room)),
            1 => (0..5usize).prop_map(Step::Slots),
            3 => (0..40usize, 0..=32usize).prop_map(|(want, there)| Step::Take(want, there)),
            1 => (0..300usize).prop_map(Step::Put),
        ]
    }

    proptest! {
        /// Whatever comes and goes, packets leave as from a plain queue.
        #[test]
        fn packets_leave_in_order(steps in prop::collection::vec(step(), 1..60)) {
            let mut pool = Pool::new(4_000, 8).unwrap();
            let (mut stored, mut number) = (Stored::<Packet>::default(), 0u16);
            let (mut expected, mut got) = (VecDeque::new(), Vec::new());
            let mut frame = Frame::new(Box::new(pool.clone()));
            let seen = |packet: &Packet| u16::from_be_bytes([packet.data()[0], packet.data()[1]]);
            for step in steps {
                let mut next = |expected: &mut VecDeque<u16>, is_kept: bool| {
                    number += 1;
                    if is_kept {
                        expected.push_back(number);
                    }
                    pool.packet(&number.to_be_bytes()).unwrap()
                };
                match step {
                    Step::Bursts(count, room) => {
                        let mut burst: Burst<Packet> = (0..count).map(|at| next(&mut expected, at < room)).collect();
                        stored.add(&mut burst, room);
                        prop_assert_eq!(burst.len(), count.saturating_sub(room));
                    }
                    Step::Slots(count) => (0..count).for_each(|_| {
                        let packet = next(&mut expected, true);
                        stored.slots().push_back((packet, Meta::default()));
                    }),
                    Step::Take(want, there) => {
                        let mut burst: Burst<Packet> =
                            (0..there).map(|_| next(&mut VecDeque::new(), false)).collect();
                        let came = stored.take(want, &mut burst);
                        let wanted: Vec<u16> = expected.drain(..want.min(32 - there).min(expected.len())).collect();
                        got.clear();
                        got.extend(burst[there..].iter().map(seen));
                        prop_assert_eq!((came, &got), (wanted.len(), &wanted));
                    }
                    Step::Put(want) => {
                        let mut list = SlotList::new();
                        stored.put(want, &mut list, &mut frame);
                        let wanted: Vec<u16> = expected.drain(..want.min(256).min(expected.len())).collect();
                        let slots: Vec<u16> = list.drain().map(|slot| seen(&frame.take(slot))).collect();
                        prop_assert_eq!(slots, wanted);
                    }
                }
                prop_assert_eq!(stored.len(), expected.len());
                prop_assert!(stored.bursts.iter().all(|burst| !burst.is_empty()));
            }
            let mut left = Vec::new();
            stored.drain(&mut |packet, _| left.push(seen(&packet)));
            prop_assert_eq!(left, Vec::from(expected));
        }
    }
}
