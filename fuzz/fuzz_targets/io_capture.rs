//! Any bytes are a capture, up to the record that is none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_io::CaptureReader;

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = CaptureReader::from_stream(std::io::Cursor::new(bytes.to_vec()), "fuzz") else { return };
    // A stored frame takes at least a byte of an uncompressed file, and a gzipped one expands a thousandfold at most.
    for frame in reader.take(10_000).flatten() {
        assert!(frame.data.len() <= 256 << 10);
    }
});
