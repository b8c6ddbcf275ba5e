//! Interleaved Bloom filters of one size: bit *i* of a row belongs to filter *i*, so a query reads as many
//! rows as there are hashes, whatever the number of filters. Only this layout explains the lines of BUFFALO
//! and orthogonal filters in the Concise paper's Table II: 8 rows of 256 bits are 8 lines, and 8 rows of
//! 65,536 bits are its 1,024.
//!
//! All filters have the same number of rows, so the fullest one decides.

use super::{Touch, bloom};
use crate::keys::mix;
use scalebricks_tables::prefetch_read;
use scalebricks_types::KeyHash;

/// Words per cache line.
const LINE_WORDS: usize = 8;
/// Step of the sequence whose mixed members select a name's rows.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A cache line.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
struct Line([u64; LINE_WORDS]);

/// The filters.
#[derive(Debug)]
pub struct Sliced {
    lines: Vec<Line>,
    /// Bits per row, a power of two.
    width: u64,
    rows: u64,
    hashes: u8,
    seed: u64,
}

impl Sliced {
    /// Empty filters, as many as a row has bits.
    pub fn new(filters: usize, rows: u64, hashes: u8, seed: u64) -> Self {
        let width = filters.next_power_of_two() as u64;
        let bits = usize::try_from(rows * width).unwrap_or(usize::MAX);
        Self { lines: vec![Line::default(); bits.div_ceil(512).max(1)], width, rows, hashes, seed }
    }

    /// The number of rows for which the false-positive rates, added by `sum`, do not exceed `rate`.
    pub fn rows_for(rate: f64, hashes: u8, sum: impl Fn(&dyn Fn(u64) -> f64) -> f64) -> u64 {
        let of = |rows: u64| {
            sum(&|names| match names {
                0 => 0.0,
                names => bloom::rate(rows as f64 / names as f64, hashes.into()),
            })
        };
        let (mut few, mut many) = (1, 1 << 40);
        while few < many {
            let middle = u64::midpoint(few, many);
            if of(middle) <= rate { many = middle } else { few = middle + 1 }
        }
        few
    }

    /// The first bit of a name's row for one hash.
    #[inline(always)]
    fn row(&self, name: KeyHash, number: u8) -> u64 {
        let word = mix((name.get() ^ self.seed).wrapping_add(STEP.wrapping_mul(u64::from(number) + 1)));
        (((u128::from(word) * u128::from(self.rows)) >> 64) as u64) * self.width // less than all bits
    }

    /// 64 bits of a row, or the whole row if it is shorter.
    #[inline(always)]
    fn word(&self, bit: u64, touch: &mut impl Touch) -> u64 {
        let at = (bit / 64) as usize;
        touch.line(0, at / LINE_WORDS);
        self.lines[at / LINE_WORDS].0[at % LINE_WORDS] >> (bit % 64)
    }

    /// Inserts a name into those of 64 filters whose bit is set, counted from `first`, a multiple of 64.
    pub fn insert(&mut self, name: KeyHash, first: usize, filters: u64) {
        for number in 0..self.hashes {
            let bit = self.row(name, number) + first as u64;
            let at = (bit / 64) as usize;
            self.lines[at / LINE_WORDS].0[at % LINE_WORDS] |= filters << (bit % 64);
        }
    }

    /// Calls `each` for 64 filters at a time with the first filter's number and a bit for each that fits.
    /// Stops when it returns `false`.
    #[inline(always)]
    pub fn fitting(&self, name: KeyHash, touch: &mut impl Touch, mut each: impl FnMut(u64, u64) -> bool) {
        let mut rows = [0; 32];
        let hashes = usize::from(self.hashes).min(rows.len());
        for (row, number) in rows[..hashes].iter_mut().zip(0..) {
            *row = self.row(name, number);
        }
        let mask = if self.width < 64 { (1 << self.width) - 1 } else { !0 };
        for first in (0..self.width).step_by(64) {
            let mut fits = mask;
            for row in &rows[..hashes] {
                fits &= self.word(row + first, touch);
                if fits == 0 {
                    break;
                }
            }
            if fits != 0 && !each(first, fits) {
                return;
            }
        }
    }

    /// Prefetches the first line of each row of a name.
    #[inline(always)]
    pub fn prefetch(&self, name: KeyHash) {
        for number in 0..self.hashes {
            prefetch_read(&self.lines[(self.row(name, number) / 512) as usize]);
        }
    }

    /// Bytes of memory.
    pub fn table_bytes(&self) -> u64 {
        (self.lines.len() * size_of::<Line>()) as u64
    }
}
