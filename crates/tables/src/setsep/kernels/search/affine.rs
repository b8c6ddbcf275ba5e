//! The family of `brute` with GFNI and VBMI: one instruction computes a key's positions under all 64 halves.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // intrinsics by the dozen

use super::meet::{CellDemands, Kernel, Keys};
use super::x86::Gfni;
use crate::setsep::brute::{HALVES, MOST_KEYS, multiplier};
use crate::setsep::linear::FINAL_32;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Keys whose words are affine maps. It exists only with a [`Gfni`] proof, which makes every `unsafe` block
/// here sound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Affine {
    _proof: Gfni,
    /// The low halves of the hashes, combined with the table's seed.
    hashes: [__m512i; 2],
    values: [__m512i; 2],
    /// Which lanes hold keys.
    some: [__mmask16; 2],
}

/// Capacity of a list: its keys, and copies that pad it to the length of the other list.
const ROOM: usize = MOST_KEYS + 16;

/// One number per key.
type KeyNumbers = MaybeUninit<[u32; ROOM]>;

/// The words of the keys of one half, and for each value bit a mask that is all ones for keys whose bit is 1.
struct List<const BITS: usize> {
    words: KeyNumbers,
    ones: [KeyNumbers; BITS],
}

impl Affine {
    /// The keys of a group.
    #[inline(always)]
    pub(super) fn new(proof: Gfni, keys: &Keys) -> Self {
        let (hashes, values) = (keys.hashes, keys.values);
        let len = hashes.len().min(values.len()).min(MOST_KEYS) as u32;
        let some = ((1_u64 << len) - 1) as u32;
        // SAFETY: the proof; masked lanes are not read, and there are `len` keys.
        unsafe {
            let mut lows = [_mm256_setzero_si256(); 4];
            for (at, low) in lows.iter_mut().enumerate() {
                let from = hashes.as_ptr().wrapping_add(8 * at);
                *low = _mm512_cvtepi64_epi32(_mm512_maskz_loadu_epi64((some >> (8 * at)) as u8, from.cast()));
            }
            let key = _mm512_set1_epi32(keys.words.key.cast_signed());
            let first = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(lows[0]), lows[1]);
            let second = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(lows[2]), lows[3]);
            let bytes = _mm256_maskz_loadu_epi8(some, values.as_ptr().cast());
            Self {
                _proof: proof,
                hashes: [_mm512_xor_si512(first, key), _mm512_xor_si512(second, key)],
                values: [
                    _mm512_cvtepu8_epi32(_mm256_castsi256_si128(bytes)),
                    _mm512_cvtepu8_epi32(_mm256_extracti128_si256::<1>(bytes)),
                ],
                some: [some as u16, (some >> 16) as u16],
            }
        }
    }

    /// The words under a retry, with the value in the lowest byte.
    #[inline(always)]
    fn words(&self, retry: u32) -> [__m512i; 2] {
        // SAFETY: the proof.
        unsafe {
            let times = _mm512_set1_epi32(multiplier(retry).cast_signed());
            let last = _mm512_set1_epi32(FINAL_32.cast_signed());
            let mut words = self.hashes;
            for (word, &values) in words.iter_mut().zip(&self.values) {
                let x = _mm512_mullo_epi32(*word, times);
                let x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32::<15>(x)), last);
                // c where b, else a
                *word = _mm512_ternarylogic_epi32::<0xB8>(x, _mm512_set1_epi32(0xFF), values);
            }
            words
        }
    }

    /// The keys in these lanes, compressed, and padded with copies of one of them up to `len`, at most
    /// `ROOM`.
    #[inline(always)]
    fn list<const BITS: usize>(
        words: [__m512i; 2],
        lanes: [__mmask16; 2],
        len: usize,
        bits: [u32; BITS],
    ) -> List<BITS> {
        let first = lanes[0].count_ones() as usize;
        let mut list = List { words: KeyNumbers::uninit(), ones: [KeyNumbers::uninit(); BITS] };
        // SAFETY: the proof.
        unsafe {
            let low = _mm512_maskz_compress_epi32(lanes[0], words[0]);
            let high = _mm512_maskz_compress_epi32(lanes[1], words[1]);
            let any = _mm512_mask_mov_epi32(high, if first == 0 { 0 } else { 0xFFFF }, low);
            let copies = _mm512_broadcastd_epi32(_mm512_castsi512_si128(any));
            let low = _mm512_mask_compress_epi32(copies, lanes[0], words[0]);
            let high = _mm512_mask_compress_epi32(copies, lanes[1], words[1]);
            store(&mut list.words, first, len, [low, high, copies]);
            for (ones, bit) in list.ones.iter_mut().zip(bits) {
                let to_sign = _mm_cvtsi32_si128((31 - bit).cast_signed());
                let [low, high, copies] =
                    [filled(low, to_sign), filled(high, to_sign), filled(copies, to_sign)];
                store(ones, first, len, [low, high, copies]);
            }
        }
        list
    }
}

/// Writes `low`, and `high` starting at index `first`; after them `copies`. All entries below `len` are
/// written.
///
/// # Safety
/// The processor has what a [`Gfni`] proves; `first` is at most 16 and `len` at most `ROOM`.
#[inline(always)]
unsafe fn store(to: &mut KeyNumbers, first: usize, len: usize, [low, high, copies]: [__m512i; 3]) {
    let to = to.as_mut_ptr().cast::<u32>();
    // SAFETY: guaranteed by the caller; 16 of `ROOM` = 48 entries are written at 0, 16, 32, and at `first`.
    unsafe {
        if len > first + 16 {
            _mm512_storeu_si512(to.wrapping_add(16).cast(), copies);
            _mm512_storeu_si512(to.wrapping_add(32).cast(), copies);
        }
        _mm512_storeu_si512(to.cast(), low);
        _mm512_storeu_si512(to.wrapping_add(first).cast(), high);
    }
}

/// One entry, copied to all lanes of a vector.
///
/// # Safety
/// The processor has what a [`Gfni`] proves; the entry was written.
#[inline(always)]
unsafe fn place(of: &KeyNumbers, at: usize) -> __m512i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm512_set1_epi32(of.as_ptr().cast::<i32>().wrapping_add(at).read()) }
}

/// Fills all bits of each lane with the bit that `to_sign` shifts to the top.
///
/// # Safety
/// The processor has what a [`Gfni`] proves.
#[inline(always)]
unsafe fn filled(words: __m512i, to_sign: __m128i) -> __m512i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm512_srai_epi32::<31>(_mm512_sll_epi32(words, to_sign)) }
}

/// One byte per half: the cells required to be 0, and those required to be 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes {
    zeros: __m512i,
    ones: __m512i,
}

impl CellDemands for Bytes {
    #[inline(always)]
    fn possible(self) -> u64 {
        // SAFETY: made by an `Affine`.
        unsafe { _mm512_testn_epi8_mask(self.zeros, self.ones) }
    }
    #[inline(always)]
    fn partners(self, half: u32, other: Self) -> u64 {
        // SAFETY: made by an `Affine`.
        unsafe {
            let at = _mm512_set1_epi8(half as i8);
            let (zeros, ones) =
                (_mm512_permutexvar_epi8(at, self.zeros), _mm512_permutexvar_epi8(at, self.ones));
            let opposite = _mm512_and_si512(ones, other.zeros);
            let opposite = _mm512_ternarylogic_epi32::<0xF8>(opposite, zeros, other.ones); // a OR (b AND c)
            _mm512_testn_epi8_mask(opposite, opposite)
        }
    }
    #[inline(always)]
    fn ones(self, half: u32) -> u8 {
        // SAFETY: made by an `Affine`.
        unsafe {
            let byte = _mm512_permutexvar_epi8(_mm512_set1_epi8(half as i8), self.ones);
            _mm_cvtsi128_si32(_mm512_castsi512_si128(byte)).cast_unsigned() as u8
        }
    }
}

impl Kernel for Affine {
    type CellDemands = Bytes;

    #[inline(always)]
    fn evaluate<const BITS: usize>(self, _: &Keys, retry: u32, bits: [u32; BITS]) -> [[Bytes; BITS]; 2] {
        // SAFETY: the proof; `list` writes all entries that are read.
        unsafe {
            let words = self.words(retry);
            let halves: [u8; 64] = std::array::from_fn(|half| (half as u32 | HALVES) as u8);
            let halves = _mm512_loadu_si512(halves.as_ptr().cast());
            // The position is the low three bits of the affine map's result; the other bits are ignored.
            let cells: [u8; 64] = std::array::from_fn(|position| 1 << (position % 8));
            let cells = _mm512_loadu_si512(cells.as_ptr().cast());
            let firsts = [_mm512_movepi32_mask(words[0]), _mm512_movepi32_mask(words[1])];
            let lanes = [
                [self.some[0] & firsts[0], self.some[1] & firsts[1]],
                [self.some[0] & !firsts[0], self.some[1] & !firsts[1]],
            ];
            let count = |lanes: [__mmask16; 2]| lanes[0].count_ones() + lanes[1].count_ones();
            let counts = [count(lanes[0]), count(lanes[1])];
            let pairs = counts[0].max(counts[1]).div_ceil(2) as usize; // at most 16
            let lists =
                [Self::list(words, lanes[0], 2 * pairs, bits), Self::list(words, lanes[1], 2 * pairs, bits)];
            let none = _mm512_setzero_si512();
            let mut asks = [[Bytes { zeros: none, ones: none }; BITS]; 2];
            for pair in 0..pairs {
                for at in [2 * pair, 2 * pair + 1] {
                    for (list, asks) in lists.iter().zip(&mut asks) {
                        let position = _mm512_gf2p8affine_epi64_epi8::<0>(halves, place(&list.words, at));
                        let cell = _mm512_permutexvar_epi8(position, cells);
                        for (asks, ones) in asks.iter_mut().zip(&list.ones) {
                            let one = place(ones, at);
                            // a OR (b AND c), a OR (b AND NOT c)
                            asks.ones = _mm512_ternarylogic_epi32::<0xF8>(asks.ones, cell, one);
                            asks.zeros = _mm512_ternarylogic_epi32::<0xF4>(asks.zeros, cell, one);
                        }
                    }
                }
            }
            for (count, asks) in counts.into_iter().zip(&mut asks) {
                let used = if count == 0 { 0 } else { 0xFFFF };
                for asks in asks {
                    asks.zeros = _mm512_maskz_mov_epi32(used, asks.zeros);
                    asks.ones = _mm512_maskz_mov_epi32(used, asks.ones);
                }
            }
            asks
        }
    }
}
