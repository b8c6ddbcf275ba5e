//! Where readers find ranges, and how a range is replaced under them.
//!
//! Ranges lie in fixed slots of whole cache lines. One *directory word* of 32 bits a range holds the number of its slot
//! (24 bits) and its seed (8 bits), so that both change by one store. What a directory word leads to is never written
//! while it can be reached: the writer fills a free slot, then stores the word (release); a reader loads it (acquire) and
//! sees the whole new range with its seed, or the whole old one with its own. Old slots wait in a queue until
//! [`crate::publish::epoch`] says that no reader can still be in them.
//!
//! So what a pinned reader reaches through a word it loaded is, until it unpins, memory that no one writes. Kernels
//! rely on that.

use crate::prefetch::{prefetch_read, prefetch_write};
use crate::publish::epoch::Epochs;
use crate::publish::line::{Line, spare_slots};
use crate::publish::queue::Retired;
use crate::publish::sync::{Arc, AtomicU32, Memory, Ordering, yield_now};

/// Bits of a slot's number in a directory word; the seed is above.
pub(super) const SLOT_BITS: u32 = 24;

/// Bytes of spare slots that are worth having beside one.
const SPARE_BYTES: usize = 1 << 20;

/// What readers see.
#[derive(Debug)]
pub(super) struct Arena {
    /// The slots: no load leaves one.
    lines: Memory<Line>,
    directory: Memory<AtomicU32>,
    slot_lines: usize,
    pub(super) epochs: Arc<Epochs>,
}

/// What only the writer knows: what is free, and what will be.
#[derive(Debug)]
pub(super) struct Spares {
    slots: Vec<u32>,
    retired: Retired<u32>,
}

/// Free slots beside so many ranges of so many lines: as of any table, unless ranges are so large that one is enough.
fn spare_ranges(ranges: usize, slot_lines: usize) -> usize {
    let large = SPARE_BYTES.max(ranges.saturating_mul(slot_lines * size_of::<Line>()) / 128);
    spare_slots(ranges).min(large / (slot_lines * size_of::<Line>())).max(1)
}

impl Arena {
    /// Zeroed lines for this many ranges of `slot_lines` each, which the caller may fill, and behind them what else an
    /// arena needs.
    pub(super) fn memory(ranges: usize, slot_lines: usize) -> Memory<Line> {
        Memory::zeroed((ranges + spare_ranges(ranges, slot_lines)) * slot_lines)
    }

    /// The arena of the ranges in a [`memory`](Self::memory), with these seeds, and the writer's view of it.
    pub(super) fn new(
        lines: Memory<Line>,
        seeds: &[u8],
        slot_lines: usize,
        epochs: Arc<Epochs>,
    ) -> (Self, Spares) {
        let (ranges, slots) = (seeds.len(), lines.len() / slot_lines);
        let mut directory = Memory::zeroed(ranges);
        for ((cell, slot), &seed) in directory.iter_mut().zip(0..).zip(seeds) {
            *cell = AtomicU32::new(slot | u32::from(seed) << SLOT_BITS);
        }
        let free = (ranges as u32..slots as u32).rev().collect(); // fewer than 2^24, see MAX_RANGES
        (Self { lines, directory, slot_lines, epochs }, Spares { slots: free, retired: Retired::new() })
    }

    /// The slot of a range and its seed. While the caller is pinned (or holds the writer's lock), what they lead to stays.
    #[inline(always)]
    pub(super) fn find(&self, range: u32) -> (u32, u8) {
        let word = self.directory[range as usize].load(Ordering::Acquire);
        (word & ((1 << SLOT_BITS) - 1), (word >> SLOT_BITS) as u8)
    }

    /// The lines of a slot.
    #[inline(always)]
    pub(super) fn lines(&self, slot: u32) -> &[Line] {
        let start = slot as usize * self.slot_lines;
        &self.lines[start..start + self.slot_lines]
    }

    /// Directory, lines of all slots, and lines of each: for kernels.
    #[inline(always)]
    pub(super) fn parts(&self) -> (&[AtomicU32], &[Line], usize) {
        (&self.directory, &self.lines, self.slot_lines)
    }

    /// Asks for the first lines of a range, to be copied soon.
    #[inline]
    pub(super) fn prefetch(&self, range: u32) {
        self.lines(self.find(range).0).iter().take(8).for_each(prefetch_read);
    }

    /// Asks for the first lines that the next range to be published will be written to.
    #[inline]
    pub(super) fn prefetch_spare(&self, spares: &Spares) {
        if let Some(&slot) = spares.slots.last() {
            self.lines(slot).iter().take(8).for_each(prefetch_write);
        }
    }

    /// Copies the words of the range in a slot.
    pub(super) fn copy(&self, slot: u32, words: &mut [u64]) {
        for (words, line) in words.as_chunks_mut::<8>().0.iter_mut().zip(self.lines(slot)) {
            for (word, cell) in words.iter_mut().zip(&line.0) {
                *word = cell.load(Ordering::Relaxed);
            }
        }
    }

    /// Replaces a range and its seed. Waits for readers only when nothing is free.
    pub(super) fn publish(&self, spares: &mut Spares, range: u32, words: &[u64], seed: u8) {
        let (old, _) = self.find(range);
        let slot = self.free_slot(spares);
        for (line, words) in self.lines(slot).iter().zip(words.as_chunks::<8>().0) {
            line.write(words);
        }
        self.directory[range as usize].store(slot | u32::from(seed) << SLOT_BITS, Ordering::Release);
        spares.retired.push(self.epochs.retire(), old);
    }

    fn free_slot(&self, spares: &mut Spares) -> u32 {
        loop {
            if let Some(slot) = spares.slots.pop() {
                return slot;
            }
            let Spares { slots, retired } = spares;
            if !retired.reclaim(&self.epochs, |slot| slots.push(slot)) {
                yield_now();
            }
        }
    }

    /// Bytes held: slots, spare ones among them, and directory.
    pub(super) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
            + self.directory.len() * size_of::<AtomicU32>()
            + size_of::<Self>()
    }
}

#[cfg(loom)]
#[cfg(test)]
mod tests {
    use super::*;

    /// One range, two publications, more than there are spare slots: a reader sees both ends of a range and its seed
    /// agree, however the threads interleave.
    #[test]
    fn loom_a_reader_sees_one_version_of_a_range() {
        loom::model(|| {
            let epochs = Arc::new(Epochs::new());
            let (arena, mut spares) = Arena::new(Memory::zeroed(2), &[0], 1, epochs);
            let arena = Arc::new(arena);
            let reader = {
                let arena = Arc::clone(&arena);
                loom::thread::spawn(move || {
                    let cell = arena.epochs.register();
                    for _ in 0..2 {
                        arena.epochs.pin(&cell);
                        let (slot, seed) = arena.find(0);
                        let words = &arena.lines(slot)[0].0;
                        assert_eq!(words[0].load(Ordering::Relaxed), u64::from(seed));
                        assert_eq!(words[7].load(Ordering::Relaxed), u64::from(seed));
                        cell.unpin();
                    }
                })
            };
            for version in 1..=2 {
                arena.publish(&mut spares, 0, &[version; 8], version as u8);
            }
            reader.join().unwrap();
        });
    }
}
