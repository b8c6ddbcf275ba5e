//! One system of equations with AVX2: eight rows in each of up to four vectors, as many as the keys need.
#![allow(unsafe_code, reason = "see SAFETY")]

use super::super::avx2::narrow::{WIDTH, add_if, hash, left, lowest, or, or_if_bit, right, splat, xor, zero};
use super::{Equations, Fields, ROWS, Single};
use crate::setsep::linear::{MULTIPLIER_32, SEED_STEP_32};
use std::arch::x86_64::{
    __m256i, _mm_cvtsi128_si64, _mm_or_si128, _mm_unpackhi_epi64, _mm256_and_si256, _mm256_castsi256_si128,
    _mm256_cmpgt_epi32, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_permutevar8x32_epi32,
    _mm256_testz_si256,
};

/// For each lane, a vector that has only this lane set.
const ONE_LANE: [[u32; WIDTH]; WIDTH] = {
    let (mut all, mut lane) = ([[0; WIDTH]; WIDTH], 0);
    while lane < WIDTH {
        all[lane][lane] = u32::MAX;
        lane += 1;
    }
    all
};

#[target_feature(enable = "avx2")]
#[inline]
fn load(words: &[u32; WIDTH]) -> __m256i {
    // SAFETY: the 32 bytes read are this array.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// The OR of all lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn or_of_lanes(lanes: __m256i) -> u32 {
    let four = _mm_or_si128(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
    let two = _mm_cvtsi128_si64(_mm_or_si128(four, _mm_unpackhi_epi64(four, four))).cast_unsigned();
    (two | two >> 32) as u32
}

/// The vectors of the equations under a seed, or `None` on a contradiction.
#[target_feature(enable = "avx2")]
pub(super) fn eliminate(single: &Single, equations: &Equations, seed: u32) -> Option<Fields> {
    match equations.count {
        0..=8 => in_vectors::<1>(single, equations, seed),
        9..=16 => in_vectors::<2>(single, equations, seed),
        17..=24 => in_vectors::<3>(single, equations, seed),
        _ => in_vectors::<{ ROWS / WIDTH }>(single, equations, seed),
    }
}

#[target_feature(enable = "avx2")]
fn in_vectors<const VECTORS: usize>(single: &Single, equations: &Equations, seed: u32) -> Option<Fields> {
    let columns = single.shape.columns;
    let multiplier = splat(MULTIPLIER_32.wrapping_add(seed.wrapping_mul(SEED_STEP_32)));
    let (keys, values) = (equations.keys.as_chunks::<WIDTH>().0, equations.values.as_chunks::<WIDTH>().0);
    let mut rows = [zero(); VECTORS];
    for (at, rows) in rows.iter_mut().enumerate() {
        let row = hash(xor(load(&keys[at]), splat(single.key())), multiplier, columns);
        let first = (at * WIDTH) as u32; // below 32
        let lane = xor(splat(first), load(&[0, 1, 2, 3, 4, 5, 6, 7]));
        let is_key = _mm256_cmpgt_epi32(splat(equations.count as u32), lane); // at most 32
        *rows = _mm256_and_si256(is_key, or(row, left(load(&values[at]), columns)));
    }
    for at in 0..equations.count.min(VECTORS * WIDTH) {
        let (vector, lane) = (at / WIDTH, at % WIDTH);
        let row = _mm256_permutevar8x32_epi32(rows[vector], splat(lane as u32));
        let pivot = lowest(row);
        for rows in &mut rows {
            *rows = add_if(*rows, *rows, pivot, row);
        }
        // The row was added to itself.
        rows[vector] = or(rows[vector], _mm256_and_si256(row, load(&ONE_LANE[lane])));
    }
    let pivots = rows.map(|rows| lowest(rows));
    let all = pivots.into_iter().fold(zero(), |all, pivots| or(all, pivots));
    let above = right(all, columns);
    if _mm256_testz_si256(above, above) == 0 {
        return None; // 0 = 1
    }
    let mut vectors = [0; 8];
    for (bit, vector) in (columns..).zip(&mut vectors).take(single.value_bits) {
        let of = rows.iter().zip(&pivots);
        *vector =
            or_of_lanes(of.fold(zero(), |all, (&rows, &pivots)| or_if_bit(all, rows, bit, pivots))).into();
    }
    Some(vectors)
}
