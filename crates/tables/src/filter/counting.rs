//! The filter at the control side, from which names can be taken out again.

use super::bloom::BloomFilter;
use super::delta::FilterDelta;
use super::params::FilterParams;
use crate::huge::HugeSlice;
use scalebricks_types::KeyHash;

/// The highest count. A counter that reaches it stays there, and its bit set: a few false positives more, never a name lost.
/// With the best number of bits a name, a counter does so with probability 1.4e-15 (Fan et al., SIGCOMM 1998).
const MOST: u8 = 15;

/// A name is not in the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("name {0:?} is not in the filter")]
pub struct UnknownName(pub KeyHash);

/// A filter that counts the names of each bit, in four bits of memory. Tells by [`FilterDelta`]s what became of the bits.
pub struct CountingFilter {
    params: FilterParams,
    /// Two counters a byte.
    counts: HugeSlice<u8>,
    names: u64,
    /// Bits that were set or cleared since the last delta, as often as they were.
    flipped: Vec<u64>,
}

impl CountingFilter {
    /// An empty one.
    pub fn new(params: FilterParams) -> Self {
        let counts = HugeSlice::zeroed(params.bits() as usize / 2);
        Self { params, counts, names: 0, flipped: Vec::new() }
    }

    /// Its size and seed.
    pub const fn params(&self) -> &FilterParams {
        &self.params
    }

    /// Names in it, each as often as it was inserted.
    pub const fn names(&self) -> u64 {
        self.names
    }

    /// Bytes of counters: four times those of the bits.
    pub fn control_bytes(&self) -> usize {
        self.counts.len()
    }

    /// Adds a name; one that is added twice has to be taken out twice. Cost: `k` counters.
    pub fn insert(&mut self, hash: KeyHash) {
        self.names += 1;
        for &bit in self.params.places(hash).bits() {
            let count = self.count(bit);
            if count == 0 {
                self.flipped.push(bit);
            }
            self.set(bit, (count + 1).min(MOST));
        }
    }

    /// Takes a name out.
    ///
    /// # Errors
    /// [`UnknownName`] if it surely is not there. One that never was and is let through all the same cannot be told from one that is:
    /// taking it out would clear bits of other names, so callers go by their own list of names.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), UnknownName> {
        let places = self.params.places(hash);
        if places.bits().iter().any(|&bit| self.count(bit) == 0) {
            return Err(UnknownName(hash));
        }
        self.names = self.names.saturating_sub(1);
        for &bit in places.bits() {
            let count = self.count(bit);
            if count == MOST {
                continue;
            }
            if count == 1 {
                self.flipped.push(bit);
            }
            self.set(bit, count - 1);
        }
        Ok(())
    }

    /// Whether a name may be in it.
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.params.places(hash).bits().iter().all(|&bit| self.count(bit) > 0)
    }

    /// What became of the bits since the last delta: of those that have changed, what they are now.
    pub fn take_delta(&mut self) -> FilterDelta {
        self.flipped.sort_unstable();
        let runs = self.flipped.chunk_by(|a, b| a == b);
        let bits =
            runs.filter(|run| run.len() % 2 == 1).map(|run| (run[0], self.count(run[0]) > 0)).collect();
        self.flipped.clear();
        FilterDelta::new(bits)
    }

    /// The bits as they are now. The next delta is still told since the last one; applied to these bits, it changes nothing that
    /// is not so already.
    pub fn export(&self) -> BloomFilter {
        let mut filter = BloomFilter::new(self.params);
        // 32 bytes of counters are 64 bits.
        filter.fill(self.counts.chunks_exact(32).map(|counts| {
            counts
                .iter()
                .rev()
                .fold(0, |word, &pair| word << 2 | u64::from(pair >> 4 > 0) << 1 | u64::from(pair & MOST > 0))
        }));
        filter
    }

    #[inline]
    fn count(&self, bit: u64) -> u8 {
        self.counts[(bit / 2) as usize] >> (bit % 2 * 4) & MOST
    }

    #[inline]
    fn set(&mut self, bit: u64, count: u8) {
        let shift = bit % 2 * 4;
        let pair = &mut self.counts[(bit / 2) as usize];
        *pair = *pair & !(MOST << shift) | count << shift;
    }
}

impl std::fmt::Debug for CountingFilter {
    /// Size and fill, not the counters.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountingFilter")
            .field("params", &self.params)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
