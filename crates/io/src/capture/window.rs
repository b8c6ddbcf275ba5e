//! A buffered part of a stream.

use crate::gzip::decompress;
use std::io::{self, Read};

/// Least size of the buffer.
const WINDOW_BYTES: usize = 64 * 1024;

/// How many of the wanted bytes there are before the stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Have {
    All,
    Part,
    Nothing,
}

/// A stream with its next bytes in memory. The buffer grows to the number of bytes that the caller asks for.
pub(super) struct Window {
    stream: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    /// Opens a stream, which is decompressed if it starts as gzip.
    pub(super) fn open(stream: impl Read + Send + 'static) -> io::Result<Self> {
        Ok(Self { stream: decompress(stream)?, buffer: vec![0; WINDOW_BYTES], start: 0, end: 0 })
    }

    /// The bytes that were read but not consumed.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads until `wanted` bytes are in memory or the stream ends. Bytes in memory stay there on an error.
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

    /// Skips `count` bytes in memory.
    pub(super) fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Skips `count` bytes without storing them. `false` if the stream ends earlier.
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
