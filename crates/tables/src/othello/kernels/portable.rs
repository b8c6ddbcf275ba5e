//! Lookups in plain Rust: the form of every processor, and single names.
#![allow(unsafe_code)]

use super::LookupOutput;
use super::view::TableView;
use crate::othello::structure::{Pinned, SLOT_BITS};
use scalebricks_types::KeyHash;

/// Names in flight at once.
const WIDTH: usize = 32;

/// Where the two slots of a name begin: the byte of its range, and the bits in it.
#[inline(always)]
fn find(view: &TableView<'_>, hash: u64) -> (usize, [u32; 2]) {
    // SAFETY: a scaled hash is the number of a range.
    let word = unsafe { view.word(view.places.range(hash)) };
    let slots = view.places.pair(hash, (word >> SLOT_BITS) as u8);
    (view.base(word), slots.map(|slot| slot * view.width))
}

/// What two slots differ in, and other bits above.
///
/// # Safety
/// They must be what [`find`] has found.
#[inline(always)]
unsafe fn difference(view: &TableView<'_>, base: usize, [a, b]: [u32; 2]) -> u32 {
    // SAFETY: slots of a range that was reached under the view's pin.
    unsafe { view.bits(base, a) ^ view.bits(base, b) }
}

/// What the slots of one name differ in.
#[inline(always)]
pub(in crate::othello) fn one(pin: Pinned<'_>, hash: KeyHash) -> u32 {
    let view = TableView::of(pin);
    let (base, slots) = find(&view, hash.get());
    // SAFETY: just found.
    let found = unsafe { difference(&view, base, slots) };
    found & <u32 as LookupOutput>::mask(view.places.value_bits, view.places.check_bits)
}

/// Up to [`WIDTH`] names at a time: where they are, and then what is there.
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
            // SAFETY: just found.
            *found = T::of(unsafe { difference(&view, base, slots) } & mask);
        }
    }
}
