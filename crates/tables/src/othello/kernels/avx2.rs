//! The vector stages of a batch with AVX2: eight names per vector. AVX2 has no 64-bit product, so each is
//! computed from three 32-bit products.
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "unaligned loads and stores take vectors by such pointers")]

use super::vectors::vector_stages;
use std::arch::x86_64::{
    __m256i as Vector, _mm256_add_epi32 as add32, _mm256_add_epi64 as add64, _mm256_and_si256 as and,
    _mm256_castps_si256, _mm256_castsi256_ps, _mm256_castsi256_si128 as first_half,
    _mm256_cvtepu32_epi64 as widen, _mm256_extracti128_si256 as half, _mm256_loadu_si256 as load_vector,
    _mm256_min_epu32 as min32, _mm256_mul_epu32 as product32, _mm256_mullo_epi32 as low_product32,
    _mm256_permute2x128_si256, _mm256_set1_epi32 as set32, _mm256_set1_epi64x as set64,
    _mm256_setzero_si256 as zero, _mm256_shuffle_ps, _mm256_slli_epi32 as left32, _mm256_slli_epi64,
    _mm256_srli_epi32 as right32, _mm256_srli_epi64 as right64, _mm256_storeu_si256 as store_vector,
    _mm256_sub_epi32 as sub32, _mm256_xor_si256 as xor,
};

vector_stages!(
    /// Eight names per vector.
    Avx2, 8, "avx2,bmi1,bmi2,popcnt"
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
