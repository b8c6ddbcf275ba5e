//! Snapshots of query structures.

use super::super::arena::Line;
use super::super::face::Face;
use super::super::geometry::bucket_of;
use super::super::image::{Layout, group_of};
use super::super::params::Params;
use super::super::query::{Blocks, SetSep};
use super::super::shapes::NextFace;
use super::{QUERY_MAGIC, Sink, SnapshotError, Source, add_lines, clean_groups, corrupt, is_in};
use std::io::{self, Read, Write};

impl SetSep {
    /// Writes the table to a stream. Waits for a running [`apply`](Self::apply) and holds back others meanwhile;
    /// readers go on. Writes one block at a time: give it a buffered stream.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<()> {
        let writer = self.writer();
        let shapes = self.shapes.load_full();
        let now = &shapes.now;
        let done = shapes.next.as_ref().map_or_else(Vec::new, NextFace::all);
        let mut sink = Sink::start(to, QUERY_MAGIC, &now.params)?;
        sink.put_reshaping(shapes.next.as_ref().map(|next| (&next.face.params, &done[..])))?;
        let mut buffer = Vec::new();
        sink.put_words(writer.positions.iter().map(|position| position.0), &mut buffer)?;
        put_face(&mut sink, now, &done, false, 1, &mut buffer)?;
        if let Some(next) = &shapes.next {
            let ratio = next.face.params.blocks() / now.params.blocks();
            put_face(&mut sink, &next.face, &done, true, ratio, &mut buffer)?;
        }
        sink.finish()
    }

    /// The table in a stream, which is read up to its checksum and no further.
    ///
    /// # Errors
    /// [`SnapshotError`]. Memory in use never exceeds about twice what was read; of a table that is being reshaped, that
    /// and the empty blocks of both shapes.
    pub fn read_snapshot(from: impl Read) -> Result<Self, SnapshotError> {
        let (mut source, params) = Source::start(from, QUERY_MAGIC)?;
        let reshaping = source.reshaping(&params)?;
        let positions = source.positions(&params)?;
        let done = reshaping.as_ref().map_or(&[][..], |(_, done)| done);
        let now = read_blocks(&mut source, &params, done, false, 1)?;
        let next = match &reshaping {
            None => None,
            Some((to, done)) => {
                let ratio = to.blocks() / params.blocks();
                Some((*to, read_blocks(&mut source, to, done, true, ratio)?, done.clone()))
            }
        };
        source.end()?;
        Ok(Self::from_parts(params, now, next, positions))
    }
}

fn put_face<W: Write>(
    sink: &mut Sink<W>,
    face: &Face,
    done: &[u32],
    is_new: bool,
    ratio: u32,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    for block in (0..face.params.blocks()).filter(|&block| is_in(&face.params, block, done, is_new, ratio)) {
        let (words, fallback) = face.block_state(block);
        sink.put_words(words, buffer)?;
        sink.put(&(fallback.len() as u16).to_le_bytes())?; // at most a block's keys
        for (hash, value) in fallback {
            sink.put(&hash.to_le_bytes())?;
            sink.put(&[value])?;
        }
    }
    Ok(())
}

fn read_blocks<R: Read>(
    source: &mut Source<R>,
    params: &Params,
    done: &[u32],
    is_new: bool,
    ratio: u32,
) -> Result<Blocks, SnapshotError> {
    let layout = Layout::of(params);
    let (mut lines, mut lists, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    let mut lines_used = vec![0; params.partitions().get() as usize];
    for block in 0..params.blocks() {
        if !is_in(params, block, done, is_new, ratio) {
            lines.extend((0..layout.words / 8).map(|_| Line::new([0; 8])));
            continue;
        }
        let words = source.words(layout.words, &mut buffer)?;
        let fallback = read_fallback(source, params, block)?;
        let in_groups = |marks: u64, pair: &(u64, u8)| marks | 1 << group_of(&words, pair.0, params.blocks());
        if !clean_groups(&words, &layout) || fallback.iter().fold(0, in_groups) != layout.marks(&words) {
            return corrupt("a group that no one stores, or a fallback list that does not match the groups");
        }
        add_lines(&mut lines_used, params, block, fallback.len())?;
        lines.extend(words.as_chunks().0.iter().map(|&words| Line::new(words)));
        if !fallback.is_empty() {
            lists.push((block, fallback));
        }
    }
    Ok((lines, lists))
}

fn read_fallback<R: Read>(
    source: &mut Source<R>,
    params: &Params,
    block: u32,
) -> Result<Vec<(u64, u8)>, SnapshotError> {
    let count = usize::from(u16::from_le_bytes(source.take()?));
    if count > params.format().block_capacity() {
        return corrupt("more fallback keys than a block can hold");
    }
    let mut fallback: Vec<(u64, u8)> = Vec::new();
    for _ in 0..count {
        let (hash, [value]) = (u64::from_le_bytes(source.take()?), source.take()?);
        let ascends = fallback.last().is_none_or(|&(last, _)| last < hash);
        if !ascends || !params.is_value(value) || bucket_of(hash, params.blocks()).0 != block {
            return corrupt("a fallback key that is out of order, out of its block, or of too many bits");
        }
        fallback.push((hash, value));
    }
    Ok(fallback)
}
