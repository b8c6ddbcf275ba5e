//! The vector stages of a batch with AVX-512: sixteen names per vector.
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "unaligned loads and stores take vectors by such pointers")]

use super::stages::{CHUNK, StageBuffers, Vectors};
use super::view::TableView;
use crate::othello::placement::{FACTOR, FINAL, STEP};
use crate::othello::structure::SLOT_BITS;
use scalebricks_types::KeyHash;
use std::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512, _mm512_castsi512_si256,
    _mm512_cvtepu32_epi64, _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_min_epu32, _mm512_mul_epu32,
    _mm512_mullo_epi32, _mm512_mullo_epi64, _mm512_permutex2var_epi32, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setr_epi32, _mm512_setzero_si512, _mm512_slli_epi32, _mm512_srli_epi32, _mm512_srli_epi64,
    _mm512_storeu_si512, _mm512_sub_epi32, _mm512_xor_si512,
};

/// Names per vector.
const LANES: usize = 16;

/// Sixteen names per vector.
#[derive(Debug)]
pub(super) struct Avx512;

impl Vectors for Avx512 {
    const LANES: usize = LANES;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn ranges(view: &TableView<'_>, names: &[KeyHash], to: &mut [u32; CHUNK]) {
        for (names, to) in names.as_chunks().0.iter().zip(to.as_chunks_mut().0) {
            ranges(view, names, to);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
    unsafe fn slots(view: &TableView<'_>, names: &[KeyHash], sites: &mut StageBuffers) {
        let [at_a, at_b] = &mut sites.at;
        let (at_a, at_b) = (at_a.as_chunks_mut().0, at_b.as_chunks_mut().0);
        let [shift_a, shift_b] = &mut sites.shifts;
        let (shift_a, shift_b) = (shift_a.as_chunks_mut().0, shift_b.as_chunks_mut().0);
        for (number, names) in names.as_chunks().0.iter().enumerate() {
            let [a, b] = slots(view, names, &sites.words.as_chunks().0[number]);
            put(&mut at_a[number], a.0);
            put(&mut shift_a[number], a.1);
            put(&mut at_b[number], b.0);
            put(&mut shift_b[number], b.1);
        }
    }
}

/// The ranges of sixteen names.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn ranges(view: &TableView<'_>, keys: &[KeyHash; LANES], ranges: &mut [u32; LANES]) {
    let [low, high] = load(keys);
    let by = view.places.ranges;
    put(ranges, low_halves([scaled64(low, by), scaled64(high, by)]));
}

/// Where the two slots of sixteen names are: the index of the first of four bytes, and how far to shift them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn slots(view: &TableView<'_>, keys: &[KeyHash; LANES], words: &[u32; LANES]) -> [(__m512i, __m512i); 2] {
    let places = &view.places;
    // SAFETY: reads 64 bytes of an array of 64 bytes.
    let words = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
    let hashes = load(keys);
    let seeds = _mm512_srli_epi32::<SLOT_BITS>(words);
    let halves = [_mm512_castsi512_si256(seeds), _mm512_extracti64x4_epi64::<1>(seeds)];
    let mut mixed = [_mm512_setzero_si512(); 2];
    for ((mixed, hashes), seeds) in mixed.iter_mut().zip(hashes).zip(halves) {
        let steps = _mm512_mul_epu32(_mm512_cvtepu32_epi64(seeds), splat64(STEP));
        let x = _mm512_xor_si512(hashes, splat64(places.key));
        let x = _mm512_mullo_epi64(x, _mm512_add_epi64(splat64(FACTOR), steps));
        *mixed = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64::<32>(x)), splat64(FINAL));
    }
    let (slots_a, slots_b) = (splat64(places.slots[0].into()), splat64(places.slots[1].into()));
    let [upper, lower] = [[_mm512_srli_epi64::<32>(mixed[0]), _mm512_srli_epi64::<32>(mixed[1])], mixed];
    let a = high_halves([_mm512_mul_epu32(upper[0], slots_a), _mm512_mul_epu32(upper[1], slots_a)]);
    let b = high_halves([_mm512_mul_epu32(lower[0], slots_b), _mm512_mul_epu32(lower[1], slots_b)]);
    let slots = _mm512_and_si512(words, splat((1 << SLOT_BITS) - 1));
    let base = _mm512_mullo_epi32(slots, splat(view.stride as u32)); // a near table has fewer than 2^31 bytes
    let b = _mm512_add_epi32(b, splat(places.slots[0]));
    [site(view, base, a), site(view, base, b)]
}

/// Two vectors of hashes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn load(keys: &[KeyHash; LANES]) -> [__m512i; 2] {
    let start = keys.as_ptr().cast::<__m512i>();
    // SAFETY: `KeyHash` is a transparent word, so sixteen hashes are sixteen words: two vectors.
    unsafe { [_mm512_loadu_si512(start), _mm512_loadu_si512(start.add(1))] }
}

/// Stores the lanes of a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn put(to: &mut [u32; LANES], vector: __m512i) {
    // SAFETY: writes 64 bytes to an array of 64 bytes.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), vector) };
}

/// The sites of slots in the ranges that begin at these bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn site(view: &TableView<'_>, base: __m512i, slot: __m512i) -> (__m512i, __m512i) {
    let bit = _mm512_mullo_epi32(slot, splat(view.width));
    let byte = _mm512_and_si512(_mm512_srli_epi32::<3>(bit), splat(view.keep));
    let byte = _mm512_min_epu32(byte, splat(view.stride as u32 - 4));
    (_mm512_add_epi32(base, byte), _mm512_sub_epi32(bit, _mm512_slli_epi32::<3>(byte)))
}

/// The high words of the products of 64-bit lanes and a number of at most 24 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn scaled64(hashes: __m512i, by: u32) -> __m512i {
    let by = splat64(by.into());
    let low = _mm512_srli_epi64::<32>(_mm512_mul_epu32(hashes, by));
    let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(hashes), by);
    _mm512_srli_epi64::<32>(_mm512_add_epi64(low, high))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn splat(lane: u32) -> __m512i {
    _mm512_set1_epi32(lane.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn splat64(lane: u64) -> __m512i {
    _mm512_set1_epi64(lane.cast_signed())
}

/// The low halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn low_halves([low, high]: [__m512i; 2]) -> __m512i {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_permutex2var_epi32(low, even, high)
}

/// The high halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
fn high_halves([low, high]: [__m512i; 2]) -> __m512i {
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    _mm512_permutex2var_epi32(low, odd, high)
}
