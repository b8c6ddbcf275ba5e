//! Lookups in groups with 64-bit fields: eight keys per vector.

use super::{FieldLayout, Rows, TableView, parity32};
use crate::lanes::avx512::splat64;
use crate::lanes::vector64;
use crate::setsep::linear::{FINAL_64, MULTIPLIER_64, SEED_STEP_64};
use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_mullo_epi64, _mm512_or_si512, _mm512_setzero_si512,
    _mm512_sllv_epi64, _mm512_srli_epi64, _mm512_srlv_epi64, _mm512_xor_si512,
};

/// The 64-bit fields of eight groups that begin at these words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn fields64<const L: usize>(blocks: &TableView<'_>, at: &[u32]) -> [__m512i; L] {
    let mut fields = [_mm512_setzero_si512(); L];
    for (bit, field) in fields.iter_mut().enumerate() {
        // SAFETY: reads a field of the group.
        *field = vector64!(|i| unsafe { blocks.word(at[i] as usize + bit) });
    }
    fields
}

/// The seeds in these 64-bit fields.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn seeds64<const L: usize>(fields: &[__m512i; L]) -> __m512i {
    let shape = const { FieldLayout::new(64, L as u32) };
    let (columns, mask) = (splat64(shape.columns.into()), splat64((1 << shape.seed_bits) - 1));
    let mut seeds = _mm512_setzero_si512();
    for part in (0..shape.seed_fields).rev() {
        let bits = _mm512_and_si512(_mm512_srlv_epi64(fields[part as usize], columns), mask);
        seeds = _mm512_or_si512(_mm512_sllv_epi64(seeds, splat64(shape.seed_bits.into())), bits);
    }
    seeds
}

/// [`Rows::row`] of eight keys.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn rows64<const L: usize>(hashes: __m512i, seeds: __m512i, rows: Rows) -> __m512i {
    let shift = const { 64 - FieldLayout::new(64, L as u32).columns };
    let x = _mm512_xor_si512(hashes, splat64(rows.key()));
    let step = _mm512_mullo_epi64(seeds, splat64(SEED_STEP_64));
    let x = _mm512_mullo_epi64(x, _mm512_add_epi64(step, splat64(MULTIPLIER_64)));
    let x = _mm512_xor_si512(x, _mm512_srli_epi64::<32>(x));
    _mm512_srlv_epi64(_mm512_mullo_epi64(x, splat64(FINAL_64)), splat64(shift.into()))
}

/// The parity of each lane, in its lowest bit.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn parity64(x: __m512i) -> __m512i {
    parity32(_mm512_xor_si512(x, _mm512_srli_epi64::<32>(x)))
}
