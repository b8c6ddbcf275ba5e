//! Splitting eight keys at a time, and putting back values a vector at a time.
//!
//! Instructions that compress move the lanes of a mask to the front of a vector, in order; those that expand move lanes from the
//! front to the lanes of a mask. So a list is what one compression after another has appended, and its results find their places
//! by the same masks.
#![allow(unsafe_code)]

use super::super::generation::Boundary;
use super::{Parts, Shapes};
use crate::lanes::avx512::splat64;
use crate::lanes::vector64;
use crate::reclaim::sync::Ordering;
use scalebricks_types::KeyHash;
use std::arch::x86_64::{
    __m512i as Vector, _mm512_add_epi64 as add, _mm512_cmplt_epu64_mask as below, _mm512_loadu_si512,
    _mm512_mask_expand_epi8, _mm512_mask_expand_epi16, _mm512_mask_storeu_epi8, _mm512_mask_storeu_epi16,
    _mm512_maskz_compress_epi64 as compress, _mm512_maskz_expand_epi8, _mm512_maskz_expand_epi16,
    _mm512_maskz_loadu_epi8, _mm512_maskz_loadu_epi16, _mm512_mul_epu32 as product, _mm512_srli_epi64,
    _mm512_storeu_si512, _mm512_sub_epi64 as sub,
};

/// Keys per vector.
const KEYS: usize = 8;

/// [`super::split`] for whole vectors of keys: how many keys they are, and how many of them are looked up in the new shape.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
pub(super) fn split<const ROOM: usize>(
    boundary: &Boundary<'_>,
    hashes: &[KeyHash],
    lists: &mut [[KeyHash; ROOM]; 2],
    shapes: &mut Shapes,
) -> (usize, usize) {
    let eights = hashes.as_chunks::<KEYS>().0;
    let [old_list, new_list] = lists;
    let (mut old, mut new) = (0, 0);
    for (at, eight) in eights.iter().enumerate() {
        // SAFETY: `KeyHash` is a transparent word, so eight hashes are a vector.
        let hashes = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
        let partitions = high_product(hashes, boundary.partitions.get());
        // In the partition: a hash's unit is in the hash's partition.
        let first = product(partitions, splat64(boundary.units_per_partition.into()));
        let unit = sub(high_product(hashes, boundary.units), first);
        let is_new = below(unit, done_in(boundary, partitions));
        append(new_list, new, compress(is_new, hashes));
        append(old_list, old, compress(!is_new, hashes));
        let count = is_new.count_ones() as usize;
        (old, new) = (old + KEYS - count, new + count);
        shapes[at / KEYS] |= u64::from(is_new) << (at % KEYS * KEYS);
    }
    (eights.len() * KEYS, new)
}

/// How many units of partitions are looked up in the new shape.
///
/// # Panics
/// If the table has not all of them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
fn done_in(boundary: &Boundary<'_>, partitions: Vector) -> Vector {
    let are_there = below(partitions, splat64(boundary.done.len() as u64));
    assert_eq!(are_there, !0, "a partition of another table");
    let partitions = lanes(partitions);
    let done = |partition: u64| {
        // SAFETY: just checked, for all lanes at once.
        let done = unsafe { boundary.done.get_unchecked(partition as usize) };
        u64::from(done.load(Ordering::Acquire))
    };
    vector64!(|i| done(partitions[i]))
}

/// The high 64 bits of the products of words and one factor.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
fn high_product(words: Vector, by: u32) -> Vector {
    let by = splat64(by.into());
    // The sum does not exceed 64 bits: (2^32 - 1)^2 + 2^32 - 1 < 2^64.
    let upper = product(_mm512_srli_epi64::<32>(words), by);
    _mm512_srli_epi64::<32>(add(upper, _mm512_srli_epi64::<32>(product(words, by))))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
fn lanes(vector: Vector) -> [u64; KEYS] {
    let mut lanes = [0; KEYS];
    // SAFETY: eight words are a vector.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), vector) };
    lanes
}

/// Writes a vector to a list from this place on. The lanes behind its keys are overwritten later.
///
/// # Panics
/// If the list has no room for all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
fn append(list: &mut [KeyHash], at: usize, keys: Vector) {
    let room = &mut list[at..at + KEYS];
    // SAFETY: `KeyHash` is a transparent word, and the room is eight of them.
    unsafe { _mm512_storeu_si512(room.as_mut_ptr().cast(), keys) };
}

/// Puts values of one width back: `$lanes` of them are a vector, whose masks are `$mask`.
macro_rules! put_back {
    ($name:ident, $value:ty, $lanes:literal, $mask:ty,
     $load:ident, $expand:ident, $expand_into:ident, $store:ident) => {
        /// [`super::PutBack`] for values of this width.
        #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
        pub(super) fn $name(found: &mut [$value], shapes: &Shapes, [old, new]: Parts<'_, $value>) {
            let (mut old_at, mut new_at) = (0, 0);
            for (number, found) in found.chunks_mut($lanes).enumerate() {
                let place = number * $lanes;
                let all = <$mask>::MAX >> ($lanes - found.len());
                let is_new = (shapes[place / 64] >> (place % 64)) as $mask & all; // a part of the word
                let is_old = !is_new & all;
                let [olds, news] = [is_old, is_new].map(|mask| mask.count_ones() as usize);
                let (old, new) = (&old[old_at..old_at + olds], &new[new_at..new_at + news]);
                let first = |count: usize| <$mask>::MAX.checked_shr(($lanes - count) as u32).unwrap_or(0);
                // SAFETY: a masked load reads only the lanes of the mask, which are these slices.
                let [old, new] = unsafe {
                    [$load(first(olds), old.as_ptr().cast()), $load(first(news), new.as_ptr().cast())]
                };
                let values = $expand_into($expand(is_new, new), is_old, old);
                // SAFETY: a masked store writes only the lanes of the mask, which are this slice.
                unsafe { $store(found.as_mut_ptr().cast(), all, values) };
                (old_at, new_at) = (old_at + olds, new_at + news);
            }
        }
    };
}
put_back!(
    put_back8,
    u8,
    64,
    u64,
    _mm512_maskz_loadu_epi8,
    _mm512_maskz_expand_epi8,
    _mm512_mask_expand_epi8,
    _mm512_mask_storeu_epi8
);
put_back!(
    put_back16,
    u16,
    32,
    u32,
    _mm512_maskz_loadu_epi16,
    _mm512_maskz_expand_epi16,
    _mm512_mask_expand_epi16,
    _mm512_mask_storeu_epi16
);
