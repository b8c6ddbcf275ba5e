//! The root's entries of sixteen addresses at a time, with AVX-512.

#![allow(unsafe_code)]

use super::address::Address;
use super::arena::{Arena, Width};
use super::entry::{EntryBytes, NextHop};
use super::kernels;
use std::arch::asm;
use std::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm512_and_si512, _mm512_loadu_si512, _mm512_or_si512,
    _mm512_reduce_or_epi32, _mm512_rorv_epi32, _mm512_set_epi64, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_slli_epi32, _mm512_srl_epi32, _mm512_srli_epi32, _mm512_storeu_si512,
};

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
        EntryBytes::Four => unsafe { gather(root.as_ptr().cast(), at) },
        EntryBytes::Two => {
            // SAFETY: an even number of entries, so that each is half of a pair; the root begins with a cache line.
            let pairs = unsafe { gather(root.as_ptr().cast(), _mm512_srli_epi32::<1>(at)) };
            // A rotation by 16 bits if the index is odd: only the last five bits of a distance count.
            let own = _mm512_rorv_epi32(pairs, _mm512_slli_epi32::<4>(at));
            _mm512_and_si512(own, _mm512_set1_epi32(0xFFFF))
        }
    }
}

/// The words at sixteen indices.
///
/// The writer may store to these words at the same time, so a gather by intrinsic, which is a plain load to the
/// compiler, would be a data race. In assembly it is sixteen atomic loads, or for entries of two bytes twice sixteen:
/// each element is an aligned word, which the processor loads at once, and no load of x86 moves before an earlier one.
///
/// # Safety
/// `words` is aligned to four bytes, and there are words at all indices.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather(words: *const u32, at: __m512i) -> __m512i {
    let mut found = _mm512_setzero_si512(); // so that it does not wait for an earlier value of the register
    // SAFETY: reads aligned words of a root, by the caller's promise, and nothing else.
    unsafe {
        asm!(
            "kxnorw {all}, {all}, {all}",
            "vpgatherdd {found}{{{all}}}, dword ptr [{words} + 4 * {at}]",
            all = out(kreg) _,
            found = inout(zmm_reg) found,
            words = in(reg) words,
            at = in(zmm_reg) at,
            options(nostack, readonly, preserves_flags),
        );
    }
    found
}
