//! The stages of a batch that go name by name, and the arrays between the stages.
//!
//! Compiled for no vectors: a compiler that sees them might make a gather of what is written as loads.
#![allow(unsafe_code)]

use super::Found;
use super::view::View;

/// Names a round: their arrays take less than 3 KiB.
pub(super) const CHUNK: usize = 128;

/// Arrays between the stages of a round.
#[derive(Debug)]
pub(super) struct Sites {
    /// Numbers of ranges, and then their directory words.
    pub(super) words: [u32; CHUNK],
    /// Of each array of slots: the byte at which the four begin that hold a name's slot,
    pub(super) at: [[u32; CHUNK]; 2],
    /// and how far to shift them.
    pub(super) shifts: [[u32; CHUNK]; 2],
}

impl Sites {
    pub(super) const fn new() -> Self {
        Self { words: [0; CHUNK], at: [[0; CHUNK]; 2], shifts: [[0; CHUNK]; 2] }
    }

    /// Asks for the lines of so many names.
    #[inline(always)]
    pub(super) fn prefetch(&self, view: &View<'_>, names: usize) {
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
    pub(super) unsafe fn read<T: Found>(&self, view: &View<'_>, found: &mut [T]) {
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
pub(super) unsafe fn words(view: &View<'_>, ranges: &mut [u32]) {
    for range in ranges {
        // SAFETY: the caller's word.
        *range = unsafe { view.word(*range) };
    }
}
