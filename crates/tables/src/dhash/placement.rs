//! From a hash to a bucket, for any number of buckets: linear hashing (Litwin, VLDB 1980).
//!
//! The upper bits of the hash choose one of the buckets that the table began with. The lowest bits choose among those
//! that were split off it: `level` bits, and one more for buckets below the split pointer.

use super::signature::FlowHash;

/// The number of buckets, as growth makes it: `(first << level) + split`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placement {
    first: u32,
    level: u32,
    split: u32,
}

impl Placement {
    /// A table of this many buckets that has not grown.
    pub(super) const fn new(first: u32) -> Self {
        Self { first, level: 0, split: 0 }
    }

    /// Number of buckets.
    pub(super) const fn buckets(self) -> u32 {
        (self.first << self.level) + self.split
    }

    /// The bucket of a hash. Cost: two multiplications, no branch.
    #[inline(always)]
    pub(super) const fn bucket(self, hash: FlowHash) -> usize {
        let index = hash.index();
        let first = ((index as u64 * self.first as u64) >> 32) as u32;
        let low = first + self.first * (index & ((1 << self.level) - 1));
        let is_split = (low < self.split) as u32 & index >> self.level;
        (low + (self.first << self.level) * is_split) as usize
    }

    /// The bucket that is split next.
    pub(super) const fn next_split(self) -> usize {
        self.split as usize
    }

    /// The table with one bucket more.
    pub(super) const fn grown(self) -> Self {
        if self.split + 1 == self.first << self.level {
            Self { level: self.level + 1, split: 0, ..self }
        } else {
            Self { split: self.split + 1, ..self }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_types::mix::SplitMix64;

    #[test]
    fn a_split_moves_hashes_of_one_bucket_only_and_only_to_the_new_one() {
        let mut random = SplitMix64(22);
        let hashes: Vec<FlowHash> = (0..if cfg!(miri) { 15 } else { 20_000 })
            .map(|_| FlowHash::from_parts(random.next_u64(), 1))
            .collect();
        for first in [1, 2, 3, 7, 100] {
            let mut place = Placement::new(first);
            for buckets in first..first * if cfg!(miri) { 3 } else { 9 } {
                assert_eq!(place.buckets(), buckets);
                let grown = place.grown();
                for &hash in &hashes {
                    let (before, after) = (place.bucket(hash), grown.bucket(hash));
                    assert!(before < buckets as usize);
                    assert!(after == before || (before == place.next_split() && after == buckets as usize));
                }
                place = grown;
            }
        }
    }

    /// After any number of whole doublings, buckets are equally likely. Chi-square, far beyond the 0.999 quantile.
    #[test]
    #[cfg_attr(miri, ignore = "too many keys")]
    fn buckets_are_equally_likely() {
        for (first, doublings) in [(100, 0), (100, 3), (1, 7), (97, 2)] {
            let mut place = Placement::new(first);
            while place.buckets() < first << doublings {
                place = place.grown();
            }
            let mut counts = vec![0_u32; place.buckets() as usize];
            let (mut random, mean) = (SplitMix64(5), 1000.0);
            for _ in 0..counts.len() * 1000 {
                counts[place.bucket(FlowHash::from_parts(random.next_u64(), 1))] += 1;
            }
            let chi: f64 = counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean).sum();
            let free = counts.len() as f64 - 1.0;
            assert!(chi < free + 6.0 * (2.0 * free).sqrt(), "{first} {doublings}: {chi} of {free}");
        }
    }
}
