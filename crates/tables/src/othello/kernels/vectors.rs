//! The vector form of a batch for the instruction sets that differ only in their width and in the names of
//! their instructions.
//!
//! A lookup has three steps. Each step is done for several vectors of names before the next:
//!
//! 1. *Which range?* Two 32-bit multiplications in each 64-bit lane scale the hash to the number of ranges. The
//!    range's directory word is loaded name by name.
//! 2. *Which slots?* Arithmetic on hash and seed gives the byte and the shift of both slots.
//! 3. *Which value?* Four bytes per slot are loaded name by name, shifted and combined.
//!
//! Nothing is prefetched, except in long calls in *far* tables: shorter calls were slower with it.

/// Implements [`Kernel`](super::Kernel) for a type `$name`. The module that calls it imports the instructions under the
/// names used here, and has `LANES` (names per vector), `ROUND` (vectors per round), the macro `vector!`, and the functions
/// `product` (64-bit products), `low_halves` and `high_halves` (those of two vectors of 64-bit lanes, in order), `lanes`,
/// `load`, `filled`, `splat`, `splat64` (as in [`crate::lanes`]) and `store_low_halves`.
macro_rules! vector_kernel {
    ($(#[$docs:meta])* $name:ident, $features:literal) => {
        use super::view::TableView;
        use super::{Kernel, LookupOutput, is_far};
        use crate::othello::placement::{FACTOR, FINAL, STEP};
        use crate::othello::structure::{Pinned, SLOT_BITS};
        use scalebricks_types::KeyHash;
        use std::mem::MaybeUninit;

        $(#[$docs])*
        #[derive(Debug)]
        pub(super) struct $name;

        impl Kernel for $name {
            #[target_feature(enable = $features)]
            unsafe fn batch<T: LookupOutput>(pin: Pinned<'_>, hashes: &[KeyHash], found: &mut [T]) {
                let view = TableView::of(pin);
                if hashes.len() > NAMES && is_far(pin) {
                    return pipelined(&view, hashes, found);
                }
                for (names, found) in hashes.chunks(NAMES).zip(found.chunks_mut(NAMES)) {
                    round(&view, names, found);
                }
            }
        }

        /// Looks up more names than a round has: the slots of a round are prefetched while those of the round before are
        /// read.
        #[target_feature(enable = $features)]
        fn pipelined<T: LookupOutput>(view: &TableView<'_>, hashes: &[KeyHash], found: &mut [T]) {
            // A last round of fewer names than a vector has lanes is done apart.
            let rest = Some(hashes.len() % NAMES).filter(|&rest| rest < LANES).unwrap_or(0);
            let (hashes, tail) = hashes.split_at(hashes.len() - rest);
            let (found, tail_found) = found.split_at_mut(hashes.len());
            let mut sites = [[MaybeUninit::uninit(); ROUND]; 2];
            let mut rounds = hashes.chunks(NAMES);
            for round in 0..=rounds.len() {
                if let Some(names) = rounds.next() {
                    let sites = &mut sites[round % 2];
                    find(view, names, sites);
                    for sites in &sites[..vectors(names.len())] {
                        // SAFETY: just written.
                        for site in unsafe { sites.assume_init_ref() } {
                            lanes(site.0).0.iter().for_each(|&at| view.prefetch(at as usize));
                        }
                    }
                }
                if let Some(before) = round.checked_sub(1) {
                    let to = found.len().min(round * NAMES);
                    // SAFETY: the sites of these names were found in the turn before.
                    unsafe { read(view, &sites[before % 2], &mut found[before * NAMES..to]) };
                }
            }
            round(view, tail, tail_found);
        }

        /// Looks up the names of a round, or fewer.
        #[target_feature(enable = $features)]
        fn round<T: LookupOutput>(view: &TableView<'_>, names: &[KeyHash], found: &mut [T]) {
            let mut sites = [MaybeUninit::uninit(); ROUND];
            if names.len() >= LANES {
                find(view, names, &mut sites);
                // SAFETY: the sites of these names were found.
                unsafe { read(view, &sites, found) };
            } else if !names.is_empty() {
                let (names, mut out) = (filled(names), [T::of(0); LANES]);
                find(view, &names.0, &mut sites);
                // SAFETY: as above.
                unsafe { read(view, &sites, &mut out) };
                found.copy_from_slice(&out[..found.len()]);
            }
        }

        /// Names per round.
        const NAMES: usize = ROUND * LANES;

        /// Where the two slots of each name of a round are: the indices of the first of four bytes, and how far to shift
        /// them. Those of a short round are not all written: the stores of unused ones were measurable.
        type Sites = [MaybeUninit<[(Vector, Vector); 2]>; ROUND];

        /// The number of vectors with so many names.
        #[inline(always)]
        fn vectors(names: usize) -> usize {
            names.div_ceil(LANES).min(ROUND)
        }

        /// Where vector `v` of these names begins. The last vector ends with the last name, so some names may be looked
        /// up twice.
        #[inline(always)]
        fn begin(names: usize, v: usize) -> usize {
            (v * LANES).min(names - LANES)
        }

        /// Vector `v` of these names.
        #[inline(always)]
        fn part(names: &[KeyHash], v: usize) -> &[KeyHash; LANES] {
            &names[begin(names.len(), v)..].as_chunks().0[0]
        }

        /// The first two steps for the names of a round of at least as many as a vector has lanes.
        #[inline]
        #[target_feature(enable = $features)]
        fn find(view: &TableView<'_>, names: &[KeyHash], sites: &mut Sites) {
            let count = vectors(names.len());
            let mut words = [zero(); ROUND];
            for v in 0..count {
                let ranges = lanes(ranges(view, load(part(names, v))));
                // SAFETY: scaled hashes are valid range numbers.
                words[v] = vector!(|i| unsafe { view.word(ranges.0[i]) });
            }
            for v in 0..count {
                sites[v].write(slots(view, load(part(names, v)), words[v]));
            }
        }

        /// The last step: the results of a round of at least as many names as a vector has lanes.
        ///
        /// # Safety
        /// [`find`] must have found the sites of as many names, under the view's pin.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn read<T: LookupOutput>(view: &TableView<'_>, sites: &Sites, found: &mut [T]) {
            let mask = splat(T::mask(view.places.value_bits, view.places.check_bits));
            for v in 0..vectors(found.len()) {
                let slot = |(at, shifts)| {
                    let at = lanes(at);
                    // SAFETY: guaranteed by the caller: four bytes of a range that was reached under the pin.
                    right_each(vector!(|i| unsafe { view.four(at.0[i]) }), shifts)
                };
                // SAFETY: guaranteed by the caller.
                let [a, b] = unsafe { sites[v].assume_init() };
                let begin = begin(found.len(), v);
                put(and(xor(slot(a), slot(b)), mask), &mut found[begin..]);
            }
        }

        /// Stores a result per lane.
        ///
        /// # Panics
        /// If there is not enough room.
        #[inline]
        #[target_feature(enable = $features)]
        fn put<T: LookupOutput>(different: Vector, found: &mut [T]) {
            let to = found[..LANES].as_mut_ptr();
            // SAFETY: writes as many results as a vector has lanes, of their size.
            unsafe {
                if const { size_of::<T>() == 2 } {
                    store_low_halves(to.cast(), different);
                } else {
                    const { assert!(size_of::<T>() == 2 || size_of::<T>() == 4) }
                    store_vector(to.cast(), different);
                }
            }
        }

        /// The range of each name.
        #[inline]
        #[target_feature(enable = $features)]
        fn ranges(view: &TableView<'_>, [low, high]: [Vector; 2]) -> Vector {
            let by = view.places.ranges;
            low_halves([scaled64(low, by), scaled64(high, by)])
        }

        /// Where the two slots of each name are: the index of the first of four bytes, and how far to shift
        /// them.
        #[inline]
        #[target_feature(enable = $features)]
        fn slots(view: &TableView<'_>, hashes: [Vector; 2], words: Vector) -> [(Vector, Vector); 2] {
            const { assert!(SLOT_BITS == 24, "the shift below") }
            let places = &view.places;
            let seeds = right32::<24>(words);
            let halves = [first_half(seeds), half::<1>(seeds)];
            let mut mixed = [zero(); 2];
            for ((mixed, hashes), seeds) in mixed.iter_mut().zip(hashes).zip(halves) {
                let steps = product32(widen(seeds), splat64(STEP));
                let x = xor(hashes, splat64(places.key));
                let x = product(x, add64(splat64(FACTOR), steps));
                *mixed = product(xor(x, right64::<32>(x)), splat64(FINAL));
            }
            let (slots_a, slots_b) = (splat64(places.slots[0].into()), splat64(places.slots[1].into()));
            let [upper, lower] = [[right64::<32>(mixed[0]), right64::<32>(mixed[1])], mixed];
            let a = high_halves([product32(upper[0], slots_a), product32(upper[1], slots_a)]);
            let b = high_halves([product32(lower[0], slots_b), product32(lower[1], slots_b)]);
            let slots = and(words, splat((1 << SLOT_BITS) - 1));
            let base = low_product32(slots, splat(view.stride as u32)); // a near table has fewer than 2^31 bytes
            let b = add32(b, splat(places.slots[0]));
            [site(view, base, a), site(view, base, b)]
        }

        /// The index of the first of the four bytes with each slot, and how far to shift them.
        #[inline]
        #[target_feature(enable = $features)]
        fn site(view: &TableView<'_>, base: Vector, slot: Vector) -> (Vector, Vector) {
            let bit = low_product32(slot, splat(view.width));
            let byte = and(right32::<3>(bit), splat(view.keep));
            let byte = min32(byte, splat(view.stride as u32 - 4));
            (add32(base, byte), sub32(bit, left32::<3>(byte)))
        }

        /// The high words of the products of 64-bit lanes and a number of at most 24 bits.
        #[inline]
        #[target_feature(enable = $features)]
        fn scaled64(hashes: Vector, by: u32) -> Vector {
            let by = splat64(by.into());
            let low = right64::<32>(product32(hashes, by));
            let high = product32(right64::<32>(hashes), by);
            right64::<32>(add64(low, high))
        }
    };
}
pub(super) use vector_kernel;
