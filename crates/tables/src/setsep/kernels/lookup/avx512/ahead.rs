//! Prefetching for far tables: cache lines are prefetched long before they are read.
//!
//! It is a pipeline of vectors. While the blocks of vector `i` are found, the lines of choices of the
//! [`CHOICES_BEHIND`] vectors before it are on the way, and so are the lines of fields of the vectors before
//! these. Only the first and the last vectors of a call wait, so longer calls gain more. A call of four
//! vectors runs each step for all vectors, one step after the other.

use super::{FieldOffsets, TableView, buckets};
use crate::lanes::avx512::{Keys, lanes, splat};
use crate::lanes::vector;
use std::arch::x86_64::{__m512i, _MM_HINT_T0, _mm_prefetch, _mm512_mullo_epi32, _mm512_srli_epi32};

/// Number of vectors between a vector's first step and its second.
pub(super) const CHOICES_BEHIND: usize = 6;
/// Number of vectors between a vector's first step and its last.
pub(super) const FIELDS_BEHIND: usize = 15;
/// Number of vectors in the pipeline at once, with room for their intermediate results: 3 KiB of the L1
/// cache.
pub(super) const RING: usize = FIELDS_BEHIND + 1;

/// Prefetches the line of a 32-bit word, for a read soon. Any index is valid.
#[inline(always)]
fn prefetch(blocks: &TableView<'_>, half: usize) {
    let place = blocks.words().cast::<u32>().wrapping_add(half);
    // SAFETY: a prefetch hint reads nothing and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
}

/// The bucket of each key and the first word of its block. Prefetches the block's choices.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn find<const DENSE: bool, const L: usize>(
    blocks: &TableView<'_>,
    keys: &Keys,
    count: u32,
) -> [__m512i; 2] {
    let words = 8 + if DENSE { 64 } else { 32 } * L as u32;
    let bucket = buckets(keys, count);
    let numbers = lanes(_mm512_srli_epi32::<8>(bucket));
    let slots = vector!(|i| {
        // SAFETY: these are valid block numbers: scaled hashes are below the total number of buckets.
        let slot = unsafe { blocks.slot(numbers.0[i]) };
        prefetch(blocks, slot as usize * 2 * words as usize);
        slot
    });
    [bucket, _mm512_mullo_epi32(slots, splat(words))]
}

/// Prefetches the fields that begin at these offsets.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn ask<const DENSE: bool, const L: usize>(blocks: &TableView<'_>, at: &FieldOffsets) {
    let halves = if DENSE { 2 } else { 1 };
    for at in at.0 {
        prefetch(blocks, at as usize * halves);
        if !L.is_power_of_two() {
            prefetch(blocks, (at as usize + L - 1) * halves); // groups may straddle lines
        }
    }
}
