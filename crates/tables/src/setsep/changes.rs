//! Parses a SetSep delta from an untrusted source. It checks everything that can be checked without the
//! table.

use super::geometry::{BUCKETS, GROUPS, bucket_of};
use super::layout::{Layout, Packed};
use super::payload::block_width;
use super::solver;
use crate::bits::BitReader;
use crate::published::payload::{malformed, take};
use scalebricks_types::{ApplyError, PartitionId};

/// All changes to the blocks of a section. Its size is a few times that of the input; it is kept for reuse.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    group_words: usize,
    blocks: Vec<BlockAt>,
    choices: Vec<(u8, u8)>,
    groups: Vec<u8>,
    /// Packed fields: as many words per group as its fields need.
    fields: Vec<u64>,
    pairs: Vec<(u64, u8)>,
    /// Whether any group is marked.
    marks: bool,
}

/// A block, whether it has a new fallback list, and where its parts end. Each part begins where that of the
/// previous block ends.
#[derive(Debug, Default, Clone, Copy)]
struct BlockAt {
    block: u32,
    listed: bool,
    choices: usize,
    groups: usize,
    pairs: usize,
}

/// The changes to one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockChange<'a> {
    pub(super) block: u32,
    /// Pairs of bucket and choice, ascending.
    pub(super) choices: &'a [(u8, u8)],
    groups: &'a [u8],
    fields: &'a [u64],
    group_words: usize,
    pub(super) fallback: Option<&'a [(u64, u8)]>,
}

impl<'a> BlockChange<'a> {
    /// Groups with their packed fields, ascending.
    pub(super) fn groups(&self) -> impl Iterator<Item = (usize, &'a [u64])> {
        self.groups.iter().map(|&group| group.into()).zip(self.fields.chunks_exact(self.group_words))
    }
}

impl Changes {
    fn clear(&mut self, layout: &Layout) {
        self.group_words = layout.group_words;
        self.blocks.clear();
        self.choices.clear();
        self.groups.clear();
        self.fields.clear();
        self.pairs.clear();
        self.marks = false;
    }

    /// Number of changed blocks.
    pub(super) const fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether any group of these blocks is marked, or any key is listed.
    pub(super) const fn lists(&self) -> bool {
        self.marks || !self.pairs.is_empty()
    }

    /// The number of the block at this index.
    pub(super) fn number(&self, at: usize) -> Option<u32> {
        Some(self.blocks.get(at)?.block)
    }

    /// The changes to the block at this index.
    pub(super) fn get(&self, at: usize) -> BlockChange<'_> {
        let from = at.checked_sub(1).map_or_else(BlockAt::default, |before| self.blocks[before]);
        let to = self.blocks[at];
        BlockChange {
            block: to.block,
            choices: &self.choices[from.choices..to.choices],
            groups: &self.groups[from.groups..to.groups],
            fields: &self.fields[from.groups * self.group_words..to.groups * self.group_words],
            group_words: self.group_words,
            fallback: to.listed.then(|| &self.pairs[from.pairs..to.pairs]),
        }
    }
}

/// Parses a section from an untrusted source. It checks everything that can be checked without the table.
struct Section<'b, 'a> {
    layout: &'b Layout,
    bits: &'b mut BitReader<'a>,
}

/// Parses the next section, with blocks of this shape, into `changes`.
pub(super) fn section(
    bits: &mut BitReader<'_>,
    partition: PartitionId,
    layout: &Layout,
    changes: &mut Changes,
) -> Result<(), ApplyError> {
    let params = &layout.params;
    let mut section = Section { layout, bits };
    changes.clear(layout);
    let (blocks, mut next) = (section.take(block_width(params))? as u32, 0); // at most 25 bits wide
    if blocks > params.blocks_per_partition() {
        return malformed("more blocks than the partition has");
    }
    for _ in 0..blocks {
        let block = section.take(block_width(params))? as u32;
        if block < next || block >= params.blocks_per_partition() {
            return malformed("block out of order or out of the partition");
        }
        next = block + 1;
        section.block(u32::from(partition.0) * params.blocks_per_partition() + block, changes)?;
    }
    Ok(())
}

impl Section<'_, '_> {
    fn block(&mut self, block: u32, changes: &mut Changes) -> Result<(), ApplyError> {
        let whole = self.take(1)? == 1;
        self.choices(whole, changes)?;
        self.groups(whole, changes)?;
        let listed = self.take(1)? == 1;
        if whole && !listed {
            return malformed("a whole block without its fallback list");
        }
        if listed {
            self.fallback(block, changes)?;
        }
        let (choices, groups, pairs) = (changes.choices.len(), changes.groups.len(), changes.pairs.len());
        changes.blocks.push(BlockAt { block, listed, choices, groups, pairs });
        Ok(())
    }

    fn choices(&mut self, whole: bool, changes: &mut Changes) -> Result<(), ApplyError> {
        let count = if whole { BUCKETS as u64 } else { self.take(9)? };
        let mut next = 0;
        for i in 0..count {
            let bucket = if whole { i } else { self.take(8)? };
            if bucket < next {
                return malformed("bucket out of order");
            }
            next = bucket + 1;
            changes.choices.push((bucket as u8, self.take(2)? as u8));
        }
        Ok(())
    }

    fn groups(&mut self, whole: bool, changes: &mut Changes) -> Result<(), ApplyError> {
        let count = if whole { GROUPS as u64 } else { self.take(7)? };
        let mut next = 0;
        for i in 0..count {
            let group = if whole { i } else { self.take(6)? };
            if group < next {
                return malformed("group out of order");
            }
            next = group + 1;
            let mut packed = Packed::default();
            for (at, word) in packed.iter_mut().enumerate().take(changes.group_words) {
                *word = self.take(self.layout.bits_in(at))?;
            }
            let fields = self.layout.unpack(&packed);
            if !solver::is_clean(&fields, &self.layout.params) {
                return malformed("a group that no one stores");
            }
            changes.groups.push(group as u8);
            changes.fields.extend_from_slice(&packed[..changes.group_words]);
            changes.marks |= solver::is_marked(&fields, &self.layout.params);
        }
        Ok(())
    }

    fn fallback(&mut self, block: u32, changes: &mut Changes) -> Result<(), ApplyError> {
        let count = self.take(12)? as usize;
        if count > self.layout.params.format().block_capacity() {
            return malformed("more fallback keys than a block can hold");
        }
        let mut last = None;
        for _ in 0..count {
            let hash = self.take(64)?;
            let value = self.take(self.layout.params.value_bits().into())? as u8;
            if last.is_some_and(|last| last >= hash)
                || bucket_of(hash, self.layout.params.blocks()).0 != block
            {
                return malformed("fallback key out of order or out of the block");
            }
            last = Some(hash);
            changes.pairs.push((hash, value));
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, bits: u32) -> Result<u64, ApplyError> {
        take(self.bits, bits)
    }
}
