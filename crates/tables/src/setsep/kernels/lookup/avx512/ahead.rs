//! The part of far tables, whose lines are asked for long before they are read.
//!
//! A pipeline of vectors: while vector `i` is found, the lines of choices of the [`CHOICES_BEHIND`] vectors before it are
//! on their way, and those of fields of the vectors before these. Nothing waits but the first and the last vectors of
//! a call, so longer calls gain more. A call of four vectors takes one step of all after the other.

use super::lanes::{lanes, splat, vector};
use super::{FieldOffsets, Keys, LANES, TableView, buckets};
use std::arch::x86_64::{__m512i, _MM_HINT_T0, _mm_prefetch, _mm512_mullo_epi32, _mm512_srli_epi32};

/// Vectors between a vector's first step and its second.
pub(super) const CHOICES_BEHIND: usize = 6;
/// Vectors between a vector's first step and its last.
pub(super) const FIELDS_BEHIND: usize = 15;
/// Vectors in the pipeline at once, and room for what they carry along: 3 KiB of the first cache.
pub(super) const RING: usize = FIELDS_BEHIND + 1;

/// Asks for the line of a 32-bit word, to be read soon; any place will do.
#[inline(always)]
fn prefetch(blocks: &TableView<'_>, half: usize) {
    let place = blocks.words().cast::<u32>().wrapping_add(half);
    // SAFETY: a hint, which reads nothing and faults nowhere.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
}

/// The bucket of each key and the first word of its block, whose choices it asks for.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn find<const DENSE: bool, const L: usize>(
    blocks: &TableView<'_>,
    keys: &Keys,
    count: u32,
) -> [__m512i; 2] {
    let words = 8 + if DENSE { 64 } else { 32 } * L as u32;
    let bucket = buckets(keys, count);
    let numbers: [u32; LANES] = lanes(_mm512_srli_epi32::<8>(bucket));
    let slots = vector(|i| {
        // SAFETY: numbers of blocks: scaled hashes are below the number of all buckets.
        let slot = unsafe { blocks.slot(numbers[i]) };
        prefetch(blocks, slot as usize * 2 * words as usize);
        slot
    });
    [bucket, _mm512_mullo_epi32(slots, splat(words))]
}

/// Asks for the fields that begin at these places.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn ask<const DENSE: bool, const L: usize>(blocks: &TableView<'_>, at: &FieldOffsets) {
    let halves = if DENSE { 2 } else { 1 };
    for &at in at {
        prefetch(blocks, at as usize * halves);
        if !L.is_power_of_two() {
            prefetch(blocks, (at as usize + L - 1) * halves); // groups may straddle lines
        }
    }
}
