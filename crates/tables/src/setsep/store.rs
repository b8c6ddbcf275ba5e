//! The keys of a control structure: each group has a row of slots for hashes and values, in no particular
//! order.
//!
//! Blocks lie in chunks of 64 MiB of hashes, so that each array of a full chunk fills huge pages: an update reads all of
//! them, at random. Chunks are allocated and freed one at a time, and their pages come when they are first touched, so that
//! a table can be reshaped block by block without a long stop and without storing everything twice. Keys of a group
//! beyond its slots go to the block's *spill*: a group that full has no solution in any format.

use super::balance::{Counts, Loads};
use super::geometry::{BUCKETS, GROUPS};
use super::layout::Layout;
use super::params::Params;
use crate::huge::{HugeSlice, Zeroable};

/// Slots of all groups in a chunk: 64 MiB of hashes. In the default format, heads and the words of 2-bit values then take more
/// than a huge page each.
const CHUNK_SLOTS: usize = (64 << 20) / size_of::<u64>();

/// A key that found no slot in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpilledKey {
    pub(super) group: u8,
    pub(super) value: u8,
    pub(super) hash: u64,
}

/// The counters of a block. Fields that every operation reads or writes come first, in whole cache lines.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct BlockHeader {
    /// Number of keys in each group, including spilled keys.
    pub(super) loads: Loads,
    /// One bit per group: set if the group is unsolved.
    pub(super) marks: u64,
    /// Total number of keys.
    pub(super) keys: u32,
    /// Number of keys in each bucket.
    pub(super) counts: Counts,
}

impl BlockHeader {
    pub(super) const fn empty() -> Self {
        Self { keys: 0, marks: 0, loads: [0; GROUPS], counts: [0; BUCKETS] }
    }
}

#[allow(unsafe_code, reason = "see SAFETY")]
// SAFETY: integers and arrays of them, for which zero is valid.
unsafe impl Zeroable for BlockHeader {}

/// A run of consecutive blocks.
#[derive(Debug)]
struct Chunk {
    hashes: HugeSlice<u64>,
    values: HugeSlice<u8>,
    words: HugeSlice<u64>,
    heads: HugeSlice<BlockHeader>,
    spills: Vec<Vec<SpilledKey>>,
}

/// One block's part of the store.
#[derive(Debug)]
pub(super) struct BlockRef<'a> {
    pub(super) head: &'a BlockHeader,
    pub(super) hashes: &'a [u64],
    pub(super) values: &'a [u8],
    pub(super) words: &'a [u64],
    pub(super) spill: &'a [SpilledKey],
}

/// One block's part of the store, mutable.
#[derive(Debug)]
pub(super) struct BlockMut<'a> {
    pub(super) head: &'a mut BlockHeader,
    pub(super) hashes: &'a mut [u64],
    pub(super) values: &'a mut [u8],
    pub(super) words: &'a mut [u64],
    pub(super) spill: &'a mut Vec<SpilledKey>,
}

/// The blocks of a control structure, numbered from 0.
#[derive(Debug)]
pub(super) struct Store {
    chunks: Vec<Option<Chunk>>,
    /// Slots per group.
    slots: usize,
    /// Base-2 logarithm of the number of blocks per chunk.
    chunk_bits: u32,
    words: usize,
    blocks: usize,
}

impl Store {
    /// A store of this many blocks, without memory.
    pub(super) fn absent(params: &Params, blocks: usize) -> Self {
        let slots = params.format().group_slots();
        let chunk_bits = (CHUNK_SLOTS / (slots * GROUPS)).ilog2(); // all powers of two
        let chunks = (0..blocks.div_ceil(1 << chunk_bits)).map(|_| None).collect();
        Self { chunks, slots, chunk_bits, words: params.slot_words(), blocks }
    }

    /// A store of this many empty blocks.
    pub(super) fn empty(params: &Params, blocks: usize) -> Self {
        let mut store = Self::absent(params, blocks);
        (0..store.chunks.len()).for_each(|chunk| store.make_chunk(chunk));
        store
    }

    fn make_chunk(&mut self, chunk: usize) {
        let blocks = (1 << self.chunk_bits).min(self.blocks - (chunk << self.chunk_bits));
        self.chunks[chunk] = Some(Chunk {
            hashes: HugeSlice::untouched(blocks * self.slots * GROUPS),
            values: HugeSlice::untouched(blocks * self.slots * GROUPS),
            words: HugeSlice::untouched(blocks * self.words),
            heads: HugeSlice::untouched(blocks),
            spills: vec![Vec::new(); blocks],
        });
    }

    /// Allocates memory for the chunk of a block, with empty blocks, if it has none.
    pub(super) fn make(&mut self, block: usize) {
        let chunk = block >> self.chunk_bits;
        if self.chunks[chunk].is_none() {
            self.make_chunk(chunk);
        }
    }

    /// Frees the chunks that lie completely below a block.
    pub(super) fn free_below(&mut self, block: usize) {
        let whole = if block == self.blocks { self.chunks.len() } else { block >> self.chunk_bits };
        self.chunks[..whole]
            .iter_mut()
            .rev()
            .take_while(|chunk| chunk.is_some())
            .for_each(|chunk| *chunk = None);
    }

    /// Number of blocks.
    pub(super) const fn len(&self) -> usize {
        self.blocks
    }

    /// Slots per group.
    pub(super) const fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes of memory used.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |chunk: &Chunk| {
            let per_block = size_of::<BlockHeader>() + size_of::<Vec<SpilledKey>>();
            chunk.hashes.len() * 9 + chunk.words.len() * 8 + chunk.heads.len() * per_block
        };
        self.chunks.iter().flatten().map(bytes).sum()
    }

    /// A block's chunk and its index in the chunk.
    #[inline]
    const fn place(&self, block: usize) -> (usize, usize) {
        (block >> self.chunk_bits, block & ((1 << self.chunk_bits) - 1))
    }

    /// A view of a block. The block must have memory.
    #[inline]
    pub(super) fn view(&self, block: usize) -> BlockRef<'_> {
        let (chunk, at) = self.place(block);
        let Some(chunk) = &self.chunks[chunk] else { unreachable!("blocks in use have memory") };
        let keys = at * self.slots * GROUPS..(at + 1) * self.slots * GROUPS;
        BlockRef {
            head: &chunk.heads[at],
            hashes: &chunk.hashes[keys.clone()],
            values: &chunk.values[keys],
            words: &chunk.words[at * self.words..][..self.words],
            spill: &chunk.spills[at],
        }
    }

    /// A mutable view of a block. The block must have memory.
    #[inline]
    pub(super) fn view_mut(&mut self, block: usize) -> BlockMut<'_> {
        let (chunk, at) = self.place(block);
        let Some(chunk) = &mut self.chunks[chunk] else { unreachable!("blocks in use have memory") };
        let keys = at * self.slots * GROUPS..(at + 1) * self.slots * GROUPS;
        BlockMut {
            head: &mut chunk.heads[at],
            hashes: &mut chunk.hashes[keys.clone()],
            values: &mut chunk.values[keys],
            words: &mut chunk.words[at * self.words..][..self.words],
            spill: &mut chunk.spills[at],
        }
    }

    /// Divides all blocks into spans of `each` blocks (a divisor of the blocks per chunk), which workers fill
    /// in parallel.
    pub(super) fn spans(&mut self, layout: Layout, each: usize) -> impl Iterator<Item = StoreSlice<'_>> {
        let (slots, words) = (self.slots, self.words);
        self.chunks.iter_mut().flatten().flat_map(move |chunk| {
            let rows = each * slots * GROUPS;
            let keys = chunk.hashes.chunks_mut(rows).zip(chunk.values.chunks_mut(rows));
            let heads = chunk.heads.chunks_mut(each).zip(chunk.spills.chunks_mut(each));
            let rest = chunk.words.chunks_mut(each * words).zip(heads);
            keys.zip(rest).map(move |((hashes, values), (words_of, (heads, spills)))| StoreSlice {
                heads,
                spills,
                hashes,
                values,
                words: words_of,
                slots,
                layout,
            })
        })
    }
}

/// Some consecutive blocks.
#[derive(Debug)]
pub(super) struct StoreSlice<'a> {
    pub(super) heads: &'a mut [BlockHeader],
    pub(super) spills: &'a mut [Vec<SpilledKey>],
    pub(super) hashes: &'a mut [u64],
    pub(super) values: &'a mut [u8],
    words: &'a mut [u64],
    pub(super) slots: usize,
    pub(super) layout: Layout,
}

impl StoreSlice<'_> {
    /// The words of a block.
    #[inline]
    pub(super) fn words_mut(&mut self, at: usize) -> &mut [u64] {
        let words = self.layout.words;
        &mut self.words[at * words..][..words]
    }

    /// A view of a block of the span.
    pub(super) fn view(&self, at: usize) -> BlockRef<'_> {
        let keys = at * self.slots * GROUPS..(at + 1) * self.slots * GROUPS;
        BlockRef {
            head: &self.heads[at],
            hashes: &self.hashes[keys.clone()],
            values: &self.values[keys],
            words: &self.words[at * self.layout.words..][..self.layout.words],
            spill: &self.spills[at],
        }
    }
}
