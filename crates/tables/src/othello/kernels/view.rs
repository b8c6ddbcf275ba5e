//! Ranges as kernels read them: as bytes at indices, without bounds checks.
//!
//! # Why plain loads are sound
//! Directory words are written while they are read, and are read by atomic loads (acquire). The bytes they
//! lead to were all written before the word (release), and are not written again before the reader unpins:
//! [`TableView`] borrows the pin. So no write is concurrent with a read of them. There is no race, and loads
//! of any size and alignment, including gathers, may read them. [`arena`](crate::published::arena) and
//! [`epoch`](crate::reclaim::epoch) explain both facts, and test them under a model checker. The memory after
//! a range may be written concurrently, so no load leaves its range: see [`TableView::byte_of`].
//!
//! # Why indices are in bounds
//! A scaled hash is below the number of ranges. Directory words hold numbers of slots of the arena
//! (`Arena::new` and `Generation::replace` store no others), and scaled positions are below the numbers of
//! slots in the arrays.
#![allow(unsafe_code)]

use crate::othello::placement::Placement;
use crate::othello::structure::{Pinned, SLOT_BITS};
use crate::reclaim::cache_line::Line;
use crate::reclaim::sync::{AtomicU32, Ordering};
use crate::touched_lines::LineRecorder;

/// Number of lines whose bytes have indices below 2^31, as gathers require: 2 GiB.
pub(super) const MAX_LINES: usize = 1 << 25;

/// A table of at least this many lines is far: 1 MiB.
#[cfg(all(target_arch = "x86_64", not(loom)))]
pub(super) const FAR_LINES: usize = 1 << 14;

/// The data that a pinned reader reads.
#[derive(Clone, Copy)]
pub(super) struct TableView<'a> {
    directory: &'a [AtomicU32],
    lines: &'a [Line],
    /// Bytes per slot of the arena.
    pub(super) stride: usize,
    /// Bits per slot of a range.
    pub(super) width: u32,
    pub(super) places: Placement,
    /// Mask for byte indices: a slot whose width divides 32 lies in one aligned word.
    #[cfg_attr(loom, allow(dead_code, reason = "models read word by word"))]
    pub(super) keep: u32,
}

impl<'a> TableView<'a> {
    /// The view of the data under this pin.
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
    /// The range must exist.
    #[inline(always)]
    pub(super) unsafe fn word(&self, range: u32) -> u32 {
        // SAFETY: guaranteed by the caller.
        let cell = unsafe { self.directory.get_unchecked(range as usize) };
        #[cfg(all(test, not(loom)))]
        crate::touched_lines::note(cell, 4);
        cell.load(Ordering::Acquire)
    }

    /// The byte index at which the arena slot of a directory word begins.
    #[inline(always)]
    pub(super) const fn base(&self, word: u32) -> usize {
        (word & ((1 << SLOT_BITS) - 1)) as usize * self.stride
    }

    /// The first of the four bytes of a range that hold a slot. The four bytes end at the end of the range or
    /// before.
    #[cfg_attr(loom, allow(dead_code, reason = "models read word by word"))]
    #[inline(always)]
    pub(super) const fn byte_of(&self, bit: u32) -> u32 {
        let (byte, last) = ((bit / 8) & self.keep, self.stride as u32 - 4); // a partition fits a delta of 64 MiB
        if byte < last { byte } else { last }
    }

    /// The address of the first byte.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(super) const fn bytes(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    /// Reads four bytes from this one on.
    ///
    /// # Safety
    /// They must belong to a range that was reached under the pin.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(super) unsafe fn four(&self, byte: u32) -> u32 {
        // SAFETY: guaranteed by the caller; they are not being written, as explained above.
        unsafe { self.bytes().add(byte as usize).cast::<u32>().read_unaligned() }
    }

    /// The bits of a slot that begins at this bit of a range, with unrelated bits above.
    ///
    /// # Safety
    /// A range must begin at byte `base`, be reached under the pin, and have a slot there.
    #[cfg(all(target_endian = "little", not(loom)))]
    #[inline(always)]
    pub(super) unsafe fn bits(&self, base: usize, bit: u32) -> u32 {
        let byte = self.byte_of(bit);
        // SAFETY: four bytes of the range, which are not being written, as explained above.
        let held = unsafe {
            let bytes = self.lines.as_ptr().cast::<u8>().add(base + byte as usize);
            #[cfg(all(test, not(loom)))]
            crate::touched_lines::note(bytes, 4);
            bytes.cast::<u32>().read_unaligned()
        };
        held >> (bit - 8 * byte)
    }

    /// The same, word by word.
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

    /// Records the cache lines that a lookup reads: those of directory word and slots.
    pub(super) fn touched(&self, hash: u64, lines: &mut LineRecorder<'_>) {
        let cell = &self.directory[self.places.range(hash) as usize];
        lines.read(cell);
        let word = cell.load(Ordering::Acquire);
        for slot in self.places.pair(hash, (word >> SLOT_BITS) as u8) {
            let byte = self.base(word) + self.byte_of(slot * self.width) as usize;
            lines.read_bytes(self.lines.as_ptr().cast::<u8>().wrapping_add(byte), 4);
        }
    }

    /// Prefetches the line of a byte, for a read soon. Any index is valid.
    #[inline(always)]
    pub(super) fn prefetch(&self, byte: usize) {
        crate::prefetch::prefetch_item(self.lines, byte / size_of::<Line>());
    }
}
