//! A number that stands for the bits of a partition: two nodes at one position that have different ones have silently
//! diverged.
//!
//! CRC-32 over the shape and, block after block, the words and the fallback list: it finds damage, not malice. All integers
//! little-endian, so that machines agree.

use super::control::SetSepControl;
use super::held::Held;
use super::params::Params;
use super::query::SetSep;
use crc32fast::Hasher;
use scalebricks_types::{PartitionId, Position};

/// Takes in a partition block by block.
struct Digest {
    crc: Hasher,
    bytes: Vec<u8>,
}

impl Digest {
    fn of(params: &Params) -> Self {
        let mut crc = Hasher::new();
        crc.update(&params.encode());
        Self { crc, bytes: Vec::new() }
    }

    fn block(&mut self, words: &[u64], fallback: &[(u64, u8)]) {
        self.bytes.clear();
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.bytes.extend_from_slice(&(fallback.len() as u16).to_le_bytes()); // at most a block's keys
        for (hash, value) in fallback {
            self.bytes.extend_from_slice(&hash.to_le_bytes());
            self.bytes.push(*value);
        }
        self.crc.update(&self.bytes);
    }
}

impl SetSepControl {
    /// The digest of a partition's bits, equal to that of every [`SetSep`] that is where this is. `None` if the partition is
    /// not held here, or is in two shapes. Cost: reads its bits.
    pub fn digest(&self, partition: PartitionId) -> Option<u32> {
        let at = usize::from(partition.0);
        let each = self.now.params().blocks_per_partition();
        let held: &Held = match self.next.as_ref().map(|next| next.all()[at]) {
            None | Some(0) => &self.now.held,
            Some(done) if done == each => &self.next.as_ref()?.shape.held,
            Some(_) => return None,
        };
        let first = held.first.get(at).copied().flatten()?;
        let mut digest = Digest::of(&held.params);
        for slot in first..first + held.params.blocks_per_partition() {
            let view = held.store.view(slot as usize);
            digest.block(view.words, &held.fallback(&view));
        }
        Some(digest.crc.finalize())
    }
}

impl SetSep {
    /// The position and the digest of a partition's bits. `None` if there is no such partition, or it is in two shapes. Holds
    /// back updates meanwhile, not readers. Cost: reads its bits.
    pub fn digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        let writer = self.writer();
        let position = *writer.positions.get(usize::from(partition.0))?;
        let shapes = self.shapes.load_full();
        let each = shapes.now.params.blocks_per_partition();
        let face = match shapes.next.as_ref().map(|next| next.done(partition)) {
            None | Some(0) => &shapes.now,
            Some(done) if done == each => &shapes.next.as_ref()?.face,
            Some(_) => return None,
        };
        let each = face.params.blocks_per_partition();
        let first = u32::from(partition.0) * each;
        let mut digest = Digest::of(&face.params);
        for block in first..first + each {
            let (words, fallback) = face.block_state(block);
            digest.block(&words, &fallback);
        }
        Some((position, digest.crc.finalize()))
    }

    /// Forgets where a partition is: its bits answer as before, and whatever comes next has to be all of them, from position 0.
    /// For a node that found them to be wrong.
    pub fn forget(&self, partition: PartitionId) {
        if let Some(position) = self.writer().positions.get_mut(usize::from(partition.0)) {
            *position = Position(0);
        }
    }
}
