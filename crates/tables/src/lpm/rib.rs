//! All prefixes with their next hops: the data that only the writer uses.

use super::address::AddressBits;
use super::entry::NextHop;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

/// Address and length of a prefix.
pub(super) type Key<B> = (B, u8);

/// Prefixes by address, shorter ones first: the prefixes inside a prefix follow it.
#[derive(Debug)]
pub(super) struct Rib<B>(BTreeMap<Key<B>, NextHop>);

impl<B: AddressBits> Rib<B> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, key: Key<B>) -> Option<NextHop> {
        self.0.get(&key).copied()
    }

    pub(super) fn insert(&mut self, key: Key<B>, hop: NextHop) -> Option<NextHop> {
        self.0.insert(key, hop)
    }

    pub(super) fn remove(&mut self, key: Key<B>) -> Option<NextHop> {
        self.0.remove(&key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Key<B>, NextHop)> + '_ {
        self.0.iter().map(|(&key, &hop)| (key, hop))
    }

    /// The longest prefix of an address that is shorter than `length`.
    ///
    /// Cost: one search per candidate that is not a prefix of the address. The previous entry in address
    /// order either is the longest prefix, or gives an upper limit for its length.
    pub(super) fn longest(&self, address: B, length: u8) -> Option<(Key<B>, NextHop)> {
        let mut bound = (address.network(length.min(B::LEN)), length);
        let mut found = self.0.range(..bound).next_back();
        loop {
            let (&key, &hop) = found?;
            let common = key.0.common(address);
            if key.1 <= common {
                return Some((key, hop));
            }
            bound = (address.network(common), common);
            found = self.0.range(..=bound).next_back();
        }
    }

    /// Calls `gap` with the first and the last address of each part of a prefix that no longer prefix covers,
    /// ascending.
    ///
    /// Cost: one search for each of the longest covered parts.
    pub(super) fn gaps(&self, key: Key<B>, mut gap: impl FnMut(B, B)) {
        let last = key.0.last(key.1);
        let (mut from, mut next) = (key.0, Excluded(key));
        while let Some((&(inner, length), _)) = self.0.range((next, Included((last, B::LEN)))).next() {
            if inner > from {
                gap(from, inner.before());
            }
            match inner.last(length).after() {
                Some(after) if after <= last => (from, next) = (after, Included((after, 0))),
                _ => return,
            }
        }
        gap(from, last);
    }

    /// Whether a prefix longer than `base` bits, by at most eight, starts at a value of the eight bits from
    /// `base` on, or ends before it. `address` is any address with the same bits before `base`.
    ///
    /// Cost: at most 16 searches.
    pub(super) fn meets(&self, address: B, base: u8, value: usize) -> bool {
        let has = |value, length| {
            address.with_byte(base, value).is_some_and(|start| self.0.contains_key(&(start, length)))
        };
        (base + 1..=(base + 8).min(B::LEN)).any(|length| {
            let width = 1 << (base + 8 - length);
            value.is_multiple_of(width)
                && (has(value, length) || value.checked_sub(width).is_some_and(|before| has(before, length)))
        })
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    fn rib(keys: &[Key<u32>]) -> Rib<u32> {
        let mut rib = Rib::new();
        for (&key, index) in keys.iter().zip(0..) {
            rib.insert(key, NextHop::new(index).unwrap());
        }
        rib
    }

    #[test]
    fn the_longest_prefix_is_found_past_others() {
        let keys = [(0, 0), (0x0A00_0000, 8), (0x0A00_0000, 24), (0x0A01_0000, 16), (0x0A01_0100, 32)];
        let rib = rib(&keys);
        let longest = |address, length| rib.longest(address, length).map(|(key, _)| key);
        assert_eq!(longest(0x0A01_0101, 33), Some(keys[3]));
        assert_eq!(longest(0x0A01_0100, 33), Some(keys[4]));
        assert_eq!(longest(0x0A01_0100, 32), Some(keys[3]));
        assert_eq!(longest(0x0A01_0100, 16), Some(keys[1]));
        assert_eq!(longest(0x0AFF_FFFF, 33), Some(keys[1]));
        assert_eq!(longest(0x0B00_0000, 33), Some(keys[0]));
        assert_eq!(longest(0x0B00_0000, 0), None);
    }

    #[test]
    fn gaps_are_what_longer_prefixes_leave() {
        let rib = rib(&[
            (0x0A00_0000, 8),
            (0x0A00_0000, 16),
            (0x0A00_0100, 24),
            (0x0A02_0000, 15),
            (0x0AFF_FF00, 24),
        ]);
        let gaps = |key| {
            let mut gaps = Vec::new();
            rib.gaps(key, |from, to| gaps.push((from, to)));
            gaps
        };
        assert_eq!(gaps((0x0A00_0000, 8)), [(0x0A01_0000, 0x0A01_FFFF), (0x0A04_0000, 0x0AFF_FEFF)]);
        assert_eq!(gaps((0x0A00_0000, 16)), [(0x0A00_0000, 0x0A00_00FF), (0x0A00_0200, 0x0A00_FFFF)]);
        assert_eq!(gaps((0x0A02_0000, 15)), [(0x0A02_0000, 0x0A03_FFFF)]);
        assert_eq!(gaps((0x0B00_0000, 32)), [(0x0B00_0000, 0x0B00_0000)]);
        assert_eq!(gaps((0, 0)).len(), 2);
    }

    #[test]
    fn starts_and_ends_of_a_blocks_own_prefixes_are_met() {
        let rib = rib(&[(0x0A10_0000, 12), (0x0A80_0000, 9), (0x0A40_0000, 17), (0x0B20_0000, 16)]);
        let met = |value| rib.meets(0x0A00_0000, 8, value);
        let all: Vec<usize> = (0..256).filter(|&value| met(value)).collect();
        assert_eq!(all, [0x10, 0x20, 0x80]);
    }
}
