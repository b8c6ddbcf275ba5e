//! Compares the table with a trie of another crate, for more prefixes than the slow reference model can
//! handle.

use super::*;
use prefix_trie::PrefixMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

const PREFIXES: usize = 20_000;

/// A step of `SplitMix64`.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// Adds, replaces and removes prefixes of lengths up to `longest`; one operation in three is a removal. Both
/// must answer alike.
fn compare<A: Address, K: prefix_trie::Prefix>(
    root_bits: u8,
    longest: u8,
    address: impl Fn(u64) -> A,
    key: impl Fn(A, u8) -> K,
) {
    let lpm = Arc::new(Lpm::<A>::new(Params::new(root_bits, 16 << 20).unwrap()));
    let (mut trie, mut state) = (PrefixMap::new(), 1);
    for step in 0..PREFIXES {
        let (at, length) = (random(&mut state), 8 + random(&mut state) % u64::from(longest - 7));
        let prefix = Prefix::of(address(at), length as u8).unwrap();
        let hop = NextHop::new(step as u32 % 50).unwrap();
        let before = trie.insert(key(prefix.address(), prefix.length()), hop);
        assert_eq!(lpm.insert(prefix, hop), Ok(before));
        if step % 3 == 2 {
            let gone = lpm.longest(address(random(&mut state))).map(|(gone, _)| gone);
            if let Some(gone) = gone {
                assert_eq!(lpm.remove(gone), trie.remove(&key(gone.address(), gone.length())));
            }
        }
    }
    assert_eq!(lpm.len(), trie.len());
    let addresses: Vec<A> = (0..PREFIXES).map(|_| address(random(&mut state))).collect();
    let mut hops = vec![None; addresses.len()];
    LpmReader::new(lpm).lookup_batch(&addresses, &mut hops);
    for (address, hop) in addresses.into_iter().zip(hops) {
        let expected = trie.get_lpm(&key(address, A::BITS)).map(|(_, hop)| *hop);
        assert_eq!(hop, expected, "{address}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, which has a smaller test")]
fn thousands_of_prefixes_answer_as_a_trie_of_another_crate() {
    for root_bits in [16, 22, 24] {
        compare(
            root_bits,
            32,
            |n| Ipv4Addr::from_bits(n as u32 & 0x1FFF_FFFF),
            |a, length| (a.to_bits(), length),
        );
        // Few values per byte, so that prefixes nest.
        let nested =
            |n: u64| Ipv6Addr::from_bits(u128::from(n & 0x0103_0303_0303_0303) << 64 | u128::from(n) << 32);
        compare(root_bits, 100, nested, |a, length| (a.to_bits(), length));
    }
}
