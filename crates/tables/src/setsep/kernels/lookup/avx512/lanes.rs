//! Assembles vectors from lanes, and splits vectors into lanes.

use super::{Keys, LANES};
use std::arch::x86_64::{
    __m512i, _mm512_loadu_si512, _mm512_permutex2var_epi32, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setr_epi32, _mm512_setr_epi64, _mm512_storeu_si512,
};

/// The lanes of a vector as an array.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn lanes(vector: __m512i) -> [u32; LANES] {
    let mut lanes = [0; LANES];
    // SAFETY: writes 64 bytes to an array of 64 bytes.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), vector) };
    lanes
}

/// A vector assembled lane by lane in registers. Going through memory would wait for the stores.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn vector(lane: impl Fn(usize) -> u32) -> __m512i {
    let l = |i| lane(i).cast_signed();
    _mm512_setr_epi32(
        l(0),
        l(1),
        l(2),
        l(3),
        l(4),
        l(5),
        l(6),
        l(7),
        l(8),
        l(9),
        l(10),
        l(11),
        l(12),
        l(13),
        l(14),
        l(15),
    )
}

/// The same for 64-bit lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn vector64(lane: impl Fn(usize) -> u64) -> __m512i {
    let l = |i| lane(i).cast_signed();
    _mm512_setr_epi64(l(0), l(1), l(2), l(3), l(4), l(5), l(6), l(7))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn splat(lane: u32) -> __m512i {
    _mm512_set1_epi32(lane.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn splat64(lane: u64) -> __m512i {
    _mm512_set1_epi64(lane.cast_signed())
}

/// The hashes, eight per vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn load(keys: &Keys) -> [__m512i; 2] {
    let start = keys.as_ptr().cast::<__m512i>();
    // SAFETY: `KeyHash` is a transparent word, so sixteen hashes are sixteen words: two vectors.
    unsafe { [_mm512_loadu_si512(start), _mm512_loadu_si512(start.add(1))] }
}

/// The low halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn low_halves([low, high]: [__m512i; 2]) -> __m512i {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_permutex2var_epi32(low, even, high)
}

/// The high halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn high_halves([low, high]: [__m512i; 2]) -> __m512i {
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    _mm512_permutex2var_epi32(low, odd, high)
}
