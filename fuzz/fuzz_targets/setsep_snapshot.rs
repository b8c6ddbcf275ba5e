//! Any bytes are a snapshot or an error; memory grows no faster than they arrive.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_fuzz::tables::{entries, snapshot};
use scalebricks_tables::setsep::{Params, SetSep, SetSepBuilder, SetSepControl};
use scalebricks_types::PartitionCount;
use std::sync::OnceLock;

fn samples() -> &'static [Vec<u8>; 2] {
    static SAMPLES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let params = Params::for_keys(100, 1, PartitionCount::ONE).unwrap();
        let control = SetSepBuilder::new(params).build(&entries::<u8>(100, 2)).unwrap();
        let (mut bits, mut keys) = (Vec::new(), Vec::new());
        control.export().write_snapshot(&mut bits).unwrap();
        control.write_snapshot(&mut keys).unwrap();
        [bits, keys]
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some(snapshot) = snapshot(bytes, samples(), false) else { return };
    if let Ok(table) = SetSep::read_snapshot(&snapshot[..]) {
        let mut again = Vec::new();
        table.write_snapshot(&mut again).unwrap();
        assert!(SetSep::read_snapshot(&again[..]).is_ok());
    }
    if let Ok(control) = SetSepControl::read_snapshot(&snapshot[..]) {
        for (hash, value) in control.iter() {
            assert_eq!(control.get(hash), Some(value));
        }
    }
});
