//! A whole range at once: its graph and the contents of all its slots, under one seed.

use super::graph::{Graph, Link};

/// Memory for colouring a range, kept from one to the next.
#[derive(Debug, Default)]
pub(super) struct Colouring {
    /// The slots of each name.
    pairs: Vec<[u32; 2]>,
    /// What the slots of each name differ in.
    differences: Vec<u32>,
    /// What is in each slot; [`UNSEEN`] where no name led yet.
    contents: Vec<u32>,
    /// Slots whose other names are yet to be followed, and the name each was reached by.
    open: Vec<(u32, usize)>,
}

/// No contents: they have at most 24 bits.
const UNSEEN: u32 = u32::MAX;

impl<L: Link> Graph<'_, L> {
    /// Makes lists and bits of the names held, under this seed; whether their graph has no cycle. If it has one, lists and
    /// bits are of no use.
    ///
    /// Trees are followed from the lowest slot of each, which is 0, and a slot reached twice closes a cycle. Every tree of
    /// more than one slot has its lowest in the first array.
    pub(super) fn colour(&mut self, seed: u8, work: &mut Colouring) -> bool {
        let Colouring { pairs, differences, contents, open } = work;
        let (layout, places) = (self.layout, &self.layout.places);
        self.head.seed = seed;
        self.firsts.fill(L::default());
        pairs.clear();
        differences.clear();
        for (at, name) in self.names[..self.head.names as usize].iter_mut().enumerate() {
            let (hash, value) = name.pair();
            let pair = places.pair(hash, seed);
            let next = pair.map(|slot| std::mem::replace(&mut self.firsts[slot as usize], L::to(Some(at))));
            name.link(next);
            pairs.push(pair);
            differences.push(places.difference(hash, value));
        }
        contents.clear();
        contents.resize(self.firsts.len(), UNSEEN);
        for root in 0..places.slots[0] {
            if contents[root as usize] != UNSEEN {
                continue;
            }
            contents[root as usize] = 0;
            open.clear();
            open.push((root, usize::MAX));
            while let Some((slot, by)) = open.pop() {
                let array = usize::from(slot >= places.slots[0]);
                let mut next = self.firsts[slot as usize].index();
                while let Some(name) = next {
                    if name != by {
                        let other = pairs[name][1 - array];
                        if contents[other as usize] != UNSEEN {
                            return false;
                        }
                        contents[other as usize] = contents[slot as usize] ^ differences[name];
                        self.names[name].hang(1 - array);
                        open.push((other, name));
                    }
                    next = self.names[name].next(array);
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
