//! The graph of a range: slots are its nodes, and each name is an edge between its two.
//!
//! The graph has no cycle, so the slots of every tree can be given contents such that both ends of each name differ in
//! what they must: given one slot, all others of its tree follow. Which contents that slot has is free; here the
//! lowest slot of a tree is 0, so that the bits of a range are a function of its names and its seed, whatever the
//! history.
//!
//! That slot is the root of its tree, and every name knows which of its ends is farther from it. So a change follows the
//! few slots below a name and not the whole tree, which has seven around a slot on average when a table is full; and
//! whether two slots are of one tree is known by walking up from both.

use super::image::Layout;
use super::store::Head;
use crate::huge::Zeroable;

/// The number of a name in its range plus one, or 0 for none.
pub(super) trait Link: Copy + Default + std::fmt::Debug {
    /// The link to a name, or to none.
    fn to(index: Option<usize>) -> Self;

    /// The name it leads to.
    fn index(self) -> Option<usize>;
}

impl Link for u16 {
    #[inline(always)]
    fn to(index: Option<usize>) -> Self {
        index.map_or(0, |index| index as Self + 1) // fewer names than `u16::MAX`, see `Store::new`
    }

    #[inline(always)]
    fn index(self) -> Option<usize> {
        usize::from(self).checked_sub(1)
    }
}

/// A link of 32 bits.
pub(super) type Wide = u32;

impl Link for Wide {
    #[inline(always)]
    fn to(index: Option<usize>) -> Self {
        index.map_or(0, |index| index as Self + 1) // fewer names than twice 2^30 slots
    }

    #[inline(always)]
    fn index(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }
}

/// A name: an edge, in the lists of both its slots.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Name<L> {
    hash: u64,
    /// The next name at its slot of the first array, and at that of the second.
    next: [L; 2],
    value: u16,
    /// The array of the slot that is farther from the root.
    below: u8,
}

#[allow(unsafe_code, reason = "one promise about one type")]
// SAFETY: zero is a valid value of each of its integers.
unsafe impl<L: Zeroable> Zeroable for Name<L> {}

impl<L: Link> Name<L> {
    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) const fn pair(&self) -> (u64, u16) {
        (self.hash, self.value)
    }

    pub(super) const fn link(&mut self, next: [L; 2]) {
        self.next = next;
    }

    pub(super) const fn hang(&mut self, below: usize) {
        self.below = below as u8; // 0 or 1
    }

    const fn below(&self) -> usize {
        (self.below & 1) as usize
    }

    pub(super) fn next(&self, side: usize) -> Option<usize> {
        self.next[side].index()
    }
}

/// Why an operation on a range cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Exists,
    Missing,
    /// All the names it may have.
    Names,
    /// No seed suits.
    Seeds,
}

/// Slots on their way, kept to not allocate for each operation; and the slots that changed.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The slots of a tree, or of a part of one.
    side: Vec<u32>,
    /// For each slot of the side at work, the name it was reached by.
    via: Vec<usize>,
    pub(super) colouring: super::colour::Colouring,
    /// Slots whose contents changed, since it was last cleared.
    pub(super) changed: Vec<u32>,
}

/// A range at work.
#[derive(Debug)]
pub(super) struct Graph<'a, L> {
    pub(super) layout: &'a Layout,
    pub(super) head: &'a mut Head,
    /// The first name at each slot.
    pub(super) firsts: &'a mut [L],
    /// As many as there may be, of which the first so many are.
    pub(super) names: &'a mut [Name<L>],
    pub(super) words: &'a mut [u64],
}

/// No name: what a root is reached by.
const NO_NAME: usize = usize::MAX;

impl<L: Link> Graph<'_, L> {
    #[inline(always)]
    fn slots_of(&self, hash: u64) -> [u32; 2] {
        self.layout.places.pair(hash, self.head.seed)
    }

    /// The number of a name and its slots.
    #[inline]
    fn find(&self, hash: u64) -> Option<(usize, [u32; 2])> {
        let slots = self.slots_of(hash);
        let mut at = self.firsts[slots[0] as usize].index();
        while let Some(name) = at {
            if self.names[name].hash == hash {
                return Some((name, slots));
            }
            at = self.names[name].next(0);
        }
        None
    }

    /// Collects the slots that can be reached from one without using `edge`; the lowest of them.
    #[inline]
    fn reach(&self, from: u32, edge: usize, side: &mut Vec<u32>, via: &mut Vec<usize>) -> u32 {
        side.clear();
        via.clear();
        side.push(from);
        via.push(edge);
        let (mut lowest, mut at) = (from, 0);
        while at < side.len() {
            let (slot, by) = (side[at], via[at]);
            let array = self.array(slot);
            let mut next = self.firsts[slot as usize].index();
            while let Some(name) = next {
                if name != by {
                    let other = self.slots_of(self.names[name].hash)[1 - array];
                    lowest = lowest.min(other);
                    side.push(other);
                    via.push(name);
                }
                next = self.names[name].next(array);
            }
            at += 1;
        }
        lowest
    }

    /// The array of a slot.
    #[inline(always)]
    fn array(&self, slot: u32) -> usize {
        usize::from(slot >= self.layout.places.slots[0])
    }

    /// The name above a slot, towards the root, and the slot at its other end. `None` for a root.
    #[inline]
    fn above(&self, slot: u32) -> Option<(usize, u32)> {
        let array = self.array(slot);
        let mut at = self.firsts[slot as usize].index();
        while let Some(name) = at {
            if self.names[name].below() == array {
                return Some((name, self.slots_of(self.names[name].hash)[1 - array]));
            }
            at = self.names[name].next(array);
        }
        None
    }

    /// The root of a slot's tree: its lowest slot.
    #[inline]
    fn root(&self, mut slot: u32) -> u32 {
        while let Some((_, above)) = self.above(slot) {
            slot = above;
        }
        slot
    }

    /// Makes a slot the root of its tree: the names from there to the root turn round.
    fn make_root(&mut self, slot: u32) {
        let mut next = self.above(slot);
        while let Some((name, above)) = next {
            // Before the name turns, or there would be two above the slot.
            next = self.above(above);
            self.names[name].hang(self.array(above));
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
    pub(super) fn set(&mut self, hash: u64, value: u16, work: &mut Work) -> Result<u16, Refused> {
        let (name, slots) = self.find(hash).ok_or(Refused::Missing)?;
        let old = std::mem::replace(&mut self.names[name].value, value);
        let difference = u32::from(old ^ value);
        if difference != 0 {
            self.reach(slots[self.names[name].below()], name, &mut work.side, &mut work.via);
            self.flip(&work.side, difference, &mut work.changed);
        }
        Ok(old)
    }

    /// Adds a name, and joins two trees: the one whose lowest slot is not the lower has to fit. Returns the old seed if
    /// a cycle forced another on the range: the next, cyclically, that suits all its names.
    pub(super) fn put(&mut self, hash: u64, value: u16, work: &mut Work) -> Result<Option<u8>, Refused> {
        if self.find(hash).is_some() {
            return Err(Refused::Exists);
        }
        if self.head.names as usize == self.names.len() {
            return Err(Refused::Names);
        }
        let slots = self.slots_of(hash);
        let roots = slots.map(|slot| self.root(slot));
        if roots[0] == roots[1] {
            return self.reseed(hash, value, work).map(Some);
        }
        let contents = slots.map(|slot| self.layout.get(self.words, slot));
        let difference = contents[0] ^ contents[1] ^ self.layout.places.difference(hash, value);
        let below = usize::from(roots[0] < roots[1]);
        if difference != 0 {
            self.reach(slots[below], NO_NAME, &mut work.side, &mut work.via);
            self.flip(&work.side, difference, &mut work.changed);
        }
        self.make_root(slots[below]);
        self.append(hash, value, slots, below);
        Ok(None)
    }

    /// Adds a name behind the others, and to the lists of its slots.
    #[inline]
    fn append(&mut self, hash: u64, value: u16, [a, b]: [u32; 2], below: usize) {
        let at = self.head.names as usize;
        let next = [self.firsts[a as usize], self.firsts[b as usize]];
        self.names[at] = Name { hash, next, value, below: below as u8 }; // 0 or 1
        self.firsts[a as usize] = L::to(Some(at));
        self.firsts[b as usize] = L::to(Some(at));
        self.head.names += 1;
    }

    /// Adds a name that would close a cycle, under the next seed that suits; the old seed.
    #[cold]
    fn reseed(&mut self, hash: u64, value: u16, work: &mut Work) -> Result<u8, Refused> {
        let old = self.head.seed;
        self.names[self.head.names as usize] = Name { hash, value, ..Name::default() };
        self.head.names += 1;
        let mut seeds = (1..=u8::MAX).map(|step| old.wrapping_add(step));
        if seeds.any(|seed| self.colour(seed, &mut work.colouring)) {
            return Ok(old);
        }
        self.head.names -= 1;
        if !self.colour(old, &mut work.colouring) {
            unreachable!("the seed suited before the name came");
        }
        Err(Refused::Seeds)
    }

    /// Takes a name out, and a tree apart: the part without its lowest slot becomes a tree of its own. Its value.
    pub(super) fn take(&mut self, hash: u64, work: &mut Work) -> Result<u16, Refused> {
        let (name, slots) = self.find(hash).ok_or(Refused::Missing)?;
        let lowest = self.reach(slots[self.names[name].below()], name, &mut work.side, &mut work.via);
        let difference = self.layout.get(self.words, lowest);
        self.flip(&work.side, difference, &mut work.changed);
        let value = self.names[name].value;
        for (array, slot) in slots.into_iter().enumerate() {
            let next = self.names[name].next[array];
            self.relink(array, slot, name, next);
        }
        // The last name moves to the place that is free.
        let last = self.head.names as usize - 1;
        if name != last {
            let slots = self.slots_of(self.names[last].hash);
            for (array, slot) in slots.into_iter().enumerate() {
                self.relink(array, slot, last, L::to(Some(name)));
            }
            self.names[name] = self.names[last];
        }
        self.head.names -= 1;
        self.make_root(lowest);
        Ok(value)
    }

    /// Lets what leads to a name, in the list of a slot, lead elsewhere.
    #[inline]
    fn relink(&mut self, array: usize, slot: u32, name: usize, to: L) {
        let first = &mut self.firsts[slot as usize];
        if first.index() == Some(name) {
            *first = to;
            return;
        }
        let mut at = first.index();
        while let Some(before) = at {
            let next = &mut self.names[before].next[array];
            if next.index() == Some(name) {
                *next = to;
                return;
            }
            at = next.index();
        }
        unreachable!("a name is in the lists of its slots");
    }

    /// Puts a name behind the others, for [`settle`](Self::settle) to find it there.
    #[inline]
    pub(super) fn add(&mut self, hash: u64, value: u16) -> Result<(), Refused> {
        let at = self.head.names as usize;
        let name = self.names.get_mut(at).ok_or(Refused::Names)?;
        *name = Name { hash, value, ..Name::default() };
        self.head.names += 1;
        Ok(())
    }

    /// Makes graph and bits of the names that were added, under the lowest seed that suits.
    pub(super) fn settle(&mut self, colouring: &mut super::colour::Colouring) -> Result<(), Refused> {
        let suits = (0..=u8::MAX).any(|seed| self.colour(seed, colouring));
        if suits { Ok(()) } else { Err(Refused::Seeds) }
    }

    /// The names held.
    pub(super) fn held(&self) -> &[Name<L>] {
        &self.names[..self.head.names as usize]
    }
}
