//! What a SetSep delta carries: the parameters' fingerprint (32 bits), whether the partition is being reshaped (1 bit; if
//! so the new parameters, 28 bytes, and how many of its old blocks have been, 32 bits), and one section, or two:
//! changes to blocks of the old shape, then of the new.
//!
//! A section is the number of changed blocks, and for each its number in the partition and what changed, bit-packed:
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
use super::image::{Layout, choice};
use super::params::{PARAMS_BYTES, Params};
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

/// A partition on its way to another shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reshaping {
    /// The new shape.
    pub(super) to: Params,
    /// Blocks of the old shape that answer in the new one: the partition's first so many.
    pub(super) done: u32,
}

fn block_width(params: &Params) -> u32 {
    u32::BITS - params.blocks_per_partition().leading_zeros()
}

/// Writes payloads.
#[derive(Debug)]
pub(super) struct PayloadWriter {
    params: Params,
    bytes: Vec<u8>,
    held: u64,
    held_bits: u32,
}

impl PayloadWriter {
    /// The payload of a partition in this shape, or on its way from it.
    pub(super) fn new(layout: &Layout, reshaping: Option<Reshaping>) -> Self {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&layout.fingerprint.to_le_bytes());
        let mut writer = Self { params: layout.params, bytes, held: 0, held_bits: 0 };
        writer.put(reshaping.is_some().into(), 1);
        if let Some(Reshaping { to, done }) = reshaping {
            to.encode().into_iter().for_each(|byte| writer.put(byte.into(), 8));
            writer.put(done.into(), 32);
        }
        writer
    }

    #[inline]
    fn put(&mut self, value: u64, bits: u32) {
        self.held |= value << self.held_bits;
        let filled = self.held_bits + bits;
        if filled >= 64 {
            self.bytes.extend_from_slice(&self.held.to_le_bytes());
            let taken = 64 - self.held_bits;
            self.held = if taken == 64 { 0 } else { value >> taken };
            self.held_bits = filled - 64;
        } else {
            self.held_bits = filled;
        }
    }

    fn put_fields(&mut self, fields: &Fields) {
        let width = self.params.format().field_bits();
        fields[..self.params.value_bits().into()].iter().for_each(|&field| self.put(field, width));
    }

    /// Begins the blocks of a shape, of which so many will follow in ascending order.
    pub(super) fn section(&mut self, params: &Params, blocks: u32) {
        self.params = *params;
        self.put(blocks.into(), block_width(params));
    }

    fn begin(&mut self, block: u32, whole: bool) {
        let in_partition = block % self.params.blocks_per_partition();
        self.put(in_partition.into(), block_width(&self.params));
        self.put(whole.into(), 1);
    }

    fn fallback(&mut self, list: Option<&[(u64, u8)]>) {
        self.put(list.is_some().into(), 1);
        let Some(pairs) = list else { return };
        self.put(pairs.len() as u64, 12);
        for &(hash, value) in pairs {
            self.put(hash, 64);
            self.put(value.into(), self.params.value_bits().into());
        }
    }

    /// Adds a block's changes: (bucket, choice) and (group, fields), each ascending.
    pub(super) fn block(
        &mut self,
        block: u32,
        choices: &[(u8, u8)],
        groups: &[(u8, Fields)],
        fallback: Option<&[(u64, u8)]>,
    ) {
        self.begin(block, false);
        self.put(choices.len() as u64, 9);
        for &(bucket, choice) in choices {
            self.put(u64::from(bucket) | u64::from(choice) << 8, 10);
        }
        self.put(groups.len() as u64, 7);
        for (group, fields) in groups {
            self.put((*group).into(), 6);
            self.put_fields(fields);
        }
        self.fallback(fallback);
    }

    /// Adds a block whole.
    pub(super) fn whole_block(&mut self, block: u32, words: &[u64], layout: &Layout, fallback: &[(u64, u8)]) {
        self.begin(block, true);
        (0..BUCKETS).for_each(|bucket| self.put(choice(words, bucket).into(), 2));
        (0..GROUPS).for_each(|group| self.put_fields(&layout.group(words, group)));
        self.fallback(Some(fallback));
    }

    /// The payload.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let rest = self.held_bits.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.held.to_le_bytes()[..rest]);
        self.bytes
    }
}

/// Reads a payload from anywhere, checking everything that can be checked without the table.
#[derive(Debug, Clone)]
pub(super) struct PayloadReader<'a> {
    params: Params,
    partition: PartitionId,
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
    /// The payload in these bytes and the fingerprint of the shape it starts from.
    pub(super) fn new(partition: PartitionId, params: &Params, bytes: &'a [u8]) -> Parsed<(u32, Self)> {
        let Some((fingerprint, bytes)) = bytes.split_first_chunk::<4>() else {
            return malformed("shorter than its fingerprint");
        };
        let reader = Self { params: *params, partition, blocks_left: 0, next_block: 0, bytes, at_bit: 0 };
        Ok((u32::from_le_bytes(*fingerprint), reader))
    }

    /// Where the partition is going, if it is being reshaped. Comes first.
    pub(super) fn reshaping(&mut self) -> Parsed<Option<Reshaping>> {
        if self.take(1)? == 0 {
            return Ok(None);
        }
        let mut encoded = [0; PARAMS_BYTES];
        for byte in &mut encoded {
            *byte = self.take(8)? as u8;
        }
        let Some(Ok(to)) = Params::decode(&encoded) else {
            return malformed("reshaping to impossible parameters");
        };
        Ok(Some(Reshaping { to, done: self.take(32)? as u32 }))
    }

    /// Begins a section: blocks of this shape.
    pub(super) fn section(&mut self, params: &Params) -> Parsed<()> {
        self.params = *params;
        self.next_block = 0;
        self.blocks_left = self.take(block_width(params))? as u32; // at most 25 bits wide
        if self.blocks_left > params.blocks_per_partition() {
            return malformed("more blocks than the partition has");
        }
        Ok(())
    }

    /// After the last section: nothing follows but the rest of a byte, zero.
    pub(super) fn end(&mut self) -> Parsed<()> {
        match self.bytes.len() * 8 - self.at_bit {
            0 => Ok(()),
            rest @ 1..=7 if self.take(rest as u32)? == 0 => Ok(()),
            _ => malformed("bits behind the end"),
        }
    }

    #[inline]
    fn take(&mut self, bits: u32) -> Parsed<u64> {
        let end = self.at_bit + bits as usize;
        if end > self.bytes.len() * 8 {
            return malformed("truncated");
        }
        let (first, shift) = (self.at_bit / 8, self.at_bit % 8);
        let held = match self.bytes[first..].first_chunk::<16>() {
            Some(&bytes) => u128::from_le_bytes(bytes),
            None => self.bytes[first..end.div_ceil(8)]
                .iter()
                .rev()
                .fold(0, |held, &byte| held << 8 | u128::from(byte)),
        };
        self.at_bit = end;
        Ok((held >> shift & ((1u128 << bits) - 1)) as u64)
    }

    fn take_fields(&mut self) -> Parsed<Fields> {
        let width = self.params.format().field_bits();
        let mut fields = [0; 8];
        for field in &mut fields[..self.params.value_bits().into()] {
            *field = self.take(width)?;
        }
        if solver::is_clean(&fields, &self.params) {
            Ok(fields)
        } else {
            malformed("a group that no one stores")
        }
    }

    /// The section's next block into `change`, or `false` at its end.
    pub(super) fn next(&mut self, change: &mut BlockChange) -> Parsed<bool> {
        if self.blocks_left == 0 {
            return Ok(false);
        }
        self.blocks_left -= 1;
        let block = self.take(block_width(&self.params))? as u32;
        if block < self.next_block || block >= self.params.blocks_per_partition() {
            return malformed("block out of order or out of the partition");
        }
        self.next_block = block + 1;
        change.block = u32::from(self.partition.0) * self.params.blocks_per_partition() + block;
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
