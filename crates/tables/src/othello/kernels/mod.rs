//! Lookups: from hashes to the XOR of a name's two slots.
//!
//! The forms are [`portable`] (also used for single names), [`avx2`] and [`avx512`]. All of them equal
//! [`Placement`](super::placement::Placement). They differ in how many names each step processes at once.
//! They read the same data: a directory word, and four bytes for each slot. A form is chosen when a reader is
//! made.

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx512;
mod portable;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod vectors;
mod view;

use super::structure::{Generation, OthelloReader, OthelloStructure, Pinned};
use crate::isa::Isa;
use crate::published::reader::FEW_KEYS;
use crate::published::{self, span};
use crate::touched_lines::LineRecorder;
use scalebricks_types::{KeyHash, NodeHint};

pub(super) use portable::one;

#[cfg(all(target_arch = "x86_64", not(loom)))]
use {avx2::Avx2, avx512::Avx512};

#[cfg(all(target_arch = "x86_64", not(loom)))]
use view::FAR_LINES;
use view::{MAX_LINES, TableView};

/// A kernel: computes one result per name. The numbers of names and results must be equal.
type BatchKernel<T> = unsafe fn(Pinned<'_>, &[KeyHash], &mut [T]);

/// The lookup kernels for an instruction set that this processor supports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup {
    /// Whether they are for tables whose indices are small enough for vector kernels.
    is_indexable: bool,
    values: BatchKernel<u16>,
    differences: BatchKernel<u32>,
}

/// The kernels of an instruction set.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[allow(unsafe_code, reason = "entered in one place, `Lookup::run`")]
trait Kernel {
    /// Looks up a batch.
    ///
    /// # Safety
    /// The processor must support the instructions, and the table must have at most
    /// [`MAX_LINES`] lines.
    unsafe fn batch<T: LookupOutput>(pin: Pinned<'_>, hashes: &[KeyHash], found: &mut [T]);
}

/// What a kernel computes from the XOR of two slots.
trait LookupOutput: Copy {
    /// The bits of the XOR that are needed, in a table with this many value and check bits.
    fn mask(value_bits: u32, check_bits: u32) -> u32;

    /// Converts these bits.
    fn of(difference: u32) -> Self;
}

/// The value.
impl LookupOutput for u16 {
    #[inline(always)]
    fn mask(value_bits: u32, _: u32) -> u32 {
        (1 << value_bits) - 1
    }

    #[inline(always)]
    fn of(difference: u32) -> Self {
        difference as Self // masked to at most 16 bits
    }
}

/// Value and checksum.
impl LookupOutput for u32 {
    #[inline(always)]
    fn mask(value_bits: u32, check_bits: u32) -> u32 {
        (1 << (value_bits + check_bits)) - 1
    }

    #[inline(always)]
    fn of(difference: u32) -> Self {
        difference
    }
}

impl published::Lookup<OthelloStructure> for Lookup {
    fn new(generation: &Generation, isa: Isa) -> Self {
        let is_indexable = span::lines(generation) <= MAX_LINES;
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if is_indexable && isa.is_available() {
            match isa {
                Isa::Portable => {}
                Isa::Avx512 | Isa::Avx512Gfni => return Self::of::<Avx512>(),
                Isa::Avx2 => return Self::of::<Avx2>(),
            }
        }
        let _ = isa;
        Self { is_indexable, values: portable::batch, differences: portable::batch }
    }

    #[inline(always)]
    fn is_for(self, generation: &Generation) -> bool {
        (span::lines(generation) <= MAX_LINES) == self.is_indexable
    }

    #[inline(always)]
    fn batch(self, pin: Pinned<'_>, hashes: &[KeyHash], values: &mut [u16]) {
        self.run(self.values, pin, hashes, values);
    }

    #[inline(always)]
    fn one(pin: Pinned<'_>, hash: KeyHash) -> u16 {
        let mask = (1u32 << pin.generation().layout.params.value_bits()) - 1;
        (one(pin, hash) & mask) as u16 // at most 16 bits
    }

    fn touched(pin: Pinned<'_>, hash: KeyHash, lines: &mut LineRecorder<'_>) {
        TableView::of(pin).touched(hash.get(), lines);
    }

    fn checked_hints(reader: &mut OthelloReader, hashes: &[KeyHash], hints: &mut [NodeHint]) -> bool {
        if reader.params().check_bits() == 0 {
            return false;
        }
        for (hashes, hints) in hashes.chunks(FEW_KEYS).zip(hints.chunks_mut(FEW_KEYS)) {
            reader.checked(hashes, hints, |value| value.map_or(NodeHint::NONE, NodeHint::new));
        }
        true
    }
}

/// Whether the lines of a table are farther away than a private cache.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline(always)]
fn is_far(pin: Pinned<'_>) -> bool {
    span::is_far(pin.generation(), FAR_LINES)
}

impl Lookup {
    /// The kernels that use these vectors.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    fn of<K: Kernel>() -> Self {
        Self { is_indexable: true, values: K::batch, differences: K::batch }
    }

    /// The XOR of the slots of each name: its value, with its checksum above.
    ///
    /// # Panics
    /// As [`batch`](published::Lookup::batch).
    #[inline(always)]
    pub(super) fn differences(self, pin: Pinned<'_>, hashes: &[KeyHash], found: &mut [u32]) {
        self.run(self.differences, pin, hashes, found);
    }

    #[inline(always)]
    #[allow(unsafe_code, reason = "the one place where a level of instructions is entered")]
    fn run<T>(self, batch: BatchKernel<T>, pin: Pinned<'_>, hashes: &[KeyHash], found: &mut [T]) {
        let found = &mut found[..hashes.len()];
        assert!(published::Lookup::is_for(self, pin.generation()), "another table's kernel");
        // SAFETY: the kernel is the one for tables like this one, and `new` checked `Isa::is_available`
        // before it chose a kernel that needs more than the baseline instructions.
        unsafe { batch(pin, hashes, found) }
    }
}
