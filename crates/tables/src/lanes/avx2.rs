//! Eight lanes.
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "unaligned loads and stores take vectors by such pointers")]

use scalebricks_types::KeyHash;
use std::arch::x86_64::{
    __m256i, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_loadu_si256, _mm256_permute4x64_epi64,
    _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_shuffle_ps, _mm256_store_si256,
};

/// Number of 32-bit lanes.
pub(crate) const LANES: usize = 8;

/// The lanes of a vector, in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(crate) struct Lanes(pub(crate) [u32; LANES]);

/// As many hashes as there are lanes.
pub(crate) type Keys = [KeyHash; LANES];

/// Hashes in one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct AlignedKeys(pub(crate) Keys);

/// The lanes of a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn lanes(vector: __m256i) -> Lanes {
    let mut lanes = Lanes([0; LANES]);
    // SAFETY: writes 32 bytes to an aligned array of 32 bytes.
    unsafe { _mm256_store_si256(lanes.0.as_mut_ptr().cast(), vector) };
    lanes
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn splat(lane: u32) -> __m256i {
    _mm256_set1_epi32(lane.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn splat64(lane: u64) -> __m256i {
    _mm256_set1_epi64x(lane.cast_signed())
}

/// The hashes, four per vector.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load(keys: &Keys) -> [__m256i; 2] {
    let start = keys.as_ptr().cast::<__m256i>();
    // SAFETY: `KeyHash` is a transparent word, so eight hashes are eight words: two vectors.
    unsafe { [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))] }
}

/// Fewer keys than a vector has lanes, and the last one in the other lanes.
///
/// # Panics
/// If there are none.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn filled(hashes: &[KeyHash]) -> AlignedKeys {
    let last = hashes.len() - 1;
    let mut keys = AlignedKeys([KeyHash::new(0); LANES]);
    let start = keys.0.as_mut_ptr().cast::<__m256i>();
    // SAFETY: `KeyHash` is a transparent word; writes eight words to an aligned array of eight.
    unsafe {
        _mm256_store_si256(start, super::vector64_avx2!(|i| hashes[i.min(last)].get()));
        _mm256_store_si256(start.add(1), super::vector64_avx2!(|i| hashes[last.min(i + 4)].get()));
    }
    keys
}

/// The low halves of eight words.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn low_halves(words: [__m256i; 2]) -> __m256i {
    halves::<0b10_00_10_00>(words)
}

/// The high halves of eight words.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn high_halves(words: [__m256i; 2]) -> __m256i {
    halves::<0b11_01_11_01>(words)
}

/// One half of each of eight words: those that `WHICH` selects.
#[inline]
#[target_feature(enable = "avx2")]
fn halves<const WHICH: i32>([low, high]: [__m256i; 2]) -> __m256i {
    let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
    // The shuffle works within 128-bit lanes, so the words in the middle are swapped afterwards.
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(_mm256_shuffle_ps::<WHICH>(low, high)))
}
