//! The contents of a SetSep delta after the [common header of payloads](crate::published::payload): one
//! section, or two (first the changes to blocks of the old shape, then to blocks of the new shape).
//!
//! A section is the number of changed blocks, and for each block its number in the partition and its changes,
//! bit-packed:
//!
//! | field | bits |
//! |---|---|
//! | block number in the partition | ⌈log2(blocks per partition + 1)⌉ |
//! | whole block? | 1 |
//! | *if whole:* all choices, all groups | 512 + 64 x group |
//! | *else:* number of choices; each: bucket, choice | 9; 8 + 2 |
//! | and number of groups; each: number, bits | 7; 6 + group |
//! | new fallback list? | 1 |
//! | *if so:* its length; each: hash, value | 12; 64 + l |
//!
//! Blocks, buckets, groups and hashes are in strictly ascending order. The rest of the last byte is 0. A
//! changed group of 2-bit values costs 70 bits.

use super::layout::Layout;
use super::params::Params;
use super::structure::{Reshaping, SetSepStructure};
use crate::bits::BitWriter;
use crate::published::payload::put_header;

/// Approximate cost in bits of a changed block without its groups.
const BLOCK_BITS: usize = 48;

/// Width in bits of a block's number in its partition, and of a number of blocks.
pub(super) fn block_width(params: &Params) -> u32 {
    u32::BITS - params.blocks_per_partition().leading_zeros()
}

/// Writes payloads.
#[derive(Debug)]
pub(super) struct PayloadWriter {
    layout: Layout,
    bits: BitWriter,
}

impl PayloadWriter {
    /// A writer for the payload of a partition in this shape, or of a partition being reshaped from it.
    /// `scratch` is memory to reuse.
    pub(super) fn new(layout: &Layout, reshaping: Option<Reshaping>, scratch: Vec<u64>) -> Self {
        let mut bits = BitWriter::new(scratch);
        put_header::<SetSepStructure>(&mut bits, layout.fingerprint, reshaping);
        Self { layout: *layout, bits }
    }

    /// Appends the low `bits` bits of a word. The other bits of the word must be 0.
    #[inline(always)]
    fn put(&mut self, value: u64, bits: u32) {
        self.bits.put(value, bits);
    }

    /// Begins the section of a shape. `blocks` blocks follow in ascending order, with about `groups` groups
    /// in total.
    pub(super) fn section(&mut self, layout: &Layout, blocks: u32, groups: usize) {
        self.layout = *layout;
        self.bits.reserve(blocks as usize * BLOCK_BITS + groups * (6 + layout.params.group_bits()));
        self.put(blocks.into(), block_width(&layout.params));
    }

    fn begin(&mut self, block: u32, whole: bool) {
        let in_partition = block % self.layout.params.blocks_per_partition();
        self.put(in_partition.into(), block_width(&self.layout.params));
        self.put(whole.into(), 1);
    }

    fn fallback(&mut self, list: Option<&[(u64, u8)]>) {
        self.put(list.is_some().into(), 1);
        let Some(pairs) = list else { return };
        self.put(pairs.len() as u64, 12);
        for &(hash, value) in pairs {
            self.put(hash, 64);
            self.put(value.into(), self.layout.params.value_bits().into());
        }
    }

    /// Adds a block's changes: (bucket, choice) pairs, and `count` pairs of (group, packed fields), each
    /// ascending.
    pub(super) fn block<'f>(
        &mut self,
        block: u32,
        choices: &[(u8, u8)],
        count: u32,
        groups: impl Iterator<Item = (usize, &'f [u64])>,
        fallback: Option<&[(u64, u8)]>,
    ) {
        self.begin(block, false);
        self.put(choices.len() as u64, 9);
        for &(bucket, choice) in choices {
            self.put(u64::from(bucket) | u64::from(choice) << 8, 10);
        }
        self.put(count.into(), 7);
        for (group, packed) in groups {
            self.put(group as u64, 6);
            packed.iter().enumerate().for_each(|(at, &word)| self.put(word, self.layout.bits_in(at)));
        }
        self.fallback(fallback);
    }

    /// Adds a whole block. Its words have the same layout of choices and groups as the payload.
    pub(super) fn whole_block(&mut self, block: u32, words: &[u64], fallback: &[(u64, u8)]) {
        self.begin(block, true);
        for &word in words {
            self.put(word, u64::BITS);
        }
        self.fallback(Some(fallback));
    }

    /// The payload, and the scratch memory.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<u64>) {
        self.bits.finish()
    }
}
