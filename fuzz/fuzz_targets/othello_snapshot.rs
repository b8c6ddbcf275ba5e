//! Any bytes are a snapshot or an error; memory grows no faster than they arrive.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_fuzz::tables::{entries, snapshot};
use scalebricks_tables::othello::{Othello, OthelloBuilder, OthelloControl, Params};
use scalebricks_types::PartitionCount;
use std::sync::OnceLock;

fn samples() -> &'static [Vec<u8>; 2] {
    static SAMPLES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let params = Params::new(PartitionCount::ONE, 4, [32, 32], 2).unwrap();
        let control = OthelloBuilder::new(params).build(&entries::<u16>(100, 4)).unwrap();
        let (mut bits, mut keys) = (Vec::new(), Vec::new());
        control.export().write_snapshot(&mut bits).unwrap();
        control.write_snapshot(&mut keys).unwrap();
        [bits, keys]
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some(snapshot) = snapshot(bytes, samples(), true) else { return };
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
