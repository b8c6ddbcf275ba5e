//! Stores that go to memory without passing through the caches: for data that is written once and read much later.
//!
//! They are not ordered with what follows them: a lock released, a flag set or a thread joined afterwards may be seen
//! before they are. A fence orders them. [`StreamingWriter`] owes it from its first line on and pays at the latest when it is
//! dropped, by a panic too. The owner lends the memory for longer than the writer lives, so no other code can reach the
//! lines before the fence. (The thread that wrote them sees them at once, fence or not.)
#![allow(unsafe_code)]

/// Writes lines past the caches, and makes them visible to others when told to, or dropped.
#[derive(Debug, Default)]
pub(crate) struct StreamingWriter(());

#[cfg(test)]
thread_local! {
    /// Lines that this thread has written and not made visible.
    static OWED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl StreamingWriter {
    /// Writes a cache line past the caches, where the processor can.
    #[inline(always)]
    #[expect(
        clippy::unused_self,
        reason = "the borrow is the proof that a writer exists and will be dropped"
    )]
    pub(crate) fn line(&mut self, to: &mut [u64; 8], from: &[u64; 8]) {
        #[cfg(test)]
        OWED.set(OWED.get() + 1);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use core::arch::x86_64::_mm_stream_si64;
            for (to, &word) in to.iter_mut().zip(from) {
                // Word by word, as they were stored a moment ago: a wider load would wait for those stores to reach the cache.
                // SAFETY: SSE2 is part of x86-64; the word is ours alone. `drop` fences before anybody else can have it.
                unsafe { _mm_stream_si64(std::ptr::from_mut(to).cast::<i64>(), word.cast_signed()) };
            }
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        {
            *to = *from;
        }
    }

    /// Makes the lines written so far visible to threads that are notified afterwards.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "as above")]
    pub(crate) fn finish(&mut self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: SSE is part of x86-64.
        unsafe {
            core::arch::x86_64::_mm_sfence();
        }
        #[cfg(test)]
        OWED.set(0);
    }
}

impl Drop for StreamingWriter {
    /// Fences, whatever was fenced before: once a build and thread.
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn nothing_is_owed_after_the_end_a_drop_or_a_panic() {
        let mut memory = vec![0; 24];
        let lines = memory.as_chunks_mut::<8>().0;
        let mut writer = StreamingWriter::default();
        writer.line(&mut lines[0], &[1; 8]);
        assert_eq!(OWED.get(), 1, "a line is owed before the fence");
        writer.finish();
        assert_eq!(OWED.get(), 0);
        writer.line(&mut lines[1], &[2; 8]);
        drop(writer);
        assert_eq!(OWED.get(), 0);
        let broken = catch_unwind(AssertUnwindSafe(|| {
            let mut writer = StreamingWriter::default();
            writer.line(&mut lines[2], &[3; 8]);
            assert_eq!(OWED.get(), 0, "so it panics");
        }));
        assert!(broken.is_err());
        assert_eq!(OWED.get(), 0);
        assert_eq!(memory, [[1; 8], [2; 8], [3; 8]].concat());
    }
}
