//! Meet in the middle for the family of `brute`: combines any two halves of an index whose keys agree.
#![allow(unsafe_code)]

use super::Form;
use super::sliced::Portable;
use crate::setsep::brute::{HALVES, MARKER, MOST_KEYS, RETRIES, WordSource, field, uses_first};
use crate::setsep::params::Params;
use crate::setsep::solver::Fields;

/// Number of value bits evaluated together, limited by the number of registers.
const TOGETHER: u32 = 4;

/// What the keys of one half require of the cells for one value bit, under all 64 values of that half.
pub(super) trait CellDemands: Copy {
    /// The values under which no cell is required to be both 0 and 1.
    fn possible(self) -> u64;
    /// The values of the other half whose keys require no cell to be the opposite of what keys here require
    /// under `half`.
    fn partners(self, half: u32, other: Self) -> u64;
    /// The cells required to be 1.
    fn ones(self, half: u32) -> u8;
}

/// One form of the evaluation.
pub(super) trait Kernel: Copy {
    /// Its results.
    type CellDemands: CellDemands;
    /// What the keys of half `i1`, and those of half `i2`, require for each of these value bits.
    fn evaluate<const BITS: usize>(
        self,
        keys: &Keys,
        retry: u32,
        bits: [u32; BITS],
    ) -> [[Self::CellDemands; BITS]; 2];
}

/// The keys of one group, at most [`MOST_KEYS`].
#[derive(Debug)]
pub(super) struct Keys<'a> {
    pub(super) hashes: &'a [u64],
    pub(super) values: &'a [u8],
    pub(super) words: WordSource,
}

/// The words and values of some keys.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    keys: [(u32, u8); MOST_KEYS],
    len: usize,
}

impl List {
    /// The words and values.
    #[inline(always)]
    pub(super) fn keys(&self) -> &[(u32, u8)] {
        &self.keys[..self.len.min(MOST_KEYS)]
    }
}

impl Keys<'_> {
    /// The keys that use half `i1`, and those that use `i2`.
    #[inline(always)]
    pub(super) fn split(&self, retry: u32) -> [List; 2] {
        let mut lists = [List { keys: [(0, 0); MOST_KEYS], len: 0 }; 2];
        for (&hash, &value) in self.hashes.iter().zip(self.values) {
            let word = self.words.word(hash, retry);
            // Each key is written to both lists and counted in one, because a branch predictor cannot predict
            // which.
            for (list, mine) in lists.iter_mut().zip([uses_first(word), !uses_first(word)]) {
                list.keys[list.len % MOST_KEYS] = (word, value);
                list.len += usize::from(mine);
            }
        }
        lists
    }
}

/// The canonical fields of a group.
pub(super) fn solve(form: Form, hashes: &[u64], values: &[u8], params: &Params) -> Option<Fields> {
    if hashes.len() > MOST_KEYS {
        return None;
    }
    let keys = Keys { hashes, values, words: WordSource::of(params) };
    let bits = params.value_bits().into();
    match form {
        Form::Portable => search(Portable, &keys, bits),
        // SAFETY: the proof guarantees that the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        Form::Avx2(proof) => unsafe { with_avx2(proof, &keys, bits) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Form::Avx512(proof) => unsafe { with_avx512(proof, &keys, bits) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Form::Avx512Gfni(_, proof) => unsafe { with_gfni(proof, &keys, bits) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn with_avx2(proof: super::Avx2, keys: &Keys, value_bits: u32) -> Option<Fields> {
    search(proof, keys, value_bits)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
fn with_avx512(proof: super::Avx512, keys: &Keys, value_bits: u32) -> Option<Fields> {
    search(proof, keys, value_bits)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
fn with_gfni(proof: super::Gfni, keys: &Keys, value_bits: u32) -> Option<Fields> {
    search(super::affine::Affine::new(proof, keys), keys, value_bits)
}

#[inline(always)]
fn search<K: Kernel>(kernel: K, keys: &Keys, value_bits: u32) -> Option<Fields> {
    let mut fields = [0; 8];
    for first in (0..value_bits).step_by(TOGETHER as usize) {
        let mut open = ((1 << value_bits.min(first + TOGETHER)) - 1) & !((1_u32 << first) - 1);
        let mut retry = 0;
        while open != 0 {
            if retry == RETRIES {
                return None;
            }
            match open.count_ones() {
                1 => round::<K, 1>(kernel, keys, retry, &mut open, &mut fields),
                2 => round::<K, 2>(kernel, keys, retry, &mut open, &mut fields),
                3 => round::<K, 3>(kernel, keys, retry, &mut open, &mut fields),
                _ => round::<K, 4>(kernel, keys, retry, &mut open, &mut fields),
            }
            retry += 1;
        }
    }
    Some(fields)
}

/// One retry for the `BITS` value bits that are still open.
#[inline(always)]
fn round<K: Kernel, const BITS: usize>(
    kernel: K,
    keys: &Keys,
    retry: u32,
    open: &mut u32,
    fields: &mut Fields,
) {
    let mut rest = *open;
    let bits: [u32; BITS] = std::array::from_fn(|_| {
        let bit = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        bit
    });
    let [firsts, seconds] = kernel.evaluate(keys, retry, bits);
    for ((bit, first), second) in bits.into_iter().zip(firsts).zip(seconds) {
        if let Some((i1, i2)) = meet(first, second) {
            let index = (retry * HALVES + i1) * HALVES + i2;
            if index != MARKER {
                fields[bit as usize % 8] = field(index, first.ones(i1) | second.ones(i2));
                *open &= !(1 << bit);
            }
        }
    }
}

/// The lowest value of the first half that has a partner, and its lowest partner.
#[inline(always)]
fn meet<A: CellDemands>(first: A, second: A) -> Option<(u32, u32)> {
    let (mut firsts, seconds) = (first.possible(), second.possible());
    while firsts != 0 && seconds != 0 {
        let i1 = firsts.trailing_zeros();
        let partners = seconds & first.partners(i1, second);
        if partners != 0 {
            return Some((i1, partners.trailing_zeros()));
        }
        firsts &= firsts - 1;
    }
    None
}
