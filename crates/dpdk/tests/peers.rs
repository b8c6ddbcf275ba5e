//! DPDK's own tables answer what they were told, by their own means.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, reason = "a test")]

use scalebricks_dpdk::peers::{Efd, KEYS, Key, RteHash};
use scalebricks_dpdk::{Eal, EalConfig, Memory};

const fn key(n: u64) -> Key {
    [n.wrapping_mul(0x9E37_79B9_7F4A_7C15), n]
}

const fn hash(key: &Key) -> u32 {
    (key[0] >> 32) as u32
}

#[test]
fn both_know_what_they_were_told() {
    let extra = vec!["--force-max-simd-bitwidth=128".to_owned()];
    let memory = Memory::Ordinary { mib: 256 };
    let eal = Eal::start(&EalConfig { memory, extra, ..EalConfig::default() }).unwrap();
    let mut exact = RteHash::new(eal, "exact", 20_000).unwrap();
    let mut compact = Efd::new(eal, "compact", 20_000).unwrap();
    let mut places = vec![0; 20_000];
    for n in 0..20_000 {
        places[n as usize] = exact.add(&key(n), hash(&key(n))).unwrap();
        compact.set(&key(n), (n * 7) as u8).unwrap();
        assert!(places[n as usize] < exact.places());
    }
    for from in (0..20_000).step_by(KEYS) {
        let keys: Vec<Key> = (from..from + KEYS as u64).map(key).collect();
        let mut hashes: Vec<u32> = keys.iter().map(hash).collect();
        let (mut found, mut values) = (vec![-1; KEYS], vec![0; KEYS]);
        exact.find(&keys, &mut hashes, &mut found);
        compact.values(&keys, &mut values);
        for (lane, n) in (from..from + KEYS as u64).enumerate() {
            assert_eq!(
                (found[lane].cast_unsigned() as usize, values[lane]),
                (places[n as usize], (n * 7) as u8)
            );
        }
    }
    let mut found = [0];
    exact.find(&[key(30_000)], &mut [hash(&key(30_000))], &mut found);
    assert!(found[0] < 0, "a key that is not there");
}
