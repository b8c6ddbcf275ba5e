//! Lookups in plain Rust: the form for every processor, and for single names.
#![allow(unsafe_code)]

use super::LookupOutput;
use super::view::TableView;
use crate::othello::structure::{Pinned, SLOT_BITS};
use scalebricks_types::KeyHash;

/// Number of names in flight at once.
const WIDTH: usize = 32;

/// Where the two slots of a name begin: the first byte of its range, and the bit offsets within the range.
#[inline(always)]
fn find(view: &TableView<'_>, hash: u64) -> (usize, [u32; 2]) {
    // SAFETY: a scaled hash is a valid range number.
    let word = unsafe { view.word(view.places.range(hash)) };
    let slots = view.places.pair(hash, (word >> SLOT_BITS) as u8);
    (view.base(word), slots.map(|slot| slot * view.width))
}

/// The XOR of two slots, with unrelated bits above.
///
/// # Safety
/// `base` and the slots must come from [`find`].
#[inline(always)]
unsafe fn difference(view: &TableView<'_>, base: usize, [a, b]: [u32; 2]) -> u32 {
    // SAFETY: slots of a range that was reached under the view's pin.
    unsafe { view.bits(base, a) ^ view.bits(base, b) }
}

/// The XOR of the slots of one name.
#[inline(always)]
pub(in crate::othello) fn one(pin: Pinned<'_>, hash: KeyHash) -> u32 {
    let view = TableView::of(pin);
    let (base, slots) = find(&view, hash.get());
    // SAFETY: the arguments come from `find`.
    let found = unsafe { difference(&view, base, slots) };
    found & <u32 as LookupOutput>::mask(view.places.value_bits, view.places.check_bits)
}

/// Looks up [`WIDTH`] names at a time: first finds their slots, then reads them.
pub(super) fn batch<T: LookupOutput>(pin: Pinned<'_>, hashes: &[KeyHash], found: &mut [T]) {
    let view = TableView::of(pin);
    let mask = T::mask(view.places.value_bits, view.places.check_bits);
    for (hashes, found) in hashes.chunks(WIDTH).zip(found.chunks_mut(WIDTH)) {
        let mut places = [(0, [0; 2]); WIDTH];
        for (place, hash) in places.iter_mut().zip(hashes) {
            *place = find(&view, hash.get());
            place.1.iter().for_each(|&bit| view.prefetch(place.0 + bit as usize / 8));
        }
        for (found, &(base, slots)) in found.iter_mut().zip(&places) {
            // SAFETY: the arguments come from `find`.
            *found = T::of(unsafe { difference(&view, base, slots) } & mask);
        }
    }
}
