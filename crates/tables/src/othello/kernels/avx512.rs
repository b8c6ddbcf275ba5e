//! The vector stages of a batch with AVX-512: sixteen names per vector.
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "unaligned loads and stores take vectors by such pointers")]

use super::vectors::vector_stages;
use std::arch::x86_64::{
    __m512i as Vector, _mm512_add_epi32 as add32, _mm512_add_epi64 as add64, _mm512_and_si512 as and,
    _mm512_castsi512_si256 as first_half, _mm512_cvtepu32_epi64 as widen, _mm512_extracti64x4_epi64 as half,
    _mm512_loadu_si512 as load_vector, _mm512_min_epu32 as min32, _mm512_mul_epu32 as product32,
    _mm512_mullo_epi32 as low_product32, _mm512_mullo_epi64 as product, _mm512_permutex2var_epi32,
    _mm512_set1_epi32 as set32, _mm512_set1_epi64 as set64, _mm512_setr_epi32, _mm512_setzero_si512 as zero,
    _mm512_slli_epi32 as left32, _mm512_srli_epi32 as right32, _mm512_srli_epi64 as right64,
    _mm512_storeu_si512 as store_vector, _mm512_sub_epi32 as sub32, _mm512_xor_si512 as xor,
};

vector_stages!(
    /// Sixteen names per vector.
    Avx512, 16, "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2"
);

/// The low halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn low_halves([low, high]: [Vector; 2]) -> Vector {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_permutex2var_epi32(low, even, high)
}

/// The high halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn high_halves([low, high]: [Vector; 2]) -> Vector {
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    _mm512_permutex2var_epi32(low, odd, high)
}
