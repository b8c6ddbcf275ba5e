//! Reads the octet behind its input when the first octet is `!`. scripts/fuzz.sh runs this before the targets. If
//! fuzzing does not find the error, AddressSanitizer or coverage does not work for the targets either.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::hint::black_box;

fuzz_target!(|bytes: &[u8]| {
    if bytes.first() == Some(&b'!') {
        // SAFETY: none. libFuzzer allocates each input with its exact length, so this octet is outside the allocation.
        black_box(unsafe { bytes.as_ptr().add(bytes.len()).read() });
    }
});
