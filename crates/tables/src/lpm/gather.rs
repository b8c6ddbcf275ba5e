//! Lookups of sixteen addresses at a time, with AVX-512.

#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports, reason = "a list of thirty instructions tells nothing")]
#![allow(clippy::cast_possible_wrap, reason = "constants and places in blocks, below 2^31")]

use super::address::Address;
use super::arena::{Arena, Width};
use super::block;
use super::entry::{EntryBytes, NextHop};
use super::kernels::{self, PART};
use crate::reclaim::cache_line::Line;
use std::arch::asm;
use std::arch::x86_64::*;

/// Addresses per vector.
const LANES: usize = 16;

/// As [`kernels::roots`]. IPv4 addresses are gathered; others are as in the portable form.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
pub(super) fn roots<A: Address, W: Width>(
    arena: &Arena,
    addresses: &[A],
    hops: &mut [Option<NextHop>],
) -> bool {
    let root = W::root(arena);
    if size_of::<A>() != size_of::<u32>() || root.len() != 1 << arena.root_bits {
        return kernels::roots::<A, W>(arena, addresses, hops);
    }
    let shift = _mm_cvtsi32_si128(32 - i32::from(arena.root_bits));
    let (whole, rest) = addresses.split_at(addresses.len() / LANES * LANES);
    let (into, into_rest) = hops.split_at_mut(whole.len());
    let mut seen = _mm512_setzero_si512();
    for (addresses, hops) in whole.chunks_exact(LANES).zip(into.chunks_exact_mut(LANES)) {
        // SAFETY: sixteen addresses of four bytes, by the check above and the length of the chunk.
        let octets = unsafe { _mm512_loadu_si512(addresses.as_ptr().cast()) };
        let at = _mm512_srl_epi32(_mm512_shuffle_epi8(octets, reversed()), shift);
        // SAFETY: the indices have `root_bits` bits, and the root has an entry for each.
        let words = unsafe { entries::<W>(root, at) };
        seen = _mm512_or_si512(seen, words);
        // SAFETY: sixteen words; every word is a valid `Option<NextHop>`.
        unsafe { _mm512_storeu_si512(hops.as_mut_ptr().cast(), words) };
    }
    let has_blocks = W::BYTES.is_block(_mm512_reduce_or_epi32(seen).cast_unsigned());
    kernels::roots::<A, W>(arena, rest, into_rest) | has_blocks
}

/// Indices of bytes that reverse each word of four.
#[inline]
#[target_feature(enable = "avx512f")]
fn reversed() -> __m512i {
    let (low, high) = (0x0405_0607_0001_0203, 0x0C0D_0E0F_0809_0A0B);
    _mm512_set_epi64(high, low, high, low, high, low, high, low)
}

/// The entries at sixteen indices.
///
/// Entries of two bytes are gathered in pairs, as aligned words of four, and the wanted one is rotated down. A word that
/// began with the wanted entry would need no rotation, but one in 32 of them would lie in two cache lines.
///
/// # Safety
/// All indices are below the length of `root`, which is a power of two from 2 to 2^24.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn entries<W: Width>(root: &[W::Cell], at: __m512i) -> __m512i {
    match W::BYTES {
        // SAFETY: as the caller promises.
        EntryBytes::Four => unsafe { gather(root.as_ptr().cast(), at, EVERY) },
        EntryBytes::Two => {
            // SAFETY: an even number of entries, so that each is half of a pair; the root begins with a cache line.
            let pairs = unsafe { gather(root.as_ptr().cast(), _mm512_srli_epi32::<1>(at), EVERY) };
            half(pairs, at)
        }
    }
}

/// The half of each pair of entries of two bytes: the upper one if the index is odd.
#[inline]
#[target_feature(enable = "avx512f")]
fn half(pairs: __m512i, at: __m512i) -> __m512i {
    // By 16 bits if the index is odd: only the last five bits of a distance count.
    let own = _mm512_rorv_epi32(pairs, _mm512_slli_epi32::<4>(at));
    _mm512_and_si512(own, _mm512_set1_epi32(0xFFFF))
}

/// Lanes that lead to blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn of_blocks<W: Width>(words: __m512i) -> __mmask16 {
    _mm512_test_epi32_mask(words, _mm512_set1_epi32(W::BYTES.block().cast_signed()))
}

/// As [`kernels::all`]. Level by level for 64 addresses, so that the misses of four vectors overlap.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx2,bmi1,bmi2,popcnt")]
pub(super) fn all<A: Address, W: Width>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
    let (root, lines) = (W::root(arena), arena.lines());
    let is_octets = size_of::<A>() * 8 == usize::from(A::BITS) && arena.root_bits.is_multiple_of(8);
    if !is_octets || root.len() != 1 << arena.root_bits || lines.len() > MAX_LINES {
        return kernels::all::<A, W>(arena, addresses, hops);
    }
    let shift = _mm_cvtsi32_si128(32 - i32::from(arena.root_bits));
    let (whole, rest) = addresses.split_at(addresses.len() / LANES * LANES);
    let (into, into_rest) = hops.split_at_mut(whole.len());
    for (addresses, hops) in whole.chunks(PART).zip(into.chunks_mut(PART)) {
        let mut words = [_mm512_setzero_si512(); PART / LANES];
        for (words, addresses) in words.iter_mut().zip(addresses.chunks_exact(LANES)) {
            let at = _mm512_srl_epi32(_mm512_shuffle_epi8(column(addresses, 0), reversed()), shift);
            // SAFETY: the indices have `root_bits` bits, and the root has an entry for each.
            *words = unsafe { entries::<W>(root, at) };
        }
        for octet in usize::from(arena.root_bits / 8)..size_of::<A>() {
            let mut left = 0;
            for (words, addresses) in words.iter_mut().zip(addresses.chunks_exact(LANES)) {
                let inside = of_blocks::<W>(*words);
                if inside != 0 {
                    let shift = _mm_cvtsi32_si128(octet as i32 % 4 * 8);
                    let four = _mm512_srl_epi32(column(addresses, octet / 4), shift);
                    let values = _mm512_and_si512(four, _mm512_set1_epi32(0xFF));
                    // SAFETY: the reader is pinned, so these words lead to whole blocks.
                    *words = unsafe { step::<W>(lines, *words, values, inside) };
                    left |= of_blocks::<W>(*words);
                }
            }
            if left == 0 {
                break;
            }
        }
        for (words, hops) in words.into_iter().zip(hops.chunks_exact_mut(LANES)) {
            // SAFETY: sixteen words; every word is a valid `Option<NextHop>`.
            unsafe { _mm512_storeu_si512(hops.as_mut_ptr().cast(), words) };
        }
    }
    kernels::all::<A, W>(arena, rest, into_rest);
}

/// The most lines whose words have indices of 31 bits.
const MAX_LINES: usize = 1 << 27;

/// The four octets from octet `4 * number` on of sixteen addresses of 4 or 16 octets, one address per lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn column<A: Address>(addresses: &[A], number: usize) -> __m512i {
    debug_assert_eq!(addresses.len(), LANES);
    let start = addresses.as_ptr().cast::<i32>();
    if size_of::<A>() == 4 {
        // SAFETY: sixteen addresses of four bytes.
        return unsafe { _mm512_loadu_si512(start.cast()) };
    }
    // SAFETY: sixteen addresses of sixteen bytes are four vectors.
    let vector = |n: usize| unsafe { _mm512_loadu_si512(start.add(LANES * n).cast()) };
    // Word `number` of each four, of two vectors.
    let every_fourth = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    let from = _mm512_add_epi32(every_fourth, _mm512_set1_epi32(number as i32)); // below 4
    let low = _mm512_permutex2var_epi32(vector(0), from, vector(1));
    let high = _mm512_permutex2var_epi32(vector(2), from, vector(3));
    _mm512_inserti64x4::<1>(low, _mm512_castsi512_si256(high))
}

/// The words of these values in the blocks to which the words of the lanes `inside` lead; other lanes keep theirs. As
/// [`block::place`] and [`block::load`].
///
/// # Safety
/// The words of these lanes lead to whole blocks in `lines`, of which there are at most [`MAX_LINES`], and values are
/// below 256.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq")]
unsafe fn step<W: Width>(lines: &[Line], words: __m512i, values: __m512i, inside: __mmask16) -> __m512i {
    let start = lines.as_ptr().cast::<u32>();
    let line = _mm512_andnot_si512(_mm512_set1_epi32(W::BYTES.block().cast_signed()), words);
    let line = _mm512_slli_epi32::<4>(line); // in words of four bytes
    // Products below 2^16, in the lower halves of lanes.
    let number = _mm512_srli_epi32::<12>(_mm512_mullo_epi16(values, _mm512_set1_epi32(171)));
    let bit = _mm512_sub_epi32(values, _mm512_mullo_epi16(number, _mm512_set1_epi32(24)));
    // SAFETY: eleven heads begin a block, and values below 256 have numbers up to ten.
    let heads = unsafe { gather(start, _mm512_add_epi32(line, number), inside) };
    let starts = _mm512_sllv_epi32(heads, _mm512_sub_epi32(_mm512_set1_epi32(31), bit));
    let run = _mm512_add_epi32(_mm512_popcnt_epi32(starts), _mm512_srli_epi32::<24>(heads));
    let place = _mm512_add_epi32(run, _mm512_set1_epi32(block::first(W::BYTES) as i32 - 1)); // below 300
    let own = match W::BYTES {
        // SAFETY: the block has an entry for each run.
        EntryBytes::Four => unsafe { gather(start, _mm512_add_epi32(line, place), inside) },
        EntryBytes::Two => {
            let at = _mm512_add_epi32(line, _mm512_srli_epi32::<1>(place));
            // SAFETY: as above; entries of two bytes are read in pairs, which do not cross lines.
            half(unsafe { gather(start, at, inside) }, place)
        }
    };
    _mm512_mask_mov_epi32(words, inside, own)
}

/// All lanes.
const EVERY: __mmask16 = u16::MAX;

/// The words at the indices of these lanes, and 0 in the others.
///
/// The writer may store to these words at the same time, so a gather by intrinsic, which is a plain load to the
/// compiler, would be a data race. In assembly it is sixteen atomic loads: each element is an aligned word, or half of one,
/// or two, and the processor loads it at once. No load of x86 moves before an earlier one.
///
/// # Safety
/// `words` is aligned to four bytes, and there are words at the indices of these lanes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather(words: *const u32, at: __m512i, lanes: __mmask16) -> __m512i {
    let mut found = _mm512_setzero_si512(); // so that it does not wait for an earlier value of the register
    // SAFETY: reads aligned words of a root, by the caller's promise, and nothing else.
    unsafe {
        asm!(
            "vpgatherdd {found}{{{lanes}}}, dword ptr [{words} + 4 * {at}]",
            lanes = inout(kreg) lanes => _,
            found = inout(zmm_reg) found,
            words = in(reg) words,
            at = in(zmm_reg) at,
            options(nostack, readonly, preserves_flags),
        );
    }
    found
}
