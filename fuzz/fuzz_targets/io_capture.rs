//! Any bytes are read as a capture up to the first invalid record.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_io::CaptureReader;

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = CaptureReader::from_stream(std::io::Cursor::new(bytes.to_vec()), "fuzz") else { return };
    // A stored frame needs at least one byte of an uncompressed file, and gzip expands at most by a factor of 1,000.
    for frame in reader.take(10_000).flatten() {
        assert!(frame.data.len() <= 256 << 10);
    }
});
