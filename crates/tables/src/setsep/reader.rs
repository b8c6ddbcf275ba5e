//! Lookups: the paper's three prefetched stages over a batch, or one key under a pin.

use super::arena::Line;
use super::brute::{self, Words};
use super::epoch::Reader;
use super::face::Face;
use super::format::Format;
use super::geometry::{CANDIDATES, Family, bucket_of};
use super::image::CHOICE_WORDS;
use super::linear::{Rows, Shape};
use super::query::SetSep;
use super::shapes::Shapes;
use super::sync::Ordering;
use crate::gpt::{GptReader, KeyBatch};
use crate::prefetch::prefetch_read;
use arc_swap::{ArcSwap, Cache};
use scalebricks_types::{KeyHash, NodeHint};
use std::sync::Arc;

/// Keys in flight at once (paper §4.4: batches of up to 32).
const WIDTH: usize = 32;
/// Keys looked up under one pin: what a writer may have to wait for.
const PIN_KEYS: usize = 256;

/// One thread's reader of a [`SetSep`].
///
/// Each key of a batch gets its value before or after any update running beside it, never a third; two keys of one
/// batch may see different updates.
#[derive(Debug)]
pub struct SetSepReader {
    table: Arc<SetSep>,
    shapes: Cache<Arc<ArcSwap<Shapes>>, Arc<Shapes>>,
    cell: Reader,
}

/// A reader at work: what it can see is not written over until it is dropped. Hold it for microseconds: a writer
/// out of spare slots waits for it.
#[derive(Debug)]
pub struct SetSepPin<'a> {
    shapes: &'a Shapes,
    cell: &'a Reader,
}

impl SetSepReader {
    /// A reader for one thread.
    pub fn new(table: Arc<SetSep>) -> Self {
        let cell = table.epochs.register();
        let shapes = Cache::new(Arc::clone(&table.shapes));
        Self { table, shapes, cell }
    }

    /// The table it reads.
    pub const fn table(&self) -> &Arc<SetSep> {
        &self.table
    }

    /// Begins reading. Cost: one fence, paid once for all keys looked up under the pin.
    pub fn pin(&mut self) -> SetSepPin<'_> {
        self.table.epochs.pin(&self.cell);
        SetSepPin { shapes: self.shapes.load(), cell: &self.cell }
    }

    /// The value of each key: right for keys of the table, arbitrary for others.
    ///
    /// Cost: three lines a key (index word, choices, group; the group of 2-bit values straddles two lines in one
    /// case of eleven), of which the index (8 bytes a block) is small enough to stay cached. A key in the fallback
    /// costs one line more for each six keys before it. One pin for each 256 keys.
    ///
    /// # Panics
    /// If `values` is shorter than `hashes`.
    pub fn lookup_batch(&mut self, hashes: &[KeyHash], values: &mut [u8]) {
        let values = &mut values[..hashes.len()];
        for (hashes, values) in hashes.chunks(PIN_KEYS).zip(values.chunks_mut(PIN_KEYS)) {
            self.pin().lookup(hashes, values);
        }
    }
}

impl SetSepPin<'_> {
    /// The value of one key.
    ///
    /// Cost: the same three lines as in a batch, one after the other.
    #[inline]
    pub fn get(&self, hash: KeyHash) -> u8 {
        let mut value = [0];
        self.lookup(&[hash], &mut value);
        value[0]
    }

    #[inline]
    fn lookup(&self, hashes: &[KeyHash], values: &mut [u8]) {
        if self.shapes.next.is_some() && hashes.len() > 1 {
            values.iter_mut().zip(hashes).for_each(|(value, &hash)| *value = self.get(hash));
            return;
        }
        let Some(first) = hashes.first() else { return };
        let table = self.shapes.of(first.get());
        for (hashes, values) in hashes.chunks(WIDTH).zip(values.chunks_mut(WIDTH)) {
            match table.params.format() {
                Format::Linear => stages(table, hashes, values, linear::<32>),
                Format::Dense => stages(table, hashes, values, linear::<64>),
                Format::Paper16x8 => stages(table, hashes, values, searched::<16, 3>),
                Format::Paper8x16 => stages(table, hashes, values, searched::<8, 4>),
                Format::Paper16x16 => stages(table, hashes, values, searched::<16, 4>),
                Format::Brute => stages(table, hashes, values, brute),
            }
        }
    }
}

impl Drop for SetSepPin<'_> {
    fn drop(&mut self) {
        self.cell.unpin();
    }
}

/// The value a group gives a key, or `None` if the group is marked: table, its block's lines, the group's first bit, hash.
type Evaluate = fn(&Face, &[Line], usize, u64) -> Option<u8>;

/// Up to [`WIDTH`] keys.
#[inline(always)]
fn stages(table: &Face, hashes: &[KeyHash], values: &mut [u8], evaluate: Evaluate) {
    let (arena, blocks) = (&table.arena, table.params.blocks());
    let group_bits = table.params.group_bits();
    let mut indexes = [0; WIDTH];
    let mut places = [0; WIDTH];
    for ((hash, index), place) in hashes.iter().zip(&mut indexes).zip(&mut places) {
        let (block, bucket) = bucket_of(hash.get(), blocks);
        *index = arena.index(block);
        *place = bucket;
        prefetch_read(&arena.block(*index)[0]);
    }
    for (&index, place) in indexes.iter().zip(&mut places).take(hashes.len()) {
        let lines = arena.block(index);
        let (bucket, choices) = (*place, &lines[0].0);
        let choice = choices[bucket / 32 % CHOICE_WORDS].load(Ordering::Relaxed) >> (bucket % 32 * 2) & 3;
        let group = usize::from(CANDIDATES[bucket][choice as usize]);
        let at = CHOICE_WORDS * 64 + group * group_bits;
        prefetch_read(&lines[at / 512]);
        prefetch_read(&lines[(at + group_bits - 1) / 512]);
        *place = at;
    }
    for (((hash, value), &index), &at) in hashes.iter().zip(values).zip(&indexes).zip(&places) {
        let found = evaluate(table, arena.block(index), at, hash.get());
        *value = found.unwrap_or_else(|| in_fallback(table, index, hash.get()));
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

/// Groups of equations, fields of `WIDTH` bits.
#[inline(always)]
fn linear<const WIDTH: u32>(table: &Face, lines: &[Line], at: usize, hash: u64) -> Option<u8> {
    let (shape, rows) = (Shape::of(&table.params), Rows::of(&table.params));
    let mut fields = [0; 8];
    for (bit, field) in fields.iter_mut().enumerate().take(table.params.value_bits().into()) {
        let at = at + bit * WIDTH as usize;
        let word = lines[at / 512].0[at / 64 % 8].load(Ordering::Relaxed);
        *field = if WIDTH == 64 { word } else { word >> (at % 64) & 0xFFFF_FFFF };
    }
    let seed = shape.seed(&fields);
    if seed == shape.seeds() {
        return None;
    }
    let row = rows.row(hash, seed);
    let bits = fields.iter().take(table.params.value_bits().into());
    Some(bits.rev().fold(0, |value, field| value << 1 | (field & row).count_ones() as u8 & 1))
}

/// Groups of `INDEX` bits of index and 2^`POSITION` array cells.
#[inline(always)]
fn searched<const INDEX: u32, const POSITION: u32>(
    table: &Face,
    lines: &[Line],
    at: usize,
    hash: u64,
) -> Option<u8> {
    let marker = (1u32 << INDEX) - 1;
    let field_bits = INDEX + (1 << POSITION);
    let family = Family::of(hash, table.params.seed());
    let bits = u32::from(table.params.value_bits());
    let cell = |field: u64| {
        let position = family.position(field as u32 & marker, INDEX, POSITION);
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

/// Groups of the searched family of [`brute`].
#[inline(always)]
fn brute(table: &Face, lines: &[Line], at: usize, hash: u64) -> Option<u8> {
    let words = Words::of(&table.params);
    let first = window(lines, at);
    if brute::is_marked(first) {
        return None;
    }
    let mut value = brute::cell(first, words, hash);
    for bit in 1..usize::from(table.params.value_bits()) {
        value |= brute::cell(window(lines, at + bit * 24), words, hash) << bit;
    }
    Some(value)
}

/// The value of a key of a marked group: 0 if it is not in the list, as for any key that was never inserted.
#[cold]
fn in_fallback(table: &Face, index: u64, hash: u64) -> u8 {
    let found = table.arena.fallback(index).find(|&(held, _)| held >= hash);
    found.filter(|&(held, _)| held == hash).map_or(0, |(_, value)| value)
}

impl GptReader for SetSepReader {
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        let hints = &mut hints[..keys.len()];
        let mut values = [0; PIN_KEYS];
        for (hashes, hints) in keys.hashes().chunks(PIN_KEYS).zip(hints.chunks_mut(PIN_KEYS)) {
            self.pin().lookup(hashes, &mut values[..hashes.len()]);
            for (hint, &value) in hints.iter_mut().zip(&values) {
                *hint = NodeHint::new(value.into());
            }
        }
    }
}
