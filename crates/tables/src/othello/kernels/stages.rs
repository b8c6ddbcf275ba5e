//! Looks up a batch in stages, with arrays between the stages that stay in the L1 cache: numbers of ranges
//! (vectors), directory words (loads), places of slots (vectors), slots (loads).
//!
//! What can be computed for several names at once is computed with vectors. What is read is read name by
//! name: a profile found that gathers, and extracting and inserting vector lanes, took most of a lookup's
//! time (Zen 4). The code that reads name by name is compiled without vector instructions, because a compiler
//! that may use them can turn the loads into a gather.
#![allow(unsafe_code)]

use super::LookupOutput;
use super::view::TableView;
use crate::othello::structure::Pinned;
use scalebricks_types::KeyHash;

/// Names per round: their arrays take less than 4 KiB.
pub(super) const CHUNK: usize = 128;

/// The stages that are computed with vectors.
pub(super) trait Vectors {
    /// Names per vector; [`CHUNK`] is a multiple of it.
    const LANES: usize;

    /// Writes the numbers of the ranges of some names to the beginning of `ranges`.
    ///
    /// # Safety
    /// The processor must support the instructions that the stages are compiled for. The number of names must
    /// be a multiple of [`LANES`](Self::LANES), at most [`CHUNK`].
    unsafe fn ranges(view: &TableView<'_>, names: &[KeyHash], ranges: &mut [u32; CHUNK]);

    /// Computes where the slots of some names are, from the directory words in `sites`.
    ///
    /// # Safety
    /// As above, and the table must be [near](crate::published::TableSpan::Near) or far.
    unsafe fn slots(view: &TableView<'_>, names: &[KeyHash], sites: &mut StageBuffers);
}

/// The arrays between the stages of a round.
#[derive(Debug)]
pub(super) struct StageBuffers {
    /// Numbers of ranges, later replaced by their directory words.
    pub(super) words: [u32; CHUNK],
    /// For each array of slots: the index of the first of the four bytes that hold a name's slot.
    pub(super) at: [[u32; CHUNK]; 2],
    /// For each array of slots: how far to shift the four bytes.
    pub(super) shifts: [[u32; CHUNK]; 2],
}

/// Looks up a batch in a table that may stay in a private cache, or, if `FAR`, in one whose lines are
/// prefetched before they are read.
///
/// # Safety
/// The processor must support the instructions that the vectors are compiled for, and BMI2; the table must be
/// [near](crate::published::TableSpan::Near) or far.
pub(super) unsafe fn batch<V: Vectors, T: LookupOutput, const FAR: bool>(
    pin: Pinned<'_>,
    hashes: &[KeyHash],
    found: &mut [T],
) {
    let view = TableView::of(pin);
    let mut sites = StageBuffers { words: [0; CHUNK], at: [[0; CHUNK]; 2], shifts: [[0; CHUNK]; 2] };
    for (names, found) in hashes.chunks(CHUNK).zip(found.chunks_mut(CHUNK)) {
        let (all, mut padded) = (names.len().next_multiple_of(V::LANES), [KeyHash::new(0); CHUNK]);
        let names = if names.len() == all {
            names
        } else {
            // Padding names follow; their results are ignored.
            padded[..names.len()].copy_from_slice(names);
            &padded[..all]
        };
        // SAFETY: guaranteed by the caller; scaled hashes are valid range numbers, and slots are found under
        // the view's pin.
        unsafe {
            V::ranges(&view, names, &mut sites.words);
            words(&view, &mut sites.words[..all]);
            V::slots(&view, names, &mut sites);
            if FAR {
                sites.prefetch(&view, found.len());
            }
            sites.read(&view, found);
        }
    }
}

impl StageBuffers {
    /// Prefetches the lines of the first `names` names.
    #[inline(always)]
    fn prefetch(&self, view: &TableView<'_>, names: usize) {
        for (&a, &b) in self.at[0].iter().zip(&self.at[1]).take(names) {
            view.prefetch(a as usize);
            view.prefetch(b as usize);
        }
    }

    /// Reads the slots of `found.len()` names.
    ///
    /// # Safety
    /// They must have been found under the view's pin, and the processor must have BMI2.
    #[inline(never)]
    #[target_feature(enable = "bmi1,bmi2")]
    unsafe fn read<T: LookupOutput>(&self, view: &TableView<'_>, found: &mut [T]) {
        let mask = T::mask(view.places.value_bits, view.places.check_bits);
        let [at_a, at_b] = &self.at;
        let [shift_a, shift_b] = &self.shifts;
        let sites = at_a.iter().zip(shift_a).zip(at_b.iter().zip(shift_b));
        for (found, ((&a, &shift_a), (&b, &shift_b))) in found.iter_mut().zip(sites) {
            // SAFETY: four bytes each of a range that was reached under the pin.
            let (a, b) = unsafe { (view.four(a), view.four(b)) };
            *found = T::of((a.wrapping_shr(shift_a) ^ b.wrapping_shr(shift_b)) & mask);
        }
    }
}

/// Replaces the numbers of ranges by their directory words.
///
/// # Safety
/// The ranges must exist.
#[inline(never)]
unsafe fn words(view: &TableView<'_>, ranges: &mut [u32]) {
    for range in ranges {
        // SAFETY: guaranteed by the caller.
        *range = unsafe { view.word(*range) };
    }
}
