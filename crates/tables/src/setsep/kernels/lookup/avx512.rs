//! Lookups with AVX-512: sixteen keys per vector, up to four vectors at a time.
//!
//! A lookup has three steps. Each step is done for all vectors before the next:
//!
//! 1. *Which block?* Two 32-bit multiplications in each 64-bit lane scale the hash to the number of blocks,
//!    which gives the number of its bucket. The upper bits are the block, whose slot is loaded from the
//!    index, key by key.
//! 2. *Which group?* One gather loads the words of choices. The 16 offsets of the candidate groups are one
//!    vector, so the candidate is a permutation of it and an addition.
//! 3. *Which value?* The fields are loaded key by key and assembled into vectors: a gather would keep the
//!    processor from running ahead while one of its cache lines is on the way. Row, AND and parity are
//!    arithmetic.
//!
//! In a table that fits a private cache (a *near* table), no step prefetches. The processor itself overlaps
//! the loads of a step of four vectors, because there are so few instructions between them, and prefetches
//! would only take up room. In a *far* table longer calls are pipelined ([`ahead`]), unless this processor [hides the
//! latency](crate::isa::hides_cache_latency) of its caches, and in one that is mostly in memory all calls of two vectors and more ([`pipelined_from`]). A vector with a key of a marked group is rare; its
//! keys are looked up in the fallback one by one.
//!
//! [`counting`] computes the parity with an instruction that counts bits, [`folding`] without one.
#![allow(unsafe_code)]
#![allow(clippy::wildcard_imports, reason = "a list of forty instructions tells nothing")]
#![allow(clippy::cast_ptr_alignment, reason = "for loads that need no alignment")]

mod ahead;
mod wide;

use super::{BatchKernel, PARITIES, TableView, correct, one, pipelined_from};
use crate::lanes::avx512::{
    Keys, LANES, Lanes, filled, high_halves, lanes, load, low_halves, splat, splat64,
};
use crate::lanes::{vector, vector64};
use crate::setsep::format::Format;
use crate::setsep::geometry::OFFSETS;
use crate::setsep::linear::{FINAL_32, FieldLayout, MULTIPLIER_32, Rows, SEED_STEP_32};
use crate::setsep::structure::Pinned;
use ahead::{CHOICES_BEHIND, FIELDS_BEHIND, RING, ask, find};
use scalebricks_types::KeyHash;
use std::arch::x86_64::*;
use wide::{fields64, parity64, rows64, seeds64};

/// Tails up to this long are looked up one key at a time.
const SHORT: usize = 4;

/// Where sixteen groups begin, in units of fields.
type FieldOffsets = Lanes;

/// The bucket of each key, numbered across all blocks: (hash x blocks x 256) >> 64, exactly.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn buckets(keys: &Keys, blocks: u32) -> __m512i {
    let blocks = splat64(blocks.into());
    // No `array::map`: it is compiled without these instructions, so the closure would not be inlined.
    let bucket = |hashes| {
        let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(hashes), blocks);
        let low = _mm512_srli_epi64::<32>(_mm512_mul_epu32(hashes, blocks));
        _mm512_srli_epi64::<24>(_mm512_add_epi64(high, low))
    };
    let [first, second] = load(keys);
    low_halves([bucket(first), bucket(second)])
}

/// The first word of the block of each key, for blocks of `words` words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn bases(blocks: &TableView<'_>, buckets: __m512i, words: u32) -> __m512i {
    let numbers = lanes(_mm512_srli_epi32::<8>(buckets));
    // SAFETY: these are valid block numbers: scaled hashes are below the total number of buckets.
    let slots = vector!(|i| unsafe { blocks.slot(numbers.0[i]) });
    _mm512_mullo_epi32(slots, splat(words))
}

/// The group that each key's bucket chose.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn groups(blocks: &TableView<'_>, buckets: __m512i, bases: __m512i) -> __m512i {
    let offsets = vector!(|i| u32::from(OFFSETS[i]));
    let bucket = _mm512_and_si512(buckets, splat(255));
    let at = _mm512_add_epi32(_mm512_add_epi32(bases, bases), _mm512_srli_epi32::<4>(bucket));
    // SAFETY: each block begins with sixteen 32-bit words of choices, and `Blocks` guarantees that these
    // blocks are only read. The indices are below 2^31, or `Blocks` would not exist.
    #[cfg(not(tsan))]
    let choices = unsafe { _mm512_i32gather_epi32::<4>(at, blocks.words().cast()) };
    // ThreadSanitizer does not see what a gather reads, so for it the same words are read one by one.
    #[cfg(tsan)]
    let choices = {
        let at: FieldOffsets = lanes(at);
        // SAFETY: as above.
        vector!(|i| unsafe { blocks.half(at.0[i] as usize) })
    };
    let shift = _mm512_and_si512(_mm512_add_epi32(bucket, bucket), splat(30));
    let choice = _mm512_and_si512(_mm512_srlv_epi32(choices, shift), splat(3));
    let quarter = _mm512_and_si512(_mm512_srli_epi32::<4>(bucket), splat(12));
    let offset = _mm512_permutexvar_epi32(_mm512_or_si512(quarter, choice), offsets);
    _mm512_and_si512(_mm512_add_epi32(bucket, offset), splat(63))
}

/// Where the fields of each key's group begin, in units of fields.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn places<const DENSE: bool, const L: usize>(bases: __m512i, groups: __m512i) -> FieldOffsets {
    let bases = if DENSE { bases } else { _mm512_add_epi32(bases, bases) };
    let first = _mm512_add_epi32(bases, splat(if DENSE { 8 } else { 16 }));
    lanes(_mm512_add_epi32(first, _mm512_mullo_epi32(groups, splat(L as u32))))
}

/// The 32-bit fields of each key's group.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn fields32<const L: usize>(blocks: &TableView<'_>, at: &FieldOffsets) -> [__m512i; L] {
    let mut fields = [_mm512_setzero_si512(); L];
    for bit in (0..L - 1).step_by(2) {
        // SAFETY: reads two of the group's fields.
        let first = vector64!(|i| unsafe { blocks.pair(at.0[i] as usize + bit) });
        // SAFETY: as above.
        let second = vector64!(|i| unsafe { blocks.pair(at.0[i + 8] as usize + bit) });
        let pairs = [first, second];
        (fields[bit], fields[bit + 1]) = (low_halves(pairs), high_halves(pairs));
    }
    if L % 2 == 1 {
        // SAFETY: reads the group's last field.
        fields[L - 1] = vector!(|i| unsafe { blocks.half(at.0[i] as usize + L - 1) });
    }
    fields
}

/// The seeds in these 32-bit fields.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn seeds32<const L: usize>(fields: &[__m512i; L]) -> __m512i {
    let shape = const { FieldLayout::new(32, L as u32) };
    let (columns, mask) = (splat(shape.columns), splat((1 << shape.seed_bits) - 1));
    let mut seeds = _mm512_setzero_si512();
    for part in (0..shape.seed_fields).rev() {
        let bits = _mm512_and_si512(_mm512_srlv_epi32(fields[part as usize], columns), mask);
        seeds = _mm512_or_si512(_mm512_sllv_epi32(seeds, splat(shape.seed_bits)), bits);
    }
    seeds
}

/// [`Rows::row`] of sixteen keys, computed from their low halves.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn rows32<const L: usize>(keys: &Keys, seeds: __m512i, rows: Rows) -> __m512i {
    let shift = const { 32 - FieldLayout::new(32, L as u32).columns };
    let x = _mm512_xor_si512(low_halves(load(keys)), splat(rows.key() as u32));
    let step = _mm512_mullo_epi32(seeds, splat(SEED_STEP_32));
    let x = _mm512_mullo_epi32(x, _mm512_add_epi32(step, splat(MULTIPLIER_32)));
    let x = _mm512_xor_si512(x, _mm512_srli_epi32::<15>(x));
    _mm512_srlv_epi32(_mm512_mullo_epi32(x, splat(FINAL_32)), splat(shift))
}

/// Where vector `v` of some keys begins. The last vector ends with the last key, so some keys may be looked up twice.
#[inline(always)]
fn begin(len: usize, v: usize) -> usize {
    (v * LANES).min(len - LANES)
}

/// The keys of vector `v`.
#[inline(always)]
fn keys(hashes: &[KeyHash], v: usize) -> &Keys {
    &hashes[begin(hashes.len(), v)..].as_chunks().0[0]
}

/// The values of vector `v`.
#[inline(always)]
fn out(values: &mut [u8], v: usize) -> &mut [u8; LANES] {
    let begin = begin(values.len(), v);
    &mut values[begin..].as_chunks_mut().0[0]
}

macro_rules! kernel {
    ($(#[$docs:meta])* $name:ident, $features:literal, $parity32:expr, $parity64:expr) => {
        $(#[$docs])*
        pub(super) mod $name {
            use super::*;

            /// The kernel for this format and values of this many bits, if this module has one.
            pub(in super::super) fn batch(format: Format, bits: u8) -> Option<BatchKernel> {
                Some(match (format, bits) {
                    (Format::Linear, 1) => run::<false, 1>,
                    (Format::Linear, 2) => run::<false, 2>,
                    (Format::Linear, 3) => run::<false, 3>,
                    (Format::Linear, 4) => run::<false, 4>,
                    (Format::Linear, 5) => run::<false, 5>,
                    (Format::Linear, 6) => run::<false, 6>,
                    (Format::Linear, 7) => run::<false, 7>,
                    (Format::Linear, 8) => run::<false, 8>,
                    (Format::Dense, 1) => run::<true, 1>,
                    (Format::Dense, 2) => run::<true, 2>,
                    (Format::Dense, 3) => run::<true, 3>,
                    (Format::Dense, 4) => run::<true, 4>,
                    (Format::Dense, 5) => run::<true, 5>,
                    (Format::Dense, 6) => run::<true, 6>,
                    (Format::Dense, 7) => run::<true, 7>,
                    (Format::Dense, 8) => run::<true, 8>,
                    _ => return None,
                })
            }

            /// Looks up any number of keys.
            #[target_feature(enable = $features)]
            fn run<const DENSE: bool, const L: usize>(
                pin: Pinned<'_>,
                hashes: &[KeyHash],
                values: &mut [u8],
            ) {
                let rest = hashes.len() % LANES;
                let whole = hashes.len() - if rest <= SHORT { rest } else { 0 };
                if whole >= LANES {
                    many::<DENSE, L>(pin, &hashes[..whole], &mut values[..whole]);
                } else if whole > 0 {
                    let (keys, mut out) = (filled(hashes), [0; LANES]);
                    vectors::<DENSE, L, 1>(pin, &keys.0, 0, &mut out);
                    values.copy_from_slice(&out[..whole]);
                }
                for (hash, value) in hashes.iter().zip(values).skip(whole) {
                    *value = one(pin, hash.get());
                }
            }

            /// Looks up at least as many keys as a vector has lanes.
            #[inline]
            #[target_feature(enable = $features)]
            fn many<const DENSE: bool, const L: usize>(
                pin: Pinned<'_>,
                hashes: &[KeyHash],
                values: &mut [u8],
            ) {
                let count = hashes.len().div_ceil(LANES);
                if count >= pipelined_from(pin) {
                    return pipelined::<DENSE, L>(pin, hashes, values);
                }
                let mut first = 0;
                while first < count {
                    first += match count - first {
                        1 => vectors::<DENSE, L, 1>(pin, hashes, first, values),
                        2 => vectors::<DENSE, L, 2>(pin, hashes, first, values),
                        3 => vectors::<DENSE, L, 3>(pin, hashes, first, values),
                        _ => vectors::<DENSE, L, 4>(pin, hashes, first, values),
                    };
                }
            }

            /// Runs all three steps for `V` vectors from this one on, and returns `V`.
            #[target_feature(enable = $features)]
            fn vectors<const DENSE: bool, const L: usize, const V: usize>(
                pin: Pinned<'_>,
                hashes: &[KeyHash],
                first: usize,
                values: &mut [u8],
            ) -> usize {
                let (blocks, count) = (TableView::of(pin), pin.generation().params.blocks());
                let words = 8 + if DENSE { 64 } else { 32 } * L as u32;
                let (mut bucket, mut base) = ([_mm512_setzero_si512(); V], [_mm512_setzero_si512(); V]);
                for v in 0..V {
                    bucket[v] = buckets(keys(hashes, first + v), count);
                    base[v] = bases(&blocks, bucket[v], words);
                }
                let mut group = bucket;
                for v in 0..V {
                    group[v] = groups(&blocks, bucket[v], base[v]);
                }
                for v in 0..V {
                    let at = places::<DENSE, L>(base[v], group[v]);
                    let found = out(values, first + v);
                    answer::<DENSE, L>(pin, &blocks, keys(hashes, first + v), &at, found);
                }
                V
            }

            /// Pipelined: runs each step of a vector while the cache lines for other vectors are on the way.
            #[target_feature(enable = $features)]
            fn pipelined<const DENSE: bool, const L: usize>(
                pin: Pinned<'_>,
                hashes: &[KeyHash],
                values: &mut [u8],
            ) {
                let (blocks, count) = (TableView::of(pin), pin.generation().params.blocks());
                let vectors = hashes.len().div_ceil(LANES);
                let mut found = [[_mm512_setzero_si512(); 2]; RING];
                let mut at = [Lanes([0; LANES]); RING];
                for i in 0..vectors + FIELDS_BEHIND {
                    if i < vectors {
                        found[i % RING] = find::<DENSE, L>(&blocks, keys(hashes, i), count);
                    }
                    if (CHOICES_BEHIND..vectors + CHOICES_BEHIND).contains(&i) {
                        let vector = i - CHOICES_BEHIND;
                        let [bucket, base] = found[vector % RING];
                        at[vector % RING] = places::<DENSE, L>(base, groups(&blocks, bucket, base));
                        ask::<DENSE, L>(&blocks, &at[vector % RING]);
                    }
                    if i >= FIELDS_BEHIND {
                        let vector = i - FIELDS_BEHIND;
                        let (keys, out) = (keys(hashes, vector), out(values, vector));
                        answer::<DENSE, L>(pin, &blocks, keys, &at[vector % RING], out);
                    }
                }
            }

            /// The values of sixteen keys whose fields begin at these offsets.
            #[inline]
            #[target_feature(enable = $features)]
            fn answer<const DENSE: bool, const L: usize>(
                pin: Pinned<'_>,
                blocks: &TableView<'_>,
                keys: &Keys,
                at: &FieldOffsets,
                values: &mut [u8; LANES],
            ) {
                let marked = if DENSE {
                    answer64::<L>(blocks, keys, at, values)
                } else {
                    answer32::<L>(blocks, keys, at, values)
                };
                if marked != 0 {
                    correct(pin, keys, values, marked);
                }
            }

            /// The values of sixteen keys in 32-bit fields, and which of them are in marked groups.
            #[inline]
            #[target_feature(enable = $features)]
            fn answer32<const L: usize>(
                blocks: &TableView<'_>,
                keys: &Keys,
                at: &FieldOffsets,
                values: &mut [u8; LANES],
            ) -> u16 {
                let fields = fields32::<L>(blocks, at);
                let seeds = seeds32(&fields);
                let row = rows32::<L>(keys, seeds, blocks.rows);
                let mut value = _mm512_setzero_si512();
                for field in fields.into_iter().rev() {
                    let parity = _mm512_and_si512($parity32(_mm512_and_si512(field, row)), splat(1));
                    value = _mm512_or_si512(_mm512_add_epi32(value, value), parity);
                }
                // SAFETY: writes 16 bytes to an array of 16 bytes.
                unsafe { _mm_storeu_si128(values.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(value)) };
                _mm512_cmpeq_epi32_mask(seeds, splat(const { FieldLayout::new(32, L as u32).seeds() }))
            }

            /// The same for 64-bit fields: two times eight keys.
            #[inline]
            #[target_feature(enable = $features)]
            fn answer64<const L: usize>(
                blocks: &TableView<'_>,
                keys: &Keys,
                at: &FieldOffsets,
                values: &mut [u8; LANES],
            ) -> u16 {
                let (halves, hashes) = (values.as_chunks_mut::<8>().0, load(keys));
                let mut marked = 0;
                for (half, values) in halves.iter_mut().enumerate() {
                    let fields = fields64::<L>(blocks, &at.0[8 * half..]);
                    let seeds = seeds64(&fields);
                    let row = rows64::<L>(hashes[half], seeds, blocks.rows);
                    let mut value = _mm512_setzero_si512();
                    for field in fields.into_iter().rev() {
                        let parity = _mm512_and_si512($parity64(_mm512_and_si512(field, row)), splat64(1));
                        value = _mm512_or_si512(_mm512_add_epi64(value, value), parity);
                    }
                    // SAFETY: writes 8 bytes to an array of 8 bytes.
                    unsafe { _mm_storel_epi64(values.as_mut_ptr().cast(), _mm512_cvtepi64_epi8(value)) };
                    let seeds_end = splat64(const { FieldLayout::new(64, L as u32).seeds() as u64 });
                    marked |= u16::from(_mm512_cmpeq_epi64_mask(seeds, seeds_end)) << (8 * half);
                }
                marked
            }
        }
    };
}

kernel!(
    /// Parity with VPOPCNTDQ.
    counting,
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq",
    _mm512_popcnt_epi32,
    _mm512_popcnt_epi64
);

kernel!(
    /// Parity by folding.
    folding,
    "avx512f,avx512bw,avx512dq,avx512vl",
    parity32,
    parity64
);

/// The parity of each lane, in its lowest bit.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn parity32(x: __m512i) -> __m512i {
    let x = _mm512_xor_si512(x, _mm512_srli_epi32::<16>(x));
    let x = _mm512_xor_si512(x, _mm512_srli_epi32::<8>(x));
    let x = _mm512_xor_si512(x, _mm512_srli_epi32::<4>(x));
    _mm512_srlv_epi32(splat(PARITIES), _mm512_and_si512(x, splat(15)))
}
