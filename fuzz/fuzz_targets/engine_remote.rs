//! Bytes from either end of an engine's socket: what decodes has exactly one form, and it is these bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_engine::remote::codec::{self, Message, Request, Response};

/// Decodes frames from the front until one is cut or none.
fn frames<T: Message + PartialEq + std::fmt::Debug>(mut bytes: &[u8]) {
    while let Ok(Some((id, message, len))) = codec::decode::<T>(bytes) {
        let mut again = Vec::new();
        assert_eq!(codec::encode(id, &message, &mut again), len);
        assert_eq!(again, bytes[..len]);
        bytes = &bytes[len..];
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Some((hello, rest)) = bytes.split_first_chunk() {
        if codec::check_hello(hello).is_ok() {
            frames::<Request>(rest);
            frames::<Response>(rest);
        }
    }
    frames::<Request>(bytes);
    frames::<Response>(bytes);
});
