//! Lookups of a batch in stages, with arrays between the stages that stay in the first cache: numbers of ranges (vectors),
//! directory words (loads), places of slots (vectors), slots (loads).
//!
//! What can be computed for several names at once is, and what is read is read name by name: gathers, and lanes taken out
//! of a vector and put in again, were where a profile found most of a lookup's time (Zen 4). What is read name by name is
//! compiled for no vectors: a compiler that sees them might make a gather of what is written as loads.
#![allow(unsafe_code)]

use super::LookupOutput;
use super::view::TableView;
use crate::othello::structure::Pinned;
use scalebricks_types::KeyHash;

/// Names a round: their arrays take less than 4 KiB.
pub(super) const CHUNK: usize = 128;

/// The stages that vectors compute.
pub(super) trait Vectors {
    /// Names a vector; [`CHUNK`] is a multiple.
    const LANES: usize;

    /// The numbers of the ranges of some names, in front of `ranges`.
    ///
    /// # Safety
    /// The processor must have what they are compiled for, and names must be a multiple of [`LANES`](Self::LANES), at most
    /// [`CHUNK`].
    unsafe fn ranges(view: &TableView<'_>, names: &[KeyHash], ranges: &mut [u32; CHUNK]);

    /// Where the slots of some names are, of the directory words in their place.
    ///
    /// # Safety
    /// As above, and the table must be [near](super::TableSpan::Near) or far.
    unsafe fn slots(view: &TableView<'_>, names: &[KeyHash], sites: &mut StageBuffers);
}

/// Arrays between the stages of a round.
#[derive(Debug)]
pub(super) struct StageBuffers {
    /// Numbers of ranges, and then their directory words.
    pub(super) words: [u32; CHUNK],
    /// Of each array of slots: the byte at which the four begin that hold a name's slot,
    pub(super) at: [[u32; CHUNK]; 2],
    /// and how far to shift them.
    pub(super) shifts: [[u32; CHUNK]; 2],
}

/// A batch, in a table that may stay in a private cache, or, if `FAR`, in one whose lines are asked for before they are read.
///
/// # Safety
/// The processor must have what the vectors are compiled for, and BMI2; the table must be [near](super::TableSpan::Near) or far.
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
            // Others beside them, whose answers nobody wants.
            padded[..names.len()].copy_from_slice(names);
            &padded[..all]
        };
        // SAFETY: the caller's word; scaled hashes are numbers of ranges, and slots are found under the view's pin.
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
    /// Asks for the lines of so many names.
    #[inline(always)]
    fn prefetch(&self, view: &TableView<'_>, names: usize) {
        for (&a, &b) in self.at[0].iter().zip(&self.at[1]).take(names) {
            view.prefetch(a as usize);
            view.prefetch(b as usize);
        }
    }

    /// Reads the slots of as many names as there is room for.
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

/// The directory words of ranges in their place.
///
/// # Safety
/// There must be such ranges.
#[inline(never)]
unsafe fn words(view: &TableView<'_>, ranges: &mut [u32]) {
    for range in ranges {
        // SAFETY: the caller's word.
        *range = unsafe { view.word(*range) };
    }
}
