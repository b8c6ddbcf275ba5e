//! The filter of the control plane, from which names can be removed.

use super::bloom::BloomFilter;
use super::delta::FilterDelta;
use super::params::FilterParams;
use crate::huge::HugeSlice;
use scalebricks_types::KeyHash;

/// The highest count. A counter that reaches it keeps this value, and its bit stays set: this adds a few
/// false positives, but never loses a name. With the best number of bits per name, a counter does so with
/// probability 1.4e-15 (Fan et al., SIGCOMM 1998).
const MOST: u8 = 15;

/// A name is not in the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("name {0:?} is not in the filter")]
pub struct UnknownName(pub KeyHash);

/// A filter that counts the names of each bit, in four bits of memory. It produces [`FilterDelta`]s of the
/// changed bits.
pub struct CountingFilter {
    params: FilterParams,
    /// Two counters per byte.
    counts: HugeSlice<u8>,
    names: u64,
    /// Bits that were set or cleared since the last delta, once for each time.
    flipped: Vec<u64>,
}

impl CountingFilter {
    /// An empty filter.
    pub fn new(params: FilterParams) -> Self {
        let counts = HugeSlice::zeroed(params.bits() as usize / 2);
        Self { params, counts, names: 0, flipped: Vec::new() }
    }

    /// Its size and seed.
    pub const fn params(&self) -> &FilterParams {
        &self.params
    }

    /// Number of names in it, each counted as often as it was inserted.
    pub const fn names(&self) -> u64 {
        self.names
    }

    /// Bytes of counters: four times the bytes of the bits.
    pub fn control_bytes(&self) -> usize {
        self.counts.len()
    }

    /// Adds a name. A name that is added twice must be removed twice. Cost: `k` counters.
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

    /// Removes a name.
    ///
    /// # Errors
    /// [`UnknownName`] if it is certainly not in the filter. A false positive cannot be distinguished from a
    /// name in the filter, and removing it would clear bits of other names. So callers must keep their own
    /// list of names.
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

    /// Whether a name may be in the filter.
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.params.places(hash).bits().iter().all(|&bit| self.count(bit) > 0)
    }

    /// The bits that changed since the last delta, with their current values.
    pub fn take_delta(&mut self) -> FilterDelta {
        self.flipped.sort_unstable();
        let runs = self.flipped.chunk_by(|a, b| a == b);
        let bits =
            runs.filter(|run| run.len() % 2 == 1).map(|run| (run[0], self.count(run[0]) > 0)).collect();
        self.flipped.clear();
        FilterDelta { bits }
    }

    /// The current bits. The next delta still begins at the previous one; applied to these bits, it changes
    /// nothing that is not already so.
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
    /// Prints size and fill, not the counters.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountingFilter")
            .field("params", &self.params)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
