//! Lookups with AVX2: eight names a step. It has no 64-bit product, so those are made of three of 32 bits.
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "unaligned loads and stores take vectors by such pointers")]

use super::Found;
use super::view::View;
use crate::othello::arena::SLOT_BITS;
use crate::othello::place::{FACTOR, FINAL, STEP};
use crate::othello::reader::FacePin;
use scalebricks_types::KeyHash;
use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_add_epi64, _mm256_and_si256, _mm256_castsi256_si128,
    _mm256_cvtepu32_epi64, _mm256_extracti128_si256, _mm256_i32gather_epi32, _mm256_loadu_si256,
    _mm256_min_epu32, _mm256_mul_epu32, _mm256_mullo_epi32, _mm256_permute2x128_si256, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_shuffle_ps, _mm256_slli_epi32,
    _mm256_slli_epi64, _mm256_srli_epi32, _mm256_srli_epi64, _mm256_srlv_epi32, _mm256_storeu_si256,
    _mm256_sub_epi32, _mm256_xor_si256,
};
use std::arch::x86_64::{_mm256_castps_si256, _mm256_castsi256_ps};

/// Names a step.
const LANES: usize = 8;
/// Steps whose places are found before the first of them is read, in far tables.
const STEPS: usize = 8;

/// Where the slots of eight names are: for each array the bytes at which four begin, and how far to shift them.
#[derive(Clone, Copy)]
struct Sites([(__m256i, __m256i); 2]);

/// A table that may stay in a private cache.
///
/// # Safety
/// The processor must have AVX2, and the table be [near](super::Reach::Near) or far.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn near<T: Found>(pin: FacePin<'_>, hashes: &[KeyHash], found: &mut [T]) {
    let view = View::of(pin);
    let mask = splat(T::mask(view.places.value_bits, view.places.check_bits));
    let (steps, rest) = hashes.as_chunks::<LANES>();
    let (to, last) = found.as_chunks_mut::<LANES>();
    for (keys, found) in steps.iter().zip(to) {
        tell(found, read(&view, &find(&view, keys), mask));
    }
    tail(&view, rest, last, mask);
}

/// A table whose lines are far: they are asked for well before they are read.
///
/// # Safety
/// As [`near`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn far<T: Found>(pin: FacePin<'_>, hashes: &[KeyHash], found: &mut [T]) {
    let view = View::of(pin);
    let mask = splat(T::mask(view.places.value_bits, view.places.check_bits));
    let (steps, rest) = hashes.as_chunks::<LANES>();
    let (to, last) = found.as_chunks_mut::<LANES>();
    let zero = _mm256_setzero_si256();
    for (steps, found) in steps.chunks(STEPS).zip(to.chunks_mut(STEPS)) {
        let mut sites = [Sites([(zero, zero); 2]); STEPS];
        for (sites, keys) in sites.iter_mut().zip(steps) {
            *sites = find(&view, keys);
            for (bytes, _) in sites.0 {
                for byte in lanes(bytes) {
                    view.prefetch(byte as usize);
                }
            }
        }
        for (found, sites) in found.iter_mut().zip(&sites) {
            tell(found, read(&view, sites, mask));
        }
    }
    tail(&view, rest, last, mask);
}

/// Fewer than eight names, with others beside them whose answers nobody wants.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn tail<T: Found>(view: &View<'_>, hashes: &[KeyHash], found: &mut [T], mask: __m256i) {
    if hashes.is_empty() {
        return;
    }
    let mut keys = [KeyHash::new(0); LANES];
    keys[..hashes.len()].copy_from_slice(hashes);
    let all = lanes(read(view, &find(view, &keys), mask));
    found.iter_mut().zip(all).for_each(|(found, difference)| *found = T::of(difference));
}

/// The slots of eight names.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn find(view: &View<'_>, keys: &[KeyHash; LANES]) -> Sites {
    let places = &view.places;
    let start = keys.as_ptr().cast::<__m256i>();
    // SAFETY: eight hashes are, transparently, eight words: two vectors.
    let hashes = unsafe { [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))] };
    let ranges =
        lanes(halves::<LOW>([scaled64(hashes[0], places.ranges), scaled64(hashes[1], places.ranges)]));
    // SAFETY: scaled hashes are numbers of ranges.
    let words = ranges.map(|range| unsafe { view.word(range) }.cast_signed());
    let [a, b, c, d, e, f, g, h] = words;
    let words = _mm256_setr_epi32(a, b, c, d, e, f, g, h);
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
    Sites([site(view, base, a), site(view, base, b)])
}

/// Where slots of ranges are that begin at these bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn site(view: &View<'_>, base: __m256i, slot: __m256i) -> (__m256i, __m256i) {
    let bit = _mm256_mullo_epi32(slot, splat(view.width));
    let byte = _mm256_and_si256(_mm256_srli_epi32::<3>(bit), splat(view.keep));
    let byte = _mm256_min_epu32(byte, splat(view.stride as u32 - 4));
    (_mm256_add_epi32(base, byte), _mm256_sub_epi32(bit, _mm256_slli_epi32::<3>(byte)))
}

/// What the slots at these sites differ in.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn read(view: &View<'_>, sites: &Sites, mask: __m256i) -> __m256i {
    let (a, b) = (contents(view, sites.0[0]), contents(view, sites.0[1]));
    _mm256_and_si256(_mm256_xor_si256(a, b), mask)
}

/// The slots at these sites, and other bits above.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn contents(view: &View<'_>, (bytes, shifts): (__m256i, __m256i)) -> __m256i {
    // SAFETY: four bytes each of a range that was reached under the pin; places below 2^31 are not negative.
    let held = unsafe { _mm256_i32gather_epi32::<1>(view.bytes().cast(), bytes) };
    _mm256_srlv_epi32(held, shifts)
}

/// Stores what was found.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn tell<T: Found>(found: &mut [T; LANES], differences: __m256i) {
    let differences = lanes(differences);
    found.iter_mut().zip(differences).for_each(|(found, difference)| *found = T::of(difference));
}

/// The high words of products of 64-bit lanes and a number of at most 24 bits.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn scaled64(hashes: __m256i, by: u32) -> __m256i {
    let by = splat64(by.into());
    let low = _mm256_srli_epi64::<32>(_mm256_mul_epu32(hashes, by));
    let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(hashes), by);
    _mm256_srli_epi64::<32>(_mm256_add_epi64(low, high))
}

/// The low words of products of 64-bit lanes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn product(x: __m256i, y: __m256i) -> __m256i {
    let cross = _mm256_add_epi64(
        _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), y),
        _mm256_mul_epu32(x, _mm256_srli_epi64::<32>(y)),
    );
    _mm256_add_epi64(_mm256_mul_epu32(x, y), _mm256_slli_epi64::<32>(cross))
}

/// Lanes as an array.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn lanes(vector: __m256i) -> [u32; LANES] {
    let mut lanes = [0; LANES];
    // SAFETY: 32 bytes for 32 bytes.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), vector) };
    lanes
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

/// Of each pair of halves, the low ones.
const LOW: i32 = 0b10_00_10_00;
/// Of each pair of halves, the high ones.
const HIGH: i32 = 0b11_01_11_01;

/// Half of each of eight words.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn halves<const WHICH: i32>([low, high]: [__m256i; 2]) -> __m256i {
    // The shuffle works within 128 bits: so the words in the middle change places first.
    let first = _mm256_permute2x128_si256::<0x20>(low, high);
    let second = _mm256_permute2x128_si256::<0x31>(low, high);
    _mm256_castps_si256(_mm256_shuffle_ps::<WHICH>(_mm256_castsi256_ps(first), _mm256_castsi256_ps(second)))
}
