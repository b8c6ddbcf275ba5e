//! What a SetSep delta carries: the parameters' fingerprint (32 bits), the number of changed blocks, and for each
//! its number in the partition and what changed, bit-packed.
//!
//! | field | bits |
//! |---|---|
//! | block number in the partition | ⌈log2(blocks a partition + 1)⌉ |
//! | whole block? | 1 |
//! | *if whole:* all choices, all groups | 512 + 64 x group |
//! | *else:* number of choices; each: bucket, choice | 9; 8 + 2 |
//! | and number of groups; each: number, bits | 7; 6 + group |
//! | new fallback list? | 1 |
//! | *if so:* its length; each: hash, value | 12; 64 + l |
//!
//! Block, bucket, group and hash ascend strictly. The rest of the last byte is 0. A changed group of 2-bit values
//! costs 70 bits.

use super::geometry::{BUCKETS, GROUPS, bucket_of};
use super::params::Params;
use super::solver::{self, Fields};
use scalebricks_types::{ApplyError, PartitionId};

/// Everything that changed in one block.
#[derive(Debug, Default)]
pub(super) struct BlockChange {
    pub(super) block: u32,
    pub(super) whole: bool,
    pub(super) choices: Vec<(u8, u8)>,
    pub(super) groups: Vec<(u8, Fields)>,
    pub(super) fallback: Option<Vec<(u64, u8)>>,
}

fn block_width(params: &Params) -> u32 {
    u32::BITS - params.blocks_per_partition().leading_zeros()
}

/// Writes payloads.
#[derive(Debug)]
pub(super) struct PayloadWriter<'a> {
    params: &'a Params,
    bytes: Vec<u8>,
    held: u128,
    held_bits: u32,
}

impl<'a> PayloadWriter<'a> {
    /// A payload of this many blocks.
    pub(super) fn new(params: &'a Params, blocks: u32) -> Self {
        let bytes = params.fingerprint().to_le_bytes().to_vec();
        let mut writer = Self { params, bytes, held: 0, held_bits: 0 };
        writer.put(u64::from(blocks), block_width(params));
        writer
    }

    fn put(&mut self, value: u64, bits: u32) {
        self.held |= u128::from(value) << self.held_bits;
        self.held_bits += bits;
        while self.held_bits >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.held_bits -= 8;
        }
    }

    fn put_fields(&mut self, fields: &Fields) {
        for &field in &fields[..self.params.value_bits().into()] {
            self.put(field, self.params.format().field_bits());
        }
    }

    /// Adds a block; blocks come in ascending order.
    pub(super) fn block(&mut self, change: &BlockChange) {
        let first = change.block / self.params.blocks_per_partition() * self.params.blocks_per_partition();
        self.put(u64::from(change.block - first), block_width(self.params));
        self.put(change.whole.into(), 1);
        if !change.whole {
            self.put(change.choices.len() as u64, 9);
        }
        for &(bucket, choice) in &change.choices {
            if !change.whole {
                self.put(bucket.into(), 8);
            }
            self.put(choice.into(), 2);
        }
        if !change.whole {
            self.put(change.groups.len() as u64, 7);
        }
        for (group, fields) in &change.groups {
            if !change.whole {
                self.put((*group).into(), 6);
            }
            self.put_fields(fields);
        }
        self.put(change.fallback.is_some().into(), 1);
        let Some(pairs) = &change.fallback else { return };
        self.put(pairs.len() as u64, 12);
        for &(hash, value) in pairs {
            self.put(hash, 64);
            self.put(value.into(), self.params.value_bits().into());
        }
    }

    /// The payload.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.held_bits > 0 {
            self.bytes.push(self.held as u8);
        }
        self.bytes
    }
}

/// Reads a payload from anywhere, checking everything that can be checked without the table.
#[derive(Debug, Clone)]
pub(super) struct PayloadReader<'a> {
    params: &'a Params,
    first_block: u32,
    blocks_left: u32,
    next_block: u32,
    bytes: &'a [u8],
    at_bit: usize,
}

type Parsed<T> = Result<T, ApplyError>;

const fn malformed<T>(what: &'static str) -> Parsed<T> {
    Err(ApplyError::Malformed(what))
}

impl<'a> PayloadReader<'a> {
    pub(super) fn new(params: &'a Params, partition: PartitionId, bytes: &'a [u8]) -> Parsed<Self> {
        let Some((fingerprint, bytes)) = bytes.split_first_chunk::<4>() else {
            return malformed("shorter than its fingerprint");
        };
        if u32::from_le_bytes(*fingerprint) != params.fingerprint() {
            return malformed("made with other parameters");
        }
        let first_block = u32::from(partition.0) * params.blocks_per_partition();
        let mut reader = Self { params, first_block, blocks_left: 0, next_block: 0, bytes, at_bit: 0 };
        reader.blocks_left = reader.take(block_width(params))? as u32; // at most 25 bits wide
        if reader.blocks_left > params.blocks_per_partition() {
            return malformed("more blocks than the partition has");
        }
        Ok(reader)
    }

    fn take(&mut self, bits: u32) -> Parsed<u64> {
        let end = self.at_bit + bits as usize;
        if end > self.bytes.len() * 8 {
            return malformed("truncated");
        }
        let (first, last) = (self.at_bit / 8, end.div_ceil(8));
        let held =
            self.bytes[first..last].iter().rev().fold(0u128, |held, &byte| held << 8 | u128::from(byte));
        let value = held >> (self.at_bit % 8) & ((1u128 << bits) - 1);
        self.at_bit = end;
        Ok(value as u64)
    }

    fn take_fields(&mut self) -> Parsed<Fields> {
        let format = self.params.format();
        let mut fields = [0; 8];
        for field in &mut fields[..self.params.value_bits().into()] {
            *field = self.take(format.field_bits())?;
        }
        if solver::is_clean(&fields, self.params) {
            Ok(fields)
        } else {
            malformed("a group that no one stores")
        }
    }

    /// The next block into `change`, or `false` at the end.
    pub(super) fn next(&mut self, change: &mut BlockChange) -> Parsed<bool> {
        if self.blocks_left == 0 {
            let rest = self.bytes.len() * 8 - self.at_bit;
            return match rest {
                0 => Ok(false),
                1..=7 if self.take(rest as u32)? == 0 => Ok(false),
                _ => malformed("bits behind the end"),
            };
        }
        self.blocks_left -= 1;
        let block = self.take(block_width(self.params))? as u32;
        if block < self.next_block || block >= self.params.blocks_per_partition() {
            return malformed("block out of order or out of the partition");
        }
        self.next_block = block + 1;
        change.block = self.first_block + block;
        change.whole = self.take(1)? == 1;
        self.choices(change)?;
        self.groups(change)?;
        self.fallback(change)?;
        Ok(true)
    }

    fn choices(&mut self, change: &mut BlockChange) -> Parsed<()> {
        change.choices.clear();
        let count = if change.whole { BUCKETS as u64 } else { self.take(9)? };
        for i in 0..count {
            let bucket = if change.whole { i as u8 } else { self.take(8)? as u8 };
            if change.choices.last().is_some_and(|&(last, _)| last >= bucket) {
                return malformed("bucket out of order");
            }
            change.choices.push((bucket, self.take(2)? as u8));
        }
        Ok(())
    }

    fn groups(&mut self, change: &mut BlockChange) -> Parsed<()> {
        change.groups.clear();
        let count = if change.whole { GROUPS as u64 } else { self.take(7)? };
        for i in 0..count {
            let group = if change.whole { i as u8 } else { self.take(6)? as u8 };
            if change.groups.last().is_some_and(|&(last, _)| last >= group) {
                return malformed("group out of order");
            }
            let fields = self.take_fields()?;
            change.groups.push((group, fields));
        }
        Ok(())
    }

    fn fallback(&mut self, change: &mut BlockChange) -> Parsed<()> {
        let given = self.take(1)? == 1;
        if change.whole && !given {
            return malformed("a whole block without its fallback list");
        }
        if !given {
            change.fallback = None;
            return Ok(());
        }
        let pairs = change.fallback.get_or_insert_default();
        pairs.clear();
        let count = self.take(12)? as usize;
        if count > self.params.format().block_capacity() {
            return malformed("more fallback keys than a block can hold");
        }
        let mut pairs = std::mem::take(pairs);
        for _ in 0..count {
            let hash = self.take(64)?;
            let value = self.take(self.params.value_bits().into())? as u8;
            if pairs.last().is_some_and(|&(last, _)| last >= hash)
                || bucket_of(hash, self.params.blocks()).0 != change.block
            {
                return malformed("fallback key out of order or out of the block");
            }
            pairs.push((hash, value));
        }
        change.fallback = Some(pairs);
        Ok(())
    }
}
