//! Snapshots of control structures. After the [common header of snapshots](crate::published::snapshot)
//! follow: for each partition, whether it is held (one byte); how often buckets had to move (three words);
//! and for every held block, its keys, its values and its words.

use super::block::{self, Block, Moves};
use super::control::BlockKeys;
use super::control_blocks::ControlBlocks;
use super::fallback::lines_for;
use super::geometry::{GROUPS, bucket_of};
use super::layout::{Layout, group_of};
use super::params::Params;
use super::solver::{evaluate, is_marked};
use super::structure::{SetSepStructure, clean_groups};
use crate::checksum_io::{ChecksumReader, ChecksumWriter};
use crate::published::snapshot::{SnapshotHeader, corrupt, take_flag};
use crate::published::{KeySnapshot, SnapshotError};
use std::io::{self, Read, Write};

impl KeySnapshot for SetSepStructure {
    fn put_keys<W: Write>(
        keys: &BlockKeys,
        header: &SnapshotHeader<SetSepStructure>,
        sink: &mut ChecksumWriter<W>,
    ) -> io::Result<()> {
        let held: Vec<u8> = keys.blocks_in(false).held().into_iter().map(u8::from).collect();
        sink.put(&held)?;
        let (moves, mut buffer) = (keys.moves, Vec::new());
        sink.put_words([moves.single, moves.double, moves.rebalanced], &mut buffer)?;
        for (partition, is_new, numbers) in header.runs() {
            let blocks = keys.blocks_in(is_new);
            let Some(first) = blocks.first[usize::from(partition.0)] else { continue };
            for block in numbers {
                let view = blocks.store.view((first + block) as usize);
                let keys = block::sorted_keys(&view, blocks.store.slots());
                sink.put(&(keys.len() as u16).to_le_bytes())?; // at most a block's capacity
                sink.put_words(keys.iter().map(|key| key.0), &mut buffer)?;
                sink.put(&keys.iter().map(|key| key.1).collect::<Vec<_>>())?;
                sink.put_words(view.words.iter().copied(), &mut buffer)?;
            }
        }
        Ok(())
    }

    fn take_keys<R: Read>(
        header: &SnapshotHeader<SetSepStructure>,
        source: &mut ChecksumReader<R>,
    ) -> Result<BlockKeys, SnapshotError> {
        let mut held = Vec::new();
        for _ in &header.positions {
            held.push(take_flag(source)?);
        }
        let mut buffer = Vec::new();
        let moves = source.words(3, &mut buffer)?;
        let moves = Moves { single: moves[0], double: moves[1], rebalanced: moves[2] };
        let mut now = ControlBlocks::new(header.params, &held, false);
        let mut next = header.next.as_ref().map(|(to, _)| ControlBlocks::new(*to, &held, false));
        for (partition, is_new, numbers) in header.runs() {
            let blocks = next.as_mut().filter(|_| is_new).unwrap_or(&mut now);
            let at = usize::from(partition.0);
            let Some(first) = blocks.first[at] else { continue };
            for block in numbers {
                let slot = (first + block) as usize;
                let read = read_block(source, &blocks.params, blocks.number_of_slot(slot), &mut buffer)?;
                blocks.store.make(slot);
                fill(&mut blocks.block(slot), &read);
                blocks.lines_used[at] += lines_for(block::fallback_keys(blocks.store.view(slot).head));
                if blocks.lines_used[at] > blocks.params.fallback_lines() {
                    return corrupt("more fallback lines than the parameters grant");
                }
            }
        }
        let next = next.zip(header.next.as_ref()).map(|(blocks, (_, done))| (blocks, done.clone()));
        Ok(BlockKeys::new(now, next, moves))
    }
}

/// A block that was read and found consistent.
struct ReadBlock {
    keys: Vec<u64>,
    values: Vec<u8>,
    words: Vec<u64>,
}

/// Puts keys and bits into an empty block.
fn fill(block: &mut Block<'_>, read: &ReadBlock) {
    block.view.words.copy_from_slice(&read.words);
    for (&hash, &value) in read.keys.iter().zip(&read.values) {
        let (_, bucket) = bucket_of(hash, block.params.blocks());
        block.append(block::group_in(&read.words, bucket), hash, value);
        block.view.head.counts[bucket] += 1;
    }
    block.view.head.keys = read.keys.len() as u32; // at most a block's capacity
    block.view.head.marks = Layout::of(block.params).marks(&read.words);
}

fn read_block<R: Read>(
    source: &mut ChecksumReader<R>,
    params: &Params,
    number: u32,
    buffer: &mut Vec<u8>,
) -> Result<ReadBlock, SnapshotError> {
    let count = usize::from(u16::from_le_bytes(source.take()?));
    if count > params.format().block_capacity() {
        return corrupt("more keys than a block can hold");
    }
    let keys = source.words(count, buffer)?;
    let mut values = vec![0; count];
    source.fill(&mut values)?;
    let layout = Layout::of(params);
    let words = source.words(layout.words, buffer)?;
    let in_place = |&key: &u64| bucket_of(key, params.blocks()).0 == number;
    if !keys.is_sorted_by(|a, b| a < b) || !keys.iter().all(in_place) {
        return corrupt("keys out of order or out of their block");
    }
    if !clean_groups(&words, &layout) {
        return corrupt("a group that no one stores");
    }
    let mut used = 0u64;
    for (&key, &value) in keys.iter().zip(&values) {
        let group = group_of(&words, key, params.blocks());
        used |= 1 << group;
        let fields = layout.group(&words, group);
        if !params.is_value(value) || !is_marked(&fields, params) && evaluate(&fields, key, params) != value {
            return corrupt("a key that its bits do not answer");
        }
    }
    if (0..GROUPS).any(|group| used >> group & 1 == 0 && layout.group(&words, group) != [0; 8]) {
        return corrupt("bits in a group without keys");
    }
    Ok(ReadBlock { keys, values, words })
}
