//! A packed array of small values.
#![cfg_attr(
    not(feature = "peers"),
    allow(dead_code, reason = "only the structures of other authors need it")
)]

use scalebricks_tables::prefetch_read;

/// Packed values of `bits` bits, 1 to 8.
#[derive(Debug)]
pub struct Packed {
    bytes: Vec<u8>,
    bits: usize,
}

impl Packed {
    /// `len` values of 0.
    pub fn new(len: usize, bits: u8) -> Self {
        let bits = usize::from(bits);
        Self { bytes: vec![0; (len * bits).div_ceil(8) + 1], bits } // a value may begin in the last byte but one
    }

    /// The value at this index.
    #[inline(always)]
    pub fn get(&self, place: usize) -> u8 {
        let bit = place * self.bits;
        let pair = u16::from_le_bytes([self.bytes[bit / 8], self.bytes[bit / 8 + 1]]);
        (pair >> (bit % 8)) as u8 & (u8::MAX >> (8 - self.bits)) // the low byte is meant
    }

    /// Writes a value over a zero.
    pub fn put(&mut self, place: usize, value: u8) {
        let bit = place * self.bits;
        let [low, high] = (u16::from(value) << (bit % 8)).to_le_bytes();
        self.bytes[bit / 8] |= low;
        self.bytes[bit / 8 + 1] |= high;
    }

    /// Prefetches the value at this index.
    #[inline(always)]
    pub fn prefetch(&self, place: usize) {
        prefetch_read(&self.bytes[place * self.bits / 8]);
    }

    /// Bytes of memory.
    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_got() {
        for bits in 1..=8 {
            let mut array = Packed::new(100, bits);
            let value = |place: usize| (place * 37) as u8 & (u8::MAX >> (8 - bits));
            (0..100).rev().for_each(|place| array.put(place, value(place)));
            assert!((0..100).all(|place| array.get(place) == value(place)), "{bits} bits");
            assert_eq!(array.bytes(), (100 * usize::from(bits)).div_ceil(8) + 1);
        }
    }
}
