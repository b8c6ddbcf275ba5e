//! Lookups with AVX-512: sixteen names per vector.
#![allow(unsafe_code)]

use super::vectors::vector_kernel;
use crate::lanes::avx512::{LANES, filled, high_halves, lanes, load, low_halves, splat, splat64};
use crate::lanes::vector;
use std::arch::x86_64::{
    __m512i as Vector, _mm256_storeu_si256, _mm512_add_epi32 as add32, _mm512_add_epi64 as add64,
    _mm512_and_si512 as and, _mm512_castsi512_si256 as first_half, _mm512_cvtepi32_epi16,
    _mm512_cvtepu32_epi64 as widen, _mm512_extracti64x4_epi64 as half, _mm512_min_epu32 as min32,
    _mm512_mul_epu32 as product32, _mm512_mullo_epi32 as low_product32, _mm512_mullo_epi64 as product,
    _mm512_setzero_si512 as zero, _mm512_slli_epi32 as left32, _mm512_srli_epi32 as right32,
    _mm512_srli_epi64 as right64, _mm512_srlv_epi32 as right_each, _mm512_storeu_si512 as store_vector,
    _mm512_sub_epi32 as sub32, _mm512_xor_si512 as xor,
};

/// Vectors per round.
const ROUND: usize = 4;

vector_kernel!(
    /// Sixteen names per vector.
    Avx512, "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2"
);

/// Stores the low halves of sixteen words.
///
/// # Safety
/// There must be room for them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
unsafe fn store_low_halves(to: *mut u16, words: Vector) {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(words)) };
}
