//! Lookups: from hashes to values.
//!
//! The forms are [`portable`] (also used for single keys, and the definition), [`avx2`] and [`avx512`]. They
//! differ in how many keys each step processes at once. They read the same data: the slot of a block, two
//! bits of its choices, and the fields of a group. A form is chosen when a reader is made.

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx512;
mod blocks;
mod portable;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;

use crate::isa::Isa;
#[cfg(all(target_arch = "x86_64", not(loom)))]
use crate::published::span::{MEMORY_LINES, is_far};
use crate::published::{self, span};
use crate::setsep::format::Format;
use crate::setsep::structure::{Generation, Pinned, SetSepStructure};
use crate::touched_lines::LineRecorder;
use scalebricks_types::KeyHash;

use portable::one;

use blocks::TableView;

/// A kernel: looks up the values of some keys. The numbers of keys and values must be equal.
type BatchKernel = unsafe fn(Pinned<'_>, &[KeyHash], &mut [u8]);

/// The parity of each 4-bit number, one bit each.
#[cfg(all(target_arch = "x86_64", not(loom)))]
const PARITIES: u32 = 0x6996;

/// The lookup kernel for the tables of one format and value size, for an instruction set that this processor
/// supports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lookup {
    format: Format,
    bits: u8,
    /// Whether it is for tables whose indices are small enough for vector kernels.
    is_indexable: bool,
    batch: BatchKernel,
    /// Whether it processes several keys per vector register.
    has_vectors: bool,
}

/// Number of lines whose 32-bit words have indices below 2^31, as gathers require: 8 GiB.
const MAX_LINES: usize = 1 << 27;

/// A table of at least this many lines is far: 4 MiB. The pipeline of [`avx512`] costs a table of 0.2 MiB a
/// third of its lookup rate, and adds up to the same again for one of 6.6 MiB; sizes between them were not
/// measured.
#[cfg(all(target_arch = "x86_64", not(loom)))]
const FAR_LINES: usize = 1 << 16;

/// From how many vectors on a call in this table is pipelined, which prefetches (`docs/adr/0058-prefetch-by-processor.md`).
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline(always)]
fn pipelined_from(pin: Pinned<'_>) -> usize {
    if is_far(pin.generation(), MEMORY_LINES) {
        2
    } else if is_far(pin.generation(), FAR_LINES) {
        5
    } else {
        usize::MAX
    }
}

impl published::Lookup<SetSepStructure> for Lookup {
    /// The kernel for this instruction set, or the best one below it. Formats and sizes that gain nothing
    /// from it use a lower one.
    fn new(generation: &Generation, isa: Isa) -> Self {
        let (format, bits) = (generation.params.format(), generation.params.value_bits());
        let is_indexable = span::lines(generation) <= MAX_LINES;
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if is_indexable && isa.is_available() {
            let batch = match isa {
                Isa::Avx512Gfni => avx512::counting::batch(format, bits),
                Isa::Avx512 => avx512::folding::batch(format, bits),
                Isa::Avx2 => avx2::batch(format, bits),
                Isa::Portable => None,
            };
            if let Some(batch) = batch {
                // For 64-bit fields AVX2 has no vector form, only the scalar instructions.
                let has_vectors = isa >= Isa::Avx512 || format != Format::Dense;
                return Self { format, bits, is_indexable, batch, has_vectors };
            }
        }
        let _ = isa;
        Self { format, bits, is_indexable, batch: portable::batch(format, bits), has_vectors: false }
    }

    /// Whether this is the kernel for tables like this one.
    #[inline(always)]
    fn is_for(self, generation: &Generation) -> bool {
        generation.params.format() == self.format
            && generation.params.value_bits() == self.bits
            && (span::lines(generation) <= MAX_LINES) == self.is_indexable
    }

    /// Looks up the value of each key.
    ///
    /// # Panics
    /// If there are fewer values than hashes, or the kernel was made for a different kind of table.
    #[inline(always)]
    #[allow(unsafe_code, reason = "the one place where a level of instructions is entered")]
    fn batch(self, pin: Pinned<'_>, hashes: &[KeyHash], values: &mut [u8]) {
        let values = &mut values[..hashes.len()];
        assert!(self.is_for(pin.generation()), "another table's kernel");
        // SAFETY: the kernel is the one for tables like this one, and `new` checked `Isa::is_available`
        // before it chose a kernel that needs more than the baseline instructions.
        unsafe { (self.batch)(pin, hashes, values) }
    }

    #[inline(always)]
    fn one(pin: Pinned<'_>, hash: KeyHash) -> u8 {
        one(pin, hash.get())
    }

    fn touched(pin: Pinned<'_>, hash: KeyHash, lines: &mut LineRecorder<'_>) {
        pin.generation().touched(hash.get(), lines);
    }
}

impl Lookup {
    /// Whether it processes several keys per vector register.
    pub(in crate::setsep) const fn has_vectors(self) -> bool {
        self.has_vectors
    }
}

/// The value of a key of a marked group: 0 if it is not in the list, which holds for any key that was never
/// inserted.
#[cold]
#[inline(never)]
fn in_fallback(pin: Pinned<'_>, slot: u32, hash: u64) -> u8 {
    let found = pin.generation().side.pairs(slot).find(|&(held, _)| held >= hash);
    found.filter(|&(held, _)| held == hash).map_or(0, |(_, value)| value)
}

/// Looks up the keys of marked groups again. `marked` has one bit per key.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[cold]
#[inline(never)]
fn correct(pin: Pinned<'_>, keys: &[KeyHash], values: &mut [u8], marked: u16) {
    for (i, (hash, value)) in keys.iter().zip(values).enumerate() {
        if marked >> i & 1 == 1 {
            *value = one(pin, hash.get());
        }
    }
}
