//! Ranges as kernels read them: as bytes at places, without bounds checks.
//!
//! # Why plain loads are sound
//! Directory words are written while they are read, and are read by atomic loads (acquire). The bytes they lead to were
//! all written before the word was (release), and are not written again before the reader unpins: [`TableView`] borrows the
//! pin. So no write runs beside a read of them: there is no race, and loads of any size and alignment, gathers among
//! them, may read them. Both facts are told in [`arena`](crate::published::arena) and
//! [`epoch`](crate::reclaim::epoch), and tested there under a model checker. What lies behind a range may be being
//! written: so no load leaves its range, see [`TableView::byte_of`].
//!
//! # Why places are in bounds
//! A scaled hash is below the number of ranges. Directory words hold numbers of slots of the arena (`Arena::new` and
//! `Generation::replace` store no others), and scaled positions are below the numbers of slots in the arrays.
#![allow(unsafe_code)]

use crate::othello::placement::Placement;
use crate::othello::structure::{Generation, Pinned, SLOT_BITS};
use crate::reclaim::cache_line::Line;
use crate::reclaim::sync::{AtomicU32, Ordering};
use crate::touched_lines::LineRecorder;

/// How large a table is, where kernels care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableSpan {
    /// It may stay in a private cache.
    Near,
    /// Its lines are on a long way.
    Far,
    /// Places in it take more than 31 bits.
    Beyond,
}

/// Lines whose bytes have places below 2^31, as gathers want them: 2 GiB.
const MAX_LINES: usize = 1 << 25;

/// Lines from which on a table is far: 1 MiB.
const FAR_LINES: usize = 1 << 14;

#[cfg(not(loom))]
#[cfg(test)]
thread_local! {
    /// Whether this thread takes all tables for far ones.
    pub(super) static ALL_FAR: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl TableSpan {
    #[inline(always)]
    pub(super) fn of(generation: &Generation) -> Self {
        #[cfg(not(loom))]
        #[cfg(test)]
        if ALL_FAR.get() {
            return Self::Far;
        }
        match generation.arena.parts().1.len() {
            ..FAR_LINES => Self::Near,
            FAR_LINES..=MAX_LINES => Self::Far,
            _ => Self::Beyond,
        }
    }
}

/// What a pinned reader reads.
#[derive(Clone, Copy)]
pub(super) struct TableView<'a> {
    directory: &'a [AtomicU32],
    lines: &'a [Line],
    /// Bytes of a slot of the arena.
    pub(super) stride: usize,
    /// Bits of a slot of a range.
    pub(super) width: u32,
    pub(super) places: Placement,
    /// What is kept of a byte's number: a slot whose width divides 32 lies in one aligned word.
    #[cfg_attr(loom, allow(dead_code, reason = "models read word by word"))]
    pub(super) keep: u32,
}

impl<'a> TableView<'a> {
    /// What is read under this pin.
    #[inline(always)]
    pub(super) fn of(pin: Pinned<'a>) -> Self {
        let generation = pin.generation();
        let (directory, lines, slot_lines) = generation.arena.parts();
        let (stride, width) = (slot_lines * size_of::<Line>(), generation.layout.width);
        let keep = if 32 % width == 0 { !3 } else { !0 };
        Self { directory, lines, stride, width, places: generation.layout.places, keep }
    }

    /// The directory word of a range.
    ///
    /// # Safety
    /// There must be such a range.
    #[inline(always)]
    pub(super) unsafe fn word(&self, range: u32) -> u32 {
        // SAFETY: the caller's word.
        let cell = unsafe { self.directory.get_unchecked(range as usize) };
        #[cfg(all(test, not(loom)))]
        crate::touched_lines::note(cell, 4);
        cell.load(Ordering::Acquire)
    }

    /// Where the slot that a directory word names begins.
    #[inline(always)]
    pub(super) const fn base(&self, word: u32) -> usize {
        (word & ((1 << SLOT_BITS) - 1)) as usize * self.stride
    }

    /// The byte of a range at which four bytes begin that hold a slot: they end where the range ends, at the latest.
    #[cfg_attr(loom, allow(dead_code, reason = "models read word by word"))]
    #[inline(always)]
    pub(super) const fn byte_of(&self, bit: u32) -> u32 {
        let (byte, last) = ((bit / 8) & self.keep, self.stride as u32 - 4); // a partition fits a delta of 64 MiB
        if byte < last { byte } else { last }
    }

    /// The lowest byte of all.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(super) const fn bytes(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    /// The four bytes from this one on.
    ///
    /// # Safety
    /// They must be those of a range that was reached under the pin.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(super) unsafe fn four(&self, byte: u32) -> u32 {
        // SAFETY: the caller's word; they are not being written, as told above.
        unsafe { self.bytes().add(byte as usize).cast::<u32>().read_unaligned() }
    }

    /// The bits of a slot from this bit of a range on, and others above them.
    ///
    /// # Safety
    /// A range must begin at byte `base`, be reached under the pin, and have a slot there.
    #[cfg(all(target_endian = "little", not(loom)))]
    #[inline(always)]
    pub(super) unsafe fn bits(&self, base: usize, bit: u32) -> u32 {
        let byte = self.byte_of(bit);
        // SAFETY: four bytes of the range, which are not being written, as told above.
        let held = unsafe {
            let bytes = self.lines.as_ptr().cast::<u8>().add(base + byte as usize);
            #[cfg(all(test, not(loom)))]
            crate::touched_lines::note(bytes, 4);
            bytes.cast::<u32>().read_unaligned()
        };
        held >> (bit - 8 * byte)
    }

    /// The same word by word.
    ///
    /// # Safety
    /// As above.
    #[cfg(not(all(target_endian = "little", not(loom))))]
    #[inline(always)]
    pub(super) unsafe fn bits(&self, base: usize, bit: u32) -> u32 {
        let word = |at: usize| self.lines[at / 8].0[at % 8].load(Ordering::Relaxed);
        let (at, shift) = (base / 8 + bit as usize / 64, bit % 64);
        let rest = if shift + self.width > 64 { word(at + 1) << (64 - shift) } else { 0 };
        (word(at) >> shift | rest) as u32
    }

    /// Tells the lines that a lookup reads: those of directory word and slots.
    pub(super) fn touched(&self, hash: u64, lines: &mut LineRecorder<'_>) {
        let cell = &self.directory[self.places.range(hash) as usize];
        lines.read(cell);
        let word = cell.load(Ordering::Acquire);
        for slot in self.places.pair(hash, (word >> SLOT_BITS) as u8) {
            let byte = self.base(word) + self.byte_of(slot * self.width) as usize;
            lines.read_bytes(self.lines.as_ptr().cast::<u8>().wrapping_add(byte), 4);
        }
    }

    /// Asks for the line of a byte, to be read soon; any place will do.
    #[inline(always)]
    pub(super) fn prefetch(&self, byte: usize) {
        crate::prefetch::prefetch_item(self.lines, byte / size_of::<Line>());
    }
}
