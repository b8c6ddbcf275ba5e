//! Effects of a log entry.

use super::verdict::Judged;
use crate::record::{FlowId, Session};
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_tables::fib::FibOp;
use scalebricks_types::{Delta, FlowKey, NodeId, PartitionId, Position};
use std::collections::BTreeMap;

/// Why an entry, or a change in it, does nothing. A function of the log before it, so all nodes agree. The order of the reasons
/// is part of the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error, BorshSerialize, BorshDeserialize)]
pub enum Void {
    /// The entry was applied before.
    #[error("already applied")]
    Applied,
    /// The writer's batch is in the log twice.
    #[error("the batch is already in the log")]
    Duplicate,
    /// The writer's batch is below its window.
    #[error("the batch is older than its writer's window")]
    BelowWindow,
    /// The writer was forgotten because newer ones came: it has to draw another number.
    #[error("the batch's writer was forgotten")]
    WriterRetired,
    /// The payload is no list of changes, of no version.
    #[error("not a list of changes")]
    Malformed,
    /// The GPT's blocks or their fallback are full. Of a batch with calls, it is a call that is void for that.
    #[error("no room in the table: give it more blocks")]
    NoRoom,
    /// The key belongs to another partition.
    #[error("the key belongs to another partition")]
    OtherPartition,
    /// The GPT has no number for this node: it needs more value bits.
    #[error("the table has too few value bits for the node")]
    NoSuchNode,
    /// The key is not there.
    #[error("no such key")]
    Missing,
    /// The table cannot have this shape: its keys or their values do not fit it, or it does not follow from the one it has.
    #[error("the table cannot be given this shape")]
    Shape,
    /// A change that is made alone came with others.
    #[error("the change of shape is not alone in its batch")]
    NotAlone,
    /// Another key has the same hash. The cluster's secret would have to be another.
    #[error("another key has the same hash")]
    SameHash,
}

/// The result of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub enum Outcome {
    /// Its changes were made, but for those that are void.
    #[default]
    Done,
    /// None of it.
    Void(Void),
}

/// The effect of an entry on the FIB of one node.
///
/// Sets are applied at once. A deleted key has moved or ended: a node keeps it until no table names the node for it, and packets
/// on their way have arrived.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct FibUpdate {
    /// Whose keys.
    pub partition: PartitionId,
    /// The entry.
    pub position: Position,
    /// The entry before it that meant something for this node.
    pub previous: Position,
    /// Sets, then deletions.
    pub ops: Vec<FibOp>,
}

/// A key left a flow: it is of another, or was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The key.
    pub key: FlowKey,
    /// The flow that it was of.
    pub flow: FlowId,
}

/// Effects of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// The result.
    pub outcome: Outcome,
    /// New bits for every node, if some changed. Leads to the entry's position.
    pub gpt: Option<Delta>,
    /// Updates of FIBs, by node, ascending.
    pub fib: Vec<(NodeId, FibUpdate)>,
    /// Keys that are not of the flow any more that they were of before the entry.
    pub ended: Vec<Ended>,
    /// Changes that did nothing, by their number in the entry. Those of a call that is void as a whole are not among them.
    pub voids: Vec<(u32, Void)>,
    /// The verdicts of the entry's calls: of those that were judged before, the verdict that they got then.
    pub calls: Vec<Judged>,
}

impl Effects {
    /// Nothing.
    pub(super) fn void(why: Void) -> Self {
        Self { outcome: Outcome::Void(why), ..Self::default() }
    }

    /// Nothing but a reason.
    pub const fn is_void(&self) -> bool {
        matches!(self.outcome, Outcome::Void(_))
    }
}

/// Changes by node.
#[derive(Debug, Default)]
pub(super) struct ByNode(BTreeMap<NodeId, Vec<FibOp>>);

impl ByNode {
    /// Adds the change of one key.
    pub(super) fn tell(&mut self, key: FlowKey, before: Option<Session>, after: Option<Session>) {
        let is_same = |after: &Session| before.is_some_and(|before| before.is_handled_as(after));
        if let Some(after) = after.filter(|after| !is_same(after)) {
            self.0.entry(after.node).or_default().push(FibOp::Set(key, after.value));
        }
        if let Some(before) = before.filter(|before| after.is_none_or(|after| after.node != before.node)) {
            self.0.entry(before.node).or_default().push(FibOp::Delete(key));
        }
    }

    /// The updates of the entry at `position`; `last` knows the one before for each node, and learns this one.
    pub(super) fn updates(
        self,
        partition: PartitionId,
        position: Position,
        last: &mut BTreeMap<NodeId, Position>,
    ) -> Vec<(NodeId, FibUpdate)> {
        let update = |(node, ops)| {
            let previous = last.insert(node, position).unwrap_or_default();
            (node, FibUpdate { partition, position, previous, ops })
        };
        self.0.into_iter().map(update).collect()
    }
}
