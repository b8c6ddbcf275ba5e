//! Solves systems of linear equations in lanes in plain Rust, in chunks that the compiler fits into the
//! available vector registers.

use super::lanes::{BITS_AT_ONCE, Batch, LANES, Vectors, Word, gauss_jordan};

macro_rules! operations {
    ($ops:ident, $word:ty, $width:literal, $finaliser:ident, $fold:literal) => {
        /// Operations on a few words at once; each is one line that explains itself.
        mod $ops {
            use super::super::super::linear::$finaliser;
            use super::LANES;
            use std::array::from_fn;

            pub(super) const WIDTH: usize = $width;
            type Lanes = [$word; WIDTH];

            #[inline(always)]
            pub(super) fn zero() -> Lanes {
                [0; WIDTH]
            }
            #[inline(always)]
            pub(super) fn splat(word: $word) -> Lanes {
                [word; WIDTH]
            }
            #[inline(always)]
            pub(super) fn load(words: &[$word; LANES], part: usize) -> Lanes {
                words.as_chunks::<WIDTH>().0[part]
            }
            #[inline(always)]
            pub(super) fn store(words: &mut [$word; LANES], part: usize, lanes: Lanes) {
                words.as_chunks_mut::<WIDTH>().0[part] = lanes;
            }
            #[inline(always)]
            pub(super) fn widen(bytes: &[u8; LANES], part: usize) -> Lanes {
                bytes.as_chunks::<WIDTH>().0[part].map(<$word>::from)
            }
            #[inline(always)]
            pub(super) fn xor(a: Lanes, b: Lanes) -> Lanes {
                from_fn(|i| a[i] ^ b[i])
            }
            #[inline(always)]
            pub(super) fn or(a: Lanes, b: Lanes) -> Lanes {
                from_fn(|i| a[i] | b[i])
            }
            #[inline(always)]
            pub(super) fn left(a: Lanes, bits: u32) -> Lanes {
                a.map(|a| a << bits)
            }
            #[inline(always)]
            pub(super) fn right(a: Lanes, bits: u32) -> Lanes {
                a.map(|a| a >> bits)
            }
            #[inline(always)]
            pub(super) fn hash(key: Lanes, multiplier: Lanes, columns: u32) -> Lanes {
                let x: Lanes = from_fn(|i| key[i].wrapping_mul(multiplier[i]));
                x.map(|x| (x ^ x >> $fold).wrapping_mul($finaliser) >> (<$word>::BITS - columns))
            }
            #[inline(always)]
            pub(super) fn if_less(a: Lanes, b: Lanes, then: Lanes) -> Lanes {
                from_fn(|i| if a[i] < b[i] { then[i] } else { 0 })
            }
            #[inline(always)]
            pub(super) fn lowest(row: Lanes) -> Lanes {
                row.map(|row| row & row.wrapping_neg())
            }
            #[inline(always)]
            pub(super) fn add_if(to: Lanes, row: Lanes, pivot: Lanes, add: Lanes) -> Lanes {
                from_fn(|i| to[i] ^ add[i] & (row[i] & pivot[i]).wrapping_neg())
            }
            #[inline(always)]
            pub(super) fn or_if_bit(to: Lanes, row: Lanes, bit: u32, or: Lanes) -> Lanes {
                // Where fewer value bits fit, value bits above the word do not exist, and no code reads them.
                let bit = bit % <$word>::BITS;
                from_fn(|i| to[i] | or[i] & (row[i] >> bit & 1).wrapping_neg())
            }
            #[inline(always)]
            pub(super) fn zeros(lanes: Lanes) -> u16 {
                lanes.iter().rev().fold(0, |mask, &lane| mask << 1 | u16::from(lane == 0))
            }
        }
    };
}
operations!(narrow, u32, 4, FINAL_32, 15);
operations!(wide, u64, 2, FINAL_64, 32);

gauss_jordan!(
    /// Four systems of 32-bit equations at a time.
    u32, u32, narrow
);
gauss_jordan!(
    /// Two systems of 64-bit equations at a time.
    u64, u64, wide
);
