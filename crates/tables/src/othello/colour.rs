//! Computes a whole range at once: its graph and the contents of all its slots, for one seed.

use super::graph::{GraphMut, SlotLink, TreeLinks};

/// The names of the range to compute, and working memory that is reused from one range to the next.
#[derive(Debug, Default)]
pub(super) struct Colouring {
    names: Vec<(u64, u16)>,
    edges: Vec<Edge>,
    /// The last name at each slot, plus one; 0 if there is none.
    last: Vec<u32>,
    /// The contents of each slot; [`UNSEEN`] for slots not yet reached.
    contents: Vec<u32>,
    /// Slots whose other names are still to be followed, with the name by which each was reached.
    open: Vec<(u32, u32)>,
}

/// A name between its two slots.
#[derive(Debug, Clone, Copy)]
struct Edge {
    pair: [u32; 2],
    /// The previous name at each of the two slots, plus one.
    before: [u32; 2],
    /// The XOR of the two slots' contents.
    difference: u32,
}

/// Marks a slot without contents: contents have at most 24 bits.
const UNSEEN: u32 = u32::MAX;

impl Colouring {
    /// Takes the names of a range.
    pub(super) fn take(&mut self, names: impl Iterator<Item = (u64, u16)>) {
        self.names.clear();
        self.names.extend(names);
    }

    /// Adds one name.
    pub(super) fn push(&mut self, hash: u64, value: u16) {
        self.names.push((hash, value));
    }

    /// Removes the last name.
    pub(super) fn pop(&mut self) {
        self.names.pop();
    }

    /// A hash that occurs twice.
    pub(super) fn twice(&mut self) -> Option<u64> {
        self.names.sort_unstable();
        self.names.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[0].0)
    }
}

impl<L: SlotLink> GraphMut<'_, L> {
    /// Computes graph and bits of the names in `work` for this seed. Returns whether the graph has no cycle.
    /// If it has one, graph and bits are unusable.
    ///
    /// Trees are followed from their lowest slot, whose content is 0. A slot that is reached twice closes a
    /// cycle. Every tree of more than one slot has its lowest slot in the first array.
    pub(super) fn colour(&mut self, seed: u8, work: &mut Colouring) -> bool {
        let Colouring { names, edges, last, contents, open } = work;
        let (layout, places) = (self.layout, &self.layout.places);
        (self.head.seed, self.head.names) = (seed, names.len() as u32); // at most the capacity
        self.ties.fill(TreeLinks::default());
        last.clear();
        last.resize(self.ties.len(), 0);
        edges.clear();
        edges.extend(names.iter().zip(1..).map(|(&(hash, value), number)| {
            let pair = places.pair(hash, seed);
            let before = pair.map(|slot| std::mem::replace(&mut last[slot as usize], number));
            Edge { pair, before, difference: places.difference(hash, value) }
        }));
        contents.clear();
        contents.resize(self.ties.len(), UNSEEN);
        for root in 0..places.slots[0] {
            if contents[root as usize] != UNSEEN {
                continue;
            }
            contents[root as usize] = 0;
            open.clear();
            open.push((root, 0));
            while let Some((slot, by)) = open.pop() {
                let array = usize::from(slot >= places.slots[0]);
                let mut next = last[slot as usize];
                while let Some(name) = (next as usize).checked_sub(1) {
                    let Edge { pair, before, difference } = edges[name];
                    if next != by {
                        let other = pair[1 - array];
                        if contents[other as usize] != UNSEEN {
                            return false;
                        }
                        contents[other as usize] = contents[slot as usize] ^ difference;
                        self.hang(other, slot, names[name].0);
                        open.push((other, next));
                    }
                    next = before[array];
                }
            }
        }
        self.words.fill(0);
        for (slot, &contents) in (0..).zip(&*contents) {
            if contents != UNSEEN {
                layout.flip(self.words, slot, contents);
            }
        }
        true
    }
}
