//! Lookups in plain Rust: the definition of what a lookup reads, and the form of every processor.

use super::{Batch, in_fallback};
use crate::prefetch::prefetch_read;
use crate::setsep::arena::Line;
use crate::setsep::format::Format;
use crate::setsep::geometry::{OFFSETS, bucket_of, family};
use crate::setsep::image::CHOICE_WORDS;
use crate::setsep::linear::Shape;
use crate::setsep::query::SetSep;
use crate::setsep::reader::SetSepPin;
use crate::setsep::sync::Ordering;
use scalebricks_types::KeyHash;

/// Keys in flight at once.
const WIDTH: usize = 32;

/// How the groups of a format answer.
pub(super) trait Groups {
    /// The value the group at a bit position of a block's lines gives a key, or `None` if it is marked.
    fn evaluate(table: &SetSep, lines: &[Line], at: usize, hash: u64) -> Option<u8>;
}

/// Groups of equations: fields of `WIDTH` bits, values of `L`, or, if that is 0, of as many as the table says.
pub(super) struct Linear<const WIDTH: u32, const L: usize>;

/// Groups of `INDEX` bits of index and 2^`POSITION` array cells.
pub(super) struct Searched<const INDEX: u32, const POSITION: u32>;

/// The kernel for a format and values of so many bits.
pub(super) fn batch(format: Format, bits: u8) -> Batch {
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
    }
}

/// One key, straight through: no arrays, no prefetches.
#[inline(always)]
pub(in crate::setsep) fn one(pin: &SetSepPin<'_>, hash: u64) -> u8 {
    match (pin.table().params.format(), pin.table().params.value_bits()) {
        (Format::Linear, 1) => through::<Linear<32, 1>>(pin, hash),
        (Format::Linear, 2) => through::<Linear<32, 2>>(pin, hash),
        (Format::Dense, 1) => through::<Linear<64, 1>>(pin, hash),
        (Format::Dense, 2) => through::<Linear<64, 2>>(pin, hash),
        (format, _) => any(pin, format, hash),
    }
}

/// One key of the other formats.
#[inline(never)]
fn any(pin: &SetSepPin<'_>, format: Format, hash: u64) -> u8 {
    match format {
        Format::Linear => through::<Linear<32, 0>>(pin, hash),
        Format::Dense => through::<Linear<64, 0>>(pin, hash),
        Format::Paper16x8 => through::<Searched<16, 3>>(pin, hash),
        Format::Paper8x16 => through::<Searched<8, 4>>(pin, hash),
        Format::Paper16x16 => through::<Searched<16, 4>>(pin, hash),
    }
}

#[inline(always)]
fn through<G: Groups>(pin: &SetSepPin<'_>, hash: u64) -> u8 {
    let table = pin.table();
    let (block, bucket) = bucket_of(hash, table.params.blocks());
    let slot = table.arena.slot(block);
    let lines = table.arena.block(slot);
    let at = group_at(table, lines, bucket);
    G::evaluate(table, lines, at, hash).unwrap_or_else(|| in_fallback(pin, slot, hash))
}

/// The first bit of the group that a bucket of a block chose.
#[inline(always)]
fn group_at(table: &SetSep, lines: &[Line], bucket: usize) -> usize {
    let choices = lines[0].0[bucket / 32 % CHOICE_WORDS].load(Ordering::Relaxed);
    let choice = (choices >> (bucket % 32 * 2)) as usize & 3;
    let group = (bucket + usize::from(OFFSETS[bucket / 64 % 4 * 4 + choice])) % 64;
    CHOICE_WORDS * 64 + group * table.params.group_bits()
}

/// Up to [`WIDTH`] keys at a time in three stages, each asking for what the next will read.
#[inline(always)]
pub(super) fn stages<G: Groups>(pin: &SetSepPin<'_>, hashes: &[KeyHash], values: &mut [u8]) {
    let table = pin.table();
    for (hashes, values) in hashes.chunks(WIDTH).zip(values.chunks_mut(WIDTH)) {
        let (mut slots, mut places) = ([0; WIDTH], [0; WIDTH]);
        for ((hash, slot), place) in hashes.iter().zip(&mut slots).zip(&mut places) {
            let (block, bucket) = bucket_of(hash.get(), table.params.blocks());
            *slot = table.arena.slot(block);
            *place = bucket;
            prefetch_read(&table.arena.block(*slot)[0]);
        }
        for (&slot, place) in slots.iter().zip(&mut places).take(hashes.len()) {
            let lines = table.arena.block(slot);
            *place = group_at(table, lines, *place);
            prefetch_read(&lines[*place / 512]);
            prefetch_read(&lines[(*place + table.params.group_bits() - 1) / 512]);
        }
        for (((hash, value), &slot), &at) in hashes.iter().zip(values).zip(&slots).zip(&places) {
            let found = G::evaluate(table, table.arena.block(slot), at, hash.get());
            *value = found.unwrap_or_else(|| in_fallback(pin, slot, hash.get()));
        }
    }
}

impl<const WIDTH: u32, const L: usize> Groups for Linear<WIDTH, L> {
    #[inline(always)]
    fn evaluate(table: &SetSep, lines: &[Line], at: usize, hash: u64) -> Option<u8> {
        let bits = if L == 0 { usize::from(table.params.value_bits()) } else { L };
        let shape = Shape::new(WIDTH, bits as u32);
        let mut fields = [0; 8];
        for (bit, field) in fields.iter_mut().enumerate().take(bits) {
            let at = at + bit * WIDTH as usize;
            let word = lines[at / 512].0[at / 64 % 8].load(Ordering::Relaxed);
            *field = if WIDTH == 64 { word } else { word >> (at % 64) & 0xFFFF_FFFF };
        }
        let seed = shape.seed(&fields);
        if seed == shape.seeds() {
            return None;
        }
        let row = table.rows.row_in(shape, hash, seed);
        let bits = fields.iter().take(bits);
        Some(bits.rev().fold(0, |value, field| value << 1 | (field & row).count_ones() as u8 & 1))
    }
}

/// 64 bits from a bit position on; zeros, or repeated bits, behind the block's end.
#[inline(always)]
fn window(lines: &[Line], at: usize) -> u64 {
    let word = |word: usize| lines[word / 8].0[word % 8].load(Ordering::Relaxed);
    let (first, shift) = (at / 64, at % 64);
    let second = (first + 1).min(lines.len() * 8 - 1);
    word(first) >> shift | word(second) << 1 << (63 - shift)
}

impl<const INDEX: u32, const POSITION: u32> Groups for Searched<INDEX, POSITION> {
    #[inline(always)]
    fn evaluate(table: &SetSep, lines: &[Line], at: usize, hash: u64) -> Option<u8> {
        let marker = (1u32 << INDEX) - 1;
        let field_bits = INDEX + (1 << POSITION);
        let (g1, g2) = family(hash, table.params.seed());
        let bits = u32::from(table.params.value_bits());
        let cell = |field: u64| {
            let position = g1.wrapping_add((field as u32 & marker).wrapping_mul(g2)) >> (32 - POSITION);
            ((field >> INDEX >> position) & 1) as u8
        };
        let whole = window(lines, at);
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
                value |= cell(window(lines, at + (bit * field_bits) as usize)) << bit;
            }
        }
        Some(value)
    }
}
