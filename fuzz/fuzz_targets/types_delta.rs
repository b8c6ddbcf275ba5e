//! A decoded delta encodes to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_types::Delta;

fuzz_target!(|bytes: &[u8]| {
    let Ok(delta) = Delta::decode(bytes) else { return };
    assert!(delta.previous < delta.position);
    assert_eq!(Delta::decode(&delta.encode()), Ok(delta));
});
