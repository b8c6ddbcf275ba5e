//! The filter that the data plane queries.

use super::LINE_BITS;
use super::delta::{FilterDelta, FilterDeltaError};
use super::params::FilterParams;
use super::probe::{for_each_field, line};
use crate::huge::HugeSlice;
use crate::prefetch::prefetch_item;
use scalebricks_types::KeyHash;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of names of a batch whose lines are prefetched before the first is read.
const UNIT: usize = 32;

/// A cache line of bits.
pub(super) type Line = [AtomicU64; 8];

/// A Bloom filter. It never refuses a name that is in it; see the [module](super) for details.
///
/// Many threads may query it while one or several change it. A change reaches other threads as their
/// processor sees stores. A thread that must know that a change has arrived needs other synchronisation.
pub struct BloomFilter {
    params: FilterParams,
    lines: HugeSlice<Line>,
}

impl BloomFilter {
    /// An empty filter. Cost: zeroes all of [`Self::table_bytes`].
    pub fn new(params: FilterParams) -> Self {
        Self { params, lines: HugeSlice::zeroed(params.lines() as usize) }
    }

    /// Its size and seed.
    pub const fn params(&self) -> &FilterParams {
        &self.params
    }

    /// Bytes of bits.
    pub fn table_bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// Adds a name permanently. If names must be removed, let the filter follow a
    /// [`CountingFilter`](super::CountingFilter).
    pub fn insert(&self, hash: KeyHash) {
        for &bit in self.params.places(hash).bits() {
            self.set(bit, true);
        }
    }

    /// Whether a name may be in the filter. Cost: one cache line.
    #[inline]
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.line_has(self.line_of(hash), hash)
    }

    #[inline(always)]
    const fn line_of(&self, hash: KeyHash) -> usize {
        line(hash, self.params.seed(), self.params.lines()) as usize
    }

    /// Calls `tell` for the cache line that [`Self::contains`] reads for a name: for benchmarks that replay
    /// it.
    pub fn touched(&self, hash: KeyHash, tell: &mut dyn FnMut(*const u8)) {
        tell(std::ptr::from_ref(&self.lines[self.line_of(hash)]).cast());
    }

    /// [`Self::contains`] for each name of a batch of any length, with the lines of 32 names in flight at
    /// once.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn contains_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        assert_eq!(hashes.len(), answers.len(), "one answer a name");
        for (hashes, answers) in hashes.chunks(UNIT).zip(answers.chunks_mut(UNIT)) {
            let mut lines = [0; UNIT];
            for (at, &hash) in lines.iter_mut().zip(hashes) {
                *at = self.line_of(hash);
                prefetch_item(&self.lines, *at);
            }
            for ((&at, &hash), answer) in lines.iter().zip(hashes).zip(answers) {
                *answer = self.line_has(at, hash);
            }
        }
    }

    /// Whether a line has all bits of a name. Without branches: once the line has arrived, all its bits are
    /// available.
    #[inline(always)]
    fn line_has(&self, at: usize, hash: KeyHash) -> bool {
        let line = &self.lines[at];
        #[cfg(all(test, not(loom)))]
        crate::touched_lines::note(line, size_of::<Line>());
        let mut all = 1;
        for_each_field(hash, self.params.seed(), self.params.hashes(), |field| {
            all &= line[field / 64 % 8].load(Ordering::Relaxed) >> (field % 64);
        });
        all & 1 == 1
    }

    /// Sets the bits as a delta says. Deltas of one [`CountingFilter`](super::CountingFilter) must be applied
    /// in its order; applying the same delta again changes nothing.
    ///
    /// # Errors
    /// [`FilterDeltaError`] if it is for a larger filter; nothing is changed then.
    pub fn apply(&self, delta: &FilterDelta) -> Result<(), FilterDeltaError> {
        let bits = self.params.bits();
        if let Some(&(bit, _)) = delta.bits.last().filter(|&&(bit, _)| bit >= bits) {
            return Err(FilterDeltaError { bit, bits });
        }
        // Sets bits before it clears any: when one name replaces another, the new name is present before the
        // old one is gone.
        for value in [true, false] {
            delta.bits.iter().filter(|(_, to)| *to == value).for_each(|&(bit, to)| self.set(bit, to));
        }
        Ok(())
    }

    /// The bits, 64 at a time.
    #[cfg(all(test, not(loom)))]
    pub(super) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.lines.iter().flatten().map(|word| word.load(Ordering::Relaxed))
    }

    /// Writes all bits.
    pub(super) fn fill(&mut self, words: impl IntoIterator<Item = u64>) {
        for (word, value) in self.lines.iter_mut().flatten().zip(words) {
            *word.get_mut() = value;
        }
    }

    /// Whether a bit is set.
    #[cfg(all(test, not(loom)))]
    pub(super) fn get(&self, bit: u64) -> bool {
        self.word(bit).load(Ordering::Relaxed) >> (bit % 64) & 1 == 1
    }

    fn word(&self, bit: u64) -> &AtomicU64 {
        &self.lines[(bit / LINE_BITS) as usize][(bit / 64 % 8) as usize]
    }

    fn set(&self, bit: u64, value: bool) {
        let (word, mask) = (self.word(bit), 1 << (bit % 64));
        if value {
            word.fetch_or(mask, Ordering::Relaxed);
        } else {
            word.fetch_and(!mask, Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for BloomFilter {
    /// Prints its size, not its bits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BloomFilter").field("params", &self.params).finish_non_exhaustive()
    }
}
