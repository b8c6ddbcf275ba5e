//! Lookups with AVX-512: sixteen names a step, in tables that may stay in a private cache. Larger ones are left to
//! [`super::avx2`]: eight names a step did 146 M lookups/s of 16 M names where sixteen did 89 (Zen 4).
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "unaligned loads and stores take vectors by such pointers")]

use super::Found;
use super::view::View;
use crate::othello::arena::SLOT_BITS;
use crate::othello::place::{FACTOR, FINAL, STEP};
use crate::othello::reader::FacePin;
use scalebricks_types::KeyHash;
use std::arch::x86_64::{
    __m512i, _mm256_i32gather_epi32, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512,
    _mm512_castsi256_si512, _mm512_castsi512_si256, _mm512_cvtepu32_epi64, _mm512_extracti64x4_epi64,
    _mm512_inserti64x4, _mm512_loadu_si512, _mm512_min_epu32, _mm512_mul_epu32, _mm512_mullo_epi32,
    _mm512_mullo_epi64, _mm512_permutex2var_epi32, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setr_epi32,
    _mm512_setzero_si512, _mm512_slli_epi32, _mm512_srli_epi32, _mm512_srli_epi64, _mm512_srlv_epi32,
    _mm512_storeu_si512, _mm512_sub_epi32, _mm512_xor_si512,
};

/// Names a step.
const LANES: usize = 16;
/// Where the slots of sixteen names are: for each array the bytes at which four begin, and how far to shift them.
#[derive(Clone, Copy)]
struct Sites([(__m512i, __m512i); 2]);

/// A table that may stay in a private cache.
///
/// # Safety
/// The processor must have AVX-512 F, BW, DQ and VL, and the table be [near](super::Reach::Near) or far.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
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

/// Fewer than sixteen names, with others beside them whose answers nobody wants.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn tail<T: Found>(view: &View<'_>, hashes: &[KeyHash], found: &mut [T], mask: __m512i) {
    if hashes.is_empty() {
        return;
    }
    let mut keys = [KeyHash::new(0); LANES];
    keys[..hashes.len()].copy_from_slice(hashes);
    let all = lanes(read(view, &find(view, &keys), mask));
    found.iter_mut().zip(all).for_each(|(found, difference)| *found = T::of(difference));
}

/// The slots of sixteen names.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn find(view: &View<'_>, keys: &[KeyHash; LANES]) -> Sites {
    let places = &view.places;
    let start = keys.as_ptr().cast::<__m512i>();
    // SAFETY: sixteen hashes are, transparently, sixteen words: two vectors.
    let hashes = unsafe { [_mm512_loadu_si512(start), _mm512_loadu_si512(start.add(1))] };
    let ranges = lanes(low_halves([scaled64(hashes[0], places.ranges), scaled64(hashes[1], places.ranges)]));
    // SAFETY: scaled hashes are numbers of ranges.
    let words = vector(|i| unsafe { view.word(ranges[i]) });
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
    Sites([site(view, base, a), site(view, base, b)])
}

/// Where slots of ranges are that begin at these bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn site(view: &View<'_>, base: __m512i, slot: __m512i) -> (__m512i, __m512i) {
    let bit = _mm512_mullo_epi32(slot, splat(view.width));
    let byte = _mm512_and_si512(_mm512_srli_epi32::<3>(bit), splat(view.keep));
    let byte = _mm512_min_epu32(byte, splat(view.stride as u32 - 4));
    (_mm512_add_epi32(base, byte), _mm512_sub_epi32(bit, _mm512_slli_epi32::<3>(byte)))
}

/// What the slots at these sites differ in.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn read(view: &View<'_>, sites: &Sites, mask: __m512i) -> __m512i {
    let (a, b) = (contents(view, sites.0[0]), contents(view, sites.0[1]));
    _mm512_and_si512(_mm512_xor_si512(a, b), mask)
}

/// The slots at these sites, and other bits above.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn contents(view: &View<'_>, (bytes, shifts): (__m512i, __m512i)) -> __m512i {
    let base = view.bytes().cast();
    // Two gathers of half the width each: whole ones took longer where lines are far (Zen 4).
    let (low, high) = (_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64::<1>(bytes));
    // SAFETY: four bytes each of a range that was reached under the pin; places below 2^31 are not negative.
    let (low, high) =
        unsafe { (_mm256_i32gather_epi32::<1>(base, low), _mm256_i32gather_epi32::<1>(base, high)) };
    _mm512_srlv_epi32(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high), shifts)
}

/// Stores what was found.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn tell<T: Found>(found: &mut [T; LANES], differences: __m512i) {
    let differences = lanes(differences);
    found.iter_mut().zip(differences).for_each(|(found, difference)| *found = T::of(difference));
}

/// The high words of products of 64-bit lanes and a number of at most 24 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn scaled64(hashes: __m512i, by: u32) -> __m512i {
    let by = splat64(by.into());
    let low = _mm512_srli_epi64::<32>(_mm512_mul_epu32(hashes, by));
    let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(hashes), by);
    _mm512_srli_epi64::<32>(_mm512_add_epi64(low, high))
}

/// Lanes as an array.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn lanes(vector: __m512i) -> [u32; LANES] {
    let mut lanes = [0; LANES];
    // SAFETY: 64 bytes for 64 bytes.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), vector) };
    lanes
}

/// A vector of lanes made one by one: without a detour through memory, which would have to wait for the stores.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn vector(lane: impl Fn(usize) -> u32) -> __m512i {
    let l = |i| lane(i).cast_signed();
    _mm512_setr_epi32(
        l(0),
        l(1),
        l(2),
        l(3),
        l(4),
        l(5),
        l(6),
        l(7),
        l(8),
        l(9),
        l(10),
        l(11),
        l(12),
        l(13),
        l(14),
        l(15),
    )
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn splat(lane: u32) -> __m512i {
    _mm512_set1_epi32(lane.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn splat64(lane: u64) -> __m512i {
    _mm512_set1_epi64(lane.cast_signed())
}

/// The low halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn low_halves([low, high]: [__m512i; 2]) -> __m512i {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    _mm512_permutex2var_epi32(low, even, high)
}

/// The high halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn high_halves([low, high]: [__m512i; 2]) -> __m512i {
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    _mm512_permutex2var_epi32(low, odd, high)
}
