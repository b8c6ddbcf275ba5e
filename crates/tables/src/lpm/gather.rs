//! The root's entries of sixteen addresses at a time, with AVX-512.

#![allow(unsafe_code)]

use super::address::Address;
use super::arena::Arena;
use super::entry::{Entry, NextHop};
use super::kernels;
use crate::reclaim::sync::AtomicU32;
use std::arch::asm;
use std::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm512_loadu_si512, _mm512_or_si512, _mm512_reduce_or_epi32,
    _mm512_set_epi64, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_srl_epi32, _mm512_storeu_si512,
};

/// Addresses per vector.
const LANES: usize = 16;

/// As [`kernels::roots`]. IPv4 addresses are gathered; others are as in the portable form.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
pub(super) fn roots<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) -> bool {
    if size_of::<A>() != size_of::<u32>() {
        return kernels::roots(arena, addresses, hops);
    }
    let (root, _) = arena.parts();
    let shift = _mm_cvtsi32_si128(32 - i32::from(arena.root_bits));
    let (whole, rest) = addresses.split_at(addresses.len() / LANES * LANES);
    let (into, into_rest) = hops.split_at_mut(whole.len());
    let mut seen = _mm512_setzero_si512();
    for (addresses, hops) in whole.chunks_exact(LANES).zip(into.chunks_exact_mut(LANES)) {
        // SAFETY: sixteen addresses of four bytes, by the check above and the length of the chunk.
        let octets = unsafe { _mm512_loadu_si512(addresses.as_ptr().cast()) };
        let at = _mm512_srl_epi32(_mm512_shuffle_epi8(octets, reversed()), shift);
        // SAFETY: the indices have `root_bits` bits, and the root has an entry for each.
        let entries = unsafe { gather(root, at) };
        seen = _mm512_or_si512(seen, entries);
        // SAFETY: sixteen words; every word is a valid `Option<NextHop>`.
        unsafe { _mm512_storeu_si512(hops.as_mut_ptr().cast(), entries) };
    }
    let has_blocks = Entry(_mm512_reduce_or_epi32(seen).cast_unsigned()).is_block();
    kernels::roots(arena, rest, into_rest) | has_blocks
}

/// Indices of bytes that reverse each word of four.
#[inline]
#[target_feature(enable = "avx512f")]
fn reversed() -> __m512i {
    let (low, high) = (0x0405_0607_0001_0203, 0x0C0D_0E0F_0809_0A0B);
    _mm512_set_epi64(high, low, high, low, high, low, high, low)
}

/// The words at sixteen indices.
///
/// The writer may store to these words at the same time, so a gather by intrinsic, which is a plain load to the
/// compiler, would be a data race. In assembly it is sixteen atomic loads: each element is an aligned word, which
/// the processor loads at once, and no load of x86 moves before an earlier one.
///
/// # Safety
/// All indices are below the length of `words`, which is at most 2^31.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn gather(words: &[AtomicU32], at: __m512i) -> __m512i {
    let mut found = _mm512_setzero_si512(); // so that it does not wait for an earlier value of the register
    // SAFETY: reads aligned words of the slice, by the caller's promise, and nothing else.
    unsafe {
        asm!(
            "kxnorw {all}, {all}, {all}",
            "vpgatherdd {found}{{{all}}}, dword ptr [{words} + 4 * {at}]",
            all = out(kreg) _,
            found = inout(zmm_reg) found,
            words = in(reg) words.as_ptr(),
            at = in(zmm_reg) at,
            options(nostack, readonly, preserves_flags),
        );
    }
    found
}
