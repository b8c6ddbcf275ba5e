//! What tables are made of: cache lines of words that one writes and many read.

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
// SAFETY: eight words for which zero is a valid value, and nothing between or behind them: they fill the alignment.
unsafe impl crate::huge::Zeroable for Line {}

/// Free slots beside so many in use: how many updates may be waiting for readers before the writer must. Under 1 % of a
/// large table; a small one, where 1 % would be too few to go on while a reader is off its core, has 32.
pub(crate) fn spare_slots(used: usize) -> usize {
    match used {
        _ if cfg!(any(loom, miri)) => 2, // so that few updates use memory again
        ..512 => 32,
        _ => used / 128,
    }
}
