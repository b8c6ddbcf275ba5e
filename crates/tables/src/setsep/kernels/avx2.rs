//! Solves systems of linear equations in vector lanes with AVX2: eight lanes of 32 bits or four of 64.
#![allow(unsafe_code, reason = "see SAFETY")]
#![allow(clippy::wildcard_imports, reason = "intrinsics are named by what they belong to")]

use super::lanes::{BITS_AT_ONCE, Batch, LANES, Vectors, Word, gauss_jordan};

macro_rules! operations {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(
            #[target_feature(enable = "avx2")]
            #[inline]
            pub(in crate::setsep::kernels) fn $name($($argument: $type),*) $(-> $result)? $body
        )*
    };
}

/// Operations on eight words of 32 bits.
pub(super) mod narrow {
    use super::super::super::linear::FINAL_32;
    use super::LANES;
    use std::arch::x86_64::*;

    pub(in crate::setsep::kernels) const WIDTH: usize = 8;

    operations! {
        fn zero() -> __m256i { _mm256_setzero_si256() }
        fn splat(word: u32) -> __m256i { _mm256_set1_epi32(word.cast_signed()) }
        fn load(words: &[u32; LANES], part: usize) -> __m256i {
            let eight = &words.as_chunks::<WIDTH>().0[part];
            // SAFETY: the 32 bytes read are this array.
            unsafe { _mm256_loadu_si256(eight.as_ptr().cast()) }
        }
        fn store(words: &mut [u32; LANES], part: usize, lanes: __m256i) {
            let eight = &mut words.as_chunks_mut::<WIDTH>().0[part];
            // SAFETY: the 32 bytes written are this array.
            unsafe { _mm256_storeu_si256(eight.as_mut_ptr().cast(), lanes) }
        }
        fn widen(bytes: &[u8; LANES], part: usize) -> __m256i {
            let eight = i64::from_le_bytes(bytes.as_chunks::<WIDTH>().0[part]);
            _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(eight))
        }
        fn xor(a: __m256i, b: __m256i) -> __m256i { _mm256_xor_si256(a, b) }
        fn or(a: __m256i, b: __m256i) -> __m256i { _mm256_or_si256(a, b) }
        fn left(a: __m256i, bits: u32) -> __m256i {
            _mm256_sll_epi32(a, _mm_cvtsi32_si128(bits.cast_signed()))
        }
        fn right(a: __m256i, bits: u32) -> __m256i {
            _mm256_srl_epi32(a, _mm_cvtsi32_si128(bits.cast_signed()))
        }
        fn hash(key: __m256i, multiplier: __m256i, columns: u32) -> __m256i {
            let x = _mm256_mullo_epi32(key, multiplier);
            let x = xor(x, _mm256_srli_epi32::<15>(x));
            right(_mm256_mullo_epi32(x, splat(FINAL_32)), u32::BITS - columns)
        }
        fn if_less(a: __m256i, b: __m256i, then: __m256i) -> __m256i {
            _mm256_and_si256(_mm256_cmpgt_epi32(b, a), then)
        }
        fn lowest(row: __m256i) -> __m256i { _mm256_and_si256(row, _mm256_sub_epi32(zero(), row)) }
        fn add_if(to: __m256i, row: __m256i, pivot: __m256i, add: __m256i) -> __m256i {
            // The sign of 0 zeroes the added row. Only the highest bit is negative as a number, and a row
            // with that pivot is its own negative.
            xor(to, _mm256_sign_epi32(add, _mm256_and_si256(row, pivot)))
        }
        fn or_if_bit(to: __m256i, row: __m256i, bit: u32, or_in: __m256i) -> __m256i {
            // For bits above the word the shift count wraps to a huge number, which shifts everything out.
            let all = _mm256_srai_epi32::<31>(left(row, 31_u32.wrapping_sub(bit)));
            or(to, _mm256_and_si256(all, or_in))
        }
        fn zeros(lanes: __m256i) -> u16 {
            let equal = _mm256_cmpeq_epi32(lanes, zero());
            _mm256_movemask_ps(_mm256_castsi256_ps(equal)).cast_unsigned() as u16 // eight bits
        }
    }
}

/// Operations on four words of 64 bits.
mod wide {
    use super::super::super::linear::FINAL_64;
    use super::LANES;
    use std::arch::x86_64::*;

    pub(super) const WIDTH: usize = 4;

    operations! {
        fn zero() -> __m256i { _mm256_setzero_si256() }
        fn splat(word: u64) -> __m256i { _mm256_set1_epi64x(word.cast_signed()) }
        fn load(words: &[u64; LANES], part: usize) -> __m256i {
            let four = &words.as_chunks::<WIDTH>().0[part];
            // SAFETY: the 32 bytes read are this array.
            unsafe { _mm256_loadu_si256(four.as_ptr().cast()) }
        }
        fn store(words: &mut [u64; LANES], part: usize, lanes: __m256i) {
            let four = &mut words.as_chunks_mut::<WIDTH>().0[part];
            // SAFETY: the 32 bytes written are this array.
            unsafe { _mm256_storeu_si256(four.as_mut_ptr().cast(), lanes) }
        }
        fn widen(bytes: &[u8; LANES], part: usize) -> __m256i {
            let four = i32::from_le_bytes(bytes.as_chunks::<WIDTH>().0[part]);
            _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four))
        }
        fn xor(a: __m256i, b: __m256i) -> __m256i { _mm256_xor_si256(a, b) }
        fn or(a: __m256i, b: __m256i) -> __m256i { _mm256_or_si256(a, b) }
        fn left(a: __m256i, bits: u32) -> __m256i {
            _mm256_sll_epi64(a, _mm_cvtsi32_si128(bits.cast_signed()))
        }
        fn right(a: __m256i, bits: u32) -> __m256i {
            _mm256_srl_epi64(a, _mm_cvtsi32_si128(bits.cast_signed()))
        }
        fn multiply(a: __m256i, b: __m256i) -> __m256i {
            // The product of the low halves, plus both cross products shifted above it.
            let cross = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), b);
            let cross = _mm256_add_epi64(cross, _mm256_mul_epu32(a, _mm256_srli_epi64::<32>(b)));
            _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64::<32>(cross))
        }
        fn hash(key: __m256i, multiplier: __m256i, columns: u32) -> __m256i {
            let x = multiply(key, multiplier);
            let x = xor(x, _mm256_srli_epi64::<32>(x));
            right(multiply(x, splat(FINAL_64)), u64::BITS - columns)
        }
        fn if_less(a: __m256i, b: __m256i, then: __m256i) -> __m256i {
            _mm256_and_si256(_mm256_cmpgt_epi64(b, a), then)
        }
        fn lowest(row: __m256i) -> __m256i { _mm256_and_si256(row, _mm256_sub_epi64(zero(), row)) }
        fn add_if(to: __m256i, row: __m256i, pivot: __m256i, add: __m256i) -> __m256i {
            let from_pivot_up = _mm256_sub_epi64(zero(), _mm256_and_si256(row, pivot));
            xor(to, _mm256_and_si256(add, from_pivot_up))
        }
        fn or_if_bit(to: __m256i, row: __m256i, bit: u32, or_in: __m256i) -> __m256i {
            // For bits above the word the shift count wraps to a huge number, which shifts everything out.
            let all = _mm256_cmpgt_epi64(zero(), left(row, 63_u32.wrapping_sub(bit)));
            or(to, _mm256_and_si256(all, or_in))
        }
        fn zeros(lanes: __m256i) -> u16 {
            let equal = _mm256_cmpeq_epi64(lanes, zero());
            _mm256_movemask_pd(_mm256_castsi256_pd(equal)).cast_unsigned() as u16 // four bits
        }
    }
}

gauss_jordan!(
    /// Eight systems of 32-bit equations at a time.
    #[target_feature(enable = "avx2")]
    u32, u32, narrow
);
gauss_jordan!(
    /// Four systems of 64-bit equations at a time.
    #[target_feature(enable = "avx2")]
    u64, u64, wide
);
