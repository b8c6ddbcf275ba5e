//! What readers see: a table in one shape, or in two while it is being reshaped.
//!
//! In between, each partition answers in the old shape or in the new one. Its new ranges are there before the mark that
//! leads to them (release, acquire), and its old ones stay as they were until the last reader that may be in them has
//! gone.

use super::face::Face;
use crate::publish::sync::{AtomicBool, Ordering};
use scalebricks_types::{KeyHash, PartitionId};
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
    /// The partitions that answer in it.
    done: Box<[AtomicBool]>,
}

impl Shapes {
    pub(super) const fn one(now: Arc<Face>) -> Self {
        Self { now, next: None }
    }

    /// Two shapes, of which some partitions answer in the second.
    pub(super) fn two(now: Arc<Face>, next: Arc<Face>, done: &[bool]) -> Self {
        let done = done.iter().map(|&done| AtomicBool::new(done)).collect();
        Self { now, next: Some(NextFace { face: next, done }) }
    }

    /// The shape that answers for a hash.
    #[inline]
    pub(super) fn of(&self, hash: KeyHash) -> &Face {
        self.of_partition(self.now.layout.params.partitions().of(hash))
    }

    /// The shape that a partition answers in.
    #[inline]
    pub(super) fn of_partition(&self, partition: PartitionId) -> &Arc<Face> {
        match &self.next {
            Some(next) if next.is_done(partition) => &next.face,
            _ => &self.now,
        }
    }
}

impl NextFace {
    /// Whether a partition answers in the new shape.
    pub(super) fn is_done(&self, partition: PartitionId) -> bool {
        self.done[usize::from(partition.0)].load(Ordering::Acquire)
    }

    /// The same of every partition.
    pub(super) fn all(&self) -> Vec<bool> {
        self.done.iter().map(|done| done.load(Ordering::Acquire)).collect()
    }

    /// Lets a partition answer in the new shape; its ranges must be there.
    pub(super) fn set_done(&self, partition: PartitionId) {
        self.done[usize::from(partition.0)].store(true, Ordering::Release);
    }

    /// Whether no partition answers in the old shape any more.
    pub(super) fn are_all_done(&self) -> bool {
        self.done.iter().all(|done| done.load(Ordering::Acquire))
    }
}
