//! One system of equations with AVX-512: sixteen rows in each of two vectors.
#![allow(unsafe_code, reason = "see SAFETY")]

use super::{Equations, Fields, Single};
use crate::setsep::linear::{FINAL_32, MULTIPLIER_32, SEED_STEP_32};
use std::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm512_and_si512, _mm512_loadu_si512, _mm512_mask_reduce_or_epi32,
    _mm512_mask_xor_epi32, _mm512_maskz_or_epi32, _mm512_mullo_epi32, _mm512_permutexvar_epi32,
    _mm512_reduce_max_epu32, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_sll_epi32, _mm512_srl_epi32,
    _mm512_srli_epi32, _mm512_sub_epi32, _mm512_test_epi32_mask, _mm512_xor_si512,
};

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn splat(word: u32) -> __m512i {
    _mm512_set1_epi32(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn lowest(rows: __m512i) -> __m512i {
    _mm512_and_si512(rows, _mm512_sub_epi32(_mm512_setzero_si512(), rows))
}

/// The vectors of the equations under a seed, or `None` on a contradiction.
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
pub(super) fn eliminate(single: &Single, equations: &Equations, seed: u32) -> Option<Fields> {
    let &Equations { ref keys, ref values, count } = equations;
    let columns = single.shape.columns;
    let multiplier = splat(MULTIPLIER_32.wrapping_add(seed.wrapping_mul(SEED_STEP_32)));
    let shift = _mm_cvtsi32_si128((u32::BITS - columns).cast_signed());
    let up = _mm_cvtsi32_si128(columns.cast_signed());
    let rows = |half: usize, present: u16| {
        // SAFETY: reads sixteen of the 32 words; `half` is 0 or 1.
        let (keys, values) = unsafe {
            (
                _mm512_loadu_si512(keys.as_ptr().add(half * 16).cast()),
                _mm512_loadu_si512(values.as_ptr().add(half * 16).cast()),
            )
        };
        let x = _mm512_mullo_epi32(_mm512_xor_si512(keys, splat(single.key())), multiplier);
        let x = _mm512_xor_si512(x, _mm512_srli_epi32::<15>(x));
        let row = _mm512_srl_epi32(_mm512_mullo_epi32(x, splat(FINAL_32)), shift);
        _mm512_maskz_or_epi32(present, row, _mm512_sll_epi32(values, up))
    };
    let present = u32::MAX.checked_shr(u32::BITS - count as u32).unwrap_or(0);
    let (mut low, mut high) = (rows(0, present as u16), rows(1, (present >> 16) as u16));
    // Adds the row to those of `rows` that have its pivot; `lanes` explains how. `others` excludes the
    // row itself.
    let add = |rows, others, row, pivot| {
        let from_pivot_up = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_and_si512(rows, pivot));
        _mm512_mask_xor_epi32(rows, others, rows, _mm512_and_si512(from_pivot_up, row))
    };
    for at in 0..count.min(16) {
        let row = _mm512_permutexvar_epi32(splat(at as u32), low);
        let pivot = lowest(row);
        (low, high) = (add(low, !(1 << at), row, pivot), add(high, !0, row, pivot));
    }
    for at in 16..count {
        let row = _mm512_permutexvar_epi32(splat(at as u32 - 16), high);
        let pivot = lowest(row);
        (low, high) = (add(low, !0, row, pivot), add(high, !(1 << (at - 16)), row, pivot));
    }
    let pivots = [lowest(low), lowest(high)];
    let highest = _mm512_reduce_max_epu32(pivots[0]).max(_mm512_reduce_max_epu32(pivots[1]));
    if highest >> columns != 0 {
        return None; // 0 = 1
    }
    let mut vectors = [0; 8];
    for (bit, vector) in (columns..).zip(&mut vectors).take(single.value_bits) {
        let mask = splat(1 << bit);
        let part = |rows, pivots| {
            _mm512_mask_reduce_or_epi32(_mm512_test_epi32_mask(rows, mask), pivots).cast_unsigned()
        };
        *vector = u64::from(part(low, pivots[0]) | part(high, pivots[1]));
    }
    Some(vectors)
}
