//! Any bytes decode as a Bloom filter or as a delta of one, or give an error. An accepted filter answers as its bytes
//! say.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_tables::filter::{BloomFilter, CountingFilter, FilterDelta, FilterParams, Layout};
use scalebricks_types::KeyHash;
use std::sync::OnceLock;

fn name(number: u64) -> KeyHash {
    KeyHash::new(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn samples() -> &'static [Vec<u8>; 2] {
    static SAMPLES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        [Layout::Classic, Layout::Blocked].map(|layout| {
            let mut control = CountingFilter::new(FilterParams::for_names(50, 0.01, layout).unwrap());
            (1..50).for_each(|number| control.insert(name(number)));
            control.export().encode()
        })
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    let sample = &samples()[usize::from(mode >> 1 & 1)];
    if mode & 1 == 0 {
        let mut edited = sample.clone();
        for edit in bytes.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % edited.len();
            edited[at] = edit[2];
        }
        for bytes in [&edited, bytes] {
            if let Ok(filter) = BloomFilter::decode(bytes) {
                assert_eq!(filter.encode(), bytes);
            }
        }
        return;
    }
    let filter = BloomFilter::decode(sample).unwrap();
    if let Ok(delta) = FilterDelta::decode(bytes, filter.params()) {
        assert_eq!(delta.encode(), bytes);
        filter.apply(&delta).unwrap();
        let once = filter.encode();
        filter.apply(&delta).unwrap();
        assert_eq!(filter.encode(), once);
    }
});
