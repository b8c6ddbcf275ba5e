//! The part of a stream that is being looked at.

use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};

/// Bytes asked of the stream at a time, and held at least.
const WINDOW_BYTES: usize = 64 * 1024;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How much of what was asked for there is before the stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Have {
    All,
    Part,
    Nothing,
}

/// A stream, with its next bytes in memory. It grows to what is asked of it and no further, so the caller bounds it.
pub(super) struct Window {
    stream: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    /// Looks at the first bytes of `stream` and puts a decompressor in front of it if they are gzip's.
    pub(super) fn open(stream: impl Read + Send + 'static) -> io::Result<Self> {
        let mut stream = BufReader::with_capacity(WINDOW_BYTES, stream);
        // A pipe may show a single byte here; it is then taken as it is, and refused. A file shows both.
        let is_gzip = stream.fill_buf()?.starts_with(&GZIP_MAGIC);
        let stream: Box<dyn Read + Send> =
            if is_gzip { Box::new(MultiGzDecoder::new(stream)) } else { Box::new(stream) };
        Ok(Self { stream, buffer: vec![0; WINDOW_BYTES], start: 0, end: 0 })
    }

    /// The bytes read and not yet consumed.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads until `wanted` bytes are in view or the stream ends. What is in view stays there on an error.
    pub(super) fn fill_to(&mut self, wanted: usize) -> io::Result<Have> {
        while self.end - self.start < wanted {
            if self.start + wanted > self.buffer.len() {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
                if wanted > self.buffer.len() {
                    self.buffer.resize(wanted, 0);
                }
            }
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(if self.bytes().is_empty() { Have::Nothing } else { Have::Part }),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Have::All)
    }

    /// Moves past `count` bytes in view.
    pub(super) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Moves past `count` bytes, in view or not, without holding them. `false` if the stream ends before.
    pub(super) fn skip(&mut self, mut count: u64) -> io::Result<bool> {
        while count > 0 {
            if self.bytes().is_empty() && self.fill_to(1)? != Have::All {
                return Ok(false);
            }
            let step = usize::try_from(count).unwrap_or(usize::MAX).min(self.bytes().len());
            self.consume(step);
            count -= step as u64;
        }
        Ok(true)
    }
}
