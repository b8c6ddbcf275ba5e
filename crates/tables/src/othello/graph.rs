//! The graph of a range: slots are its nodes, and each name is an edge between its two.
//!
//! The graph has no cycle, so the slots of every tree can be given contents such that both ends of each name differ in
//! what they must: given one slot, all others of its tree follow. Which contents that slot has is free; here the
//! lowest slot of a tree is 0, so that the bits of a range are a function of its names and its seed, whatever the
//! history.
//!
//! That slot is the root of its tree. Every other slot hangs from the slot above it by one name, and that name is kept
//! with it: a name is found at one of its own two slots, without a search, and its value is what they differ in. A change
//! follows the few slots below a name and not the whole tree, which has seven around a slot on average when a table is
//! full; and whether two slots are of one tree is known by walking up from both.
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
    /// Slots that an array may have.
    const SLOTS: u32;

    /// The link to a slot.
    fn to(slot: u32) -> Self;

    /// The slot it leads to.
    fn slot(self) -> Option<u32>;

    /// A byte kept in its place.
    fn holding(byte: u8) -> Self;

    /// That byte.
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

/// Where a slot hangs.
///
/// While the names of a range are collected, before it is made of them, the ties of the first so many places hold their
/// values instead.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TreeLinks<L> {
    /// The slot it hangs from, in the other array. None for a root.
    above: L,
    /// The first slot that hangs from it, in the other array.
    below: L,
    /// The next slot that hangs from the same, in its own array.
    beside: L,
}

#[allow(unsafe_code, reason = "one promise about one type")]
// SAFETY: zero is a valid value of each of its integers.
unsafe impl<L: Zeroable> Zeroable for TreeLinks<L> {}

impl<L: SlotLink> TreeLinks<L> {
    /// A value that waits for its place.
    pub(super) fn holding(value: u16) -> Self {
        let [low, high] = value.to_le_bytes();
        Self { above: L::holding(low), below: L::holding(high), beside: L::default() }
    }

    /// That value.
    pub(super) fn held(self) -> u16 {
        u16::from_le_bytes([self.above.held(), self.below.held()])
    }

    /// Whether the slot hangs from another, by a name.
    pub(super) fn hangs(self) -> bool {
        self.above.slot().is_some()
    }
}

/// Why an operation on a range cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GraphError {
    Exists,
    Missing,
    /// All the names it may have.
    Names,
    /// No seed suits.
    Seeds,
}

/// Slots on their way, kept to not allocate for each operation; and the slots that changed.
#[derive(Debug, Default)]
pub(super) struct GraphScratch {
    /// The slots of a tree, or of a part of one.
    side: Vec<u32>,
    /// The slots from one to its root, and the names between them.
    path: Vec<(u32, u64)>,
    pub(super) colouring: super::colour::Colouring,
    /// Slots whose contents changed, since it was last cleared.
    pub(super) changed: Vec<u32>,
}

/// A range at work.
#[derive(Debug)]
pub(super) struct GraphMut<'a, L> {
    pub(super) layout: &'a Layout,
    pub(super) head: &'a mut RangeHeader,
    /// Of each slot.
    pub(super) ties: &'a mut [TreeLinks<L>],
    /// Of each slot, the name it hangs by.
    pub(super) hashes: &'a mut [u64],
    pub(super) words: &'a mut [u64],
}

/// A range to be looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct GraphRef<'a, L> {
    pub(super) layout: &'a Layout,
    pub(super) seed: u8,
    pub(super) ties: &'a [TreeLinks<L>],
    pub(super) hashes: &'a [u64],
    pub(super) words: &'a [u64],
}

impl<L: SlotLink> GraphRef<'_, L> {
    /// The end of a name that hangs from its other, which is there if the name is.
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

    /// What two slots differ in, without the checksum.
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

    /// The slot that one hangs from. `None` for a root.
    #[inline(always)]
    pub(super) fn above(&self, slot: u32) -> Option<u32> {
        Some(self.ties[slot as usize].above.slot()? + self.start(1 - self.array(slot)))
    }

    /// Collects a slot and all that hang from it, through others, too; the lowest of them.
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

    /// The value of a name, if it is there.
    pub(super) fn get(&self, hash: u64) -> Option<u16> {
        let slots = self.layout.places.pair(hash, self.seed);
        self.find(hash, slots).map(|_| self.value(slots))
    }

    /// The names with their values, in no order.
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

    /// The end of a name that hangs from its other, and its slots.
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

    /// Hangs a root from a slot, by a name.
    #[inline]
    pub(super) fn hang(&mut self, slot: u32, from: u32, hash: u64) {
        let (above, below) = (self.link(from), self.link(slot));
        let beside = std::mem::replace(&mut self.ties[from as usize].below, below);
        let tie = &mut self.ties[slot as usize];
        (tie.above, tie.beside) = (above, beside);
        self.hashes[slot as usize] = hash;
    }

    /// Takes a slot from the one it hangs from; a root stays one.
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

    /// Makes a slot the root of its tree: all from there to the root turn round.
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

    /// Flips bits of all slots of a side.
    #[inline]
    fn flip(&mut self, side: &[u32], difference: u32, changed: &mut Vec<u32>) {
        if difference != 0 {
            for &slot in side {
                self.layout.flip(self.words, slot, difference);
            }
            changed.extend_from_slice(side);
        }
    }

    /// Changes a name's value; the old one. Flips what is below it.
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

    /// Adds a name, and joins two trees: the one whose lowest slot is not the lower has to fit. Returns the old seed if
    /// a cycle forced another on the range: the next, cyclically, that suits all its names.
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

    /// Adds a name that would close a cycle, under the next seed that suits; the old seed.
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

    /// Gives the range another seed; whether its names have no cycle under it.
    pub(super) fn recolour(&mut self, seed: u8, colouring: &mut super::colour::Colouring) -> bool {
        colouring.take(self.view().names());
        self.colour(seed, colouring)
    }

    /// Takes a name out, and a tree apart: the part without its lowest slot becomes a tree of its own. Its value.
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

    /// Puts a name behind the others, for [`settle`](Self::settle) to find it there.
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

    /// Makes graph and bits of the names that were added, under the lowest seed that suits.
    pub(super) fn settle(&mut self, colouring: &mut super::colour::Colouring) -> Result<(), GraphError> {
        let added = self.hashes.iter().zip(&*self.ties).take(self.head.names as usize);
        colouring.take(added.map(|(&hash, tie)| (hash, tie.held())));
        let suits = (0..=u8::MAX).any(|seed| self.colour(seed, colouring));
        if suits { Ok(()) } else { Err(GraphError::Seeds) }
    }
}
