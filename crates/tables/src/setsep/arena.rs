//! Where readers find blocks, and how a block is replaced under them.
//!
//! Blocks lie in fixed slots of whole cache lines. One *index word* of 32 bits a block names its slot, and beside each
//! slot, in an array of its own that only keys of marked groups touch, lies its *head*: the first line of the block's
//! fallback list plus one, 0 for none. What an index word leads to (slot, head, lines) is never written while it can
//! be reached: the writer fills a free slot with its head, and free lines, then stores the index word (release). A
//! reader loads it (acquire) and sees the whole new block, or the whole old one. Old memory waits in a queue until
//! [`crate::publish::epoch`] says that no reader can still be in it.
//!
//! So what a pinned reader reaches through an index word it loaded is, until it unpins, memory that no one writes:
//! all writes to it happen before the store that the load saw, or after the unpinning. Kernels rely on that.
//!
//! Fallback lines come in segments that are added when needed and double in size, so an empty fallback costs
//! nothing; lines given back are used again.

use super::params::KEYS_PER_LINE;
use crate::prefetch::{prefetch_read, prefetch_write};
use crate::publish::epoch::Epochs;
use crate::publish::queue::Retired;
use crate::publish::sync::{Arc, AtomicU32, Memory, Ordering, yield_now};
use std::sync::OnceLock;

pub(super) use crate::publish::line::{Line, spare_slots};

/// Lines in the first segment of fallback lines; each further one has twice as many.
const FIRST_SEGMENT: u32 = if cfg!(loom) { 2 } else { 64 };
const SEGMENTS: usize = 26;

/// What readers see.
#[derive(Debug)]
pub(super) struct Arena {
    lines: Memory<Line>,
    /// The slot of each block.
    index: Memory<AtomicU32>,
    /// The fallback list of the block in each slot.
    heads: Memory<AtomicU32>,
    segments: [OnceLock<Box<[Line]>>; SEGMENTS],
    slot_lines: usize,
    epochs: Arc<Epochs>,
}

/// What only the writer knows: what is free, and what will be.
#[derive(Debug)]
pub(super) struct Spares {
    slots: Vec<u32>,
    lines: Vec<u32>,
    fresh_line: u32,
    line_limit: u32,
    retired: Retired<Place>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Slot(u32),
    Line(u32),
}

impl Arena {
    /// Zeroed lines for this many blocks of `slot_lines` each, and behind them for the spare slots.
    pub(super) fn memory(blocks: usize, slot_lines: usize, spare: usize) -> Memory<Line> {
        Memory::zeroed((blocks + spare) * slot_lines)
    }

    /// The arena of the blocks in `lines`, `slot_lines` each, the last `spare` of them free, and the writer's view of it,
    /// with at most `line_limit` fallback lines in use.
    pub(super) fn new(
        lines: Memory<Line>,
        slot_lines: usize,
        spare: usize,
        line_limit: u32,
        epochs: Arc<Epochs>,
    ) -> (Self, Spares) {
        let slots = lines.len() / slot_lines;
        let blocks = slots.saturating_sub(spare);
        let mut index = Memory::zeroed(blocks);
        for (cell, slot) in index.iter_mut().zip(0..) {
            *cell = AtomicU32::new(slot);
        }
        let arena = Self {
            lines,
            index,
            heads: Memory::zeroed(slots),
            segments: std::array::from_fn(|_| OnceLock::new()),
            slot_lines,
            epochs,
        };
        let spares = Spares {
            slots: (blocks as u32..slots as u32).rev().collect(), // at most 2^24 blocks and 1/128 more
            lines: Vec::new(),
            fresh_line: 0,
            // Old and new lists of a partition may exist side by side, and as much again may wait for readers.
            line_limit: line_limit.saturating_mul(3).saturating_add(64).min(FIRST_SEGMENT << (SEGMENTS - 1)),
            retired: Retired::new(),
        };
        (arena, spares)
    }

    /// The slot of a block. While the caller is pinned (or holds the writer's lock), what it leads to stays.
    #[inline(always)]
    pub(super) fn slot(&self, block: u32) -> u32 {
        self.index[block as usize].load(Ordering::Acquire)
    }

    /// The lines of the block in a slot.
    #[inline(always)]
    pub(super) fn block(&self, slot: u32) -> &[Line] {
        let start = slot as usize * self.slot_lines;
        &self.lines[start..start + self.slot_lines]
    }

    /// The slots of all blocks, and the lines of all slots: for kernels.
    #[inline(always)]
    pub(super) fn parts(&self) -> (&[AtomicU32], &[Line]) {
        (&self.index, &self.lines)
    }

    /// Asks for the lines of a block, to be copied soon.
    #[inline]
    pub(super) fn prefetch_block(&self, block: u32) {
        self.block(self.slot(block)).iter().for_each(prefetch_read);
    }

    /// Asks for the lines that the next block to be published will be written to.
    #[inline]
    pub(super) fn prefetch_spare(&self, spares: &Spares) {
        if let Some(&slot) = spares.slots.last() {
            self.block(slot).iter().for_each(prefetch_write);
        }
    }

    /// Copies the words of the block in a slot.
    pub(super) fn copy_block(&self, slot: u32, words: &mut [u64]) {
        for (word, cell) in words.iter_mut().zip(self.block(slot).iter().flat_map(|line| &line.0)) {
            *word = cell.load(Ordering::Relaxed);
        }
    }

    fn line(&self, line: u32) -> &Line {
        let at = line + FIRST_SEGMENT;
        let segment = at.ilog2() - FIRST_SEGMENT.ilog2();
        let size = FIRST_SEGMENT << segment;
        let lines =
            self.segments[segment as usize].get_or_init(|| (0..size).map(|_| Line::new([0; 8])).collect());
        &lines[(at - size) as usize]
    }

    /// The fallback list of the block in a slot: lines of up to six (hash, value) pairs in ascending order.
    ///
    /// A line: the number of the next line plus one (0 for none); six values, a byte each, and their count; the six
    /// hashes.
    fn fallback_lines(&self, slot: u32) -> impl Iterator<Item = (u32, &Line)> + '_ {
        let follow = |link: u32| link.checked_sub(1).map(|number| (number, self.line(number)));
        let head = self.heads[slot as usize].load(Ordering::Relaxed);
        std::iter::successors(follow(head), move |(_, line)| follow(line.0[0].load(Ordering::Relaxed) as u32))
    }

    /// The fallback pairs of the block in a slot, ascending by hash.
    pub(super) fn fallback(&self, slot: u32) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.fallback_lines(slot).flat_map(|(_, line)| {
            let values = line.0[1].load(Ordering::Relaxed);
            let count = (values >> 48) as usize;
            (0..count.min(KEYS_PER_LINE))
                .map(move |i| (line.0[2 + i].load(Ordering::Relaxed), (values >> (8 * i)) as u8))
        })
    }

    /// Replaces a block, and its fallback list if one is given. Readers see both change at once. Waits for readers
    /// only when nothing is free.
    pub(super) fn publish(
        &self,
        spares: &mut Spares,
        block: u32,
        words: &[u64],
        fallback: Option<&[(u64, u8)]>,
    ) {
        let old = self.slot(block);
        let slot = self.free_slot(spares);
        for (line, words) in self.block(slot).iter().zip(words.as_chunks::<8>().0) {
            line.write(words);
        }
        let head = match fallback {
            Some(pairs) => self.write_list(spares, pairs),
            None => self.heads[old as usize].load(Ordering::Relaxed),
        };
        self.heads[slot as usize].store(head, Ordering::Relaxed);
        self.index[block as usize].store(slot, Ordering::Release);
        let tag = self.epochs.retire();
        spares.retired.push(tag, Place::Slot(old));
        if fallback.is_some() {
            for (number, _) in self.fallback_lines(old) {
                spares.retired.push(tag, Place::Line(number));
            }
        }
    }

    /// Writes pairs to free lines; the first line's number plus one, or 0 if there are no pairs.
    fn write_list(&self, spares: &mut Spares, pairs: &[(u64, u8)]) -> u32 {
        let mut next = 0;
        for chunk in pairs.chunks(KEYS_PER_LINE).rev() {
            let number = self.free_line(spares);
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

    fn free_slot(&self, spares: &mut Spares) -> u32 {
        loop {
            if let Some(slot) = spares.slots.pop() {
                return slot;
            }
            if !self.reclaim(spares) {
                yield_now();
            }
        }
    }

    fn free_line(&self, spares: &mut Spares) -> u32 {
        loop {
            if let Some(line) = spares.lines.pop() {
                return line;
            }
            if !self.reclaim(spares) || spares.lines.is_empty() {
                if spares.fresh_line < spares.line_limit {
                    spares.fresh_line += 1;
                    return spares.fresh_line - 1;
                }
                yield_now();
            }
        }
    }

    /// Moves what no reader can see any more from the queue to the free lists; whether there was any.
    fn reclaim(&self, spares: &mut Spares) -> bool {
        let Spares { slots, lines, retired, .. } = spares;
        retired.reclaim(&self.epochs, |place| match place {
            Place::Slot(slot) => slots.push(slot),
            Place::Line(line) => lines.push(line),
        })
    }

    /// Bytes held: slots, index, fallback segments.
    pub(super) fn bytes(&self) -> usize {
        let segments: usize = self.segments.iter().filter_map(OnceLock::get).map(|lines| lines.len()).sum();
        (self.lines.len() + segments) * size_of::<Line>()
            + (self.index.len() + self.heads.len()) * size_of::<AtomicU32>()
            + size_of::<Self>()
    }
}

#[cfg(loom)]
#[cfg(test)]
mod tests {
    use super::*;

    /// One block, one spare slot, two publications: a reader sees the halves of a block agree with each other and with
    /// the fallback list, however the threads interleave.
    #[test]
    fn loom_a_reader_sees_one_version_of_a_block() {
        loom::model(|| {
            let epochs = Arc::new(Epochs::new());
            let (arena, mut spares) = Arena::new(Arena::memory(1, 1, 1), 1, 1, 4, epochs);
            let arena = Arc::new(arena);
            let reader = {
                let arena = Arc::clone(&arena);
                loom::thread::spawn(move || {
                    let cell = arena.epochs.register();
                    for _ in 0..2 {
                        arena.epochs.pin(&cell);
                        let slot = arena.slot(0);
                        let words = &arena.block(slot)[0].0;
                        let first = words[0].load(Ordering::Relaxed);
                        assert_eq!(first, words[1].load(Ordering::Relaxed));
                        let listed = arena.fallback(slot).next();
                        assert_eq!(listed, (first > 0).then_some((first, first as u8)));
                        cell.unpin();
                    }
                })
            };
            for version in 1..=2 {
                arena.publish(&mut spares, 0, &[version; 8], Some(&[(version, version as u8)]));
            }
            reader.join().unwrap();
        });
    }
}
