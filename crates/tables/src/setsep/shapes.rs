//! What readers see: a table in one shape, or in two while it is being reshaped.
//!
//! In between, the first so many blocks of each partition answer in the new shape, the others in the old. A block's
//! new form is there before the count that leads to it (release, acquire), and its old form stays as it was until the
//! last reader that may be in it has gone. So for each key a reader finds the value before or after any update: it
//! takes the shapes anew with every pin, and an old block that has been left behind holds the values of the moment when
//! it was left.

use super::face::Face;
use super::geometry::bucket_of;
use crate::publish::sync::{AtomicU32, Ordering};
use scalebricks_types::PartitionId;
use std::sync::Arc;

/// A table's shapes at one time.
#[derive(Debug)]
pub(super) struct Shapes {
    pub(super) now: Arc<Face>,
    pub(super) next: Option<NextFace>,
}

/// The shape a table is on its way to.
#[derive(Debug)]
pub(super) struct NextFace {
    pub(super) face: Arc<Face>,
    /// For each partition, how many of its blocks of the old shape answer in the new one.
    done: Box<[AtomicU32]>,
}

impl Shapes {
    pub(super) const fn one(now: Arc<Face>) -> Self {
        Self { now, next: None }
    }

    /// Two shapes, of which so many blocks of each partition answer in the second.
    pub(super) fn two(now: Arc<Face>, next: Arc<Face>, done: Vec<u32>) -> Self {
        let done = done.into_iter().map(AtomicU32::new).collect();
        Self { now, next: Some(NextFace { face: next, done }) }
    }

    /// The shape that answers for a hash.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> &Face {
        let Some(next) = &self.next else { return &self.now };
        let (block, _) = bucket_of(hash, self.now.params.blocks());
        let each = self.now.params.blocks_per_partition();
        let done = next.done[(block / each) as usize].load(Ordering::Acquire);
        if block % each < done { &next.face } else { &self.now }
    }
}

impl NextFace {
    /// Blocks of a partition that answer in the new shape.
    pub(super) fn done(&self, partition: PartitionId) -> u32 {
        self.done[usize::from(partition.0)].load(Ordering::Acquire)
    }

    /// The same for every partition.
    pub(super) fn all(&self) -> Vec<u32> {
        self.done.iter().map(|done| done.load(Ordering::Acquire)).collect()
    }

    /// Lets more blocks of a partition answer in the new shape; they must be there.
    pub(super) fn set_done(&self, partition: PartitionId, done: u32) {
        self.done[usize::from(partition.0)].store(done, Ordering::Release);
    }

    /// Whether no block answers in the old shape any more.
    pub(super) fn all_done(&self, old: &super::params::Params) -> bool {
        self.done.iter().all(|done| done.load(Ordering::Acquire) == old.blocks_per_partition())
    }
}
