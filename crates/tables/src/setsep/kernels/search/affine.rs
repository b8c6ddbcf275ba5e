//! The family of `brute` with GFNI and VBMI: one instruction tells a key's positions under all 64 halves.
#![allow(unsafe_code)]

use super::meet::{Asks, Kernel, Keys};
use super::x86::Gfni;
use crate::setsep::brute::{HALVES, MOST_KEYS, multiplier};
use crate::setsep::linear::FINAL_32;
use std::arch::x86_64::*;

/// Keys whose words are affine maps. Exists only where there is a [`Gfni`]: the reason that every block here is safe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Affine {
    _proof: Gfni,
    /// Low halves of the hashes, with the table's seed.
    hashes: [__m512i; 2],
    values: [__m512i; 2],
    /// Which of the lanes are keys.
    some: [__mmask16; 2],
}

/// The words of the keys of one half, each in a byte-masked value's company, and a mask a key for each value bit.
struct List<const BITS: usize> {
    words: [u32; 3 * MOST_KEYS / 2],
    ones: [[u32; 3 * MOST_KEYS / 2]; BITS],
    len: usize,
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
            let eight = |at: usize| {
                let mask = (some >> at) as u8;
                _mm512_cvtepi64_epi32(_mm512_maskz_loadu_epi64(mask, hashes.as_ptr().wrapping_add(at).cast()))
            };
            let key = _mm512_set1_epi32(keys.words.key.cast_signed());
            let sixteen = |at: usize| {
                _mm512_xor_si512(
                    key,
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(eight(at)), eight(at + 8)),
                )
            };
            let bytes = _mm256_maskz_loadu_epi8(some, values.as_ptr().cast());
            Self {
                _proof: proof,
                hashes: [sixteen(0), sixteen(16)],
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
            [0, 1].map(|part: usize| {
                let x = _mm512_mullo_epi32(self.hashes[part], times);
                let x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32::<15>(x)), last);
                // a where c, else b
                _mm512_ternarylogic_epi32::<0xE4>(self.values[part], x, _mm512_set1_epi32(0xFF))
            })
        }
    }

    /// The keys in these lanes, close together, with copies of one of them behind.
    #[inline(always)]
    fn list<const BITS: usize>(words: [__m512i; 2], lanes: [__mmask16; 2], bits: [u32; BITS]) -> List<BITS> {
        let mut list = List { words: [0; 48], ones: [[0; 48]; BITS], len: 0 };
        let first = lanes[0].count_ones() as usize;
        list.len = first + lanes[1].count_ones() as usize;
        // SAFETY: the proof; 16 lanes are written at 0, `first` <= 16, 16 and 32 of 48.
        unsafe {
            let parts = [0, 1].map(|part: usize| _mm512_maskz_compress_epi32(lanes[part], words[part]));
            let any = _mm512_mask_mov_epi32(parts[1], if first == 0 { 0 } else { 0xFFFF }, parts[0]);
            let copies = _mm512_broadcastd_epi32(_mm512_castsi512_si128(any));
            let parts =
                [0, 1].map(|part: usize| _mm512_mask_compress_epi32(copies, lanes[part], words[part]));
            let store = |to: &mut [u32; 48], map: &dyn Fn(__m512i) -> __m512i| {
                let to = to.as_mut_ptr();
                _mm512_storeu_si512(to.wrapping_add(16).cast(), map(copies));
                _mm512_storeu_si512(to.wrapping_add(32).cast(), map(copies));
                _mm512_storeu_si512(to.cast(), map(parts[0]));
                _mm512_storeu_si512(to.wrapping_add(first).cast(), map(parts[1]));
            };
            store(&mut list.words, &|word| word);
            for (ones, bit) in list.ones.iter_mut().zip(bits) {
                let to_sign = _mm_cvtsi32_si128((31 - bit).cast_signed());
                store(ones, &|word| _mm512_srai_epi32::<31>(_mm512_sll_epi32(word, to_sign)));
            }
        }
        list
    }
}

/// One byte a half: the cells asked to be 0, and to be 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes {
    zeros: __m512i,
    ones: __m512i,
}

impl Asks for Bytes {
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
            _mm_cvtsi128_si32(_mm512_castsi512_si128(byte)) as u8
        }
    }
}

impl Kernel for Affine {
    type Asks = Bytes;

    #[inline(always)]
    fn evaluate<const BITS: usize>(self, _: &Keys, retry: u32, bits: [u32; BITS]) -> [[Bytes; BITS]; 2] {
        // SAFETY: the proof.
        unsafe {
            let words = self.words(retry);
            let halves: [u8; 64] = std::array::from_fn(|half| (half as u32 | HALVES) as u8);
            let halves = _mm512_loadu_si512(halves.as_ptr().cast());
            // The position is the low three bits of what the affine map gives; the other bits mean nothing.
            let cells: [u8; 64] = std::array::from_fn(|position| 1 << (position % 8));
            let cells = _mm512_loadu_si512(cells.as_ptr().cast());
            let firsts = [0, 1].map(|part: usize| _mm512_movepi32_mask(words[part]));
            let lists = [
                Self::list(words, [self.some[0] & firsts[0], self.some[1] & firsts[1]], bits),
                Self::list(words, [self.some[0] & !firsts[0], self.some[1] & !firsts[1]], bits),
            ];
            let none = _mm512_setzero_si512();
            let mut asks = [[Bytes { zeros: none, ones: none }; BITS]; 2];
            let longest = lists[0].len.max(lists[1].len).min(MOST_KEYS);
            for pair in 0..longest.div_ceil(2) {
                for at in [2 * pair, 2 * pair + 1] {
                    for (list, asks) in lists.iter().zip(&mut asks) {
                        let map = _mm512_set1_epi32(list.words[at].cast_signed());
                        let position = _mm512_gf2p8affine_epi64_epi8::<0>(halves, map);
                        let cell = _mm512_permutexvar_epi8(position, cells);
                        for (asks, ones) in asks.iter_mut().zip(&list.ones) {
                            let one = _mm512_set1_epi32(ones[at].cast_signed());
                            // a OR (b AND c), a OR (b AND NOT c)
                            asks.ones = _mm512_ternarylogic_epi32::<0xF8>(asks.ones, cell, one);
                            asks.zeros = _mm512_ternarylogic_epi32::<0xF4>(asks.zeros, cell, one);
                        }
                    }
                }
            }
            for (list, asks) in lists.iter().zip(&mut asks) {
                let used = if list.len == 0 { 0 } else { 0xFFFF };
                for asks in asks {
                    asks.zeros = _mm512_maskz_mov_epi32(used, asks.zeros);
                    asks.ones = _mm512_maskz_mov_epi32(used, asks.ones);
                }
            }
            asks
        }
    }
}
