//! The building blocks of tables: cache lines of words with one writer and many readers.

use super::sync::{AtomicU64, Ordering};

/// One cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [AtomicU64; 8]);

impl Line {
    pub(crate) fn new(words: [u64; 8]) -> Self {
        Self(words.map(AtomicU64::new))
    }

    /// Writes a line that no reader can reach.
    #[inline(always)]
    pub(crate) fn write(&self, words: &[u64; 8]) {
        for (cell, &word) in self.0.iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
    }
}

#[cfg(not(loom))]
#[allow(unsafe_code, reason = "one promise about one type")]
// SAFETY: eight words for which zero is a valid value, and no padding between or after them: they fill the
// alignment.
unsafe impl crate::huge::Zeroable for Line {}

/// Number of spare slots for this many slots in use: how many updates may wait for readers before the writer
/// must wait. It is under 1 % of a large table. A small table, where 1 % would be too few to continue while a
/// reader is off its core, has 32.
pub(crate) fn spare_slots(used: usize) -> usize {
    match used {
        _ if cfg!(any(loom, miri)) => 2, // so that few updates use memory again
        ..512 => 32,
        _ => used / 128,
    }
}
