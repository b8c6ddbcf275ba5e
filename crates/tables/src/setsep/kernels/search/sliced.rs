//! The family of `brute`, bit-sliced: 64 candidates are the 64 bits of a word.
//!
//! Under 64 halves, each bit of a key's position is one of 128 words, chosen by the row. "Selects cell `c`"
//! is the AND of three such words or their complements. Eight such words, one per cell, are a register of 512
//! bits.

use super::meet::{CellDemands, Kernel, Keys};
use crate::setsep::brute::HALVES;

/// Eight cells, each with the set of candidates for which it has some property.
pub(super) trait Cells: Copy {
    /// Eight words.
    type Vector: Copy;
    /// The empty set for every cell.
    fn none(self) -> Self::Vector;
    /// The selected cell, given the bits of its position.
    fn named(self, position: [u64; 3]) -> Self::Vector;
    /// `all`, plus `cells` for these candidates.
    fn add(self, all: Self::Vector, cells: Self::Vector, candidates: u64) -> Self::Vector;
    /// The candidates that have a cell in both.
    fn meet(self, a: Self::Vector, b: Self::Vector) -> u64;
    /// The candidates of `by` that require a cell to be the opposite of what candidate `of` requires. Zeros
    /// come first.
    fn asked(self, of: [Self::Vector; 2], candidate: u32, by: [Self::Vector; 2]) -> u64;
    /// The cells of one candidate.
    fn lane(self, cells: Self::Vector, candidate: u32) -> u8;
}

/// For each row, the parities of (row AND (64 + half)) for all halves.
static PARITIES: [u64; 128] = parities();

const fn parities() -> [u64; 128] {
    let mut table = [0; 128];
    let mut row = 0;
    while row < 128 {
        let mut half = 0;
        while half < HALVES {
            table[row as usize] |= ((row & (HALVES | half)).count_ones() as u64 & 1) << half;
            half += 1;
        }
        row += 1;
    }
    table
}

/// Plain words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl Cells for Portable {
    type Vector = [u64; 8];

    #[inline(always)]
    fn none(self) -> [u64; 8] {
        [0; 8]
    }
    #[inline(always)]
    fn named(self, [p0, p1, p2]: [u64; 3]) -> [u64; 8] {
        let low = [!p0 & !p1, p0 & !p1, !p0 & p1, p0 & p1];
        std::array::from_fn(|cell| low[cell % 4] & if cell < 4 { !p2 } else { p2 })
    }
    #[inline(always)]
    fn add(self, all: [u64; 8], cells: [u64; 8], candidates: u64) -> [u64; 8] {
        std::array::from_fn(|cell| all[cell] | cells[cell] & candidates)
    }
    #[inline(always)]
    fn meet(self, a: [u64; 8], b: [u64; 8]) -> u64 {
        a.iter().zip(&b).fold(0, |all, (a, b)| all | a & b)
    }
    #[inline(always)]
    fn asked(self, of: [[u64; 8]; 2], candidate: u32, by: [[u64; 8]; 2]) -> u64 {
        let all = |word: u64| (word >> candidate & 1).wrapping_neg();
        (0..8).fold(0, |asked, cell| asked | all(of[0][cell]) & by[1][cell] | all(of[1][cell]) & by[0][cell])
    }
    #[inline(always)]
    fn lane(self, cells: [u64; 8], candidate: u32) -> u8 {
        cells.iter().rev().fold(0, |lane, cell| lane << 1 | (cell >> candidate & 1) as u8)
    }
}

/// The cells required to be 0, and those required to be 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sliced<C: Cells>(C, [C::Vector; 2]);

impl<C: Cells> CellDemands for Sliced<C> {
    #[inline(always)]
    fn possible(self) -> u64 {
        !self.0.meet(self.1[0], self.1[1])
    }
    #[inline(always)]
    fn partners(self, half: u32, other: Self) -> u64 {
        !self.0.asked(self.1, half, other.1)
    }
    #[inline(always)]
    fn ones(self, half: u32) -> u8 {
        self.0.lane(self.1[1], half)
    }
}

impl<C: Cells> Kernel for C {
    type CellDemands = Sliced<C>;

    #[inline(always)]
    fn evaluate<const BITS: usize>(
        self,
        keys: &Keys,
        retry: u32,
        bits: [u32; BITS],
    ) -> [[Sliced<C>; BITS]; 2] {
        let mut asks = [[Sliced(self, [self.none(); 2]); BITS]; 2];
        for (list, asks) in keys.split(retry).iter().zip(&mut asks) {
            let mut sums = [[self.none(); 2]; BITS];
            for &(word, value) in list.keys() {
                let parities = [24, 16, 8_u32];
                let mut position = [0; 3];
                for (parity, byte) in position.iter_mut().zip(parities) {
                    *parity = PARITIES[(word >> byte & 0x7F) as usize];
                }
                let named = self.named(position);
                for (sum, bit) in sums.iter_mut().zip(bits) {
                    let one = (u64::from(value) >> bit & 1).wrapping_neg();
                    *sum = [self.add(sum[0], named, !one), self.add(sum[1], named, one)];
                }
            }
            for (ask, sum) in asks.iter_mut().zip(sums) {
                ask.1 = sum;
            }
        }
        asks
    }
}
