//! A number that stands for the bits of a partition: two nodes at one position that have different ones have silently
//! diverged.
//!
//! CRC-32 over the shape and, range after range, seed and words: it finds damage, not malice. All integers little-endian,
//! so that machines agree.

use super::control::OthelloControl;
use super::params::Params;
use super::query::Othello;
use crc32fast::Hasher;
use scalebricks_types::{PartitionId, Position};

/// Takes in a partition range by range.
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

    fn range(&mut self, seed: u8, words: &[u64]) {
        self.bytes.clear();
        self.bytes.push(seed);
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.crc.update(&self.bytes);
    }
}

impl OthelloControl {
    /// The digest of a partition's bits, equal to that of every [`Othello`] that is where this is. `None` if the partition
    /// is not held here. Cost: reads its bits.
    pub fn digest(&self, partition: PartitionId) -> Option<u32> {
        let store = self.part(partition)?;
        let mut digest = Digest::of(&store.layout().params);
        for (range, head) in (0..).zip(store.heads()) {
            digest.range(head.seed, store.words(range));
        }
        Some(digest.crc.finalize())
    }
}

impl Othello {
    /// The position and the digest of a partition's bits. `None` if there is no such partition. Holds back updates
    /// meanwhile, not readers. Cost: reads its bits.
    pub fn digest(&self, partition: PartitionId) -> Option<(Position, u32)> {
        let writer = self.writer();
        let position = *writer.positions.get(usize::from(partition.0))?;
        let shapes = self.shapes.load_full();
        let face = shapes.of_partition(partition);
        let each = face.layout.params.ranges_per_partition();
        let first = u32::from(partition.0) * each;
        let (mut digest, mut words) = (Digest::of(&face.layout.params), Vec::new());
        for range in first..first + each {
            let seed = face.state(range, &mut words);
            digest.range(seed, &words);
        }
        Some((position, digest.crc.finalize()))
    }

    /// Forgets where a partition is: its bits answer as before, and whatever comes next has to be all of them, from position
    /// 0. For a node that found them to be wrong.
    pub fn forget(&self, partition: PartitionId) {
        if let Some(position) = self.writer().positions.get_mut(usize::from(partition.0)) {
            *position = Position(0);
        }
    }
}
