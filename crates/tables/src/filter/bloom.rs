//! The filter that the data plane queries.

use super::LINE_BITS;
use super::delta::{FilterDelta, FilterDeltaError};
use super::params::{FilterParams, Layout};
use super::probe::{MAX_HASHES, ProbeWords, below, for_each_field, line, word};
use crate::huge::HugeSlice;
use crate::prefetch::prefetch_item;
use crate::touched_lines::LineRecorder;
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

    /// Whether a name may be in the filter. Cost: one line if blocked; else `k` lines for a name in the
    /// filter, two for most others.
    #[inline]
    pub fn contains(&self, hash: KeyHash) -> bool {
        match self.params.layout() {
            Layout::Classic => {
                let (seed, bits) = (self.params.seed(), self.params.bits());
                (0..u64::from(self.params.hashes()))
                    .all(|number| self.get(below(word(hash, seed, number), bits)))
            }
            Layout::Blocked => {
                self.line_has(line(hash, self.params.seed(), self.params.lines()) as usize, hash)
            }
        }
    }

    /// [`Self::contains`] with precomputed words, for names that are checked against many filters. `read` is
    /// called with the number of each line that is read, in order.
    #[inline]
    pub fn contains_words(&self, words: &ProbeWords, mut read: impl FnMut(usize)) -> bool {
        let params = &self.params;
        match params.layout() {
            Layout::Classic => (0..params.hashes()).all(|number| {
                let bit = below(words.get(params.seed(), number), params.bits());
                read((bit / LINE_BITS) as usize);
                self.get(bit)
            }),
            Layout::Blocked => {
                let at = line(words.hash(), params.seed(), params.lines()) as usize;
                read(at);
                self.line_has(at, words.hash())
            }
        }
    }

    /// Calls `tell` for each cache line that [`Self::contains`] reads for a name, in order: for benchmarks
    /// that replay them.
    pub fn touched(&self, hash: KeyHash, tell: &mut dyn FnMut(*const u8)) {
        let words = ProbeWords::of(hash, self.params.seed(), self.params.hashes());
        let mut lines = LineRecorder::new(tell);
        let _ = self.contains_words(&words, |at| lines.read(&self.lines[at]));
    }

    /// [`Self::contains`] for each name of a batch of any length, with the lines of 32 names in flight at
    /// once.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn contains_batch(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        assert_eq!(hashes.len(), answers.len(), "one answer a name");
        for (hashes, answers) in hashes.chunks(UNIT).zip(answers.chunks_mut(UNIT)) {
            match self.params.layout() {
                Layout::Classic => self.classic_unit(hashes, answers),
                Layout::Blocked => self.blocked_unit(hashes, answers),
            }
        }
    }

    fn classic_unit(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        let (seed, bits) = (self.params.seed(), self.params.bits());
        let each = usize::from(self.params.hashes());
        let mut places = [0; UNIT * MAX_HASHES];
        for (places, &hash) in places.chunks_exact_mut(each).zip(hashes) {
            for (place, number) in places.iter_mut().zip(0..) {
                *place = below(word(hash, seed, number), bits);
                prefetch_item(&self.lines, (*place / LINE_BITS) as usize);
            }
        }
        for (places, answer) in places.chunks_exact(each).zip(answers) {
            *answer = places.iter().all(|&place| self.get(place));
        }
    }

    fn blocked_unit(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        let mut lines = [0; UNIT];
        for (at, &hash) in lines.iter_mut().zip(hashes) {
            *at = line(hash, self.params.seed(), self.params.lines()) as usize;
            prefetch_item(&self.lines, *at);
        }
        for ((&at, &hash), answer) in lines.iter().zip(hashes).zip(answers) {
            *answer = self.line_has(at, hash);
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
    /// [`FilterDeltaError::Range`] if it is for a larger filter; nothing is changed then.
    pub fn apply(&self, delta: &FilterDelta) -> Result<(), FilterDeltaError> {
        delta.check(&self.params)?;
        // Sets bits before it clears any: when one name replaces another, the new name is present before the
        // old one is gone.
        for value in [true, false] {
            delta.bits().filter(|&(_, to)| to == value).for_each(|(bit, to)| self.set(bit, to));
        }
        Ok(())
    }

    /// Number of bits that are set.
    pub fn ones(&self) -> u64 {
        self.words().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The bits, 64 at a time.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.lines.iter().flatten().map(|word| word.load(Ordering::Relaxed))
    }

    /// Writes all bits.
    pub(super) fn fill(&mut self, words: impl IntoIterator<Item = u64>) {
        for (word, value) in self.lines.iter_mut().flatten().zip(words) {
            *word.get_mut() = value;
        }
    }

    #[inline(always)]
    fn word(&self, bit: u64) -> &AtomicU64 {
        let word = &self.lines[(bit / LINE_BITS) as usize][(bit / 64 % 8) as usize];
        #[cfg(all(test, not(loom)))]
        crate::touched_lines::note(word, size_of::<AtomicU64>());
        word
    }

    #[inline(always)]
    pub(super) fn get(&self, bit: u64) -> bool {
        self.word(bit).load(Ordering::Relaxed) >> (bit % 64) & 1 == 1
    }

    pub(super) fn set(&self, bit: u64, value: bool) {
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
