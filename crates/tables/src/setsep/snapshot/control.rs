//! Snapshots of control structures.

use super::super::block::{self, Block, Moves};
use super::super::control::SetSepControl;
use super::super::geometry::{GROUPS, bucket_of};
use super::super::held::Held;
use super::super::image::{Layout, group_of};
use super::super::params::Params;
use super::super::solver::{evaluate, is_marked};
use super::{CONTROL_MAGIC, Sink, SnapshotError, Source, add_lines, clean_groups, corrupt, is_in};
use std::io::{self, Read, Write};

impl SetSepControl {
    /// Writes keys, values and bits to a stream, one block at a time: give it a buffered one.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        let now = &self.now.held;
        let mut sink = Sink::start(to, CONTROL_MAGIC, &now.params)?;
        let done = self.next.as_ref().map_or(&[][..], |next| next.all());
        sink.put_reshaping(self.next.as_ref().map(|next| (next.shape.params(), done)))?;
        let mut buffer = Vec::new();
        sink.put_words(self.positions.iter().map(|position| position.0), &mut buffer)?;
        let mine: Vec<u8> = now.mine().into_iter().map(u8::from).collect();
        sink.put(&mine)?;
        sink.put_words([self.moves.single, self.moves.double, self.moves.rebalanced], &mut buffer)?;
        put_held(&mut sink, now, done, false, 1, &mut buffer)?;
        if let Some(next) = &self.next {
            let ratio = next.shape.params().blocks() / now.params.blocks();
            put_held(&mut sink, &next.shape.held, done, true, ratio, &mut buffer)?;
        }
        sink.finish()
    }

    /// The control structure in a stream, which is read up to its checksum and no further. Every key is checked to be in
    /// order, in its block, and answered by the bits.
    ///
    /// # Errors
    /// [`SnapshotError`]. Memory in use never exceeds a few times what was read and 2 MiB.
    pub fn read_snapshot(from: impl Read) -> Result<Self, SnapshotError> {
        let (mut source, params) = Source::start(from, CONTROL_MAGIC)?;
        let reshaping = source.reshaping(&params)?;
        let positions = source.positions(&params)?;
        let mut mine = Vec::new();
        for _ in &positions {
            mine.push(match source.take()? {
                [0] => false,
                [1] => true,
                _ => return corrupt("neither held nor not held"),
            });
        }
        let moves = source.words(3, &mut Vec::new())?;
        let moves = Moves { single: moves[0], double: moves[1], rebalanced: moves[2] };
        let done = reshaping.as_ref().map_or(&[][..], |(_, done)| done);
        let now = read_held(&mut source, params, &mine, done, false, 1)?;
        let next = match &reshaping {
            None => None,
            Some((to, done)) => {
                let ratio = to.blocks() / params.blocks();
                Some((read_held(&mut source, *to, &mine, done, true, ratio)?, done.clone()))
            }
        };
        source.end()?;
        Ok(Self::from_parts(now, next, positions, moves))
    }
}

fn put_held<W: Write>(
    sink: &mut Sink<W>,
    held: &Held,
    done: &[u32],
    is_new: bool,
    ratio: u32,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    for slot in 0..held.store.len() {
        if !is_in(&held.params, held.number_of_slot(slot), done, is_new, ratio) {
            continue;
        }
        let view = held.store.view(slot);
        let keys = block::sorted_keys(&view, held.store.slots());
        sink.put(&(keys.len() as u16).to_le_bytes())?; // at most a block's capacity
        sink.put_words(keys.iter().map(|key| key.0), buffer)?;
        sink.put(&keys.iter().map(|key| key.1).collect::<Vec<_>>())?;
        sink.put_words(view.words.iter().copied(), buffer)?;
    }
    Ok(())
}

fn read_held<R: Read>(
    source: &mut Source<R>,
    params: Params,
    mine: &[bool],
    done: &[u32],
    is_new: bool,
    ratio: u32,
) -> Result<Held, SnapshotError> {
    let mut held = Held::new(params, mine, false);
    let mut buffer = Vec::new();
    for slot in 0..held.store.len() {
        let number = held.number_of_slot(slot);
        if is_in(&params, number, done, is_new, ratio) {
            let read = read_block(source, &params, number, &mut buffer)?;
            held.store.make(slot);
            fill(&mut held.block(slot), &read);
            let keys = block::fallback_keys(held.store.view(slot).head);
            add_lines(&mut held.lines_used, &params, number, keys)?;
        }
    }
    Ok(held)
}

/// A block as it was read, and found consistent.
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
    source: &mut Source<R>,
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
