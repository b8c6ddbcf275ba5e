//! Batched lookups in a table that is being reshaped: a batch is split by shape into two lists, the kernel of
//! each shape looks up its list, and the values are put back in the order of the keys.
//!
//! All of it happens under one pin. For each key the count that decides its shape is loaded (acquire) before
//! its unit is read, as for a single key; only the time between the two is longer. During this time the unit
//! may be converted to the new shape. Its old form then stays as it was (see [`generation`](super::generation)),
//! so the key gets the value that it had at the conversion, which is concurrent with this lookup.
//!
//! The definition is here, key by key. [`avx512`] does both steps with vectors.

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx512;

use super::generation::Boundary;
use crate::isa::{AvailableIsa, Isa};
use scalebricks_types::KeyHash;

/// Whether [`avx512`] is compiled in. Models of the memory order run the definition.
const HAS_VECTORS: bool = cfg!(all(target_arch = "x86_64", not(loom)));

/// The most keys that are split at once.
pub(super) const MOST_KEYS: usize = 1024;

/// Lists are padded to a multiple of this many keys, by repeating one of them: the lanes of an AVX2 vector.
/// Kernels look up the rest of a batch that does not fill a vector one key after another.
const LANES: usize = 8;

/// Room for this many keys in two lists.
pub(super) const fn room(keys: usize) -> usize {
    keys + 2 * LANES
}

/// One bit per key: set if it is looked up in the new shape.
type Shapes = [u64; MOST_KEYS / 64];

/// The results of the keys of the old shape and of the new.
type Parts<'a, T> = [&'a [T]; 2];

/// Puts results back in the order of the keys, for a processor with [`Isa::Avx512Gfni`].
pub(crate) type PutBack<T> = fn(AvailableIsa, &mut [T], &Shapes, Parts<'_, T>);

/// Values that vectors put back.
pub(crate) trait Part: Copy {
    /// [`PutBack`].
    fn put_back(isa: AvailableIsa, found: &mut [Self], shapes: &Shapes, parts: [&[Self]; 2]);
}

/// Looks up keys in two shapes. `read` looks up a list in the new shape (`true`) or the old.
///
/// Cost per key: about thirty instructions, or fewer with vectors, for which `put_back` is needed. All elements of a few arrays of
/// `ROOM` are cleared.
///
/// # Panics
/// If there are fewer results than keys, or [`room`] for the keys is more than `ROOM`, or there are more than [`MOST_KEYS`].
#[inline(always)]
pub(super) fn in_two_shapes<T: Copy, const ROOM: usize>(
    (isa, put_back, boundary): (AvailableIsa, Option<PutBack<T>>, &Boundary<'_>),
    hashes: &[KeyHash],
    found: &mut [T],
    read: impl FnMut(bool, &[KeyHash], &mut [T]),
) {
    let found = &mut found[..hashes.len()];
    let Some(&blank) = found.first() else { return };
    assert!(room(hashes.len()) <= ROOM && hashes.len() <= MOST_KEYS, "more keys than room");
    match put_back.filter(|_| HAS_VECTORS && isa.isa() >= Isa::Avx512Gfni) {
        Some(put_back) => by_vectors::<T, ROOM>((isa, put_back, boundary), blank, hashes, found, read),
        None => key_by_key::<T, ROOM>(boundary, blank, hashes, found, read),
    }
}

/// [`in_two_shapes`] without vectors.
#[inline(always)]
fn key_by_key<T: Copy, const ROOM: usize>(
    boundary: &Boundary<'_>,
    blank: T,
    hashes: &[KeyHash],
    found: &mut [T],
    mut read: impl FnMut(bool, &[KeyHash], &mut [T]),
) {
    // The list of the new shape grows upwards from the beginning, the other downwards from the end. A key is
    // written to both and counted in one, which needs no branch: shapes alternate at random.
    let (mut keys, mut places) = ([KeyHash::new(0); ROOM], [0_u16; ROOM]);
    let (mut new, mut old) = (0, ROOM);
    for (place, &hash) in (0..).zip(hashes) {
        let is_new = boundary.is_passed(hash);
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

/// [`in_two_shapes`] with vectors.
#[inline(always)]
fn by_vectors<T: Copy, const ROOM: usize>(
    (isa, put_back, boundary): (AvailableIsa, PutBack<T>, &Boundary<'_>),
    blank: T,
    hashes: &[KeyHash],
    found: &mut [T],
    mut read: impl FnMut(bool, &[KeyHash], &mut [T]),
) {
    // The old shape first.
    let (mut lists, mut parts) = ([[KeyHash::new(0); ROOM]; 2], [[blank; ROOM]; 2]);
    let (new, shapes) = split(isa, boundary, hashes, &mut lists);
    let counts = [(hashes.len() - new, false), (new, true)];
    for ((list, part), (count, is_new)) in lists.iter_mut().zip(&mut parts).zip(counts) {
        if count > 0 {
            let (first, filled) = (list[0], count.next_multiple_of(LANES));
            list[count..filled].fill(first);
            read(is_new, &list[..filled], &mut part[..filled]);
        }
    }
    let [old, new] = &parts;
    put_back(isa, found, &shapes, [old, new]);
}

/// Lists the keys of the old shape and those of the new: how many are new, and which.
fn split<const ROOM: usize>(
    isa: AvailableIsa,
    boundary: &Boundary<'_>,
    hashes: &[KeyHash],
    lists: &mut [[KeyHash; ROOM]; 2],
) -> (usize, Shapes) {
    let mut shapes = [0; MOST_KEYS / 64];
    #[cfg_attr(any(loom, not(target_arch = "x86_64")), allow(unused_mut, reason = "no vectors there"))]
    let (mut done, mut new) = (0, 0);
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[allow(unsafe_code, reason = "enters the vector form")]
    if isa.isa() >= Isa::Avx512Gfni {
        // SAFETY: the processor has the instructions of this level and of those below.
        (done, new) = unsafe { avx512::split(boundary, hashes, lists, &mut shapes) };
    }
    #[cfg(any(loom, not(target_arch = "x86_64")))]
    let _ = isa;
    for (place, &hash) in hashes.iter().enumerate().skip(done) {
        let is_new = boundary.is_passed(hash);
        (lists[0][place - new], lists[1][new]) = (hash, hash);
        new += usize::from(is_new);
        shapes[place / 64] |= u64::from(is_new) << (place % 64);
    }
    (new, shapes)
}

macro_rules! part {
    ($value:ty, $vectors:ident) => {
        impl Part for $value {
            fn put_back(isa: AvailableIsa, found: &mut [Self], shapes: &Shapes, parts: [&[Self]; 2]) {
                #[cfg(all(target_arch = "x86_64", not(loom)))]
                #[allow(unsafe_code, reason = "enters the vector form")]
                if isa.isa() >= Isa::Avx512Gfni {
                    // SAFETY: the processor has the instructions of this level and of those below.
                    return unsafe { avx512::$vectors(found, shapes, parts) };
                }
                unreachable!("{:?} has no vectors: {:?}", isa, (found, shapes, parts))
            }
        }
    };
}
part!(u8, put_back8);
part!(u16, put_back16);

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::mix64;
    use crate::reclaim::sync::AtomicU32;
    use proptest::prelude::*;
    use scalebricks_types::PartitionCount;
    use std::fmt::Debug;

    const KEYS: usize = 200;

    /// A boundary in each partition of eight units.
    fn boundary(done: &[AtomicU32]) -> Boundary<'_> {
        let partitions = PartitionCount::new(done.len() as u32).unwrap();
        Boundary { partitions, units: 8 * done.len() as u32, units_per_partition: 8, done }
    }

    /// Every key is looked up in its shape, and its result, which is part of itself, arrives at its place, whatever the order
    /// of shapes. Lists are padded with keys of the same shape.
    fn check_of<T: Part + PartialEq + Debug>(
        boundary: &Boundary<'_>,
        hashes: &[KeyHash],
        result: impl Fn(KeyHash) -> T,
    ) {
        let right: Vec<T> = hashes.iter().map(|&hash| result(hash)).collect();
        let new = hashes.iter().filter(|&&hash| boundary.is_passed(hash)).count();
        let padded = [hashes.len() - new, new].map(|keys| keys.next_multiple_of(LANES));
        let padded: Vec<_> = padded.into_iter().filter(|&keys| keys > 0).collect();
        for isa in crate::isa::compared().into_iter().map(AvailableIsa::new) {
            for put_back in [None, Some(T::put_back as PutBack<T>)] {
                let (mut found, mut lists) = (vec![result(KeyHash::new(!0)); hashes.len()], Vec::new());
                let read = |is_new, keys: &[KeyHash], found: &mut [T]| {
                    assert!(keys.iter().all(|&key| boundary.is_passed(key) == is_new));
                    lists.push(keys.len());
                    found.iter_mut().zip(keys).for_each(|(found, &key)| *found = result(key));
                };
                in_two_shapes::<T, { room(KEYS) }>((isa, put_back, boundary), hashes, &mut found, read);
                lists.sort_by_key(|&keys| padded.iter().position(|&list| list == keys));
                assert_eq!((&found, &lists), (&right, &padded), "{isa:?}, {}", put_back.is_some());
            }
        }
    }

    fn check(done: &[AtomicU32], hashes: &[KeyHash]) {
        let boundary = boundary(done);
        check_of(&boundary, hashes, |hash| hash.get() as u8);
        check_of(&boundary, hashes, |hash| hash.get() as u16);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_key_is_read_in_its_shape_and_put_back(
            seed: u64,
            keys in 0..=KEYS,
            partitions in 0_u32..4,
            done in prop::collection::vec(0_u32..=8, 8),
        ) {
            let done: Vec<_> = done.into_iter().take(1 << partitions).map(AtomicU32::new).collect();
            let hashes: Vec<_> = (0..keys as u64).map(|i| KeyHash::new(mix64(seed ^ mix64(i)))).collect();
            check(&done, &hashes);
        }
    }

    #[test]
    fn the_first_and_the_last_hash_of_each_unit_are_in_their_shape() {
        let ends = (0..32_u64).flat_map(|unit| [unit << 59, (unit << 59).wrapping_sub(1)].map(KeyHash::new));
        check(&[0, 8, 3, 8].map(AtomicU32::new), &ends.collect::<Vec<_>>());
    }
}
