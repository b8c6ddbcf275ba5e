//! The graph of a range: slots are its nodes, and each name is an edge between its two slots.
//!
//! The graph has no cycle. So the slots of every tree can be given contents such that the two ends of each
//! name have the required XOR: the content of one slot of a tree determines all others. The content of that
//! slot is free. Here the lowest slot of a tree is 0, so the bits of a range are a function of its names and
//! its seed, for any history.
//!
//! The lowest slot is the root of its tree. Every other slot is attached to its parent slot by one name,
//! which is stored with the slot. So a name is found at one of its own two slots, without a search, and its
//! value is the XOR of the two. A change follows only the few slots below a name and not the whole tree,
//! which has seven slots on average around a given slot when a table is full. Two slots are in the same tree
//! if walking up from both leads to the same root.
//!
//! ```text
//! first array    0 ── 3          slot 0 is the root
//!                │ ╲             ties[5] = { above: 0, below: 2, beside: 7 }, hashes[5] = the name between 0 and 5
//! second array   5   7           (as numbers in the other array, the other array, and the same)
//!                │
//! first array    2
//! ```

use super::layout::Layout;
use super::store::RangeHeader;
use crate::huge::Zeroable;

/// The number of a slot in its array plus one, or 0 for none.
pub(super) trait SlotLink: Copy + Default + std::fmt::Debug {
    /// The maximum number of slots in an array.
    const SLOTS: u32;

    /// The link to a slot.
    fn to(slot: u32) -> Self;

    /// The slot that the link leads to.
    fn slot(self) -> Option<u32>;

    /// Stores a byte in place of a link.
    fn holding(byte: u8) -> Self;

    /// The byte stored in place of a link.
    fn held(self) -> u8;
}

macro_rules! link {
    ($($number:ty),*) => {$(
        impl SlotLink for $number {
            const SLOTS: u32 = Self::MAX as u32;

            #[inline(always)]
            fn to(slot: u32) -> Self {
                (slot + 1) as Self // at most `SLOTS`, see `Store::of_ranges`
            }

            #[inline(always)]
            fn slot(self) -> Option<u32> {
                u32::from(self).checked_sub(1)
            }

            #[inline(always)]
            fn holding(byte: u8) -> Self {
                byte.into()
            }

            #[inline(always)]
            fn held(self) -> u8 {
                self as u8 // it came from one
            }
        }
    )*};
}

link!(u8, u32);

/// The tree links of a slot.
///
/// While the names of a range are collected, before its graph is made, the links of the first slots store the
/// names' values instead.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TreeLinks<L> {
    /// The parent slot, in the other array. None for a root.
    above: L,
    /// The first child slot, in the other array.
    below: L,
    /// The next slot with the same parent, in the slot's own array.
    beside: L,
}

#[allow(unsafe_code, reason = "one promise about one type")]
// SAFETY: zero is a valid value of each of its integers.
unsafe impl<L: Zeroable> Zeroable for TreeLinks<L> {}

impl<L: SlotLink> TreeLinks<L> {
    /// Stores the value of a collected name.
    pub(super) fn holding(value: u16) -> Self {
        let [low, high] = value.to_le_bytes();
        Self { above: L::holding(low), below: L::holding(high), beside: L::default() }
    }

    /// The stored value of a collected name.
    pub(super) fn held(self) -> u16 {
        u16::from_le_bytes([self.above.held(), self.below.held()])
    }

    /// Whether the slot has a parent.
    pub(super) fn hangs(self) -> bool {
        self.above.slot().is_some()
    }
}

/// Why an operation on a range is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GraphError {
    Exists,
    Missing,
    /// The range has its maximum number of names.
    Names,
    /// Every seed gives a graph with a cycle.
    Seeds,
}

/// Working lists of slots, reused to avoid allocating for each operation, and the list of changed slots.
#[derive(Debug, Default)]
pub(super) struct GraphScratch {
    /// The slots of a tree, or of a part of one.
    side: Vec<u32>,
    /// The slots on the path from a slot to its root, and the names between them.
    path: Vec<(u32, u64)>,
    pub(super) colouring: super::colour::Colouring,
    /// Slots whose contents changed since the list was last cleared.
    pub(super) changed: Vec<u32>,
}

/// A mutable view of a range.
#[derive(Debug)]
pub(super) struct GraphMut<'a, L> {
    pub(super) layout: &'a Layout,
    pub(super) head: &'a mut RangeHeader,
    /// The tree links of each slot.
    pub(super) ties: &'a mut [TreeLinks<L>],
    /// For each slot, the name between it and its parent.
    pub(super) hashes: &'a mut [u64],
    pub(super) words: &'a mut [u64],
}

/// A read-only view of a range.
#[derive(Debug, Clone, Copy)]
pub(super) struct GraphRef<'a, L> {
    pub(super) layout: &'a Layout,
    pub(super) seed: u8,
    pub(super) ties: &'a [TreeLinks<L>],
    pub(super) hashes: &'a [u64],
    pub(super) words: &'a [u64],
}

impl<L: SlotLink> GraphRef<'_, L> {
    /// The end of a name whose parent is the other end. It exists if the name is in the range.
    #[inline]
    pub(super) fn find(&self, hash: u64, [a, b]: [u32; 2]) -> Option<usize> {
        let second = self.layout.places.slots[0];
        let is = |slot: u32, above: u32| {
            self.ties[slot as usize].above.slot() == Some(above) && self.hashes[slot as usize] == hash
        };
        if is(b, a) {
            return Some(1);
        }
        is(a, b - second).then_some(0)
    }

    /// The XOR of two slots, without the checksum.
    #[inline]
    fn value(&self, [a, b]: [u32; 2]) -> u16 {
        let difference = self.layout.get(self.words, a) ^ self.layout.get(self.words, b);
        (difference & ((1 << self.layout.places.value_bits) - 1)) as u16 // at most 16 bits
    }

    /// The array of a slot.
    #[inline(always)]
    fn array(&self, slot: u32) -> usize {
        usize::from(slot >= self.layout.places.slots[0])
    }

    /// The number of the first slot of an array.
    #[inline(always)]
    const fn start(&self, array: usize) -> u32 {
        if array == 0 { 0 } else { self.layout.places.slots[0] }
    }

    /// The parent of a slot. `None` for a root.
    #[inline(always)]
    pub(super) fn above(&self, slot: u32) -> Option<u32> {
        Some(self.ties[slot as usize].above.slot()? + self.start(1 - self.array(slot)))
    }

    /// Collects a slot and all its descendants. Returns the lowest of them.
    #[inline]
    pub(super) fn reach(&self, from: u32, side: &mut Vec<u32>) -> u32 {
        side.clear();
        side.push(from);
        let (mut lowest, mut at) = (from, 0);
        while at < side.len() {
            let slot = side[at];
            let start = self.start(1 - self.array(slot));
            let mut next = self.ties[slot as usize].below;
            while let Some(below) = next.slot() {
                let below = start + below;
                lowest = lowest.min(below);
                side.push(below);
                next = self.ties[below as usize].beside;
            }
            at += 1;
        }
        lowest
    }

    /// The root of a slot's tree: its lowest slot.
    #[inline]
    pub(super) fn root(&self, mut slot: u32) -> u32 {
        while let Some(above) = self.above(slot) {
            slot = above;
        }
        slot
    }

    /// The value of a name, if it is in the range.
    pub(super) fn get(&self, hash: u64) -> Option<u16> {
        let slots = self.layout.places.pair(hash, self.seed);
        self.find(hash, slots).map(|_| self.value(slots))
    }

    /// The names with their values, in no particular order.
    pub(super) fn names(self) -> impl Iterator<Item = (u64, u16)> + Clone {
        let held = self.ties.iter().zip(self.hashes).filter(|(tie, _)| tie.hangs());
        held.map(move |(_, &hash)| (hash, self.value(self.layout.places.pair(hash, self.seed))))
    }
}

impl<L: SlotLink> GraphMut<'_, L> {
    #[inline(always)]
    const fn view(&self) -> GraphRef<'_, L> {
        let GraphMut { layout, head, ties, hashes, words } = self;
        GraphRef { layout, seed: head.seed, ties, hashes, words }
    }

    #[inline(always)]
    fn slots_of(&self, hash: u64) -> [u32; 2] {
        self.layout.places.pair(hash, self.head.seed)
    }

    /// The end of a name whose parent is the other end, and the name's slots.
    #[inline]
    fn find(&self, hash: u64) -> Option<(usize, [u32; 2])> {
        let slots = self.slots_of(hash);
        Some((self.view().find(hash, slots)?, slots))
    }

    /// The link to a slot.
    #[inline(always)]
    fn link(&self, slot: u32) -> L {
        L::to(slot - self.view().start(self.view().array(slot)))
    }

    /// Attaches a root to a parent slot, by a name.
    #[inline]
    pub(super) fn hang(&mut self, slot: u32, from: u32, hash: u64) {
        let (above, below) = (self.link(from), self.link(slot));
        let beside = std::mem::replace(&mut self.ties[from as usize].below, below);
        let tie = &mut self.ties[slot as usize];
        (tie.above, tie.beside) = (above, beside);
        self.hashes[slot as usize] = hash;
    }

    /// Detaches a slot from its parent. A root stays a root.
    fn cut(&mut self, slot: u32) {
        let Some(above) = self.view().above(slot) else { return };
        let TreeLinks { beside, .. } = self.ties[slot as usize];
        let start = self.view().start(self.view().array(slot));
        let mut next = &mut self.ties[above as usize].below;
        while let Some(at) = next.slot().map(|at| start + at)
            && at != slot
        {
            next = &mut self.ties[at as usize].beside;
        }
        *next = beside;
        let tie = &mut self.ties[slot as usize];
        (tie.above, tie.beside) = (L::default(), L::default());
    }

    /// Makes a slot the root of its tree, by reversing the path from it to the old root.
    fn make_root(&mut self, slot: u32, path: &mut Vec<(u32, u64)>) {
        path.clear();
        let mut next = Some(slot);
        while let Some(at) = next {
            path.push((at, self.hashes[at as usize]));
            next = self.view().above(at);
            self.cut(at);
        }
        for pair in path.windows(2) {
            let [(slot, hash), (above, _)] = *pair else { continue };
            self.hang(above, slot, hash);
        }
    }

    /// Flips the bits `difference` in all slots of `side`.
    #[inline]
    fn flip(&mut self, side: &[u32], difference: u32, changed: &mut Vec<u32>) {
        if difference != 0 {
            for &slot in side {
                self.layout.flip(self.words, slot, difference);
            }
            changed.extend_from_slice(side);
        }
    }

    /// Changes a name's value and returns the old one. Flips the slots below the name.
    #[inline]
    pub(super) fn set(&mut self, hash: u64, value: u16, work: &mut GraphScratch) -> Result<u16, GraphError> {
        let (below, slots) = self.find(hash).ok_or(GraphError::Missing)?;
        let old = self.view().value(slots);
        if old != value {
            self.view().reach(slots[below], &mut work.side);
            self.flip(&work.side, u32::from(old ^ value), &mut work.changed);
        }
        Ok(old)
    }

    /// Adds a name, which joins two trees: the tree whose lowest slot is the higher one is adapted. If a
    /// cycle forced a new seed for the range (the next one, cyclically, that works for all its names),
    /// returns the old seed.
    #[inline]
    pub(super) fn put(
        &mut self,
        hash: u64,
        value: u16,
        work: &mut GraphScratch,
    ) -> Result<Option<u8>, GraphError> {
        if self.find(hash).is_some() {
            return Err(GraphError::Exists);
        }
        if self.head.names as usize == self.layout.capacity {
            return Err(GraphError::Names);
        }
        let slots = self.slots_of(hash);
        let roots = slots.map(|slot| self.view().root(slot));
        if roots[0] == roots[1] {
            return self.reseed(hash, value, work).map(Some);
        }
        let contents = slots.map(|slot| self.layout.get(self.words, slot));
        let difference = contents[0] ^ contents[1] ^ self.layout.places.difference(hash, value);
        let below = usize::from(roots[0] < roots[1]);
        if difference != 0 {
            self.view().reach(roots[below], &mut work.side);
            self.flip(&work.side, difference, &mut work.changed);
        }
        self.make_root(slots[below], &mut work.path);
        self.hang(slots[below], slots[1 - below], hash);
        self.head.names += 1;
        Ok(None)
    }

    /// Adds a name that would close a cycle, under the next seed that works. Returns the old seed.
    #[cold]
    fn reseed(&mut self, hash: u64, value: u16, work: &mut GraphScratch) -> Result<u8, GraphError> {
        let old = self.head.seed;
        work.colouring.take(self.view().names());
        work.colouring.push(hash, value);
        let mut seeds = (1..=u8::MAX).map(|step| old.wrapping_add(step));
        if seeds.any(|seed| self.colour(seed, &mut work.colouring)) {
            return Ok(old);
        }
        work.colouring.pop();
        if !self.colour(old, &mut work.colouring) {
            unreachable!("the seed suited before the name came");
        }
        Err(GraphError::Seeds)
    }

    /// Gives the range another seed. Returns whether its names have no cycle under it.
    pub(super) fn recolour(&mut self, seed: u8, colouring: &mut super::colour::Colouring) -> bool {
        colouring.take(self.view().names());
        self.colour(seed, colouring)
    }

    /// Removes a name, which splits a tree: the part without the lowest slot becomes a separate tree. Returns
    /// the name's value.
    #[inline]
    pub(super) fn take(&mut self, hash: u64, work: &mut GraphScratch) -> Result<u16, GraphError> {
        let (below, slots) = self.find(hash).ok_or(GraphError::Missing)?;
        let value = self.view().value(slots);
        let lowest = self.view().reach(slots[below], &mut work.side);
        let difference = self.layout.get(self.words, lowest);
        self.flip(&work.side, difference, &mut work.changed);
        self.cut(slots[below]);
        self.make_root(lowest, &mut work.path);
        self.head.names -= 1;
        Ok(value)
    }

    /// Appends a name after the others; [`settle`](Self::settle) will find it there.
    #[inline]
    pub(super) fn add(&mut self, hash: u64, value: u16) -> Result<(), GraphError> {
        let at = self.head.names as usize;
        if at == self.layout.capacity {
            return Err(GraphError::Names);
        }
        (self.hashes[at], self.ties[at]) = (hash, TreeLinks::holding(value));
        self.head.names += 1;
        Ok(())
    }

    /// Computes the graph and bits of the added names, with the lowest seed that works.
    pub(super) fn settle(&mut self, colouring: &mut super::colour::Colouring) -> Result<(), GraphError> {
        let added = self.hashes.iter().zip(&*self.ties).take(self.head.names as usize);
        colouring.take(added.map(|(&hash, tie)| (hash, tie.held())));
        let suits = (0..=u8::MAX).any(|seed| self.colour(seed, colouring));
        if suits { Ok(()) } else { Err(GraphError::Seeds) }
    }
}
