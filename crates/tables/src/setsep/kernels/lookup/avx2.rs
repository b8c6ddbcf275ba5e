//! Lookups with AVX2: eight keys per vector, up to four vectors at a time, in the same steps as the AVX-512
//! form.
//!
//! Groups of 64-bit fields need 64-bit products, for which AVX2 has no instruction. They are looked up with
//! the portable form, compiled for processors with POPCNT.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports, reason = "a list of thirty instructions tells nothing")]
#![allow(clippy::cast_ptr_alignment, reason = "for loads that need no alignment")]

use super::portable::{Linear, stages};
use super::{BatchKernel, PARITIES, TableView, correct, one};
use crate::lanes::avx2::{Keys, LANES, filled, high_halves, lanes, load, low_halves, splat};
use crate::lanes::{vector_avx2 as vector, vector64_avx2 as vector64};
use crate::setsep::format::Format;
use crate::setsep::geometry::OFFSETS;
use crate::setsep::linear::{FINAL_32, FieldLayout, MULTIPLIER_32, Rows, SEED_STEP_32};
use crate::setsep::structure::Pinned;
use scalebricks_types::KeyHash;
use std::arch::x86_64::*;

/// Tails up to this long are looked up one key at a time.
const SHORT: usize = 3;

/// The kernel for this format and values of this many bits, if this module has one.
pub(super) fn batch(format: Format, bits: u8) -> Option<BatchKernel> {
    Some(match (format, bits) {
        (Format::Linear, 1) => run::<1>,
        (Format::Linear, 2) => run::<2>,
        (Format::Linear, 3) => run::<3>,
        (Format::Linear, 4) => run::<4>,
        (Format::Linear, 5) => run::<5>,
        (Format::Linear, 6) => run::<6>,
        (Format::Linear, 7) => run::<7>,
        (Format::Linear, 8) => run::<8>,
        (Format::Dense, 1) => dense::<1>,
        (Format::Dense, 2) => dense::<2>,
        (Format::Dense, 4) => dense::<4>,
        (Format::Dense, _) => dense::<0>,
        _ => return None,
    })
}

/// The portable form, with the instruction that counts bits.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn dense<const L: usize>(pin: Pinned<'_>, hashes: &[KeyHash], values: &mut [u8]) {
    stages::<Linear<64, L>>(pin, hashes, values);
}

/// Looks up any number of keys: four vectors, two, one, and the tail.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn run<const L: usize>(pin: Pinned<'_>, hashes: &[KeyHash], values: &mut [u8]) {
    let (keys, rest) = hashes.as_chunks();
    let out = values.as_chunks_mut().0;
    let ((fours, keys), (out_fours, out)) = (keys.as_chunks(), out.as_chunks_mut());
    for (keys, out) in fours.iter().zip(out_fours) {
        vectors::<L, 4>(pin, keys, out);
    }
    let ((twos, keys), (out_twos, out)) = (keys.as_chunks(), out.as_chunks_mut());
    for (keys, out) in twos.iter().zip(out_twos) {
        vectors::<L, 2>(pin, keys, out);
    }
    for (keys, out) in keys.iter().zip(out) {
        vectors::<L, 1>(pin, std::array::from_ref(keys), std::array::from_mut(out));
    }
    let whole = hashes.len() - rest.len();
    if rest.len() <= SHORT {
        for (hash, value) in rest.iter().zip(&mut values[whole..]) {
            *value = one(pin, hash.get());
        }
    } else if let (Some(keys), Some(out)) = (hashes.last_chunk(), values.last_chunk_mut()) {
        // Some keys are looked up twice. A vector of copied keys would wait until all before it is done.
        vectors::<L, 1>(pin, std::array::from_ref(keys), std::array::from_mut(out));
    } else {
        let (keys, mut out) = (filled(rest), [0; LANES]);
        vectors::<L, 1>(pin, &[keys.0], std::array::from_mut(&mut out));
        values.copy_from_slice(&out[..rest.len()]);
    }
}

/// Runs all three steps for `V` vectors.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn vectors<const L: usize, const V: usize>(pin: Pinned<'_>, keys: &[Keys; V], values: &mut [[u8; LANES]; V]) {
    let (blocks, count) = (TableView::of(pin), pin.generation().params.blocks());
    let (mut bucket, mut base) = ([_mm256_setzero_si256(); V], [_mm256_setzero_si256(); V]);
    for v in 0..V {
        bucket[v] = buckets(&keys[v], count);
        let numbers = lanes(_mm256_srli_epi32::<8>(bucket[v]));
        // SAFETY: these are valid block numbers: scaled hashes are below the total number of buckets.
        let slots = vector!(|i| unsafe { blocks.slot(numbers.0[i]) });
        base[v] = _mm256_mullo_epi32(slots, splat(2 * (8 + 32 * L as u32)));
    }
    let mut group = bucket;
    for v in 0..V {
        group[v] = groups(&blocks, bucket[v], base[v]);
    }
    for v in 0..V {
        let marked = answer::<L>(&blocks, &keys[v], base[v], group[v], &mut values[v]);
        if marked != 0 {
            correct(pin, &keys[v], &mut values[v], marked.into());
        }
    }
}

/// The bucket of each key, numbered across all blocks: (hash x blocks x 256) >> 64, exactly.
#[inline]
#[target_feature(enable = "avx2")]
fn buckets(keys: &Keys, blocks: u32) -> __m256i {
    let blocks = _mm256_set1_epi64x(blocks.into());
    // No `array::map`: it is compiled without these instructions, so the closure would not be inlined.
    let bucket = |hashes| {
        let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(hashes), blocks);
        let low = _mm256_srli_epi64::<32>(_mm256_mul_epu32(hashes, blocks));
        _mm256_srli_epi64::<24>(_mm256_add_epi64(high, low))
    };
    let [first, second] = load(keys);
    low_halves([bucket(first), bucket(second)])
}

/// The group that each key's bucket chose. Indices, here and below, count 32-bit words.
#[inline]
#[target_feature(enable = "avx2")]
fn groups(blocks: &TableView<'_>, buckets: __m256i, bases: __m256i) -> __m256i {
    let bucket = _mm256_and_si256(buckets, splat(255));
    let at = lanes(_mm256_add_epi32(bases, _mm256_srli_epi32::<4>(bucket)));
    // SAFETY: each block begins with sixteen 32-bit words of choices.
    let choices = vector!(|i| unsafe { blocks.half(at.0[i] as usize) });
    let shift = _mm256_and_si256(_mm256_add_epi32(bucket, bucket), splat(30));
    let choice = _mm256_and_si256(_mm256_srlv_epi32(choices, shift), splat(3));
    let quarter = _mm256_and_si256(_mm256_srli_epi32::<4>(bucket), splat(12));
    // The other three bytes of a lane have the top bit set, which makes the shuffle return zero for them.
    let entry = _mm256_or_si256(_mm256_or_si256(quarter, choice), splat(0x8080_8000));
    let offsets = _mm256_broadcastsi128_si256(offsets());
    let group = _mm256_add_epi32(bucket, _mm256_shuffle_epi8(offsets, entry));
    _mm256_and_si256(group, splat(63))
}

#[inline]
#[target_feature(enable = "avx2")]
fn offsets() -> __m128i {
    // SAFETY: reads 16 bytes of an array of 16.
    unsafe { _mm_loadu_si128(OFFSETS.as_ptr().cast()) }
}

/// The values of eight keys, and which of them are in marked groups.
#[inline]
#[target_feature(enable = "avx2")]
fn answer<const L: usize>(
    blocks: &TableView<'_>,
    keys: &Keys,
    bases: __m256i,
    groups: __m256i,
    values: &mut [u8; LANES],
) -> u8 {
    let shape = const { FieldLayout::new(32, L as u32) };
    let first = _mm256_add_epi32(bases, splat(16));
    let at = lanes(_mm256_add_epi32(first, _mm256_mullo_epi32(groups, splat(L as u32))));
    let mut fields = [_mm256_setzero_si256(); L];
    for bit in (0..L - 1).step_by(2) {
        // SAFETY: reads two of the group's fields.
        let pair = |i: usize| unsafe { blocks.pair(at.0[i] as usize + bit) };
        let pairs = [vector64!(|i| pair(i)), vector64!(|i| pair(i + 4))];
        (fields[bit], fields[bit + 1]) = (low_halves(pairs), high_halves(pairs));
    }
    if L % 2 == 1 {
        // SAFETY: reads the group's last field.
        fields[L - 1] = vector!(|i| unsafe { blocks.half(at.0[i] as usize + L - 1) });
    }
    let mut seeds = _mm256_setzero_si256();
    for part in (0..shape.seed_fields as usize).rev() {
        let above = _mm256_srlv_epi32(fields[part], splat(shape.columns));
        let bits = _mm256_and_si256(above, splat((1 << shape.seed_bits) - 1));
        seeds = _mm256_or_si256(_mm256_sllv_epi32(seeds, splat(shape.seed_bits)), bits);
    }
    let row = rows(low_halves(load(keys)), seeds, blocks.rows, 32 - shape.columns);
    let mut value = _mm256_setzero_si256();
    for field in fields.into_iter().rev() {
        let parity = _mm256_and_si256(parity(_mm256_and_si256(field, row)), splat(1));
        value = _mm256_or_si256(_mm256_add_epi32(value, value), parity);
    }
    for (value, lane) in values.iter_mut().zip(lanes(value).0) {
        *value = lane as u8;
    }
    let marked = _mm256_cmpeq_epi32(seeds, splat(shape.seeds()));
    _mm256_movemask_ps(_mm256_castsi256_ps(marked)).cast_unsigned() as u8
}

/// [`Rows::row`] of eight keys, computed from their low halves.
#[inline]
#[target_feature(enable = "avx2")]
fn rows(lows: __m256i, seeds: __m256i, rows: Rows, shift: u32) -> __m256i {
    let x = _mm256_xor_si256(lows, splat(rows.key() as u32));
    let step = _mm256_mullo_epi32(seeds, splat(SEED_STEP_32));
    let x = _mm256_mullo_epi32(x, _mm256_add_epi32(step, splat(MULTIPLIER_32)));
    let x = _mm256_xor_si256(x, _mm256_srli_epi32::<15>(x));
    _mm256_srlv_epi32(_mm256_mullo_epi32(x, splat(FINAL_32)), splat(shift))
}

/// The parity of each lane, in its lowest bit.
#[inline]
#[target_feature(enable = "avx2")]
fn parity(x: __m256i) -> __m256i {
    let x = _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x));
    let x = _mm256_xor_si256(x, _mm256_srli_epi32::<8>(x));
    let x = _mm256_xor_si256(x, _mm256_srli_epi32::<4>(x));
    _mm256_srlv_epi32(splat(PARITIES), _mm256_and_si256(x, splat(15)))
}
