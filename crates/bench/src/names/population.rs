//! Names of one kind with their actions, from which the FIBs of the Concise evaluation are built.

use super::files::FileNames;
use super::{NameHasher, header_bytes, headers, ipv4s, ipv6s, mac_numbers, macs, mixed};
use crate::keys::{KeySet, mix};
use scalebricks_types::KeyHash;

/// Seed of the name hash.
pub const SEED: u64 = 1;

/// Kinds of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Ethernet addresses, 6 bytes.
    Mac,
    /// IPv4 addresses, 4 bytes.
    Ipv4,
    /// IPv6 addresses, 16 bytes.
    Ipv6,
    /// All fields of an `OpenFlow` 1.0 match, 32 bytes.
    Header,
    /// File paths, 25 to 80 bytes.
    File,
}

impl Kind {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mac => "MAC",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Header => "OpenFlow",
            Self::File => "file names",
        }
    }

    /// The hashes of `names` names after the first `skipped`.
    pub fn hashes(self, skipped: usize, names: usize) -> Vec<KeyHash> {
        let hasher = NameHasher::new(SEED);
        let some = |hashes: &mut dyn Iterator<Item = KeyHash>| hashes.skip(skipped).take(names).collect();
        match self {
            Self::Mac => some(&mut macs(1).map(|name| hasher.hash(&name))),
            Self::Ipv4 => some(&mut ipv4s(1).map(|name| hasher.hash(&name))),
            Self::Ipv6 => some(&mut ipv6s(1).map(|name| hasher.hash(&name))),
            Self::Header => some(&mut headers(1).map(|words| hasher.hash(&header_bytes(&words)))),
            Self::File => {
                let (mut files, mut name) = (FileNames::new(1), String::new());
                let next = || {
                    files.write_next(&mut name);
                    hasher.hash(name.as_bytes())
                };
                some(&mut std::iter::repeat_with(next))
            }
        }
    }
}

/// The action of the name with this number.
pub const fn action(number: u64, value_bits: u8) -> u16 {
    (mix(number ^ 0x5A5A_0000_A5A5_0000) >> (64 - value_bits as u32)) as u16 // at most 16 bits
}

/// Names with their actions, in the order of the register. Tables use their hashes, so the query order does
/// not affect locality.
#[derive(Debug, Clone)]
pub struct Population {
    /// Bits per action.
    pub value_bits: u8,
    /// The hashed names.
    pub hashes: Vec<KeyHash>,
    /// Their actions.
    pub actions: Vec<u16>,
}

impl Population {
    /// These names, with the action of each number.
    pub fn new(hashes: Vec<KeyHash>, value_bits: u8) -> Self {
        let actions = (0..hashes.len() as u64).map(|number| action(number, value_bits)).collect();
        Self { value_bits, hashes, actions }
    }

    /// The first names of a kind.
    pub fn of(kind: Kind, names: u64, value_bits: u8) -> Self {
        Self::new(kind.hashes(0, names as usize), value_bits) // as many as fit the memory
    }

    /// MAC addresses hashed by [`mixed`], so that generating and hashing one takes a nanosecond or two.
    pub fn of_numbers(names: u64, value_bits: u8) -> Self {
        let hashes = mac_numbers(1).take(names as usize).map(mixed); // as many as fit the memory
        Self::new(hashes.collect(), value_bits)
    }

    /// Number of names.
    pub const fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are no names.
    pub const fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Number of names with each action.
    pub fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; 1 << self.value_bits];
        self.actions.iter().for_each(|&action| counts[usize::from(action)] += 1);
        counts
    }

    /// Pairs of name and action.
    pub fn pairs(&self) -> Vec<(KeyHash, u16)> {
        self.hashes.iter().copied().zip(self.actions.iter().copied()).collect()
    }

    /// A key set with values of at most 8 bits; `None` if the actions have more.
    pub fn narrow(&self) -> Option<KeySet> {
        if self.value_bits > 8 {
            return None;
        }
        let values: Vec<u8> = self.actions.iter().map(|&action| action as u8).collect(); // at most 8 bits
        Some(KeySet {
            value_bits: self.value_bits,
            queries: self.hashes.clone(),
            answers: values.clone(),
            hashes: self.hashes.clone(),
            values,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_of_all_kinds_differ_and_can_be_skipped() {
        for kind in [Kind::Mac, Kind::Ipv4, Kind::Ipv6, Kind::Header, Kind::File] {
            let all = kind.hashes(0, 3000);
            assert_eq!(all.iter().collect::<HashSet<_>>().len(), 3000, "{}", kind.name());
            assert_eq!(kind.hashes(1000, 2000), all[1000..], "{}", kind.name());
        }
    }

    #[test]
    fn actions_have_so_many_bits_and_all_values() {
        for bits in [1, 8, 16] {
            let set = Population::of(Kind::Mac, 3000, bits);
            assert!(set.actions.iter().all(|&action| u32::from(action) >> bits == 0));
            let different = set.actions.iter().collect::<HashSet<_>>().len();
            assert!(different == 1 << bits || bits == 16 && different > 2800, "{different}");
            assert_eq!(set.narrow().is_some(), bits <= 8);
        }
    }
}
