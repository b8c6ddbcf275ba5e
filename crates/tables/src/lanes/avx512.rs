//! Sixteen lanes.
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "unaligned loads and stores take vectors by such pointers")]

use scalebricks_types::KeyHash;
use std::arch::x86_64::{
    __m512i, _mm512_loadu_si512, _mm512_permutex2var_epi32, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setr_epi32, _mm512_store_si512,
};

/// Number of 32-bit lanes.
pub(crate) const LANES: usize = 16;

/// The lanes of a vector, in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lanes(pub(crate) [u32; LANES]);

/// As many hashes as there are lanes.
pub(crate) type Keys = [KeyHash; LANES];

/// Hashes in two cache lines.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct AlignedKeys(pub(crate) Keys);

/// The lanes of a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) fn lanes(vector: __m512i) -> Lanes {
    let mut lanes = Lanes([0; LANES]);
    // SAFETY: writes 64 bytes to an aligned array of 64 bytes.
    unsafe { _mm512_store_si512(lanes.0.as_mut_ptr().cast(), vector) };
    lanes
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) fn splat(lane: u32) -> __m512i {
    _mm512_set1_epi32(lane.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) fn splat64(lane: u64) -> __m512i {
    _mm512_set1_epi64(lane.cast_signed())
}

/// The hashes, eight per vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) fn load(keys: &Keys) -> [__m512i; 2] {
    let start = keys.as_ptr().cast::<__m512i>();
    // SAFETY: `KeyHash` is a transparent word, so sixteen hashes are sixteen words: two vectors.
    unsafe { [_mm512_loadu_si512(start), _mm512_loadu_si512(start.add(1))] }
}

/// Fewer keys than a vector has lanes, and the last one in the other lanes.
///
/// # Panics
/// If there are none.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) fn filled(hashes: &[KeyHash]) -> AlignedKeys {
    let last = hashes.len() - 1;
    let mut keys = AlignedKeys([KeyHash::new(0); LANES]);
    let start = keys.0.as_mut_ptr().cast::<__m512i>();
    // SAFETY: `KeyHash` is a transparent word; writes sixteen words to an array of sixteen.
    unsafe {
        _mm512_store_si512(start, super::vector64!(|i| hashes[i.min(last)].get()));
        _mm512_store_si512(start.add(1), super::vector64!(|i| hashes[last.min(i + 8)].get()));
    }
    keys
}

/// The low halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) fn low_halves([low, high]: [__m512i; 2]) -> __m512i {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_permutex2var_epi32(low, even, high)
}

/// The high halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) fn high_halves([low, high]: [__m512i; 2]) -> __m512i {
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    _mm512_permutex2var_epi32(low, odd, high)
}
