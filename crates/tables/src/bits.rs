//! Reads and writes consecutive numbers of any bit width, lowest bit first.

/// Writes numbers of any bit width.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    words: Vec<u64>,
    held: u64,
    held_bits: u32,
}

impl BitWriter {
    /// An empty writer that uses the memory of `scratch`.
    pub(crate) fn new(mut scratch: Vec<u64>) -> Self {
        scratch.clear();
        Self { words: scratch, held: 0, held_bits: 0 }
    }

    /// Reserves room for about this many more bits.
    pub(crate) fn reserve(&mut self, bits: usize) {
        self.words.reserve(bits / 64);
    }

    /// Appends the low `bits` bits of a word. The other bits of the word must be 0.
    #[inline(always)]
    pub(crate) fn put(&mut self, value: u64, bits: u32) {
        self.held |= value << self.held_bits;
        let filled = self.held_bits + bits;
        if filled >= 64 {
            self.words.push(self.held);
            let taken = 64 - self.held_bits;
            self.held = if taken == 64 { 0 } else { value >> taken };
            self.held_bits = filled - 64;
        } else {
            self.held_bits = filled;
        }
    }

    /// The written bytes, with the unused bits of the last byte 0, and the scratch memory.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<u64>) {
        let rest = self.held_bits.div_ceil(8) as usize;
        let mut bytes = Vec::with_capacity(self.words.len() * 8 + rest);
        for word in &self.words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.held.to_le_bytes()[..rest]);
        self.words.clear();
        (bytes, self.words)
    }
}

/// Reads numbers of any bit width, from any bit on.
#[derive(Debug, Clone)]
pub(crate) struct BitReader<'a> {
    bytes: &'a [u8],
    at_bit: usize,
}

impl<'a> BitReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at_bit: 0 }
    }

    /// The next `bits` bits, at most 64, or `None` if fewer are left.
    #[inline]
    pub(crate) fn take(&mut self, bits: u32) -> Option<u64> {
        let end = self.at_bit + bits as usize;
        if end > self.bytes.len() * 8 {
            return None;
        }
        let (first, shift) = (self.at_bit / 8, self.at_bit % 8);
        let held = match self.bytes[first..].first_chunk::<16>() {
            Some(&bytes) => u128::from_le_bytes(bytes),
            None => self.bytes[first..end.div_ceil(8)]
                .iter()
                .rev()
                .fold(0, |held, &byte| held << 8 | u128::from(byte)),
        };
        self.at_bit = end;
        Some((held >> shift & ((1u128 << bits) - 1)) as u64)
    }

    /// Number of bits not yet read.
    pub(crate) const fn left(&self) -> usize {
        self.bytes.len() * 8 - self.at_bit
    }

    /// Whether only the padding of the last byte is left, and it is zero.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        let left = self.left();
        left == 0 || left < 8 && self.bytes.last().is_some_and(|byte| byte >> (8 - left) == 0)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
        fn what_is_put_is_taken(numbers in prop::collection::vec((any::<u64>(), 0u32..=64), 0..100)) {
            let low = |(number, bits): (u64, u32)| if bits == 0 { 0 } else { number >> (64 - bits) };
            let mut writer = BitWriter::new(Vec::new());
            for &number in &numbers {
                writer.put(low(number), number.1);
            }
            let (bytes, _) = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for &number in &numbers {
                prop_assert_eq!(reader.take(number.1), Some(low(number)));
            }
            prop_assert!(reader.left() < 8 && reader.is_at_end());
            prop_assert_eq!(reader.take(8), None);
        }
    }
}
