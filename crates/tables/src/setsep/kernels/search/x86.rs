//! Vector types of x86-64. Each requires a proof that the processor supports its instructions.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports)] // intrinsics by the dozen

use super::candidates::Lanes;
use super::sliced::Cells;
use crate::isa::Isa;
use std::arch::x86_64::*;

macro_rules! proofs {
    ($($(#[$doc:meta])* $name:ident = $isa:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(super) struct $name(());

        impl $name {
            /// The proof, if this processor has the instructions.
            pub(super) fn new() -> Option<Self> {
                Isa::$isa.is_available().then_some(Self(()))
            }
        }
    )*};
}
proofs! {
    /// Proof that this processor has [`Isa::Avx2`].
    Avx2 = Avx2;
    /// Proof that this processor has [`Isa::Avx512`].
    Avx512 = Avx512;
    /// Proof that this processor has [`Isa::Avx512Gfni`].
    Gfni = Avx512Gfni;
}

// SAFETY of all blocks below: `self` exists only if `new` found that the processor has the instructions.

impl Lanes for Avx512 {
    type Vector = __m512i;
    const LANES: u32 = 64;

    #[inline(always)]
    fn splat(self, word: u32) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_set1_epi32(word.cast_signed()) }
    }
    #[inline(always)]
    fn fours(self) -> __m512i {
        let numbers: [u32; 16] = std::array::from_fn(|i| 4 * i as u32);
        // SAFETY: as above; 64 bytes are read.
        unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
    }
    #[inline(always)]
    fn table(self, table: [u8; 16]) -> __m512i {
        // SAFETY: as above; 16 bytes are read.
        unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())) }
    }
    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_mullo_epi32(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn tops(self, [a, b, c, d]: [__m512i; 4]) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let second = _mm512_set1_epi32(0x0F00);
            let (third, fourth) = (_mm512_set1_epi32(0x0F_0000), _mm512_set1_epi32(0x0F00_0000));
            // a AND c, OR b
            let tops = _mm512_ternarylogic_epi32::<0xEC>(
                second,
                _mm512_srli_epi32::<28>(a),
                _mm512_srli_epi32::<20>(b),
            );
            let tops = _mm512_ternarylogic_epi32::<0xEC>(third, tops, _mm512_srli_epi32::<12>(c));
            _mm512_ternarylogic_epi32::<0xEC>(fourth, tops, _mm512_srli_epi32::<4>(d))
        }
    }
    #[inline(always)]
    fn lookup(self, table: __m512i, at: __m512i) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_shuffle_epi8(table, at) }
    }
    #[inline(always)]
    fn disjoint(self, a: __m512i, b: __m512i) -> u64 {
        // SAFETY: as above.
        unsafe { _mm512_testn_epi8_mask(a, b) }
    }
    #[inline(always)]
    fn byte(self, a: __m512i, lane: u32) -> u8 {
        let mut bytes = [0; 64];
        // SAFETY: as above; 64 bytes are written.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), a) };
        bytes[lane as usize % 64]
    }
}

impl Lanes for Avx2 {
    type Vector = __m256i;
    const LANES: u32 = 32;

    #[inline(always)]
    fn splat(self, word: u32) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_set1_epi32(word.cast_signed()) }
    }
    #[inline(always)]
    fn fours(self) -> __m256i {
        let numbers: [u32; 8] = std::array::from_fn(|i| 4 * i as u32);
        // SAFETY: as above; 32 bytes are read.
        unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) }
    }
    #[inline(always)]
    fn table(self, table: [u8; 16]) -> __m256i {
        // SAFETY: as above; 16 bytes are read.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) }
    }
    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_mullo_epi32(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn tops(self, [a, b, c, d]: [__m256i; 4]) -> __m256i {
        // SAFETY: as above.
        unsafe {
            let b = _mm256_and_si256(_mm256_srli_epi32::<20>(b), _mm256_set1_epi32(0x0F00));
            let c = _mm256_and_si256(_mm256_srli_epi32::<12>(c), _mm256_set1_epi32(0x0F_0000));
            let d = _mm256_and_si256(_mm256_srli_epi32::<4>(d), _mm256_set1_epi32(0x0F00_0000));
            _mm256_or_si256(_mm256_or_si256(_mm256_srli_epi32::<28>(a), b), _mm256_or_si256(c, d))
        }
    }
    #[inline(always)]
    fn lookup(self, table: __m256i, at: __m256i) -> __m256i {
        // SAFETY: as above.
        unsafe { _mm256_shuffle_epi8(table, at) }
    }
    #[inline(always)]
    fn disjoint(self, a: __m256i, b: __m256i) -> u64 {
        // SAFETY: as above.
        let mask = unsafe {
            let both = _mm256_and_si256(a, b);
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(both, _mm256_setzero_si256()))
        };
        u64::from(mask.cast_unsigned())
    }
    #[inline(always)]
    fn byte(self, a: __m256i, lane: u32) -> u8 {
        let mut bytes = [0; 32];
        // SAFETY: as above; 32 bytes are written.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), a) };
        bytes[lane as usize % 32]
    }
}

impl Cells for Avx512 {
    type Vector = __m512i;

    #[inline(always)]
    fn none(self) -> __m512i {
        // SAFETY: as above.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    fn named(self, [p0, p1, p2]: [u64; 3]) -> __m512i {
        // SAFETY: as above.
        unsafe {
            let cell0 = _mm512_xor_si512(
                _mm512_set1_epi64(p0.cast_signed()),
                _mm512_set_epi64(0, -1, 0, -1, 0, -1, 0, -1),
            );
            let flip1 = _mm512_set_epi64(0, 0, -1, -1, 0, 0, -1, -1);
            let flip2 = _mm512_set_epi64(0, 0, 0, 0, -1, -1, -1, -1);
            let cell1 = _mm512_ternarylogic_epi64::<0x60>(cell0, _mm512_set1_epi64(p1.cast_signed()), flip1); // a AND (b XOR c)
            _mm512_ternarylogic_epi64::<0x60>(cell1, _mm512_set1_epi64(p2.cast_signed()), flip2)
        }
    }
    #[inline(always)]
    fn add(self, all: __m512i, cells: __m512i, lanes: u64) -> __m512i {
        // SAFETY: as above. a OR (b AND c).
        unsafe { _mm512_ternarylogic_epi64::<0xF8>(all, cells, _mm512_set1_epi64(lanes.cast_signed())) }
    }
    #[inline(always)]
    fn meet(self, a: __m512i, b: __m512i) -> u64 {
        // SAFETY: as above.
        unsafe { _mm512_reduce_or_epi64(_mm512_and_si512(a, b)).cast_unsigned() }
    }
    #[inline(always)]
    fn asked(self, of: [__m512i; 2], lane: u32, by: [__m512i; 2]) -> u64 {
        // SAFETY: as above.
        unsafe {
            let lane = _mm512_set1_epi64((1_u64 << lane).cast_signed());
            let first = _mm512_maskz_mov_epi64(_mm512_test_epi64_mask(of[0], lane), by[1]);
            let both = _mm512_mask_or_epi64(first, _mm512_test_epi64_mask(of[1], lane), first, by[0]);
            _mm512_reduce_or_epi64(both).cast_unsigned()
        }
    }
    #[inline(always)]
    fn lane(self, cells: __m512i, lane: u32) -> u8 {
        // SAFETY: as above.
        unsafe { _mm512_test_epi64_mask(cells, _mm512_set1_epi64((1_u64 << lane).cast_signed())) }
    }
}

impl Cells for Avx2 {
    type Vector = [__m256i; 2];

    #[inline(always)]
    fn none(self) -> Self::Vector {
        // SAFETY: as above.
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    fn named(self, [p0, p1, p2]: [u64; 3]) -> Self::Vector {
        // SAFETY: as above.
        unsafe {
            let p0 = _mm256_xor_si256(_mm256_set1_epi64x(p0.cast_signed()), _mm256_set_epi64x(0, -1, 0, -1));
            let p1 = _mm256_xor_si256(_mm256_set1_epi64x(p1.cast_signed()), _mm256_set_epi64x(0, 0, -1, -1));
            let (cell, p2) = (_mm256_and_si256(p0, p1), _mm256_set1_epi64x(p2.cast_signed()));
            [_mm256_andnot_si256(p2, cell), _mm256_and_si256(p2, cell)]
        }
    }
    #[inline(always)]
    fn add(self, all: Self::Vector, cells: Self::Vector, candidates: u64) -> Self::Vector {
        // SAFETY: as above.
        unsafe {
            let mask = _mm256_set1_epi64x(candidates.cast_signed());
            let (low, high) = (_mm256_and_si256(cells[0], mask), _mm256_and_si256(cells[1], mask));
            [_mm256_or_si256(all[0], low), _mm256_or_si256(all[1], high)]
        }
    }
    #[inline(always)]
    fn meet(self, a: Self::Vector, b: Self::Vector) -> u64 {
        // SAFETY: as above.
        unsafe { fold(_mm256_or_si256(_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1]))) }
    }
    #[inline(always)]
    fn asked(self, of: [Self::Vector; 2], candidate: u32, by: [Self::Vector; 2]) -> u64 {
        // SAFETY: as above.
        unsafe {
            let bit = _mm256_set1_epi64x((1_u64 << candidate).cast_signed());
            let low = _mm256_or_si256(having(of[0][0], bit, by[1][0]), having(of[1][0], bit, by[0][0]));
            let high = _mm256_or_si256(having(of[0][1], bit, by[1][1]), having(of[1][1], bit, by[0][1]));
            fold(_mm256_or_si256(low, high))
        }
    }
    #[inline(always)]
    fn lane(self, cells: Self::Vector, candidate: u32) -> u8 {
        // SAFETY: as above.
        unsafe {
            let to_sign = _mm_cvtsi32_si128((63 - candidate).cast_signed());
            let low = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_sll_epi64(cells[0], to_sign)));
            let high = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_sll_epi64(cells[1], to_sign)));
            (low | high << 4).cast_unsigned() as u8
        }
    }
}

/// The words of `by` whose cells have this candidate in `of`.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn having(of: __m256i, candidate: __m256i, by: __m256i) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm256_and_si256(_mm256_cmpeq_epi64(_mm256_and_si256(of, candidate), candidate), by) }
}

/// The OR of four words.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn fold(words: __m256i) -> u64 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let two = _mm_or_si128(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
        _mm_cvtsi128_si64(_mm_or_si128(two, _mm_unpackhi_epi64(two, two))).cast_unsigned()
    }
}
