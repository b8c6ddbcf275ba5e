//! The vector stages of a batch with AVX2: eight names per vector. AVX2 has no 64-bit product, so each is
//! computed from three 32-bit products.
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "unaligned loads and stores take vectors by such pointers")]

use super::stages::{CHUNK, StageBuffers, Vectors};
use super::view::TableView;
use crate::othello::placement::{FACTOR, FINAL, STEP};
use crate::othello::structure::SLOT_BITS;
use scalebricks_types::KeyHash;
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_and_si256, _mm256_castsi256_si128,
    _mm256_cvtepu32_epi64, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_min_epu32, _mm256_mul_epu32,
    _mm256_mullo_epi32, _mm256_permute2x128_si256, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_shuffle_ps, _mm256_slli_epi32, _mm256_slli_epi64, _mm256_srli_epi32,
    _mm256_srli_epi64, _mm256_storeu_si256, _mm256_sub_epi32, _mm256_xor_si256,
};
use std::arch::x86_64::{_mm256_castps_si256, _mm256_castsi256_ps};

/// Names per vector.
const LANES: usize = 8;

/// Eight names per vector.
#[derive(Debug)]
pub(super) struct Avx2;

impl Vectors for Avx2 {
    const LANES: usize = LANES;

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    unsafe fn ranges(view: &TableView<'_>, names: &[KeyHash], to: &mut [u32; CHUNK]) {
        for (names, to) in names.as_chunks().0.iter().zip(to.as_chunks_mut().0) {
            let [low, high] = load(names);
            let by = view.places.ranges;
            put(to, halves::<LOW>([scaled64(low, by), scaled64(high, by)]));
        }
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
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

/// Where the two slots of eight names are: the index of the first of four bytes, and how far to shift them.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn slots(view: &TableView<'_>, keys: &[KeyHash; LANES], words: &[u32; LANES]) -> [(__m256i, __m256i); 2] {
    let places = &view.places;
    // SAFETY: reads 32 bytes of an array of 32 bytes.
    let words = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
    let hashes = load(keys);
    let seeds = _mm256_srli_epi32::<{ SLOT_BITS.cast_signed() }>(words);
    let quarters = [_mm256_castsi256_si128(seeds), _mm256_extracti128_si256::<1>(seeds)];
    let mut mixed = [_mm256_setzero_si256(); 2];
    for ((mixed, hashes), seeds) in mixed.iter_mut().zip(hashes).zip(quarters) {
        let steps = _mm256_mul_epu32(_mm256_cvtepu32_epi64(seeds), splat64(STEP));
        let x = _mm256_xor_si256(hashes, splat64(places.key));
        let x = product(x, _mm256_add_epi64(splat64(FACTOR), steps));
        *mixed = product(_mm256_xor_si256(x, _mm256_srli_epi64::<32>(x)), splat64(FINAL));
    }
    let (slots_a, slots_b) = (splat64(places.slots[0].into()), splat64(places.slots[1].into()));
    let [upper, lower] = [[_mm256_srli_epi64::<32>(mixed[0]), _mm256_srli_epi64::<32>(mixed[1])], mixed];
    let a = halves::<HIGH>([_mm256_mul_epu32(upper[0], slots_a), _mm256_mul_epu32(upper[1], slots_a)]);
    let b = halves::<HIGH>([_mm256_mul_epu32(lower[0], slots_b), _mm256_mul_epu32(lower[1], slots_b)]);
    let slots = _mm256_and_si256(words, splat((1 << SLOT_BITS) - 1));
    let base = _mm256_mullo_epi32(slots, splat(view.stride as u32)); // a near table has fewer than 2^31 bytes
    let b = _mm256_add_epi32(b, splat(places.slots[0]));
    [site(view, base, a), site(view, base, b)]
}

/// The sites of slots in the ranges that begin at these bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn site(view: &TableView<'_>, base: __m256i, slot: __m256i) -> (__m256i, __m256i) {
    let bit = _mm256_mullo_epi32(slot, splat(view.width));
    let byte = _mm256_and_si256(_mm256_srli_epi32::<3>(bit), splat(view.keep));
    let byte = _mm256_min_epu32(byte, splat(view.stride as u32 - 4));
    (_mm256_add_epi32(base, byte), _mm256_sub_epi32(bit, _mm256_slli_epi32::<3>(byte)))
}

/// The high words of the products of 64-bit lanes and a number of at most 24 bits.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn scaled64(hashes: __m256i, by: u32) -> __m256i {
    let by = splat64(by.into());
    let low = _mm256_srli_epi64::<32>(_mm256_mul_epu32(hashes, by));
    let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(hashes), by);
    _mm256_srli_epi64::<32>(_mm256_add_epi64(low, high))
}

/// The low words of the products of 64-bit lanes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn product(x: __m256i, y: __m256i) -> __m256i {
    let cross = _mm256_add_epi64(
        _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), y),
        _mm256_mul_epu32(x, _mm256_srli_epi64::<32>(y)),
    );
    _mm256_add_epi64(_mm256_mul_epu32(x, y), _mm256_slli_epi64::<32>(cross))
}

/// Two vectors of hashes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn load(keys: &[KeyHash; LANES]) -> [__m256i; 2] {
    let start = keys.as_ptr().cast::<__m256i>();
    // SAFETY: `KeyHash` is a transparent word, so eight hashes are eight words: two vectors.
    unsafe { [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))] }
}

/// Stores the lanes of a vector.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn put(to: &mut [u32; LANES], vector: __m256i) {
    // SAFETY: writes 32 bytes to an array of 32 bytes.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), vector) };
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn splat(lane: u32) -> __m256i {
    _mm256_set1_epi32(lane.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn splat64(lane: u64) -> __m256i {
    _mm256_set1_epi64x(lane.cast_signed())
}

/// Selects the low half of each pair of halves.
const LOW: i32 = 0b10_00_10_00;
/// Selects the high half of each pair of halves.
const HIGH: i32 = 0b11_01_11_01;

/// One half of each of eight words.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn halves<const WHICH: i32>([low, high]: [__m256i; 2]) -> __m256i {
    // The shuffle works within 128-bit lanes, so the words in the middle are swapped first.
    let first = _mm256_permute2x128_si256::<0x20>(low, high);
    let second = _mm256_permute2x128_si256::<0x31>(low, high);
    _mm256_castps_si256(_mm256_shuffle_ps::<WHICH>(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second)))
}
