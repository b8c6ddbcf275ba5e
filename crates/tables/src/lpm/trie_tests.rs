//! Compares the table with a trie of another crate, for more prefixes than the slow reference model can
//! handle.

use super::*;
use prefix_trie::PrefixMap;
use scalebricks_types::mix::SplitMix64;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const PREFIXES: usize = 20_000;

/// Our table, and the same prefixes in the trie.
struct Pair<A: Address, K> {
    lpm: Arc<Lpm<A>>,
    trie: PrefixMap<K, NextHop>,
    address: fn(u64) -> A,
    key: fn(A, u8) -> K,
    random: SplitMix64,
}

impl<A: Address, K: prefix_trie::Prefix> Pair<A, K> {
    fn new(params: Params, address: fn(u64) -> A, key: fn(A, u8) -> K) -> Self {
        Self { lpm: Arc::new(Lpm::new(params)), trie: PrefixMap::new(), address, key, random: SplitMix64(1) }
    }

    fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Adds a prefix of a length up to `longest`, or replaces its next hop.
    fn insert(&mut self, longest: u8, hop: u32) {
        let length = 8 + self.random() % u64::from(longest - 7);
        let prefix = Prefix::of((self.address)(self.random()), length as u8).unwrap();
        let hop = NextHop::new(hop).unwrap();
        let before = self.trie.insert((self.key)(prefix.address(), prefix.length()), hop);
        assert_eq!(self.lpm.insert(prefix, hop), Ok(before));
    }

    /// Removes the longest prefix of a random address, if any.
    fn remove(&mut self) {
        let address = (self.address)(self.random());
        if let Some((gone, _)) = self.lpm.longest(address) {
            assert_eq!(self.lpm.remove(gone), self.trie.remove(&(self.key)(gone.address(), gone.length())));
        }
    }

    /// Both give the same next hops for random addresses, with all instruction sets.
    fn compare(&mut self) {
        assert_eq!(self.lpm.len(), self.trie.len());
        let addresses: Vec<A> = (0..PREFIXES).map(|_| (self.address)(self.random())).collect();
        for isa in crate::isa::compared() {
            let mut hops = vec![None; addresses.len()];
            let mut reader = LpmReader::with_isa(Arc::clone(&self.lpm), isa).unwrap();
            reader.lookup_batch(&addresses, &mut hops);
            for (&address, hop) in addresses.iter().zip(hops) {
                let expected = self.trie.get_lpm(&(self.key)(address, A::BITS)).map(|(_, hop)| *hop);
                assert_eq!(hop, expected, "{address} on {isa}");
            }
        }
    }

    /// Adds, replaces and removes prefixes; one operation in three is a removal.
    fn change(&mut self, longest: u8, steps: usize) {
        for step in 0..steps {
            if step % 3 == 2 {
                self.remove();
            }
            self.insert(longest, step as u32 % 50);
        }
    }

    /// Few prefixes, then so many that IPv6 needs more blocks than entries of two bytes can name, and then a next hop
    /// that they cannot hold.
    fn churn(mut self, longest: u8) {
        self.change(longest, 1_000);
        self.compare();
        assert_eq!(self.lpm.stats().entry_bytes, self.lpm.params().entry_bytes());
        self.change(longest, PREFIXES / 3);
        for _ in 0..2 * PREFIXES / 1_000 {
            if A::BITS == 32 || self.lpm.stats().entry_bytes == EntryBytes::Four {
                break;
            }
            self.change(longest, 1_000);
        }
        self.compare();
        assert!(A::BITS == 32 || self.lpm.stats().entry_bytes == EntryBytes::Four);
        self.insert(longest, NextHop::MAX);
        assert_eq!(self.lpm.stats().entry_bytes, EntryBytes::Four);
        self.compare();
        (0..1000).for_each(|step| {
            self.insert(longest, step * 100);
            self.remove();
        });
        self.compare();
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, which has a smaller test")]
fn thousands_of_prefixes_answer_as_a_trie_of_another_crate() {
    for (root_bits, entries) in [(16, EntryBytes::Two), (22, EntryBytes::Four), (24, EntryBytes::Two)] {
        let params = Params::new(root_bits, 16 << 20).unwrap().with_entries(entries);
        Pair::new(params, |n| Ipv4Addr::from_bits(n as u32 & 0x1FFF_FFFF), |a, length| (a.to_bits(), length))
            .churn(32);
        // Few values per byte, so that prefixes nest.
        let nested =
            |n: u64| Ipv6Addr::from_bits(u128::from(n & 0x0103_0303_0303_0303) << 64 | u128::from(n) << 32);
        Pair::new(params, nested, |a, length| (a.to_bits(), length)).churn(100);
    }
}
