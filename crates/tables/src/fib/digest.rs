//! Digests of sets of FIB entries.

use crate::FibValue;
use crate::mix::mix64;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::KeyHash;

/// The digest of a set of FIB entries: the sum, modulo 2^64, of a mixed hash of each entry's key hash and
/// value.
///
/// The order of the entries does not matter. So a set's digest is updated with one addition per change, and
/// can be computed from a table in any slot order. Two sets that differ have the same digest with probability
/// 2^-64: the key hash is keyed with the cluster's secret. It detects errors of software and memory; it is
/// not a signature.
///
/// Cost: about 3 ns per entry, given the key hash; 8 bytes per set.
///
/// ```
/// use scalebricks_tables::fib::FibDigest;
/// use scalebricks_types::KeyHash;
///
/// let (a, b) = (FibDigest::of(KeyHash::new(1), [2, 3]), FibDigest::of(KeyHash::new(4), [5, 6]));
/// assert_eq!(a + b, b + a);
/// assert_eq!(a + b - a, b);
/// assert_ne!(a, FibDigest::of(KeyHash::new(1), [3, 2]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, BorshSerialize, BorshDeserialize)]
pub struct FibDigest(u64);

/// Separates the digest from other uses of the key hash.
const SALT: u64 = 0x5C41_EB21_D163_5700;

impl FibDigest {
    /// The digest of one entry.
    #[inline]
    pub const fn of(hash: KeyHash, value: FibValue) -> Self {
        let [low, high] = value;
        Self(mix64(mix64(mix64(hash.get() ^ SALT) ^ low) ^ high))
    }
}

impl std::ops::Add for FibDigest {
    type Output = Self;

    /// The digest of the union of two sets that have no key in common.
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl std::ops::Sub for FibDigest {
    type Output = Self;

    /// The digest of the set without the entries of `other`, all of which must be in it.
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

impl std::ops::AddAssign for FibDigest {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::ops::SubAssign for FibDigest {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every bit of an entry counts: no two entries that differ in one bit have digests that differ in few
    /// bits.
    #[test]
    fn one_bit_of_an_entry_changes_half_of_the_digest() {
        let words = [0x1234_5678_9abc_def0, 7, 0];
        let digest = |[hash, low, high]: [u64; 3]| FibDigest::of(KeyHash::new(hash), [low, high]).0;
        let mut flipped = 0;
        for bit in 0..192 {
            let mut other = words;
            other[bit / 64] ^= 1 << (bit % 64);
            let bits = (digest(words) ^ digest(other)).count_ones();
            assert!((10..=54).contains(&bits), "bit {bit}: {bits} bits");
            flipped += bits;
        }
        assert!((29..=35).contains(&(flipped / 192)), "{flipped} of {} bits", 192 * 64);
    }
}
