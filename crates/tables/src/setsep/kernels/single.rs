//! Solves one system of linear equations with AVX-512, for an update that changes a single group.
//!
//! The sixteen lanes of [`lanes`](super::lanes) take as long for one group as for sixteen. Here the lanes are
//! the rows of one system, up to 32 in two vectors. Each row in turn is broadcast to all lanes, and added to
//! those that have its pivot (its lowest set bit), except itself. [`lanes`](super::lanes) explains pivots,
//! zero rows and contradictions.
#![allow(unsafe_code, reason = "see SAFETY")]

use super::AvailableIsa;
use super::lanes::BITS_AT_ONCE;
use crate::isa::Isa;
use crate::setsep::linear::{FieldLayout, Rows};
use crate::setsep::params::Params;
use crate::setsep::solver::Fields;

/// Rows per system.
const ROWS: usize = 32;

/// The solver for single groups of format Linear with values of up to four bits.
#[derive(Debug, Clone, Copy)]
pub(in crate::setsep) struct Single {
    shape: FieldLayout,
    key: u32,
    value_bits: usize,
}

impl Single {
    /// The solver for these parameters, if there is one.
    pub(in crate::setsep) fn new(params: &Params, isa: Isa) -> Option<Self> {
        let fits = params.format().is_linear()
            && params.format().field_bits() == u32::BITS
            && usize::from(params.value_bits()) <= BITS_AT_ONCE;
        let present = cfg!(target_arch = "x86_64") && AvailableIsa::new(isa).isa() >= Isa::Avx512;
        (fits && present).then(|| Self {
            shape: FieldLayout::of(params),
            key: Rows::of(params).key() as u32, // rows are made of the low half
            value_bits: params.value_bits().into(),
        })
    }

    /// The canonical fields of a group of at most 32 keys, or `None` if no seed has a solution.
    #[cfg_attr(not(target_arch = "x86_64"), expect(clippy::unused_self, reason = "never made"))]
    pub(in crate::setsep) fn solve(&self, hashes: &[u64], values: &[u8]) -> Option<Fields> {
        let count = hashes.len().min(ROWS).min(values.len());
        let (mut keys, mut asked) = ([0; ROWS], [0; ROWS]);
        for ((key, ask), (&hash, &value)) in keys.iter_mut().zip(&mut asked).zip(hashes.iter().zip(values)) {
            (*key, *ask) = (hash as u32, u32::from(value)); // the low half makes the row
        }
        #[cfg(target_arch = "x86_64")]
        {
            (0..self.shape.seeds()).find_map(|seed| {
                // SAFETY: `new` checked that this processor has AVX-512 F, BW, CD, DQ and VL.
                let vectors = unsafe { x86::eliminate(self, &keys, &asked, count, seed) }?;
                Some(self.shape.fields(vectors, seed))
            })
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (keys, asked, count, self.key, self.value_bits);
            None
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Fields, ROWS, Single};
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

    /// The vectors of the first `count` equations under a seed, or `None` on a contradiction.
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
    pub(super) fn eliminate(
        single: &Single,
        keys: &[u32; ROWS],
        values: &[u32; ROWS],
        count: usize,
        seed: u32,
    ) -> Option<Fields> {
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
            let x = _mm512_mullo_epi32(_mm512_xor_si512(keys, splat(single.key)), multiplier);
            let x = _mm512_xor_si512(x, _mm512_srli_epi32::<15>(x));
            let row = _mm512_srl_epi32(_mm512_mullo_epi32(x, splat(FINAL_32)), shift);
            _mm512_maskz_or_epi32(present, row, _mm512_sll_epi32(values, up))
        };
        let present = u32::MAX.checked_shr(ROWS as u32 - count as u32).unwrap_or(0);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setsep::format::Format;
    use crate::setsep::geometry::mix64;
    use crate::setsep::linear;
    use crate::setsep::solver::GroupKeys;
    use scalebricks_types::PartitionCount;

    #[test]
    fn equals_the_definition() {
        for (bits, isa) in
            (1..=4).flat_map(|bits| crate::isa::compared().into_iter().map(move |isa| (bits, isa)))
        {
            let params =
                Params::new(1, bits, PartitionCount::ONE).unwrap().with_format(Format::Linear).unwrap();
            let params = params.with_seed(bits.into());
            let single = Single::new(&params, isa);
            assert_eq!(single.is_some(), isa >= Isa::Avx512, "{isa}");
            let Some(single) = single else { continue };
            for n in 0..=32 {
                for round in 0..if cfg!(miri) { 1 } else { 40 } {
                    let mut keys = GroupKeys::default();
                    for i in 0..n {
                        let hash = mix64(i ^ round << 8 ^ u64::from(bits) << 32 ^ 1 << 63);
                        keys.push(hash, (mix64(hash) & ((1 << bits) - 1)) as u8);
                    }
                    assert_eq!(
                        single.solve(&keys.hashes, &keys.values),
                        linear::solve(&keys, &params),
                        "{n}, {isa}"
                    );
                }
            }
        }
    }
}
