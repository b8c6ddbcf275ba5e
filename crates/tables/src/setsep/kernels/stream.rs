//! Stores that go to memory without passing through the caches: for data that is written once and read much later.
#![allow(unsafe_code)]
#![allow(clippy::cast_ptr_alignment, reason = "asked for before it is relied on")]

/// Writes a cache line past the caches, where the processor can. Call [`finish`] before another thread reads it.
#[inline(always)]
pub(in crate::setsep) fn line(to: &mut [u64; 8], from: &[u64; 8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let (to, from) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        if to.is_aligned() {
            for part in 0..4 {
                // SAFETY: SSE2 is part of x86-64; both arrays are four times 16 bytes, `to` is ours alone and aligned.
                unsafe { _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part))) };
            }
            return;
        }
        // SAFETY: both are valid for 64 bytes and cannot overlap: one is borrowed exclusively.
        unsafe { to.cast::<u64>().copy_from_nonoverlapping(from.cast(), 8) };
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        *to = *from;
    }
}

/// Makes the lines written so far visible to whoever is told of them afterwards.
#[inline(always)]
pub(in crate::setsep) fn finish() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}
