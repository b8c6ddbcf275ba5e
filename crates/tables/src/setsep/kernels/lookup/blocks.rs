//! Blocks as kernels read them: as words at indices, without bounds checks.
//!
//! # Why plain loads are sound
//! Index words are written while they are read, and are read by atomic loads (acquire). The words they lead
//! to were all written before the index word (release), and are not written again before the reader unpins:
//! [`TableView`] borrows the pin. So no write is concurrent with a read of them. There is no race, and loads
//! of any size, including gathers, may read them. [`arena`](crate::published::arena) and
//! [`epoch`](crate::reclaim::epoch) explain both facts, and test them under a model checker.
//!
//! # Why indices are in bounds
//! Index words hold numbers of slots (`Arena::new` and `Generation::replace` store no others), and a slot has
//! [`slot_words`](crate::setsep::Params) words. Kernels read 8 words of choices and 64 groups, which are
//! exactly these words.
#![allow(unsafe_code)]

use crate::prefetch::prefetch_read;
use crate::reclaim::cache_line::Line;
use crate::reclaim::sync::{AtomicU32, Ordering};
use crate::setsep::linear::Rows;
use crate::setsep::structure::Pinned;

/// The data that a pinned reader reads.
#[derive(Clone, Copy)]
pub(super) struct TableView<'a> {
    index: &'a [AtomicU32],
    lines: &'a [Line],
    /// The row hash.
    pub(super) rows: Rows,
}

impl<'a> TableView<'a> {
    #[inline(always)]
    pub(super) fn of(pin: Pinned<'a>) -> Self {
        let (index, lines, _) = pin.generation().arena.parts();
        Self { index, lines, rows: pin.generation().layout.rows }
    }

    /// The slot of a block.
    ///
    /// # Safety
    /// The block must exist.
    #[inline(always)]
    pub(super) unsafe fn slot(&self, block: u32) -> u32 {
        // SAFETY: guaranteed by the caller.
        let cell = unsafe { self.index.get_unchecked(block as usize) };
        #[cfg(all(test, not(loom)))]
        crate::touched_lines::note(cell, 4);
        cell.load(Ordering::Acquire)
    }

    /// The address of word 0.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(super) const fn words(&self) -> *const u64 {
        self.lines.as_ptr().cast()
    }

    /// Reads a word.
    ///
    /// # Safety
    /// It must lie in a slot that an index word led to.
    #[inline(always)]
    pub(super) unsafe fn word(&self, at: usize) -> u64 {
        // SAFETY: in bounds, as explained above.
        let cell = unsafe { self.lines.get_unchecked(at / 8).0.get_unchecked(at % 8) };
        #[cfg(all(test, not(loom)))]
        crate::touched_lines::note(cell, 8);
        cell.load(Ordering::Relaxed)
    }

    /// Prefetches the line of a word, for a read soon. Any index is valid.
    #[inline(always)]
    pub(super) fn prefetch(&self, at: usize) {
        if let Some(line) = self.lines.get(at / 8) {
            prefetch_read(line);
        }
    }

    /// Reads half a word with a plain load; the low half is the first.
    ///
    /// # Safety
    /// As for [`word`](Self::word).
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(super) unsafe fn half(&self, at: usize) -> u32 {
        // SAFETY: in bounds and not being written, as explained above.
        unsafe { self.words().cast::<u32>().add(at).read() }
    }

    /// Reads two consecutive halves with a plain load.
    ///
    /// # Safety
    /// As for [`word`](Self::word), for both.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(super) unsafe fn pair(&self, at: usize) -> u64 {
        // SAFETY: as above; the two halves may lie in two words.
        unsafe { self.words().cast::<u32>().add(at).cast::<u64>().read_unaligned() }
    }
}
