//! Lookups in plain Rust: the form for every processor, and for single keys.
//!
//! A batch passes through the paper's three stages (§4.4): slot, choice, group. Each stage prefetches the
//! lines that the next one reads. A single key passes through all stages at once. The processor overlaps
//! several short lookups by itself, so for one and two value bits everything that format and value bits
//! determine is fixed at compile time.

#![allow(unsafe_code)]

use super::{BatchKernel, TableView, in_fallback};
use crate::setsep::brute::{self, WordSource};
use crate::setsep::format::Format;
use crate::setsep::geometry::{Family, GROUPS, OFFSETS, bucket_of};
use crate::setsep::layout::CHOICE_WORDS;
use crate::setsep::linear::FieldLayout;
use crate::setsep::params::Params;
use crate::setsep::structure::Pinned;
use scalebricks_types::KeyHash;

/// Number of keys in flight at once.
const WIDTH: usize = 32;

/// How the groups of a format compute values.
pub(super) trait Groups {
    /// Bits per group.
    #[inline(always)]
    fn bits(params: &Params) -> usize {
        params.group_bits()
    }

    /// The value that a group returns for a key, or `None` if the group is marked.
    ///
    /// # Safety
    /// A block must begin at word `base`, and have such a group.
    unsafe fn evaluate(
        blocks: &TableView<'_>,
        params: &Params,
        base: usize,
        group: usize,
        hash: u64,
    ) -> Option<u8>;
}

/// Groups of equations: fields of `WIDTH` bits, and values of `L` bits, or of the table's value bits if `L`
/// is 0.
pub(super) struct Linear<const WIDTH: u32, const L: usize>;

/// Groups with an index of `INDEX` bits and 2^`POSITION` array cells.
pub(super) struct Searched<const INDEX: u32, const POSITION: u32>;

/// Groups of the searched family of [`brute`].
pub(super) struct Brute;

/// The kernel for a format and values of `bits` bits.
pub(super) fn batch(format: Format, bits: u8) -> BatchKernel {
    match (format, bits) {
        (Format::Linear, 1) => stages::<Linear<32, 1>>,
        (Format::Linear, 2) => stages::<Linear<32, 2>>,
        (Format::Linear, 4) => stages::<Linear<32, 4>>,
        (Format::Linear, _) => stages::<Linear<32, 0>>,
        (Format::Dense, 1) => stages::<Linear<64, 1>>,
        (Format::Dense, 2) => stages::<Linear<64, 2>>,
        (Format::Dense, 4) => stages::<Linear<64, 4>>,
        (Format::Dense, _) => stages::<Linear<64, 0>>,
        (Format::Paper16x8, _) => stages::<Searched<16, 3>>,
        (Format::Paper8x16, _) => stages::<Searched<8, 4>>,
        (Format::Paper16x16, _) => stages::<Searched<16, 4>>,
        (Format::Brute, _) => stages::<Brute>,
    }
}

/// Looks up one key directly, without arrays or prefetches.
#[inline(always)]
pub(super) fn one(pin: Pinned<'_>, hash: u64) -> u8 {
    match (pin.generation().params.format(), pin.generation().params.value_bits()) {
        (Format::Linear, 1) => through::<Linear<32, 1>>(pin, hash),
        (Format::Linear, 2) => through::<Linear<32, 2>>(pin, hash),
        (Format::Dense, 1) => through::<Linear<64, 1>>(pin, hash),
        (Format::Dense, 2) => through::<Linear<64, 2>>(pin, hash),
        (format, _) => any(pin, format, hash),
    }
}

/// Looks up one key in the other formats.
#[inline(never)]
fn any(pin: Pinned<'_>, format: Format, hash: u64) -> u8 {
    match format {
        Format::Linear => through::<Linear<32, 0>>(pin, hash),
        Format::Dense => through::<Linear<64, 0>>(pin, hash),
        Format::Paper16x8 => through::<Searched<16, 3>>(pin, hash),
        Format::Paper8x16 => through::<Searched<8, 4>>(pin, hash),
        Format::Paper16x16 => through::<Searched<16, 4>>(pin, hash),
        Format::Brute => through::<Brute>(pin, hash),
    }
}

#[inline(always)]
fn through<G: Groups>(pin: Pinned<'_>, hash: u64) -> u8 {
    let (blocks, params) = (TableView::of(pin), &pin.generation().params);
    let (block, bucket) = bucket_of(hash, params.blocks());
    // SAFETY: a scaled hash is a valid block number; its slot holds a block.
    let (slot, found) = unsafe {
        let slot = blocks.slot(block);
        let base = slot as usize * (CHOICE_WORDS + G::bits(params));
        let group = group(&blocks, base, bucket);
        (slot, G::evaluate(&blocks, params, base, group, hash))
    };
    found.unwrap_or_else(|| in_fallback(pin, slot, hash))
}

/// The group that a bucket chose.
///
/// # Safety
/// A block must begin at word `base`.
#[inline(always)]
unsafe fn group(blocks: &TableView<'_>, base: usize, bucket: usize) -> usize {
    // SAFETY: reads one of the block's words of choices.
    let choices = unsafe { blocks.word(base + bucket / 32 % CHOICE_WORDS) };
    let choice = (choices >> (bucket % 32 * 2)) as usize & 3;
    (bucket + usize::from(OFFSETS[bucket / 64 % 4 * 4 + choice])) % GROUPS
}

/// Looks up [`WIDTH`] keys at a time in three stages. Each stage prefetches what the next one reads.
#[inline(always)]
pub(super) fn stages<G: Groups>(pin: Pinned<'_>, hashes: &[KeyHash], values: &mut [u8]) {
    let (blocks, params) = (TableView::of(pin), &pin.generation().params);
    let (bits, words) = (G::bits(params), CHOICE_WORDS + G::bits(params));
    for (hashes, values) in hashes.chunks(WIDTH).zip(values.chunks_mut(WIDTH)) {
        let (mut slots, mut groups) = ([0; WIDTH], [0; WIDTH]);
        for ((hash, slot), bucket) in hashes.iter().zip(&mut slots).zip(&mut groups) {
            let block;
            (block, *bucket) = bucket_of(hash.get(), params.blocks());
            // SAFETY: a scaled hash is a valid block number.
            *slot = unsafe { blocks.slot(block) };
            blocks.prefetch(*slot as usize * words);
        }
        for (&slot, group_of) in slots.iter().zip(&mut groups).take(hashes.len()) {
            let base = slot as usize * words;
            // SAFETY: `base` is the slot of a block.
            *group_of = unsafe { group(&blocks, base, *group_of) };
            let first = CHOICE_WORDS * 64 + *group_of * bits;
            blocks.prefetch(base + first / 64);
            if !512_usize.is_multiple_of(bits) {
                blocks.prefetch(base + (first + bits - 1) / 64); // groups may straddle lines
            }
        }
        for (((hash, value), &slot), &group) in hashes.iter().zip(values).zip(&slots).zip(&groups) {
            // SAFETY: the slot holds a block.
            let found = unsafe { G::evaluate(&blocks, params, slot as usize * words, group, hash.get()) };
            *value = found.unwrap_or_else(|| in_fallback(pin, slot, hash.get()));
        }
    }
}

impl<const WIDTH: u32, const L: usize> Groups for Linear<WIDTH, L> {
    #[inline(always)]
    fn bits(params: &Params) -> usize {
        if L == 0 { params.group_bits() } else { WIDTH as usize * L }
    }

    #[inline(always)]
    unsafe fn evaluate(
        blocks: &TableView<'_>,
        params: &Params,
        base: usize,
        group: usize,
        hash: u64,
    ) -> Option<u8> {
        let bits = if L == 0 { usize::from(params.value_bits()) } else { L };
        let shape = FieldLayout::new(WIDTH, bits as u32);
        let base = base + CHOICE_WORDS;
        // SAFETY: reads only words of the group's fields.
        let word = |at: usize| unsafe { blocks.word(base + at) };
        let mut fields = [0; 8];
        if WIDTH == 64 {
            (0..bits).for_each(|bit| fields[bit] = word(group * bits + bit));
        } else if L > 0 && L.is_multiple_of(2) {
            for pair in 0..L / 2 {
                let both = word(group * (L / 2) + pair);
                (fields[2 * pair], fields[2 * pair + 1]) = (both & 0xFFFF_FFFF, both >> 32);
            }
        } else {
            for (bit, field) in fields.iter_mut().enumerate().take(bits) {
                let at = group * bits + bit;
                *field = word(at / 2) >> (at % 2 * 32) & 0xFFFF_FFFF;
            }
        }
        let seed = shape.seed(&fields);
        if seed == shape.seeds() {
            return None;
        }
        let row = blocks.rows.row_in(shape, hash, seed);
        let bits = fields.iter().take(bits);
        Some(bits.rev().fold(0, |value, field| value << 1 | (field & row).count_ones() as u8 & 1))
    }
}

/// 64 bits of a group from a bit on; past the block's end, bits repeat.
///
/// # Safety
/// A block must begin at word `base`, and have such a group with such a bit.
#[inline(always)]
unsafe fn window(blocks: &TableView<'_>, params: &Params, base: usize, group: usize, bit: usize) -> u64 {
    let at = CHOICE_WORDS * 64 + group * params.group_bits() + bit;
    let (first, shift, last) = (at / 64, at % 64, params.slot_words() - 1);
    // SAFETY: the first is a word of the group, and the second is not past the block's last word.
    let (low, high) = unsafe { (blocks.word(base + first), blocks.word(base + (first + 1).min(last))) };
    low >> shift | high << 1 << (63 - shift)
}

impl<const INDEX: u32, const POSITION: u32> Groups for Searched<INDEX, POSITION> {
    #[inline(always)]
    unsafe fn evaluate(
        blocks: &TableView<'_>,
        params: &Params,
        base: usize,
        group: usize,
        hash: u64,
    ) -> Option<u8> {
        let marker = (1u32 << INDEX) - 1;
        let field_bits = INDEX as usize + (1 << POSITION);
        let family = Family::of(hash, params.seed());
        let bits = usize::from(params.value_bits());
        let cell = |field: u64| {
            let position = family.position(field as u32 & marker, POSITION);
            ((field >> INDEX >> position) & 1) as u8
        };
        // SAFETY: these are bits of the group.
        let window = |bit| unsafe { window(blocks, params, base, group, bit) };
        let whole = window(0);
        if whole as u32 & marker == marker {
            return None;
        }
        let mut value = cell(whole);
        if bits * field_bits <= 64 {
            for bit in 1..bits {
                value |= cell(whole >> (bit * field_bits)) << bit;
            }
        } else {
            for bit in 1..bits {
                value |= cell(window(bit * field_bits)) << bit;
            }
        }
        Some(value)
    }
}

impl Groups for Brute {
    #[inline(always)]
    unsafe fn evaluate(
        blocks: &TableView<'_>,
        params: &Params,
        base: usize,
        group: usize,
        hash: u64,
    ) -> Option<u8> {
        // SAFETY: these are bits of the group.
        let window = |bit| unsafe { window(blocks, params, base, group, bit) };
        let (words, first) = (WordSource::of(params), window(0));
        if brute::is_marked(first) {
            return None;
        }
        let mut value = brute::cell(first, words, hash);
        for bit in 1..usize::from(params.value_bits()) {
            value |= brute::cell(window(bit * 24), words, hash) << bit;
        }
        Some(value)
    }
}
