//! Byte streams that end with the CRC-32 of all bytes before it. Snapshots use them.

use std::io::{self, Read, Write};

/// Forwards bytes to a writer and computes their checksum.
pub(crate) struct ChecksumWriter<W> {
    to: W,
    sum: crc32fast::Hasher,
}

impl<W: Write> ChecksumWriter<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, sum: crc32fast::Hasher::new() }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.to.write_all(bytes)
    }

    pub(crate) fn put_words(
        &mut self,
        words: impl IntoIterator<Item = u64>,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        buffer.clear();
        words.into_iter().for_each(|word| buffer.extend_from_slice(&word.to_le_bytes()));
        self.put(buffer)
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        let sum = self.sum.finalize();
        self.to.write_all(&sum.to_le_bytes())?;
        self.to.flush()
    }
}

/// Reads bytes and computes their checksum.
pub(crate) struct ChecksumReader<R> {
    from: R,
    sum: crc32fast::Hasher,
}

impl<R: Read> ChecksumReader<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from, sum: crc32fast::Hasher::new() }
    }

    pub(crate) fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.from.read_exact(bytes)?;
        self.sum.update(bytes);
        Ok(())
    }

    /// Reads the next `count` words; `count` is at most a few thousand.
    pub(crate) fn words(&mut self, count: usize, buffer: &mut Vec<u8>) -> io::Result<Vec<u64>> {
        buffer.resize(count * 8, 0);
        self.fill(buffer)?;
        Ok(buffer.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect())
    }

    /// The checksum of the bytes read, and the checksum stored in the stream.
    pub(crate) fn finish(mut self) -> io::Result<(u32, u32)> {
        let found = self.sum.clone().finalize();
        Ok((found, u32::from_le_bytes(self.take()?)))
    }
}
