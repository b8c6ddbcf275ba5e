//! A worker's packets during a turn.

use crate::bursts::Bursts;
use crate::column::{Column, Columns, Handle, Values};
use crate::meta::Meta;
use crate::out::DropOrigin;
use crate::ports::Ports;
use crate::slot::{SLOTS, Slot, SlotList};
use crate::tap::{Taps, Watch};
#[cfg(doc)]
use scalebricks_io::BURST;
use scalebricks_io::{Burst, PacketBuf, PacketSource};
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Index, IndexMut};

/// Most new packets in a frame at once; the remaining slots are for copies.
pub const INTAKE: usize = SLOTS / 2;

/// A worker's packets: [`SLOTS`] places, with metadata beside each.
///
/// Packets do not move between put and take; elements pass one-byte slot numbers. At the end of a turn all slots are
/// free: an element must take out and keep the packets that wait longer.
pub struct Frame<P> {
    packets: Box<[Option<P>; SLOTS]>,
    meta: Box<[Meta; SLOTS]>,
    pub(crate) columns: Columns,
    free: Box<[u8; SLOTS]>,
    free_len: usize,
    buffers: Box<dyn PacketSource<P> + Send>,
    pub(crate) ports: Ports<P>,
    /// What running captures select.
    pub(crate) watch: Watch,
    /// Packets sent by value, by output of the running element.
    pub(crate) outs: Box<[Bursts<P>]>,
    /// Number of packets in transit by value.
    pub(crate) by_value: usize,
    /// Packets in no slot that must be dropped.
    pub(crate) dropped: Vec<(P, DropOrigin)>,
}

impl<P> fmt::Debug for Frame<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("used", &(SLOTS - self.free_len))
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

/// Puts a packet into a free slot, which holds nothing to drop.
#[inline(always)]
fn fill<P>(place: &mut Option<P>, packet: P) {
    let before = place.replace(packet);
    debug_assert!(before.is_none(), "a free slot has no packet");
    std::mem::forget(before);
}

impl<P: PacketBuf> Frame<P> {
    /// An empty frame that allocates packets from `buffers`.
    pub fn new(buffers: Box<dyn PacketSource<P> + Send>) -> Self {
        let mut free = Box::new([0; SLOTS]);
        for (slot, number) in free.iter_mut().zip((0..=255).rev()) {
            *slot = number;
        }
        Self {
            packets: Box::new([const { None }; SLOTS]),
            meta: Box::new([Meta::default(); SLOTS]),
            columns: Columns::default(),
            free,
            free_len: SLOTS,
            buffers,
            ports: Ports::new(),
            watch: Taps::default().watch(),
            outs: Box::default(),
            by_value: 0,
            dropped: Vec::new(),
        }
    }

    /// Number of packets: slots in use, and packets in transit by value.
    #[inline]
    pub fn used(&self) -> usize {
        SLOTS - self.free_len + self.by_value
    }

    /// Whether any slot is in use.
    #[inline]
    pub(crate) const fn has_slots(&self) -> bool {
        self.free_len < SLOTS
    }

    /// Whether a capture observes packets on their way between elements.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.watch.has_edges()
    }

    /// Puts a packet into a slot, with all-zero [`Meta`].
    ///
    /// # Errors
    /// Returns the packet if no slot is free.
    #[inline]
    pub fn put(&mut self, packet: P) -> Result<Slot, P> {
        self.put_with(packet, Meta::default())
    }

    /// Puts a packet into a slot, with this [`Meta`].
    ///
    /// # Errors
    /// As [`put`](Self::put).
    #[inline]
    pub fn put_with(&mut self, packet: P, meta: Meta) -> Result<Slot, P> {
        if self.free_len == 0 {
            return Err(packet);
        }
        self.free_len -= 1;
        let slot = Slot(self.free[self.free_len % SLOTS]);
        fill(&mut self.packets[slot.index()], packet);
        self.meta[slot.index()] = meta;
        if cfg!(debug_assertions) && !self.columns.is_empty() {
            self.columns.poison(&slot);
        }
        Ok(slot)
    }

    /// Puts each packet of a burst into a slot, with the [`Meta`] from `meta`, and adds the slots to `into`, in order.
    /// Packets without a free slot stay in the burst. Cost: less than half of calling [`put`](Self::put) for each.
    #[inline]
    pub fn put_burst(&mut self, burst: &mut Burst<P>, into: &mut SlotList, mut meta: impl FnMut(&P) -> Meta) {
        let count = burst.len().min(self.free_len);
        let numbers = &self.free[self.free_len - count..self.free_len];
        for (packet, &number) in burst.drain(..count).zip(numbers) {
            self.meta[usize::from(number)] = meta(&packet);
            fill(&mut self.packets[usize::from(number)], packet);
            if cfg!(debug_assertions) && !self.columns.is_empty() {
                self.columns.poison(&Slot(number));
            }
        }
        into.extend_numbers(numbers);
        self.free_len -= count;
    }

    /// Takes all packets of a list out, in order, and frees their slots. Whenever the burst is full it calls `flush`,
    /// which must make room; packets after the last call stay in the burst.
    ///
    /// # Panics
    /// If a slot is of another frame, or `flush` makes no room.
    #[inline]
    pub fn take_all(
        &mut self,
        batch: &mut SlotList,
        burst: &mut Burst<P>,
        mut flush: impl FnMut(&mut Self, &mut Burst<P>),
    ) {
        let mut done = 0;
        while done < batch.len() {
            let slots = &batch.as_slice()[done..];
            let slots = &slots[..slots.len().min(burst.remaining_capacity())];
            assert!(!slots.is_empty(), "a burst has room after it was sent");
            let packets = &mut self.packets;
            burst.extend(slots.iter().map(|slot| {
                packets[slot.index()].take().unwrap_or_else(|| unreachable!("a slot has its packet"))
            }));
            for (free, slot) in self.free[self.free_len..].iter_mut().zip(slots) {
                *free = slot.0;
            }
            self.free_len += slots.len();
            done += slots.len();
            if burst.is_full() {
                flush(self, burst);
            }
        }
        batch.forget();
    }

    /// Takes all packets of a list out, adds them to the end of a queue with their [`Meta`], in order, and frees their
    /// slots.
    ///
    /// # Panics
    /// If a slot is of another frame.
    pub fn take_waiting(&mut self, batch: &mut SlotList, waiting: &mut VecDeque<(P, Meta)>) {
        let (packets, slots) = (&mut self.packets, batch.as_slice());
        waiting.extend(slots.iter().map(|slot| {
            let packet = packets[slot.index()].take();
            (packet.unwrap_or_else(|| unreachable!("a slot has its packet")), self.meta[slot.index()])
        }));
        for (free, slot) in self.free[self.free_len..].iter_mut().zip(slots) {
            *free = slot.0;
        }
        self.free_len += slots.len();
        batch.forget();
    }

    /// Puts a packet that another one caused, such as an error message, into a slot. Its [`Meta`] is zero except for
    /// the other packet's hop count, so that packets that cause each other in a cycle end.
    ///
    /// # Errors
    /// Returns the packet if no slot is free.
    pub fn put_because(&mut self, packet: P, of: &Slot) -> Result<Slot, P> {
        let slot = self.put(packet)?;
        self.meta[slot.index()].hops = self.meta[of.index()].hops;
        Ok(slot)
    }

    /// Puts a packet cut from another, such as a fragment, into a slot, with the other's [`Meta`] and columns.
    ///
    /// # Errors
    /// Returns the packet if no slot is free.
    pub fn put_like(&mut self, packet: P, of: &Slot) -> Result<Slot, P> {
        let slot = self.put(packet)?;
        self.meta[slot.index()] = self.meta[of.index()];
        self.columns.copy(of, &slot);
        Ok(slot)
    }

    /// Takes the packet out and frees the slot.
    ///
    /// # Panics
    /// If the slot is of another frame.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "the slot must not be used again")]
    pub fn take(&mut self, slot: Slot) -> P {
        let packet = self.packets[slot.index()].take();
        self.free[self.free_len % SLOTS] = slot.0;
        self.free_len += 1;
        packet.unwrap_or_else(|| unreachable!("a slot has its packet"))
    }

    /// Moves up to `want` packets from the front of a queue into slots and adds the slots to `into`, in order. Stops
    /// early if no slot is free.
    pub fn put_waiting(&mut self, waiting: &mut VecDeque<(P, Meta)>, want: usize, into: &mut SlotList) {
        let count = want.min(waiting.len()).min(self.free_len);
        for (packet, meta) in waiting.drain(..count) {
            match self.put_with(packet, meta) {
                Ok(slot) => into.push(slot),
                Err(_) => unreachable!("free slots were counted"),
            }
        }
    }

    /// A new empty packet with full headroom, in no slot yet; `None` if the pool is exhausted.
    pub fn alloc(&mut self) -> Option<P> {
        self.buffers.alloc()
    }

    /// Copies the packet into another slot, with the same bytes, tag, [`Meta`] and columns. `None` if no slot or buffer
    /// is free, or the buffer is too small. Cost: a copy of the bytes.
    pub fn copy(&mut self, slot: &Slot) -> Option<Slot> {
        if self.free_len == 0 {
            return None;
        }
        let copy = self.duplicate(slot)?;
        self.put_like(copy, slot).ok()
    }

    /// Copies the packet into no slot, with the same bytes and tag. `None` if no buffer is free, or the buffer is too
    /// small. Cost: a copy of the bytes.
    pub fn duplicate(&mut self, slot: &Slot) -> Option<P> {
        let mut copy = self.buffers.alloc()?;
        let original = self.packet(slot);
        copy.append(original.data()).ok()?;
        copy.set_tag(original.tag());
        Some(copy)
    }

    /// The packet in a slot.
    ///
    /// # Panics
    /// If the slot is of another frame.
    #[inline(always)]
    pub fn packet(&self, slot: &Slot) -> &P {
        self.packets[slot.index()].as_ref().unwrap_or_else(|| unreachable!("a slot has its packet"))
    }

    /// The packet in a slot, mutable.
    ///
    /// # Panics
    /// If the slot is of another frame.
    #[inline(always)]
    pub fn packet_mut(&mut self, slot: &Slot) -> &mut P {
        self.packets[slot.index()].as_mut().unwrap_or_else(|| unreachable!("a slot has its packet"))
    }

    /// The metadata of the packet in a slot.
    #[inline(always)]
    pub fn meta(&self, slot: &Slot) -> &Meta {
        &self.meta[slot.index()]
    }

    /// The metadata of the packet in a slot, mutable.
    #[inline(always)]
    pub fn meta_mut(&mut self, slot: &Slot) -> &mut Meta {
        &mut self.meta[slot.index()]
    }

    /// The packet in a slot and its metadata.
    ///
    /// # Panics
    /// If the slot is of another frame.
    #[inline(always)]
    pub fn both_mut(&mut self, slot: &Slot) -> (&mut P, &mut Meta) {
        let packet = self.packets[slot.index()].as_mut();
        (packet.unwrap_or_else(|| unreachable!("a slot has its packet")), &mut self.meta[slot.index()])
    }

    /// Lets `work` have the packets of several slots side by side, in this order. Cost: two moves per packet.
    ///
    /// # Panics
    /// If there are more than [`BURST`] slots, or one is of another frame.
    #[inline]
    pub fn together<T>(&mut self, slots: &[Slot], work: impl FnOnce(&mut [P]) -> T) -> T {
        let mut packets = Burst::new();
        for slot in slots {
            let packet = self.packets[slot.index()].take();
            packets.push(packet.unwrap_or_else(|| unreachable!("a slot has its packet")));
        }
        let done = work(&mut packets);
        for (slot, packet) in slots.iter().zip(packets) {
            fill(&mut self.packets[slot.index()], packet);
        }
        done
    }

    /// The values of a column. Get them once per batch.
    ///
    /// # Panics
    /// As [`Columns::get`].
    #[inline]
    pub fn column<C: Column>(&self, handle: Handle<C>) -> &Values<C> {
        self.columns.get(handle)
    }

    /// The values of a column, mutable.
    ///
    /// # Panics
    /// As [`Columns::get`].
    #[inline]
    pub fn column_mut<C: Column>(&mut self, handle: Handle<C>) -> &mut Values<C> {
        self.columns.get_mut(handle)
    }

    /// Borrows packets, metadata and columns separately, for elements that read one and write another.
    #[inline(always)]
    pub fn parts(&mut self) -> Parts<'_, P> {
        Parts { packets: Packets(&mut self.packets), meta: &mut self.meta, columns: &mut self.columns }
    }

    /// Frees every slot and returns the packets in them.
    #[cold]
    pub(crate) fn reclaim(&mut self) -> Vec<P> {
        let left: Vec<P> = self.packets.iter_mut().filter_map(Option::take).collect();
        for (slot, number) in self.free.iter_mut().zip((0..=255).rev()) {
            *slot = number;
        }
        self.free_len = SLOTS;
        left
    }
}

/// The parts of a [`Frame`], borrowed separately.
#[derive(Debug)]
pub struct Parts<'a, P> {
    /// The packets, by slot.
    pub packets: Packets<'a, P>,
    /// The metadata of each packet, by [`Slot::index`].
    pub meta: &'a mut [Meta; SLOTS],
    /// The columns.
    pub columns: &'a mut Columns,
}

/// The packets of a [`Frame`], by slot. Indexing panics if the slot is of another frame.
pub struct Packets<'a, P>(&'a mut [Option<P>; SLOTS]);

impl<P> fmt::Debug for Packets<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packets").finish_non_exhaustive()
    }
}

impl<P> Index<&Slot> for Packets<'_, P> {
    type Output = P;

    #[inline(always)]
    fn index(&self, slot: &Slot) -> &P {
        self.0[slot.index()].as_ref().unwrap_or_else(|| unreachable!("a slot has its packet"))
    }
}

impl<P> IndexMut<&Slot> for Packets<'_, P> {
    #[inline(always)]
    fn index_mut(&mut self, slot: &Slot) -> &mut P {
        self.0[slot.index()].as_mut().unwrap_or_else(|| unreachable!("a slot has its packet"))
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
