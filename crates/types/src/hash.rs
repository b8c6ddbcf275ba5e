//! The one hash of a key: SipHash-1-3 under a 128-bit secret seed.
//!
//! Everything after the first parse works on the 64-bit [`KeyHash`]: the partition, the SetSep block and bucket,
//! the cuckoo buckets, the owner. So an attacker who could choose keys of one hash value could overflow one block. SipHash is
//! a keyed pseudo-random function made for exactly that threat (Aumasson and Bernstein, 2012); 1-3 is the variant
//! hash tables use. Flow keys are whole 64-bit words, so the length block and the tail are constants and the whole
//! is straight-line code: 2 + 1 compression rounds and 3 final ones for a 16-byte key.

use crate::FlowKey;
use crate::mix::splitmix64;

/// The cluster-wide secret of the key hash. All nodes share it; who does not know it cannot aim keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed([u64; 2]);

impl HashSeed {
    /// The seed made of these two words.
    pub const fn new(k0: u64, k1: u64) -> Self {
        Self([k0, k1])
    }

    /// A seed for experiments that must be repeatable: the words are spread from one number, so it holds no more
    /// than 64 bits of secret.
    pub const fn from_u64(seed: u64) -> Self {
        Self([splitmix64(seed), splitmix64(seed ^ 0xA5A5_A5A5_A5A5_A5A5)])
    }
}

impl std::fmt::Debug for HashSeed {
    /// Never prints the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashSeed(..)")
    }
}

/// The 64-bit hash of a [`FlowKey`] under the cluster's seed.
///
/// The top bits choose partition, block and bucket; tables mix the whole word once more for everything else.
/// `repr(transparent)`, so a slice of hashes is a slice of words to a SIMD kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct KeyHash(u64);

impl KeyHash {
    /// A hash computed elsewhere. It must come from a keyed 64-bit function of good quality.
    pub const fn new(hash: u64) -> Self {
        Self(hash)
    }

    /// The 64 bits.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Hashes flow keys. Two words of state, free to copy.
#[derive(Debug, Clone, Copy)]
pub struct KeyHasher {
    seed: HashSeed,
}

impl KeyHasher {
    /// A hasher under this seed.
    pub const fn new(seed: HashSeed) -> Self {
        Self { seed }
    }

    /// The hash of a key. Cost: no memory touched but the key; about 6 SipHash rounds for 16-byte keys, 9 for
    /// 40-byte ones.
    #[inline]
    pub fn hash(&self, key: &FlowKey) -> KeyHash {
        match key {
            FlowKey::Short(key) => KeyHash(siphash13(self.seed.0, key.words())),
            FlowKey::Long(key) => KeyHash(siphash13(self.seed.0, key.words())),
        }
    }
}

impl KeyHasher {
    /// The hash of a name of any length: the same function, over these bytes. Names of different kinds that may have the same
    /// bytes belong in tables of their own, or under seeds of their own.
    ///
    /// Cost: one compression round for each 8 bytes, and 4 rounds.
    #[inline]
    pub fn hash_bytes(&self, name: &[u8]) -> KeyHash {
        let (words, tail) = name.as_chunks::<8>();
        let mut v = self.state();
        for word in words {
            compress(&mut v, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail); // fewer than 8
        compress(&mut v, u64::from_le_bytes(last) | (name.len() as u64) << 56);
        KeyHash(finish(v))
    }

    /// The first state of every key, as a vector unit's kernel needs it. It is the secret: keep it.
    #[inline]
    pub const fn state(&self) -> [u64; 4] {
        let [k0, k1] = self.seed.0;
        [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ]
    }
}

/// SipHash-1-3 of `words` as little-endian bytes; equal to the reference over those bytes (tested against it).
#[inline]
fn siphash13<const N: usize>([k0, k1]: [u64; 2], words: &[u64; N]) -> u64 {
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    for &word in words {
        compress(&mut v, word);
    }
    compress(&mut v, (N as u64 * 8) << 56);
    finish(v)
}

#[inline(always)]
fn compress(v: &mut [u64; 4], word: u64) {
    v[3] ^= word;
    round(v);
    v[0] ^= word;
}

#[inline(always)]
fn finish(mut v: [u64; 4]) -> u64 {
    v[2] ^= 0xff;
    round(&mut v);
    round(&mut v);
    round(&mut v);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;
    use std::hash::Hasher as _;

    fn reference(seed: [u64; 2], words: &[u64]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(seed[0], seed[1]);
        for word in words {
            hasher.write(&word.to_le_bytes());
        }
        hasher.finish()
    }

    proptest! {
        #[test]
        fn equals_the_reference(seed: [u64; 2], short: [u64; 2], long: [u64; 5]) {
            prop_assert_eq!(siphash13(seed, &short), reference(seed, &short));
            prop_assert_eq!(siphash13(seed, &long), reference(seed, &long));
        }
    }

    proptest! {
        #[test]
        fn names_of_any_length_equal_the_reference(seed: [u64; 2], name: Vec<u8>) {
            let mut hasher = SipHasher13::new_with_keys(seed[0], seed[1]);
            hasher.write(&name);
            let found = KeyHasher::new(HashSeed::new(seed[0], seed[1])).hash_bytes(&name);
            prop_assert_eq!(found.get(), hasher.finish());
        }
    }

    #[test]
    fn the_seed_is_not_printed() {
        assert_eq!(format!("{:?}", HashSeed::new(1, 2)), "HashSeed(..)");
    }
}
