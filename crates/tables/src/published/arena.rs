//! Where readers find units, and how a unit is replaced while they read.
//!
//! Units lie in fixed slots of whole cache lines. One *index word* of 32 bits per unit holds the number of
//! its slot. Other data that changes together with a unit is in the bits above it, or in memory that belongs
//! to the slot. Data that an index word leads to is never written while readers can reach it: the writer
//! fills a free slot, then stores the word (release). A reader loads it (acquire) and sees the whole new
//! unit, or the whole old one. Old slots wait in a queue until [`crate::reclaim::epoch`] says that no reader
//! can still be in them.
//!
//! So the data that a pinned reader reaches through a loaded index word is not written until it unpins: all
//! writes to it happen before the store that the load saw, or after the unpinning. Kernels rely on that.

use crate::prefetch::{prefetch_read, prefetch_write};
use crate::reclaim::cache_line::{Line, spare_slots};
use crate::reclaim::epoch::Epochs;
use crate::reclaim::retired::Retired;
use crate::reclaim::sync::{Arc, AtomicU32, Memory, Ordering, yield_now};

/// Spare slots may use this many bytes, even in a table of which 1/128 is less.
const SPARE_BYTES: usize = 1 << 20;

/// The part that readers see.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The slots: no load crosses the end of one.
    lines: Memory<Line>,
    index: Memory<AtomicU32>,
    slot_lines: usize,
    pub(crate) epochs: Arc<Epochs>,
}

/// The state that only the writer knows: which slots are free, and which will be.
#[derive(Debug)]
pub(crate) struct FreeSlots {
    slots: Vec<u32>,
    retired: Retired<u32>,
}

/// Number of spare slots for this many units of this many lines: as for any table, unless units are so large
/// that one is enough.
fn spare_units(units: usize, slot_lines: usize) -> usize {
    let bytes = slot_lines * size_of::<Line>();
    let large = SPARE_BYTES.max(units.saturating_mul(bytes) / 128);
    spare_slots(units).min(large / bytes).max(1)
}

impl Arena {
    /// Zeroed lines for this many units of `slot_lines` each, which the caller may fill, followed by the
    /// spare slots.
    pub(crate) fn memory(units: usize, slot_lines: usize) -> Memory<Line> {
        Memory::zeroed((units + spare_units(units, slot_lines)) * slot_lines)
    }

    /// The arena of this many units in a [`memory`](Self::memory), and the writer's state for it.
    pub(crate) fn new(
        lines: Memory<Line>,
        units: usize,
        slot_lines: usize,
        epochs: Arc<Epochs>,
    ) -> (Self, FreeSlots) {
        let slots = lines.len() / slot_lines;
        let mut index = Memory::zeroed(units);
        for (cell, slot) in index.iter_mut().zip(0..) {
            *cell = AtomicU32::new(slot);
        }
        let free = (units as u32..slots as u32).rev().collect(); // at most 2^24 units and 1/128 more
        (Self { lines, index, slot_lines, epochs }, FreeSlots { slots: free, retired: Retired::new() })
    }

    /// The index word of a unit. While the caller is pinned (or holds the writer's lock), the slot that it
    /// leads to does not change.
    #[inline(always)]
    pub(crate) fn word(&self, unit: u32) -> u32 {
        self.index[unit as usize].load(Ordering::Acquire)
    }

    /// The lines of a slot.
    #[inline(always)]
    pub(crate) fn lines(&self, slot: u32) -> &[Line] {
        let start = slot as usize * self.slot_lines;
        &self.lines[start..start + self.slot_lines]
    }

    /// Index words, the lines of all slots, and the number of lines per slot: for kernels.
    #[inline(always)]
    pub(crate) fn parts(&self) -> (&[AtomicU32], &[Line], usize) {
        (&self.index, &self.lines, self.slot_lines)
    }

    /// Number of slots, including free ones.
    pub(crate) fn slots(&self) -> usize {
        self.lines.len() / self.slot_lines
    }

    /// Prefetches the first lines of a slot, to be copied soon.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32, lines: usize) {
        self.lines(slot).iter().take(lines).for_each(prefetch_read);
    }

    /// Prefetches the first lines to which the next published unit will be written.
    #[inline]
    pub(crate) fn prefetch_spare(&self, spares: &FreeSlots, lines: usize) {
        if let Some(&slot) = spares.slots.last() {
            self.lines(slot).iter().take(lines).for_each(prefetch_write);
        }
    }

    /// Prefetches the index word of a unit that will be published soon. Not for writing: that takes the line from readers
    /// early, and was not faster (ADR 54).
    #[inline]
    pub(crate) fn prefetch_word(&self, unit: u32) {
        prefetch_read(&self.index[unit as usize]);
    }

    /// Copies the words in a slot.
    pub(crate) fn copy(&self, slot: u32, words: &mut [u64]) {
        for (words, line) in words.as_chunks_mut::<8>().0.iter_mut().zip(self.lines(slot)) {
            for (word, cell) in words.iter_mut().zip(&line.0) {
                *word = cell.load(Ordering::Relaxed);
            }
        }
    }

    /// Sets the index word of a unit that no reader can reach yet.
    pub(crate) fn set_word(&self, unit: u32, word: u32) {
        self.index[unit as usize].store(word, Ordering::Relaxed);
    }

    /// Writes words to a free slot and returns its number. Waits for readers only when no slot is free.
    #[inline]
    pub(crate) fn fill(&self, spares: &mut FreeSlots, words: &[u64]) -> u32 {
        let slot = self.free_slot(spares);
        for (line, words) in self.lines(slot).iter().zip(words.as_chunks::<8>().0) {
            line.write(words);
        }
        slot
    }

    /// Leads readers of a unit from an old slot to the one in this index word. Returns the tag under which
    /// the old slot was retired.
    #[inline]
    pub(crate) fn lead(&self, spares: &mut FreeSlots, unit: u32, word: u32, old: u32) -> u64 {
        self.index[unit as usize].store(word, Ordering::Release);
        let tag = self.epochs.retire();
        spares.retired.push(tag, old);
        tag
    }

    #[inline]
    fn free_slot(&self, spares: &mut FreeSlots) -> u32 {
        loop {
            if let Some(slot) = spares.slots.pop() {
                return slot;
            }
            let FreeSlots { slots, retired } = spares;
            if !retired.reclaim(&self.epochs, |slot| slots.push(slot)) {
                yield_now();
            }
        }
    }

    /// Bytes of memory used: slots, including spare ones, and index.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>() + self.index.len() * size_of::<AtomicU32>() + size_of::<Self>()
    }
}

#[cfg(loom)]
#[cfg(test)]
mod tests {
    use super::*;

    /// One unit and two publications, more than there are spare slots. In every interleaving of the threads,
    /// a reader sees both ends of a unit agree with each other and with the bits in its index word.
    #[test]
    fn loom_a_reader_sees_one_version_of_a_unit() {
        const SLOT_BITS: u32 = 24;
        loom::model(|| {
            let epochs = Arc::new(Epochs::new());
            let (arena, mut spares) = Arena::new(Memory::zeroed(2), 1, 1, epochs);
            let arena = Arc::new(arena);
            let reader = {
                let arena = Arc::clone(&arena);
                loom::thread::spawn(move || {
                    let cell = arena.epochs.register();
                    for _ in 0..2 {
                        arena.epochs.pin(&cell);
                        let word = arena.word(0);
                        let words = &arena.lines(word & ((1 << SLOT_BITS) - 1))[0].0;
                        assert_eq!(words[0].load(Ordering::Relaxed), u64::from(word >> SLOT_BITS));
                        assert_eq!(words[7].load(Ordering::Relaxed), u64::from(word >> SLOT_BITS));
                        cell.unpin();
                    }
                })
            };
            for version in 1..=2 {
                let old = arena.word(0) & ((1 << SLOT_BITS) - 1);
                let slot = arena.fill(&mut spares, &[version; 8]);
                arena.lead(&mut spares, 0, slot | (version as u32) << SLOT_BITS, old);
            }
            reader.join().unwrap();
        });
    }
}
