//! A node's part in changing the table's shape.

use super::{Action, Agent};
use crate::distribution::Tables;
use crate::engine::Revision;
use crate::shape::{Known, Shape};
use scalebricks_types::PartitionId;
use std::time::Duration;

/// How long a proposal may take before it is made again.
const PATIENCE: Duration = Duration::from_millis(500);

/// A GPT that refuses so much, within this time, is in a shape that leads nowhere: one message may come late, from before the shape
/// changed or the process began.
const OUT_OF_SHAPE: (u32, Duration) = (8, Duration::from_secs(10));

impl<T: Tables> Agent<T> {
    /// The record of the table's shape was read. Older revisions are ignored.
    pub fn shaped(&mut self, revision: Revision, shape: Shape) {
        if self.shape.is_none_or(|known| known.revision < revision) {
            self.shape = Some(Known { shape, revision, proposed: None });
        }
    }

    /// The shape of the table, as the record has it.
    pub fn shape(&self) -> Option<Shape> {
        self.shape.map(|known| known.shape)
    }

    /// An [`Action::Reshape`] is in the log.
    pub fn reshaped(&mut self, partition: PartitionId) {
        if let Some(ownership) = self.owned.get_mut(&partition) {
            ownership.reshaped();
        }
    }

    /// The GPT refused an update.
    pub(super) fn refused_by_gpt(&mut self, now: Duration) {
        let (times, since) = &mut self.out_of_shape;
        if now > *since + OUT_OF_SHAPE.1 {
            (*times, *since) = (0, now);
        }
        *times += 1;
    }

    /// Brings the table to the record's shape, and the record to the shape that the cluster needs. Only the owner of the first
    /// partition does the latter; if two nodes believe that they own it, compare-and-set chooses one.
    pub(super) fn reshape(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Some(known) = self.shape else { return };
        let shape = known.shape;
        if self.out_of_shape.0 >= OUT_OF_SHAPE.0 {
            // The shape changed too much while this node was away, or it was sent an old one.
            self.replica.begin(shape.now);
            self.out_of_shape = (0, now);
            self.stats.begun_anew += 1;
        }
        for (&partition, ownership) in &mut self.owned {
            if let Some(reshape) = shape.reshape().filter(|reshape| ownership.is_to_reshape(reshape, now)) {
                actions.push(Action::Reshape(partition, reshape));
            }
        }
        let is_due = known.proposed.is_none_or(|at| now >= at + PATIENCE);
        if !is_due || self.partition(PartitionId(0)).is_none() {
            return;
        }
        let targets = || (0..self.partitions.get()).map(|at| self.replica.target(PartitionId(at as u16)));
        let wish = if shape.next.is_some() {
            let has_arrived =
                targets().all(|target| target.is_some_and(|target| target.shapes == shape.number));
            shape.arrived().filter(|_| has_arrived)
        } else {
            let room = targets().map(|target| target.map_or(u64::MAX, |target| target.room)).min();
            let wanted = shape.wanted(self.membership.view(), room.unwrap_or(u64::MAX));
            wanted.and_then(|next| shape.towards(next))
        };
        if let Some(wish) = wish {
            self.shape = Some(Known { proposed: Some(now), ..known });
            actions.push(Action::ProposeShape(known.revision, wish));
        }
    }
}
