//! The vector stages of a batch for the instruction sets that differ only in their width and in the names of
//! their instructions.

/// Implements the stages with vectors of `$lanes` names, for a type `$name`. The module that calls it imports
/// the instructions under the names used here, and has a function `product` (64-bit products), `low_halves`
/// and `high_halves` (those of two vectors of 64-bit lanes, in order).
macro_rules! vector_stages {
    ($(#[$docs:meta])* $name:ident, $lanes:literal, $features:literal) => {
        use super::stages::{CHUNK, StageBuffers, Vectors};
        use super::view::TableView;
        use crate::othello::placement::{FACTOR, FINAL, STEP};
        use crate::othello::structure::SLOT_BITS;
        use scalebricks_types::KeyHash;

        $(#[$docs])*
        #[derive(Debug)]
        pub(super) struct $name;

        impl Vectors for $name {
            const LANES: usize = $lanes;

            #[target_feature(enable = $features)]
            unsafe fn ranges(view: &TableView<'_>, names: &[KeyHash], to: &mut [u32; CHUNK]) {
                for (names, to) in names.as_chunks().0.iter().zip(to.as_chunks_mut().0) {
                    let [low, high] = load(names);
                    let by = view.places.ranges;
                    put(to, low_halves([scaled64(low, by), scaled64(high, by)]));
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn slots(view: &TableView<'_>, names: &[KeyHash], sites: &mut StageBuffers) {
                let [at_a, at_b] = &mut sites.at;
                let (at_a, at_b) = (at_a.as_chunks_mut().0, at_b.as_chunks_mut().0);
                let [shift_a, shift_b] = &mut sites.shifts;
                let (shift_a, shift_b) = (shift_a.as_chunks_mut().0, shift_b.as_chunks_mut().0);
                for (number, names) in names.as_chunks().0.iter().enumerate() {
                    let [a, b] = slots(view, names, &sites.words.as_chunks().0[number]);
                    put(&mut at_a[number], a.0);
                    put(&mut shift_a[number], a.1);
                    put(&mut at_b[number], b.0);
                    put(&mut shift_b[number], b.1);
                }
            }
        }

        /// Where the two slots of each name are: the index of the first of four bytes, and how far to shift
        /// them.
        #[inline]
        #[target_feature(enable = $features)]
        fn slots(
            view: &TableView<'_>,
            keys: &[KeyHash; $lanes],
            words: &[u32; $lanes],
        ) -> [(Vector, Vector); 2] {
            const { assert!(SLOT_BITS == 24, "the shift below") }
            let places = &view.places;
            // SAFETY: reads an array as long as a vector.
            let words = unsafe { load_vector(words.as_ptr().cast()) };
            let hashes = load(keys);
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

        #[inline]
        #[target_feature(enable = $features)]
        fn load(keys: &[KeyHash; $lanes]) -> [Vector; 2] {
            let start = keys.as_ptr().cast::<Vector>();
            // SAFETY: `KeyHash` is a `u64`; reads an array as long as two vectors.
            unsafe { [load_vector(start), load_vector(start.add(1))] }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn put(to: &mut [u32; $lanes], vector: Vector) {
            // SAFETY: writes an array as long as a vector.
            unsafe { store_vector(to.as_mut_ptr().cast(), vector) };
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn splat(lane: u32) -> Vector {
            set32(lane.cast_signed())
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn splat64(lane: u64) -> Vector {
            set64(lane.cast_signed())
        }
    };
}
pub(super) use vector_stages;
