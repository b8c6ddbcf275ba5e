//! The bits of a further switch on a graph that was made with the bits of another switch.
//!
//! Names and seeds alone determine where a name's slots are, and the parent of each slot. So after the graph
//! has changed, the bits of every other switch are adapted to it: the lowest slot of each tree is 0 in them,
//! too, and the XOR of each name's slots is its action at that switch.

use super::graph::{GraphRef, SlotLink};
use super::layout::Layout;
use super::store::{Store, with};
use crate::huge::HugeSlice;
use scalebricks_types::{PartitionId, Position};

/// One switch's bits of all held partitions, and the positions of its streams.
#[derive(Debug)]
pub(super) struct SwitchBits {
    parts: Vec<Option<HugeSlice<u64>>>,
    pub(super) positions: Vec<Position>,
}

/// A range of a switch that is adapted to a change of its graph.
pub(super) struct SwitchRange<'a> {
    store: &'a Store,
    range: u32,
    /// The switch's bits of the range.
    words: &'a mut [u64],
    /// Slots whose contents changed, in no particular order, possibly with duplicates.
    changed: &'a mut Vec<u32>,
    side: &'a mut Vec<u32>,
}

impl SwitchBits {
    /// Bits that are all 0, as in a table without names.
    pub(super) fn empty(parts: &[Option<Store>]) -> Self {
        let zeroed = |store: &Store| HugeSlice::untouched(store.all_words().len());
        let parts: Vec<_> = parts.iter().map(|part| part.as_ref().map(zeroed)).collect();
        let positions = parts.iter().map(|part| Position(part.is_some().into())).collect();
        Self { parts, positions }
    }

    /// The bits of a partition; empty if it is not held.
    pub(super) fn words(&self, partition: PartitionId) -> &[u64] {
        self.parts.get(usize::from(partition.0)).and_then(Option::as_ref).map_or(&[], |words| words)
    }

    /// The bits of one range of a held partition.
    pub(super) fn range(&self, partition: PartitionId, layout: &Layout, range: u32) -> &[u64] {
        &self.words(partition)[range as usize * layout.words..][..layout.words]
    }

    /// The action of a name that is in the graph.
    pub(super) fn get(&self, store: &Store, (partition, range): (PartitionId, u32), hash: u64) -> u16 {
        let layout = store.layout();
        value(layout, self.range(partition, layout, range), hash, store.head(range).seed)
    }

    /// A mutable view of a range of a held partition. `changed` and `side` are working memory.
    pub(super) fn follower<'a>(
        &'a mut self,
        (partition, range): (PartitionId, u32),
        store: &'a Store,
        changed: &'a mut Vec<u32>,
        side: &'a mut Vec<u32>,
    ) -> SwitchRange<'a> {
        let words = self.parts[usize::from(partition.0)].as_mut().map_or(&mut [][..], |words| words);
        let each = store.layout().words;
        changed.clear();
        SwitchRange { store, range, words: &mut words[range as usize * each..][..each], changed, side }
    }

    /// Bytes of memory used.
    pub(super) fn bytes(&self) -> usize {
        self.parts.iter().flatten().map(|words| words.len() * 8).sum()
    }
}

impl SwitchRange<'_> {
    /// Sets the action of a name in the graph, which was just added or had another action.
    pub(super) fn set(&mut self, hash: u64, action: u16) {
        let Self { store, range, words, changed, side } = self;
        with!(store, ranges => ranges.view(*range).fit(words, (hash, action), side, changed));
    }

    /// Adapts the bits after a name was removed, which splits its tree in two.
    pub(super) fn part(&mut self, hash: u64) {
        let Self { store, range, words, changed, side } = self;
        with!(store, ranges => ranges.view(*range).part(words, hash, side, changed));
    }

    /// Adapts the bits to a new seed of the graph. `old` is the previous seed, under which the other names
    /// were stored; `added` is the new name.
    pub(super) fn reseed(&mut self, old: u8, added: (u64, u16)) {
        let before = self.words.to_vec();
        let layout = *self.store.layout();
        self.paint(|hash| if hash == added.0 { added.1 } else { value(&layout, &before, hash, old) });
    }

    /// Computes all bits of the range again from the actions of its names.
    pub(super) fn paint(&mut self, action: impl FnMut(u64) -> u16) {
        let Self { store, range, words, side, .. } = self;
        with!(store, ranges => ranges.view(*range).paint(words, action, side));
    }
}

/// The XOR of a name's slots under a seed, without the checksum.
fn value(layout: &Layout, words: &[u64], hash: u64, seed: u8) -> u16 {
    let [a, b] = layout.places.pair(hash, seed).map(|slot| layout.get(words, slot));
    ((a ^ b) & ((1 << layout.places.value_bits) - 1)) as u16 // at most 16 bits
}

impl<L: SlotLink> GraphRef<'_, L> {
    /// Flips the slots below a name so that its slots have the required XOR.
    fn fit(&self, words: &mut [u64], name: (u64, u16), side: &mut Vec<u32>, changed: &mut Vec<u32>) {
        let slots = self.layout.places.pair(name.0, self.seed);
        let Some(below) = self.find(name.0, slots) else { return };
        let [a, b] = slots.map(|slot| self.layout.get(words, slot));
        self.flip(words, slots[below], a ^ b ^ self.layout.places.difference(name.0, name.1), side, changed);
    }

    /// Sets the root of each of a name's two trees to 0, after the name was removed.
    fn part(&self, words: &mut [u64], hash: u64, side: &mut Vec<u32>, changed: &mut Vec<u32>) {
        for slot in self.layout.places.pair(hash, self.seed) {
            let root = self.root(slot);
            self.flip(words, root, self.layout.get(words, root), side, changed);
        }
    }

    /// Flips bits of a slot and of all its descendants.
    fn flip(
        &self,
        words: &mut [u64],
        from: u32,
        difference: u32,
        side: &mut Vec<u32>,
        changed: &mut Vec<u32>,
    ) {
        if difference != 0 {
            self.reach(from, side);
            for &slot in &*side {
                self.layout.flip(words, slot, difference);
            }
            changed.extend_from_slice(side);
        }
    }

    /// Computes all bits, tree by tree from its root, which is 0; each slot follows from its parent.
    fn paint(&self, words: &mut [u64], mut action: impl FnMut(u64) -> u16, side: &mut Vec<u32>) {
        words.fill(0);
        // Every tree of more than one slot has its lowest slot, which is its root, in the first array.
        for root in (0..self.layout.places.slots[0]).filter(|&slot| !self.ties[slot as usize].hangs()) {
            self.reach(root, side);
            for &slot in &side[1..] {
                let Some(above) = self.above(slot) else { continue };
                let hash = self.hashes[slot as usize];
                let difference = self.layout.places.difference(hash, action(hash));
                self.layout.flip(words, slot, self.layout.get(words, above) ^ difference);
            }
        }
    }
}
