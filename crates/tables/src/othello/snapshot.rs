//! Snapshots of control structures. After the [common header of snapshots](crate::published::snapshot)
//! follows, for each partition, whether it is held (one byte). For a held partition follow, for every range,
//! its seed, its names (32-bit count; hash and value each, ascending), and its words. The words follow from
//! seed and names, and serve as a check.

use super::colour::Colouring;
use super::control::RangeKeys;
use super::layout::Layout;
use super::params::Params;
use super::store::Store;
use super::structure::{OthelloStructure, take_words};
use crate::checksum_io::{ChecksumReader, ChecksumWriter};
use crate::published::snapshot::{SnapshotHeader, corrupt, take_flag};
use crate::published::{KeySnapshot, SnapshotError};
use scalebricks_types::{KeyHash, PartitionId};
use std::io::{self, Read, Write};

impl KeySnapshot for OthelloStructure {
    fn put_keys<W: Write>(
        keys: &RangeKeys,
        _: &SnapshotHeader<OthelloStructure>,
        sink: &mut ChecksumWriter<W>,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        for part in &keys.parts {
            sink.put(&[part.is_some().into()])?;
            let Some(store) = part else { continue };
            for (range, head) in (0..).zip(store.heads()) {
                let mut names: Vec<(u64, u16)> = store.names(range).collect();
                names.sort_unstable();
                buffer.clear();
                buffer.push(head.seed);
                buffer.extend_from_slice(&head.names.to_le_bytes());
                for (hash, value) in names {
                    buffer.extend_from_slice(&hash.to_le_bytes());
                    buffer.extend_from_slice(&value.to_le_bytes());
                }
                sink.put(&buffer)?;
                sink.put_words(store.words(range).iter().copied(), &mut buffer)?;
            }
        }
        Ok(())
    }

    /// Checks that every name is in order and in its range, and that every range's graph has no cycle.
    fn take_keys<R: Read>(
        header: &SnapshotHeader<OthelloStructure>,
        source: &mut ChecksumReader<R>,
    ) -> Result<RangeKeys, SnapshotError> {
        let is_new = |partition: usize| header.next.as_ref().is_some_and(|(_, done)| done[partition] > 0);
        let (mut parts, mut colouring, mut buffer) = (Vec::new(), Colouring::default(), Vec::new());
        for partition in 0..header.positions.len() {
            if !take_flag(source)? {
                parts.push(None);
                continue;
            }
            let params = header.shape(is_new(partition));
            let mut store = None;
            for range in 0..params.ranges_per_partition() {
                let [seed] = source.take()?;
                let names = take_names(source, params, (partition, range))?;
                let words = take_words(source, &Layout::of(params), &mut buffer)?;
                // Allocated when the first range was read: a header alone must not cost the memory that it
                // declares.
                let store: &mut Store = store.get_or_insert_with(|| Store::new(params));
                if !store.restore(range, seed, &names, &mut colouring) {
                    return corrupt("names whose graph has a cycle");
                }
                if store.words(range) != words {
                    return corrupt("bits that do not follow from their names");
                }
            }
            parts.push(store);
        }
        let next = header.next.as_ref().map(|(to, _)| *to);
        let held = |partition: usize| parts[partition].is_some();
        if (0..parts.len()).any(|partition| is_new(partition) && !held(partition)) {
            return corrupt("a partition reshaped that is not held");
        }
        Ok(RangeKeys::new(header.params, next, parts))
    }
}

/// The names of a range.
fn take_names<R: Read>(
    source: &mut ChecksumReader<R>,
    params: &Params,
    (partition, range): (usize, u32),
) -> Result<Vec<(u64, u16)>, SnapshotError> {
    let count = u32::from_le_bytes(source.take()?) as usize;
    if count > params.capacity() {
        return corrupt("more names than a range can hold");
    }
    let mut names: Vec<(u64, u16)> = Vec::new();
    for _ in 0..count {
        let (hash, value) = (u64::from_le_bytes(source.take()?), u16::from_le_bytes(source.take()?));
        if names.last().is_some_and(|&(last, _)| last >= hash)
            || params.locate(KeyHash::new(hash)) != (PartitionId(partition as u16), range)
            || !params.is_value(value)
        {
            return corrupt("a name that is out of order, out of its range, or of too many bits");
        }
        names.push((hash, value));
    }
    Ok(names)
}
