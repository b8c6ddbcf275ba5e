//! Stores that go to memory without passing through the caches: for data that is written once and read much later.
#![allow(unsafe_code)]

/// Writes a cache line past the caches, where the processor can. Call [`finish`] before another thread reads it.
#[inline(always)]
pub(crate) fn line(to: &mut [u64; 8], from: &[u64; 8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::_mm_stream_si64;
        for (to, &word) in to.iter_mut().zip(from) {
            // Word by word, as they were stored a moment ago: a wider load would wait for those stores to reach the cache.
            // SAFETY: SSE2 is part of x86-64; the word is ours alone.
            unsafe { _mm_stream_si64(std::ptr::from_mut(to).cast::<i64>(), word.cast_signed()) };
        }
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        *to = *from;
    }
}

/// Makes the lines written so far visible to whoever is told of them afterwards.
#[inline(always)]
pub(crate) fn finish() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}
