//! Streams that may be compressed.

use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// Bytes read from the stream at a time.
const WINDOW_BYTES: usize = 64 * 1024;
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The contents of a stream, which is decompressed if it starts as gzip.
///
/// # Errors
/// Those of the stream's first read.
pub fn decompress(stream: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut stream = BufReader::with_capacity(WINDOW_BYTES, stream);
    // A pipe may return a single byte; the stream then counts as plain, and is refused. A file returns both.
    let is_gzip = stream.fill_buf()?.starts_with(&MAGIC);
    Ok(if is_gzip { Box::new(MultiGzDecoder::new(stream)) } else { Box::new(stream) })
}
