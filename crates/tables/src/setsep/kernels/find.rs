//! Finds a key in the row of a group. It compares all slots of the row's lines that have keys, and does not
//! branch on the result, which a branch predictor could not predict.
#![allow(unsafe_code, reason = "see SAFETY")]

use super::AvailableIsa;
use crate::isa::Isa;

/// Slots of a row per cache line; the vectors of all instruction sets divide it.
const SLOTS_PER_LINE: usize = 64 / size_of::<u64>();

/// Finds hashes in rows with the instruction set it is given.
#[derive(Debug, Clone, Copy)]
pub(in crate::setsep) struct Finder(AvailableIsa);

impl Finder {
    /// A finder for this instruction set.
    pub(in crate::setsep) fn new(isa: Isa) -> Self {
        Self(AvailableIsa::new(isa))
    }

    /// The first of the row's first `load` slots that holds this hash. A row has at most 64 slots.
    #[inline]
    pub(in crate::setsep) fn find(self, row: &[u64], load: usize, hash: u64) -> Option<usize> {
        // The lines of a row behind its keys are not fetched ahead, and come from memory in a large table.
        let row = &row[..load.next_multiple_of(SLOTS_PER_LINE).min(row.len())];
        let found = match self.0.isa() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `AvailableIsa` holds only instruction sets detected on this processor.
            Isa::Avx512 | Isa::Avx512Gfni => unsafe { x86::avx512(row, hash) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 => unsafe { x86::avx2(row, hash) },
            _ => equal(row, hash),
        };
        // Slots at `load` and above hold stale keys.
        let found = found & u64::MAX.checked_shr(64 - load as u32).unwrap_or(0);
        (found != 0).then_some(found.trailing_zeros() as usize)
    }
}

/// One bit per slot: set if the slot holds this hash.
fn equal(row: &[u64], hash: u64) -> u64 {
    row.iter().enumerate().fold(0, |found, (at, &held)| found | u64::from(held == hash) << (at % 64))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::equal;
    use std::arch::x86_64::{
        _mm256_castsi256_pd, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_movemask_pd, _mm256_set1_epi64x,
        _mm512_cmpeq_epi64_mask, _mm512_loadu_si512, _mm512_set1_epi64,
    };

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(row: &[u64], hash: u64) -> u64 {
        let sought = _mm512_set1_epi64(hash.cast_signed());
        let (eights, rest) = row.as_chunks::<8>();
        let mut found = equal(rest, hash) << (eights.len() * 8 % 64);
        for (at, eight) in eights.iter().enumerate() {
            // SAFETY: the 64 bytes read are this array.
            let held = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
            found |= u64::from(_mm512_cmpeq_epi64_mask(held, sought)) << (at * 8 % 64);
        }
        found
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(row: &[u64], hash: u64) -> u64 {
        let sought = _mm256_set1_epi64x(hash.cast_signed());
        let (fours, rest) = row.as_chunks::<4>();
        let mut found = equal(rest, hash) << (fours.len() * 4 % 64);
        for (at, four) in fours.iter().enumerate() {
            // SAFETY: the 32 bytes read are this array.
            let held = unsafe { _mm256_loadu_si256(four.as_ptr().cast()) };
            let equal = _mm256_castsi256_pd(_mm256_cmpeq_epi64(held, sought));
            found |= u64::from(_mm256_movemask_pd(equal).cast_unsigned()) << (at * 4 % 64);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setsep::geometry::mix64;

    #[test]
    fn equals_a_search_slot_by_slot() {
        let rows: &[u64] = if cfg!(miri) { &[0, 1, 9] } else { &[0, 1, 7, 8, 9, 32, 50, 64] };
        for &slots in rows {
            let mut row: Vec<u64> = (0..slots).map(mix64).collect();
            for (load, sought) in (0..=row.len()).flat_map(|load| (0..=row.len()).map(move |at| (load, at))) {
                let hash = row.get(sought).copied().unwrap_or(77);
                let expected = row[..load].iter().position(|&held| held == hash);
                for isa in crate::isa::compared() {
                    assert_eq!(
                        Finder::new(isa).find(&row, load, hash),
                        expected,
                        "{isa}: {sought} of {load}"
                    );
                }
            }
            if let [first, .., last] = &mut row[..] {
                *last = *first; // the first counts, and only under the load
                let (load, hash) = (row.len(), row[0]);
                for isa in crate::isa::compared() {
                    assert_eq!(Finder::new(isa).find(&row, load, hash), Some(0));
                    assert_eq!(Finder::new(isa).find(&row[1..], load - 2, hash), None);
                }
            }
        }
    }
}
