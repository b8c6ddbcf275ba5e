//! Lookups with AVX2: eight names per vector. AVX2 has no 64-bit product, so each is
//! computed from three 32-bit products.
#![allow(unsafe_code)]

use super::vectors::vector_kernel;
use crate::lanes::avx2::{LANES, filled, high_halves, lanes, load, low_halves, splat, splat64};
use crate::lanes::vector_avx2 as vector;
use std::arch::x86_64::{
    __m256i as Vector, _mm_storeu_si128, _mm256_add_epi32 as add32, _mm256_add_epi64 as add64,
    _mm256_and_si256 as and, _mm256_castsi256_si128 as first_half, _mm256_cvtepu32_epi64 as widen,
    _mm256_extracti128_si256 as half, _mm256_min_epu32 as min32, _mm256_mul_epu32 as product32,
    _mm256_mullo_epi32 as low_product32, _mm256_packus_epi32, _mm256_permute4x64_epi64,
    _mm256_setzero_si256 as zero, _mm256_slli_epi32 as left32, _mm256_slli_epi64,
    _mm256_srli_epi32 as right32, _mm256_srli_epi64 as right64, _mm256_srlv_epi32 as right_each,
    _mm256_storeu_si256 as store_vector, _mm256_sub_epi32 as sub32, _mm256_xor_si256 as xor,
};

/// Vectors per round.
const ROUND: usize = 8;

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
