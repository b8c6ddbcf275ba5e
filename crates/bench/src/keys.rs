//! Deterministic keys: flow key, hash and value follow from a key's number.

use rayon::prelude::*;
use scalebricks_types::{FlowKey, HashSeed, KeyHash, KeyHasher};

/// The hasher of all keys of the benchmarks.
pub const HASHER: KeyHasher = KeyHasher::new(HashSeed::from_u64(1));

/// A pseudo-random word for a number. Different numbers give different words.
pub const fn mix(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The flow with this number: a UDP five-tuple between random addresses.
pub fn flow(number: u64) -> FlowKey {
    let (addresses, ports) = (mix(number), mix(!number));
    let (src, dst) = (addresses as u32, (addresses >> 32) as u32);
    FlowKey::five_tuple_v4(src.into(), dst.into(), 17, ports as u16, (ports >> 16) as u16)
}

/// The same flow as the two words that an exact table takes.
pub fn words(number: u64) -> [u64; 2] {
    match flow(number) {
        FlowKey::Short(key) => *key.words(),
        FlowKey::Long(_) => unreachable!("flows are made of IPv4 addresses"),
    }
}

/// The hash of the flow, which is the key of every structure but the exact flow tables.
pub fn hash(number: u64) -> KeyHash {
    HASHER.hash(&flow(number))
}

/// The value of the key with this number.
pub const fn value(number: u64, value_bits: u8) -> u8 {
    (mix(number ^ 0xA5A5_A5A5_0000_0000) >> (64 - value_bits as u32)) as u8
}

/// Keys with values, and one query for each key in a different order.
#[derive(Debug)]
pub struct KeySet {
    /// Bits per value.
    pub value_bits: u8,
    /// Hashes of the keys in build order.
    pub hashes: Vec<KeyHash>,
    /// Their values.
    pub values: Vec<u8>,
    /// Hashes of the keys in query order.
    pub queries: Vec<KeyHash>,
    /// The answer to each query.
    pub answers: Vec<u8>,
}

impl KeySet {
    /// Keys 0 to `keys` with values of `value_bits` bits.
    pub fn new(keys: u64, value_bits: u8) -> Self {
        let numbers = || (0..keys).into_par_iter();
        let order = Order::of(keys);
        Self {
            value_bits,
            hashes: numbers().map(hash).collect(),
            values: numbers().map(|number| value(number, value_bits)).collect(),
            queries: numbers().map(|place| hash(order.number(place))).collect(),
            answers: numbers().map(|place| value(order.number(place), value_bits)).collect(),
        }
    }

    /// Queries for as many keys that are not in the set, each with the answer `missing`.
    pub fn of_others(&self, missing: u8) -> Self {
        let keys = self.len() as u64;
        Self {
            value_bits: self.value_bits,
            hashes: Vec::new(),
            values: Vec::new(),
            queries: (keys..2 * keys).into_par_iter().map(hash).collect(),
            answers: vec![missing; self.len()],
        }
    }

    /// Number of keys.
    pub const fn len(&self) -> usize {
        self.queries.len()
    }

    /// Whether there are no keys.
    pub const fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// The key of each query in the form that `key` makes of a key's number.
    pub fn queried<K: Send>(&self, key: fn(u64) -> K) -> Vec<K> {
        let order = Order::of(self.len() as u64);
        (0..self.len() as u64).into_par_iter().map(|place| key(order.number(place))).collect()
    }

    /// Keys with values as SetSep takes them.
    pub fn entries(&self) -> Vec<(KeyHash, u8)> {
        self.hashes.iter().copied().zip(self.values.iter().copied()).collect()
    }
}

/// A permutation of `keys` numbers. Hashes are random, so any order touches a table at random; the query
/// order only has to differ from the build order.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    keys: u64,
    stride: u64,
}

impl Order {
    /// Strides of about 0.618 of the total that share no factor with it, so every number is visited once.
    pub fn of(keys: u64) -> Self {
        let mut stride = (u128::from(keys) * 618 / 1000) as u64 | 1; // less than `keys`, or 1
        while gcd(stride, keys) > 1 {
            stride += 2;
        }
        Self { keys, stride }
    }

    /// The number at this position.
    pub fn number(self, place: u64) -> u64 {
        (u128::from(place) * u128::from(self.stride) % u128::from(self.keys.max(1))) as u64 // less than `keys`
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_key_is_asked_for_once_and_its_answer_is_its_value() {
        for keys in [1, 2, 1000, 4096] {
            let set = KeySet::new(keys, 3);
            let held: HashMap<KeyHash, u8> = set.entries().into_iter().collect();
            assert_eq!(held.len(), keys as usize);
            let asked: HashMap<KeyHash, u8> =
                set.queries.iter().copied().zip(set.answers.iter().copied()).collect();
            assert_eq!(asked, held);
            assert!(set.answers.iter().all(|&value| value < 8));
            let flows = set.queried(flow);
            assert!(flows.iter().zip(&set.queries).all(|(flow, &hash)| HASHER.hash(flow) == hash));
        }
    }

    #[test]
    fn questions_come_in_another_order() {
        let set = KeySet::new(1000, 1);
        let same = set.hashes.iter().zip(&set.queries).filter(|(a, b)| a == b).count();
        assert!(same < 10);
    }
}
