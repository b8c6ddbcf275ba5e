//! Streams that may be gzipped.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Bytes read from a stream at a time.
pub(crate) const READ_BYTES: usize = 64 * 1024;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The stream, decompressed if it starts as gzip.
///
/// # Errors
/// If its first bytes cannot be read.
pub fn decompressed(stream: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut stream = BufReader::with_capacity(READ_BYTES, stream);
    // A pipe may return a single byte; the stream then counts as plain. A file returns both.
    let is_gzip = stream.fill_buf()?.starts_with(&GZIP_MAGIC);
    Ok(if is_gzip { Box::new(MultiGzDecoder::new(stream)) } else { Box::new(stream) })
}

/// Opens a text file, plain or gzipped.
///
/// # Errors
/// If it cannot be opened or read.
pub fn open_text(path: &Path) -> io::Result<Box<dyn BufRead>> {
    Ok(Box::new(BufReader::with_capacity(READ_BYTES, decompressed(File::open(path)?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    #[test]
    fn a_text_is_the_same_plain_and_gzipped() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, packed) = (folder.path().join("a.txt"), folder.path().join("b"));
        std::fs::write(&plain, "one\ntwo\n").unwrap();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"one\ntwo\n").unwrap();
        std::fs::write(&packed, encoder.finish().unwrap()).unwrap();
        for path in [plain, packed] {
            let lines: Vec<String> = open_text(&path).unwrap().lines().map(Result::unwrap).collect();
            assert_eq!(lines, ["one", "two"]);
        }
        assert!(open_text(&folder.path().join("none")).is_err());
    }
}
