//! Packets passed by value between two elements that need no metadata about them.
//!
//! A port declared `burst` passes bursts of packets themselves instead of slots. So packets can go from a device to the
//! element that parses them, and finished packets to the device that sends them, without a slot in between. The runner
//! converts where a `burst` port meets a `push` port.

use crate::frame::Frame;
use crate::out::{DropOrigin, Out};
use crate::slot::Slot;
use crate::spec::{CounterId, DropId, RUN_DROPS, run};
use scalebricks_io::{BURST, Burst, PacketBuf};
use std::fmt;
use std::mem::{replace, swap, take};

/// Up to [`BURST`] packets.
pub struct Chunk<P> {
    /// The packets, in order.
    pub packets: Burst<P>,
    /// One bit per packet, with a meaning that sender and receiver agree on.
    pub marks: u32,
}

const _: () = assert!(BURST <= u32::BITS as usize, "each packet of a burst has its bit");

impl<P> Default for Chunk<P> {
    fn default() -> Self {
        Self { packets: Burst::new(), marks: 0 }
    }
}

impl<P> fmt::Debug for Chunk<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk").field("packets", &self.packets.len()).field("marks", &self.marks).finish()
    }
}

/// Packets in order, in a list of bursts. Cost of adding a packet: a move and a comparison.
#[derive(Debug)]
pub struct Bursts<P> {
    /// Bursts to which no more packets are added.
    closed: Vec<Box<Chunk<P>>>,
    /// The last burst.
    open: Box<Chunk<P>>,
    spare: Vec<Box<Chunk<P>>>,
}

impl<P> Default for Bursts<P> {
    fn default() -> Self {
        Self { closed: Vec::new(), open: Box::default(), spare: Vec::new() }
    }
}

impl<P> Bursts<P> {
    /// Adds a packet at the end.
    #[inline(always)]
    pub fn push(&mut self, packet: P) {
        if let Err(full) = self.open.packets.try_push(packet) {
            self.push_to_next(full.element(), 0);
        }
    }

    /// Adds a packet with its mark set.
    #[inline]
    pub fn push_marked(&mut self, packet: P) {
        let place = self.open.packets.len();
        match self.open.packets.try_push(packet) {
            Ok(()) => self.open.marks |= 1 << (place % BURST),
            Err(full) => self.push_to_next(full.element(), 1),
        }
    }

    #[inline(never)]
    fn push_to_next(&mut self, packet: P, mark: u32) {
        self.close();
        self.open.packets.push(packet);
        self.open.marks = mark;
    }

    /// Lets `fill` add packets to an empty burst; returns its result.
    #[inline]
    pub fn fill<T>(&mut self, fill: impl FnOnce(&mut Burst<P>) -> T) -> T {
        if !self.open.packets.is_empty() {
            self.close();
        }
        fill(&mut self.open.packets)
    }

    fn close(&mut self) {
        let empty = self.spare.pop().unwrap_or_default();
        self.closed.push(replace(&mut self.open, empty));
    }

    /// Number of packets. Cost: a walk over the bursts.
    #[inline]
    pub fn len(&self) -> usize {
        self.closed.iter().map(|chunk| chunk.packets.len()).sum::<usize>() + self.open.packets.len()
    }

    /// Whether there is no packet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.open.packets.is_empty()
    }

    /// Passes each burst to `work`, in order. What it leaves in a burst stays.
    #[inline(always)]
    pub fn each(&mut self, mut work: impl FnMut(&mut Chunk<P>)) {
        let mut closed = take(&mut self.closed);
        let mut is_left = false;
        for chunk in &mut closed {
            work(chunk);
            chunk.marks = if chunk.packets.is_empty() { 0 } else { chunk.marks };
            is_left |= !chunk.packets.is_empty();
        }
        if !self.open.packets.is_empty() {
            work(&mut self.open);
        }
        if self.open.packets.is_empty() {
            self.open.marks = 0;
        }
        if !is_left {
            self.spare.append(&mut closed);
        }
        self.closed = closed; // keeps its memory
    }

    /// The bursts, in order.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Chunk<P>> {
        self.closed.iter().chain(std::iter::once(&self.open)).map(|chunk| &**chunk)
    }

    /// Moves all packets of `other` to the end. Cost: a swap if there are none here, else a move for each burst.
    #[inline]
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            return swap(self, other);
        }
        if !self.open.packets.is_empty() {
            self.close();
        }
        self.closed.append(&mut other.closed);
        swap(&mut self.open, &mut other.open);
    }
}

impl<P: PacketBuf> Frame<P> {
    /// Sends a packet by a `burst` output of the running element.
    ///
    /// # Panics
    /// If the class has no such output.
    #[inline(always)]
    pub fn send(&mut self, output: usize, packet: P) {
        self.outs[output].push(packet);
    }

    /// The bursts of all outputs of the running element, if its class has `burst` outputs.
    #[inline(always)]
    pub fn all_bursts(&mut self) -> &mut [Bursts<P>] {
        &mut self.outs
    }

    /// The bursts of a `burst` output of the running element.
    ///
    /// # Panics
    /// If the class has no such output.
    #[inline(always)]
    pub fn bursts(&mut self, output: usize) -> &mut Bursts<P> {
        &mut self.outs[output]
    }

    /// Number of packets that elements sent by value in this call and that the runner has not moved yet.
    pub(crate) fn sent(&self) -> usize {
        self.outs.iter().map(Bursts::len).sum()
    }
}

impl Out<'_> {
    /// Drops a packet that is in no slot, for a drop reason of the element's class.
    #[cold]
    pub fn drop_packet<P: PacketBuf>(&self, packet: P, reason: DropId, frame: &mut Frame<P>) {
        self.drop_packet_of(self.part, packet, reason, frame);
    }

    /// Drops a packet for one of the element's [parts](crate::Element::parts).
    #[cold]
    pub fn drop_packet_of<P: PacketBuf>(&self, part: u8, packet: P, reason: DropId, frame: &mut Frame<P>) {
        let reason = (RUN_DROPS.len() + usize::from(reason.0)) as u8;
        frame.dropped.push((packet, DropOrigin { node: self.node, part, reason }));
    }

    /// Adds to a counter of one of the element's [parts](crate::Element::parts).
    pub fn count_of(&self, part: u8, counter: CounterId, n: u64) {
        if let Some(part) = self.parts.get(usize::from(part)) {
            part.cells.count(counter, n);
        }
    }

    /// Puts a packet that came by value into a slot. If none is free, it is dropped as `no_slot`.
    #[inline]
    pub fn put<P: PacketBuf>(&self, packet: P, frame: &mut Frame<P>) -> Option<Slot> {
        let refused = match frame.put(packet) {
            Ok(slot) => return Some(slot),
            Err(packet) => packet,
        };
        let why = DropOrigin { node: self.node, part: self.part, reason: run::NO_SLOT as u8 };
        frame.dropped.push((refused, why));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bursts: &mut Bursts<u32>) -> Vec<(u32, bool)> {
        let mut all = Vec::new();
        bursts.each(|chunk| {
            let marks = chunk.marks;
            all.extend(chunk.packets.drain(..).enumerate().map(|(at, n)| (n, marks & 1 << at != 0)));
        });
        all
    }

    #[test]
    fn packets_keep_their_order_and_their_marks() {
        let (mut a, mut b) = (Bursts::default(), Bursts::default());
        let mut expected = Vec::new();
        for round in 0..3u32 {
            for n in 0..77 {
                let number = round * 100 + n;
                if n % 5 == 0 {
                    a.push_marked(number);
                } else {
                    a.push(number);
                }
                expected.push((number, n % 5 == 0));
            }
            b.append(&mut a);
            assert_eq!((a.len(), b.len()), (0, expected.len()));
        }
        assert_eq!(numbers(&mut b), expected);
        assert!(b.is_empty() && numbers(&mut b).is_empty());
    }

    #[test]
    fn a_burst_that_a_device_fills_stands_alone() {
        let mut a = Bursts::default();
        a.push(1);
        assert_eq!(
            a.fill(|burst| {
                burst.extend(2..34);
                burst.len()
            }),
            32
        );
        assert_eq!(a.fill(|burst| burst.len()), 0);
        a.push(34);
        assert_eq!(a.chunks().map(|chunk| chunk.packets.len()).collect::<Vec<_>>(), [1, 32, 1]);
        assert_eq!(numbers(&mut a).len(), 34);
    }

    #[test]
    fn what_is_left_in_a_burst_stays() {
        let mut a: Bursts<u32> = Bursts::default();
        (0..70).for_each(|n| a.push(n));
        a.each(|chunk| chunk.packets.truncate(chunk.packets.len() - 1));
        assert_eq!(a.len(), 67);
        assert_eq!(numbers(&mut a).len(), 67);
        assert!(a.is_empty());
    }
}
