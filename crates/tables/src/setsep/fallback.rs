//! Fallback lists: the keys of marked groups, stored beside the slots of their blocks.
//!
//! Each slot has a *head*: the first line of the block's list plus one, or 0 for none. Heads lie in a
//! separate array that is read only for keys of marked groups. Heads and lines follow the rule of slots
//! ([`crate::published::arena`]): data that an index word leads to is never written while readers can reach
//! it, and lines wait for readers as slots do.
//!
//! Lines come in segments that are added when needed and double in size, so an empty fallback costs nothing.
//! Freed lines are reused.

use super::params::{KEYS_PER_LINE, Params};
use super::structure::Generation;
use crate::published::arena::FreeSlots;
use crate::reclaim::cache_line::Line;
use crate::reclaim::epoch::Epochs;
use crate::reclaim::retired::Retired;
use crate::reclaim::sync::{AtomicU32, Memory, Ordering, yield_now};
use std::sync::OnceLock;

/// Lines in the first segment; each further segment has twice as many.
const FIRST_SEGMENT: u32 = if cfg!(loom) { 2 } else { 64 };
const SEGMENTS: usize = 26;

/// The part that readers see.
#[derive(Debug)]
pub(crate) struct Lists {
    /// The list head of the block in each slot.
    heads: Memory<AtomicU32>,
    segments: [OnceLock<Box<[Line]>>; SEGMENTS],
}

/// The state that only the writer knows: which lines are free, and how many are used.
#[derive(Debug)]
pub(crate) struct ListWriter {
    free: Vec<u32>,
    fresh: u32,
    limit: u32,
    retired: Retired<u32>,
    /// Lines used by each partition.
    pub(super) used: Vec<u32>,
    /// Number of keys in all lists.
    pub(super) keys: u64,
}

/// Number of lines that this many keys of one block need.
pub(super) fn lines_for(keys: usize) -> u32 {
    keys.div_ceil(KEYS_PER_LINE) as u32 // at most a block's keys
}

impl Lists {
    /// Empty lists for this many slots.
    pub(super) fn new(params: &Params, slots: usize) -> (Self, ListWriter) {
        let partitions = params.partitions().get();
        let lines = params.fallback_lines().saturating_mul(partitions);
        // A partition's old and new lists may exist at the same time, and the same number of lines again may
        // wait for readers.
        let limit = lines.saturating_mul(3).saturating_add(64).min(FIRST_SEGMENT << (SEGMENTS - 1));
        let lists = Self { heads: Memory::zeroed(slots), segments: std::array::from_fn(|_| OnceLock::new()) };
        let used = vec![0; partitions as usize];
        (lists, ListWriter { free: Vec::new(), fresh: 0, limit, retired: Retired::new(), used, keys: 0 })
    }

    fn line(&self, line: u32) -> &Line {
        let at = line + FIRST_SEGMENT;
        let segment = at.ilog2() - FIRST_SEGMENT.ilog2();
        let size = FIRST_SEGMENT << segment;
        let lines =
            self.segments[segment as usize].get_or_init(|| (0..size).map(|_| Line::new([0; 8])).collect());
        &lines[(at - size) as usize]
    }

    /// The lines of the list of the block in a slot. Each line has up to six (hash, value) pairs in ascending
    /// order.
    ///
    /// A line contains the number of the next line plus one (0 for none); six values, one byte each, and
    /// their count; and the six hashes.
    fn lines(&self, slot: u32) -> impl Iterator<Item = (u32, &Line)> + '_ {
        let follow = |link: u32| link.checked_sub(1).map(|number| (number, self.line(number)));
        let head = self.heads[slot as usize].load(Ordering::Relaxed);
        std::iter::successors(follow(head), move |(_, line)| follow(line.0[0].load(Ordering::Relaxed) as u32))
    }

    /// The pairs of the list of the block in a slot, ascending by hash.
    pub(super) fn pairs(&self, slot: u32) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.lines(slot).flat_map(|(_, line)| {
            let values = line.0[1].load(Ordering::Relaxed);
            let count = (values >> 48) as usize;
            (0..count.min(KEYS_PER_LINE))
                .map(move |i| (line.0[2 + i].load(Ordering::Relaxed), (values >> (8 * i)) as u8))
        })
    }

    /// Writes pairs to free lines. Returns the first line's number plus one, or 0 if there are no pairs.
    fn write(&self, writer: &mut ListWriter, epochs: &Epochs, pairs: &[(u64, u8)]) -> u32 {
        let mut next = 0;
        for chunk in pairs.chunks(KEYS_PER_LINE).rev() {
            let number = writer.free_line(epochs);
            let line = self.line(number);
            let values = chunk.iter().rev().fold(0, |values, &(_, value)| values << 8 | u64::from(value));
            line.0[0].store(next.into(), Ordering::Relaxed);
            line.0[1].store(values | (chunk.len() as u64) << 48, Ordering::Relaxed);
            for (cell, &(hash, _)) in line.0[2..].iter().zip(chunk) {
                cell.store(hash, Ordering::Relaxed);
            }
            next = number + 1;
        }
        next
    }

    /// Bytes of memory used.
    pub(super) fn bytes(&self) -> usize {
        let lines: usize = self.segments.iter().filter_map(OnceLock::get).map(|lines| lines.len()).sum();
        lines * size_of::<Line>() + self.heads.len() * size_of::<AtomicU32>()
    }
}

impl ListWriter {
    /// Takes a free line. It waits for readers only when the maximum number of lines is in use.
    fn free_line(&mut self, epochs: &Epochs) -> u32 {
        loop {
            if let Some(line) = self.free.pop() {
                return line;
            }
            let Self { free, retired, .. } = self;
            if retired.reclaim(epochs, |line| free.push(line)) {
                continue;
            }
            if self.fresh < self.limit {
                self.fresh += 1;
                return self.fresh - 1;
            }
            yield_now();
        }
    }
}

impl Generation {
    /// Replaces a block, and its list if one is given. Readers see both changes at once.
    pub(super) fn replace(
        &self,
        (spares, lists): (&mut FreeSlots, &mut ListWriter),
        block: u32,
        words: &[u64],
        list: Option<&[(u64, u8)]>,
    ) {
        let old = self.slot(block);
        let slot = self.arena.fill(spares, words);
        let head = match list {
            Some(pairs) => self.side.write(lists, &self.arena.epochs, pairs),
            None => self.side.heads[old as usize].load(Ordering::Relaxed),
        };
        self.side.heads[slot as usize].store(head, Ordering::Relaxed);
        let tag = self.arena.lead(spares, block, slot, old);
        if list.is_some() {
            self.side.lines(old).for_each(|(number, _)| lists.retired.push(tag, number));
        }
    }
}

#[cfg(loom)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::arena::Arena;
    use crate::reclaim::sync::Arc;
    use crate::setsep::layout::Layout;
    use scalebricks_types::PartitionCount;

    /// One block and two publications, more than there are spare slots. In every interleaving of the threads,
    /// a reader sees halves of a block that agree with each other and with the fallback list.
    #[test]
    fn loom_a_reader_sees_one_version_of_a_block() {
        let params = Params::new(1, 1, PartitionCount::ONE).unwrap();
        loom::model(move || {
            let epochs = Arc::new(Epochs::new());
            let (arena, mut spares) = Arena::new(Memory::zeroed(2), 1, 1, epochs);
            let (side, mut lists) = Lists::new(&params, 2);
            let (fingerprint, layout) = (params.fingerprint(), Layout::of(&params));
            let generation = Arc::new(Generation { params, fingerprint, layout, arena, side });
            let reader = {
                let generation = Arc::clone(&generation);
                loom::thread::spawn(move || {
                    let cell = generation.arena.epochs.register();
                    for _ in 0..2 {
                        generation.arena.epochs.pin(&cell);
                        let slot = generation.slot(0);
                        let words = &generation.arena.lines(slot)[0].0;
                        let first = words[0].load(Ordering::Relaxed);
                        assert_eq!(first, words[1].load(Ordering::Relaxed));
                        let listed = generation.side.pairs(slot).next();
                        assert_eq!(listed, (first > 0).then_some((first, first as u8)));
                        cell.unpin();
                    }
                })
            };
            for version in 1..=2 {
                let list = [(version, version as u8)];
                generation.replace((&mut spares, &mut lists), 0, &[version; 8], Some(&list));
            }
            reader.join().unwrap();
        });
    }
}
