//! Solves systems of linear equations in vector lanes with AVX-512: sixteen lanes of 32 bits, with the whole
//! system in registers, or eight lanes of 64 bits.
#![allow(unsafe_code, reason = "see SAFETY")]
#![allow(clippy::wildcard_imports, reason = "intrinsics are named by what they belong to")]

use super::lanes::{BITS_AT_ONCE, Batch, LANES, Vectors, Word, gauss_jordan};
use std::arch::x86_64::__m512i;

macro_rules! operations {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(
            #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2")]
            #[inline]
            pub(super) fn $name($($argument: $type),*) $(-> $result)? $body
        )*
    };
}

/// Operations on sixteen words of 32 bits.
mod narrow {
    use super::super::super::linear::FINAL_32;
    use super::LANES;
    use std::arch::x86_64::*;

    operations! {
        fn zero() -> __m512i { _mm512_setzero_si512() }
        fn splat(word: u32) -> __m512i { _mm512_set1_epi32(word.cast_signed()) }
        fn load(words: &[u32; LANES]) -> __m512i {
            // SAFETY: the 64 bytes read are this array.
            unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
        }
        fn store(words: &mut [u32; LANES], lanes: __m512i) {
            // SAFETY: the 64 bytes written are this array.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), lanes) }
        }
        fn widen(bytes: &[u8; LANES]) -> __m512i {
            // SAFETY: the 16 bytes read are this array.
            _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
        }
        fn left(a: __m512i, bits: u32) -> __m512i {
            _mm512_sll_epi32(a, _mm_cvtsi32_si128(bits.cast_signed()))
        }
        fn right(a: __m512i, bits: u32) -> __m512i {
            _mm512_srl_epi32(a, _mm_cvtsi32_si128(bits.cast_signed()))
        }
        fn hash(key: __m512i, multiplier: __m512i, columns: u32) -> __m512i {
            let x = _mm512_mullo_epi32(key, multiplier);
            let x = _mm512_xor_si512(x, _mm512_srli_epi32::<15>(x));
            right(_mm512_mullo_epi32(x, splat(FINAL_32)), u32::BITS - columns)
        }
        fn or_if_less(a: __m512i, b: __m512i, first: __m512i, second: __m512i) -> __m512i {
            _mm512_maskz_or_epi32(_mm512_cmplt_epu32_mask(a, b), first, second)
        }
        fn lowest(row: __m512i) -> __m512i { _mm512_and_si512(row, _mm512_sub_epi32(zero(), row)) }
        fn add_if(row: __m512i, pivot: __m512i, add: __m512i) -> __m512i {
            let from_pivot_up = _mm512_sub_epi32(zero(), _mm512_and_si512(row, pivot));
            _mm512_ternarylogic_epi32::<0x78>(row, add, from_pivot_up) // a ^ b & c
        }
        fn or_if_bit(to: __m512i, row: __m512i, bit: __m512i, or: __m512i) -> __m512i {
            _mm512_mask_or_epi32(to, _mm512_test_epi32_mask(row, bit), to, or)
        }
    }
}

/// Operations on eight words of 64 bits.
mod wide {
    use super::super::super::linear::FINAL_64;
    use super::LANES;
    use std::arch::x86_64::*;

    pub(super) const WIDTH: usize = 8;

    operations! {
        fn zero() -> __m512i { _mm512_setzero_si512() }
        fn splat(word: u64) -> __m512i { _mm512_set1_epi64(word.cast_signed()) }
        fn load(words: &[u64; LANES], part: usize) -> __m512i {
            let eight = &words.as_chunks::<WIDTH>().0[part];
            // SAFETY: the 64 bytes read are this array.
            unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) }
        }
        fn store(words: &mut [u64; LANES], part: usize, lanes: __m512i) {
            let eight = &mut words.as_chunks_mut::<WIDTH>().0[part];
            // SAFETY: the 64 bytes written are this array.
            unsafe { _mm512_storeu_si512(eight.as_mut_ptr().cast(), lanes) }
        }
        fn widen(bytes: &[u8; LANES], part: usize) -> __m512i {
            let eight = i64::from_le_bytes(bytes.as_chunks::<WIDTH>().0[part]);
            _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(eight))
        }
        fn xor(a: __m512i, b: __m512i) -> __m512i { _mm512_xor_si512(a, b) }
        fn or(a: __m512i, b: __m512i) -> __m512i { _mm512_or_si512(a, b) }
        fn left(a: __m512i, bits: u32) -> __m512i {
            _mm512_sll_epi64(a, _mm_cvtsi32_si128(bits.cast_signed()))
        }
        fn right(a: __m512i, bits: u32) -> __m512i {
            _mm512_srl_epi64(a, _mm_cvtsi32_si128(bits.cast_signed()))
        }
        fn hash(key: __m512i, multiplier: __m512i, columns: u32) -> __m512i {
            let x = _mm512_mullo_epi64(key, multiplier);
            let x = xor(x, _mm512_srli_epi64::<32>(x));
            right(_mm512_mullo_epi64(x, splat(FINAL_64)), u64::BITS - columns)
        }
        fn if_less(a: __m512i, b: __m512i, then: __m512i) -> __m512i {
            _mm512_maskz_mov_epi64(_mm512_cmplt_epu64_mask(a, b), then)
        }
        fn lowest(row: __m512i) -> __m512i { _mm512_and_si512(row, _mm512_sub_epi64(zero(), row)) }
        fn add_if(to: __m512i, row: __m512i, pivot: __m512i, add: __m512i) -> __m512i {
            let from_pivot_up = _mm512_sub_epi64(zero(), _mm512_and_si512(row, pivot));
            _mm512_ternarylogic_epi64::<0x78>(to, add, from_pivot_up) // a ^ b & c
        }
        fn or_if_bit(to: __m512i, row: __m512i, bit: u32, or: __m512i) -> __m512i {
            let bit = left(splat(1), bit); // none, if above the word
            _mm512_mask_or_epi64(to, _mm512_test_epi64_mask(row, bit), to, or)
        }
        fn zeros(lanes: __m512i) -> u16 { _mm512_testn_epi64_mask(lanes, lanes).into() }
    }
}

gauss_jordan!(
    /// Eight systems of 64-bit equations at a time.
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2")]
    u64, u64, wide
);

/// Solves sixteen systems of 32-bit equations, with as many rows as the largest system has.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2")]
pub(super) fn u32(batch: &Batch<'_, u32>, vectors: &mut Vectors<u32>) -> u16 {
    macro_rules! by_rows {
        ($($rows:literal)*) => {
            match batch.hashes.len() {
                ..=8 => in_registers::<8>(batch, vectors),
                $($rows => in_registers::<$rows>(batch, vectors),)*
                _ => in_registers::<32>(batch, vectors),
            }
        };
    }
    by_rows!(9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
}

/// Solves sixteen systems of `ROWS` equations. The rows rotate through the registers, so that the current row
/// is always the first one. The loop body is then the code for one row; rows at fixed places would need code
/// for every pair of rows.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2")]
fn in_registers<const ROWS: usize>(batch: &Batch<'_, u32>, vectors: &mut Vectors<u32>) -> u16 {
    use std::arch::x86_64::{_mm512_or_si512, _mm512_testn_epi32_mask, _mm512_xor_si512};
    let (multiplier, key) = (narrow::load(batch.multipliers), narrow::splat(batch.key));
    let load = narrow::widen(batch.loads);
    let mut rows: [__m512i; ROWS] = [narrow::zero(); ROWS];
    let keys = batch.hashes.iter().zip(batch.values);
    for (at, (row, (hashes, values))) in (0..).zip(rows.iter_mut().zip(keys)) {
        let hash = _mm512_xor_si512(narrow::load(hashes), key);
        let bits = narrow::hash(hash, multiplier, batch.columns);
        let value = narrow::left(narrow::right(narrow::widen(values), batch.shift), batch.columns);
        *row = narrow::or_if_less(narrow::splat(at), load, bits, value);
    }
    for _ in 0..ROWS {
        let first = rows[0];
        let pivot = narrow::lowest(first);
        for row in 1..ROWS {
            rows[row - 1] = narrow::add_if(rows[row], pivot, first);
        }
        rows[ROWS - 1] = first;
    }
    let mut pivots = narrow::zero();
    let mut solution = [narrow::zero(); BITS_AT_ONCE];
    let mut bits = solution;
    for (at, bit) in (batch.columns..).zip(&mut bits) {
        *bit = narrow::left(narrow::splat(1), at); // none, if above the word
    }
    for row in rows {
        let pivot = narrow::lowest(row);
        pivots = _mm512_or_si512(pivots, pivot);
        for (vector, &bit) in solution.iter_mut().zip(&bits) {
            *vector = narrow::or_if_bit(*vector, row, bit, pivot);
        }
    }
    for (vector, lanes) in solution.into_iter().zip(vectors) {
        narrow::store(lanes, vector);
    }
    let contradictions = narrow::right(pivots, batch.columns);
    _mm512_testn_epi32_mask(contradictions, contradictions)
}
