//! Compares a bucket with a signature: all 16 slots at once, without a branch on the result.
//!
//! | form | instructions for a bucket |
//! |---|---|
//! | AVX-512 | one comparison with the line as operand, which gives the mask |
//! | AVX2 | two comparisons, two masks of eight bits |
//! | portable | 16 comparisons; defines the result |
//!
//! A form is a type, and work on a table is compiled once for each form ([`run`]), so that a comparison is no call.
#![allow(unsafe_code, reason = "see SAFETY")]

use crate::isa::{AvailableIsa, Isa};

/// Slots of a bucket.
pub const SLOTS: usize = 16;

/// A bucket: the signatures of its slots, 0 if empty. Tables keep them on cache lines of their own.
pub(super) type Line = [u32; SLOTS];

/// A form of the comparison.
pub(super) trait Compare {
    /// One bit per slot: set if the slot holds this signature.
    fn equal(line: &Line, signature: u32) -> u32;
}

/// Work that compares buckets, compiled for each form.
pub(super) trait Work {
    type Output;

    /// Does it. Implementations are `#[inline(always)]`, so that they are compiled for the form's instructions.
    fn run<C: Compare>(self) -> Self::Output;
}

/// Does this work with the form of an instruction set.
#[inline(always)]
pub(super) fn run<W: Work>(isa: AvailableIsa, work: W) -> W::Output {
    match isa.isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `AvailableIsa` holds only instruction sets detected on this processor.
        Isa::Avx512 | Isa::Avx512Gfni => unsafe { x86::with_avx512(work) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { x86::with_avx2(work) },
        _ => work.run::<Portable>(),
    }
}

/// Any processor.
pub(super) struct Portable;

impl Compare for Portable {
    #[inline(always)]
    fn equal(line: &Line, signature: u32) -> u32 {
        line.iter().enumerate().fold(0, |mask, (slot, &held)| mask | u32::from(held == signature) << slot)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Compare, Line, Work};
    use std::arch::x86_64::{
        _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_movemask_ps, _mm256_set1_epi32,
        _mm512_cmpeq_epi32_mask, _mm512_loadu_si512, _mm512_set1_epi32,
    };

    struct Avx512;
    struct Avx2;

    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt")]
    pub(super) fn with_avx512<W: Work>(work: W) -> W::Output {
        work.run::<Avx512>()
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn with_avx2<W: Work>(work: W) -> W::Output {
        work.run::<Avx2>()
    }

    impl Compare for Avx512 {
        #[inline(always)]
        fn equal(line: &Line, signature: u32) -> u32 {
            // SAFETY: only `with_avx512` names this form, so the processor has AVX-512 F. The 64 bytes read are this
            // array.
            unsafe {
                let held = _mm512_loadu_si512(line.as_ptr().cast());
                u32::from(_mm512_cmpeq_epi32_mask(held, _mm512_set1_epi32(signature.cast_signed())))
            }
        }
    }

    impl Compare for Avx2 {
        #[inline(always)]
        fn equal(line: &Line, signature: u32) -> u32 {
            // SAFETY: only `with_avx2` names this form, so the processor has AVX2. Both halves of 32 bytes are within
            // this array.
            unsafe {
                let sought = _mm256_set1_epi32(signature.cast_signed());
                let half = |at: usize| {
                    let held = _mm256_loadu_si256(line.as_ptr().add(at).cast());
                    let equal = _mm256_castsi256_ps(_mm256_cmpeq_epi32(held, sought));
                    _mm256_movemask_ps(equal).cast_unsigned()
                };
                half(0) | half(8) << 8
            }
        }
    }
}

/// The slots of a mask in the order of a search: from `start` to 15, then from 0. Bit i of the result is slot
/// (`start` + i) modulo 16.
#[inline(always)]
pub(super) const fn in_order(mask: u32, start: u32) -> u32 {
    (mask | mask << 16) >> start & 0xFFFF
}

/// The slot of the lowest bit of a mask [`in_order`], which must not be 0.
#[inline(always)]
pub(super) const fn first_slot(ordered: u32, start: u32) -> usize {
    (ordered.trailing_zeros() + start) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Equal<'a>(&'a Line, u32);

    impl Work for Equal<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<C: Compare>(self) -> u32 {
            C::equal(self.0, self.1)
        }
    }

    /// Few values, so that slots are often equal, and those that signed or narrower comparisons would confuse.
    fn signature() -> impl Strategy<Value = u32> {
        prop::sample::select(vec![0, 1, 0x8000_0000, 0x7FFF_FFFF, u32::MAX, 0x0001_0000, 0x0001_0001, 0xFFFF])
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 4096 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn all_forms_find_the_equal_slots(line in prop::array::uniform16(signature()), sought in signature(), start in 0u32..16) {
            let slots: Vec<usize> = (0..SLOTS).filter(|&slot| line[slot] == sought).collect();
            let expected = slots.iter().fold(0, |mask, slot| mask | 1 << slot);
            for isa in crate::isa::compared() {
                prop_assert_eq!(run(AvailableIsa::new(isa), Equal(&line, sought)), expected, "{}", isa);
            }
            let mut order: Vec<usize> = (0..SLOTS).map(|i| (i + start as usize) % SLOTS).collect();
            order.retain(|slot| slots.contains(slot));
            let (mut left, mut found) = (in_order(expected, start), Vec::new());
            while left != 0 {
                found.push(first_slot(left, start));
                left &= left - 1;
            }
            prop_assert_eq!(found, order);
        }
    }

    /// Each slot alone, for each form: no lane is lost or doubled.
    #[test]
    fn each_slot_has_its_bit() {
        for isa in crate::isa::compared() {
            for slot in 0..SLOTS {
                let mut line = [7; SLOTS];
                line[slot] = 0xDEAD_BEEF;
                assert_eq!(run(AvailableIsa::new(isa), Equal(&line, 0xDEAD_BEEF)), 1 << slot, "{isa}");
                assert_eq!(run(AvailableIsa::new(isa), Equal(&line, 7)), 0xFFFF ^ 1 << slot, "{isa}");
            }
        }
    }
}
