//! Any bytes are a snapshot or an error; memory grows no faster than they arrive.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_tables::othello::{Othello, OthelloBuilder, OthelloControl, Params};
use scalebricks_types::{KeyHash, PartitionCount};
use std::sync::OnceLock;

fn samples() -> &'static [Vec<u8>; 2] {
    static SAMPLES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let params = Params::new(PartitionCount::ONE, 4, [32, 32], 2).unwrap();
        let entries: Vec<(KeyHash, u16)> =
            (1..100u64).map(|n| (KeyHash::new(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)), (n % 4) as u16)).collect();
        let control = OthelloBuilder::new(params).build(&entries).unwrap();
        let (mut bits, mut keys) = (Vec::new(), Vec::new());
        control.export().write_snapshot(&mut bits).unwrap();
        control.write_snapshot(&mut keys).unwrap();
        [bits, keys]
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    let mut snapshot = bytes.to_vec();
    if mode & 1 == 0 {
        snapshot.clone_from(&samples()[usize::from(mode >> 1 & 1)]);
        for edit in bytes.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % snapshot.len();
            snapshot[at] = edit[2];
        }
        // A right checksum: so that what it covers is looked at.
        let end = snapshot.len() - 4;
        let sum = crc32fast::hash(&snapshot[..end]);
        snapshot[end..].copy_from_slice(&sum.to_le_bytes());
    }
    if let Ok(table) = Othello::read_snapshot(&snapshot[..]) {
        let mut again = Vec::new();
        table.write_snapshot(&mut again).unwrap();
        assert!(Othello::read_snapshot(&again[..]).is_ok());
    }
    if let Ok(control) = OthelloControl::read_snapshot(&snapshot[..]) {
        for (hash, value) in control.iter() {
            assert_eq!(control.get(hash), Some(value));
        }
    }
});
