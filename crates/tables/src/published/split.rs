//! Batched lookups in a table that is being reshaped: a batch is split by shape into two lists, the kernel of
//! each shape looks up its list, and the values are put back in the order of the keys.
//!
//! All of it happens under one pin. For each key the count that decides its shape is loaded (acquire) before
//! its unit is read, as for a single key; only the time between the two is longer. During this time the unit
//! may be converted to the new shape. Its old form then stays as it was (see [`generation`](super::generation)),
//! so the key gets the value that it had at the conversion, which is concurrent with this lookup.

use scalebricks_types::KeyHash;

/// Lists are padded to a multiple of this many keys, by repeating one of them: the lanes of an AVX2 vector.
/// Kernels look up the rest of a batch that does not fill a vector one key after another.
const LANES: usize = 8;

/// Room for this many keys in two lists.
pub(super) const fn room(keys: usize) -> usize {
    keys + 2 * LANES
}

/// Looks up keys in two shapes. `is_new` decides the shape of a key, and is called once for each. `read` looks
/// up a list in the new shape (`true`) or the old.
///
/// Cost: per key, about thirty instructions and what `is_new` costs; all `ROOM` elements of each array are
/// cleared.
///
/// # Panics
/// If there are fewer results than keys, or [`room`] for the keys is more than `ROOM`.
#[inline(always)]
pub(super) fn in_two_shapes<T: Copy, const ROOM: usize>(
    hashes: &[KeyHash],
    found: &mut [T],
    is_new: impl Fn(KeyHash) -> bool,
    mut read: impl FnMut(bool, &[KeyHash], &mut [T]),
) {
    let found = &mut found[..hashes.len()];
    let Some(&blank) = found.first() else { return };
    assert!(room(hashes.len()) <= ROOM, "more keys than room");
    // The list of the new shape grows upwards from the beginning, the other downwards from the end. A key is
    // written to both and counted in one, which needs no branch: shapes alternate at random.
    let (mut keys, mut places) = ([KeyHash::new(0); ROOM], [0_u16; ROOM]);
    let (mut new, mut old) = (0, ROOM);
    for (place, &hash) in (0..).zip(hashes) {
        let is_new = is_new(hash);
        (keys[new], places[new]) = (hash, place);
        (keys[old - 1], places[old - 1]) = (hash, place);
        new += usize::from(is_new);
        old -= usize::from(!is_new);
    }
    let (new_end, old_start) = (new.next_multiple_of(LANES), ROOM - (ROOM - old).next_multiple_of(LANES));
    let (first, last) = (keys[0], keys[ROOM - 1]);
    keys[new..new_end].fill(first);
    keys[old_start..old].fill(last);
    let mut parts = [blank; ROOM];
    if new > 0 {
        read(true, &keys[..new_end], &mut parts[..new_end]);
    }
    if old < ROOM {
        read(false, &keys[old_start..], &mut parts[old_start..]);
    }
    for range in [0..new, old..ROOM] {
        for (&place, &part) in places[range.clone()].iter().zip(&parts[range]) {
            found[usize::from(place)] = part;
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::mix64;
    use proptest::prelude::*;

    const KEYS: usize = 64;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Every key is looked up in its shape, and its result arrives at its place, whatever the order of
        /// shapes. Lists are padded with keys of the same shape.
        #[test]
        fn every_key_is_read_in_its_shape_and_put_back(shapes in prop::collection::vec(any::<bool>(), 0..=KEYS)) {
            // The lowest bit of a hash is its shape.
            let hashes: Vec<KeyHash> =
                (0..).zip(&shapes).map(|(i, &new)| KeyHash::new(mix64(i) & !1 | u64::from(new))).collect();
            let mut found = vec![0; shapes.len()];
            let mut lists = Vec::new();
            in_two_shapes::<u64, { room(KEYS) }>(&hashes, &mut found, |hash| hash.get() & 1 == 1, |new, keys, found| {
                assert!(keys.iter().all(|key| key.get() & 1 == u64::from(new)));
                assert_eq!(keys.len() % LANES, 0);
                lists.push(keys.len());
                found.iter_mut().zip(keys).for_each(|(found, key)| *found = !key.get());
            });
            prop_assert!(found.iter().zip(&hashes).all(|(found, hash)| *found == !hash.get()));
            let is_mixed = shapes.contains(&true) && shapes.contains(&false);
            prop_assert_eq!(lists.len(), if is_mixed { 2 } else { usize::from(!shapes.is_empty()) });
        }
    }
}
