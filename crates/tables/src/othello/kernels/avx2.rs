//! Lookups with AVX2: eight names per vector. AVX2 has no 64-bit product, so each is
//! computed from three 32-bit products.
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "unaligned loads and stores take vectors by such pointers")]

use super::vectors::vector_kernel;
use std::arch::x86_64::{
    __m256i as Vector, _mm_storeu_si128, _mm256_add_epi32 as add32, _mm256_add_epi64 as add64,
    _mm256_and_si256 as and, _mm256_castps_si256, _mm256_castsi256_ps, _mm256_castsi256_si128 as first_half,
    _mm256_cvtepu32_epi64 as widen, _mm256_extracti128_si256 as half, _mm256_loadu_si256 as load_vector,
    _mm256_min_epu32 as min32, _mm256_mul_epu32 as product32, _mm256_mullo_epi32 as low_product32,
    _mm256_packus_epi32, _mm256_permute2x128_si256, _mm256_permute4x64_epi64, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_setr_epi64x, _mm256_setzero_si256 as zero, _mm256_shuffle_ps,
    _mm256_slli_epi32 as left32, _mm256_slli_epi64, _mm256_srli_epi32 as right32,
    _mm256_srli_epi64 as right64, _mm256_srlv_epi32 as right_each, _mm256_storeu_si256 as store_vector,
    _mm256_sub_epi32 as sub32, _mm256_xor_si256 as xor,
};

/// Names per vector.
const LANES: usize = 8;
/// Vectors per round.
const ROUND: usize = 8;

/// A vector assembled from lanes in registers: see [`crate::lanes`].
macro_rules! vector {
    (|$i:ident| $lane:expr) => {
        crate::lanes::vector!(@ _mm256_setr_epi32 $i $lane; 0 1 2 3 4 5 6 7)
    };
}

vector_kernel!(
    /// Eight names per vector.
    Avx2, "avx2,bmi1,bmi2,popcnt"
);

/// The low words of the products of 64-bit lanes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn product(x: Vector, y: Vector) -> Vector {
    let cross = add64(product32(right64::<32>(x), y), product32(x, right64::<32>(y)));
    add64(product32(x, y), _mm256_slli_epi64::<32>(cross))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn low_halves(words: [Vector; 2]) -> Vector {
    halves::<0b10_00_10_00>(words)
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn high_halves(words: [Vector; 2]) -> Vector {
    halves::<0b11_01_11_01>(words)
}

/// One half of each of eight words: those that `WHICH` selects.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn halves<const WHICH: i32>([low, high]: [Vector; 2]) -> Vector {
    // The shuffle works within 128-bit lanes, so the words in the middle are swapped first.
    let first = _mm256_permute2x128_si256::<0x20>(low, high);
    let second = _mm256_permute2x128_si256::<0x31>(low, high);
    _mm256_castps_si256(_mm256_shuffle_ps::<WHICH>(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second)))
}

/// The lanes of a vector, in one cache line: see [`crate::lanes`].
#[repr(align(32))]
struct Lanes([u32; LANES]);

/// Eight names in one cache line.
#[repr(align(64))]
struct AlignedNames([KeyHash; LANES]);

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn lanes(vector: Vector) -> Lanes {
    let mut lanes = Lanes([0; LANES]);
    // SAFETY: writes 32 bytes to an array of 32 bytes.
    unsafe { store_vector(lanes.0.as_mut_ptr().cast(), vector) };
    lanes
}

/// Fewer names than a vector has lanes, and the last one in the other lanes.
///
/// # Panics
/// If there are none.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn filled(names: &[KeyHash]) -> AlignedNames {
    let name = |i: usize| names[i.min(names.len() - 1)].get().cast_signed();
    let mut filled = AlignedNames([KeyHash::new(0); LANES]);
    let start = filled.0.as_mut_ptr().cast::<Vector>();
    // SAFETY: `KeyHash` is a `u64`; writes eight words to an array of eight.
    unsafe {
        store_vector(start, _mm256_setr_epi64x(name(0), name(1), name(2), name(3)));
        store_vector(start.add(1), _mm256_setr_epi64x(name(4), name(5), name(6), name(7)));
    }
    filled
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn load(names: &[KeyHash; LANES]) -> [Vector; 2] {
    let start = names.as_ptr().cast::<Vector>();
    // SAFETY: `KeyHash` is a `u64`; reads an array as long as two vectors.
    unsafe { [load_vector(start), load_vector(start.add(1))] }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn splat(lane: u32) -> Vector {
    _mm256_set1_epi32(lane.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn splat64(lane: u64) -> Vector {
    _mm256_set1_epi64x(lane.cast_signed())
}

/// Stores the low halves of eight words below 2^16.
///
/// # Safety
/// There must be room for them.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn store_low_halves(to: *mut u16, words: Vector) {
    // The packing works within 128-bit lanes.
    let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(words, zero()));
    // SAFETY: guaranteed by the caller.
    unsafe { _mm_storeu_si128(to.cast(), first_half(packed)) };
}
