//! What follows from an entry of the log.

use super::verdict::Judged;
use crate::record::{FlowId, Session};
use scalebricks_tables::fib::FibOp;
use scalebricks_types::{Delta, FlowKey, NodeId, PartitionId, Position};
use std::collections::BTreeMap;

/// Why an entry, or a change in it, does nothing. A function of the log before it, so all agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Void {
    /// The entry was applied before.
    #[error("applied already")]
    Applied,
    /// The writer's batch is in the log twice.
    #[error("a batch that is in the log already")]
    Duplicate,
    /// The writer's batch is older than anybody remembers.
    #[error("a batch older than its writer's window")]
    BelowWindow,
    /// The writer was forgotten, as newer ones came: it has to start anew.
    #[error("a batch of a writer that was forgotten")]
    WriterRetired,
    /// The payload is no list of changes, of no version.
    #[error("not a list of changes")]
    Malformed,
    /// The GPT's blocks or their fallback are full. Of a batch with calls, it is a call that is void for that.
    #[error("no room in the table: give it more blocks")]
    NoRoom,
    /// The key belongs to another partition.
    #[error("a key of another partition")]
    OtherPartition,
    /// The GPT has no number for this node: it needs more value bits.
    #[error("a node the table has no value for")]
    NoSuchNode,
    /// The key is not there.
    #[error("no such key")]
    Missing,
    /// The table cannot have this shape: its keys or their values do not fit it, or it does not follow from the one it has.
    #[error("the table cannot be given this shape")]
    Shape,
    /// A change that is made alone came with others.
    #[error("a change of shape that is not alone in its batch")]
    NotAlone,
    /// Another key has the same hash. The cluster's secret would have to be another.
    #[error("another key with the same hash is there")]
    SameHash,
}

impl Void {
    /// By code, for what is written; a code never gets another meaning. 0 is none.
    const ALL: [Self; 12] = [
        Self::Applied,
        Self::Duplicate,
        Self::BelowWindow,
        Self::WriterRetired,
        Self::Malformed,
        Self::NoRoom,
        Self::OtherPartition,
        Self::NoSuchNode,
        Self::Missing,
        Self::Shape,
        Self::NotAlone,
        Self::SameHash,
    ];

    /// Its code.
    pub(crate) fn code(self) -> u8 {
        Self::ALL.iter().position(|why| *why == self).map_or(0, |at| at as u8 + 1) // few
    }

    /// The reason with this code.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Its changes were made, but for those that are void.
    #[default]
    Done,
    /// None of it.
    Void(Void),
}

/// What an entry means for the FIB of one node: the next of the updates that the partition has for it.
///
/// Sets are made at once. What is deleted has moved or ended: a node goes on holding it until the bits that no longer name
/// it are everywhere, and packets on their way have arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FibUpdate {
    /// Whose keys.
    pub partition: PartitionId,
    /// The entry.
    pub position: Position,
    /// The entry before it that meant something for this node.
    pub previous: Position,
    /// What is set, and what is deleted after that.
    pub ops: Vec<FibOp>,
}

/// A key is not of a flow any more: it is of another, or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The key.
    pub key: FlowKey,
    /// The flow that it was of.
    pub flow: FlowId,
}

/// What follows from one entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// What became of it.
    pub outcome: Outcome,
    /// New bits for every node, if some changed. Leads to the entry's position.
    pub gpt: Option<Delta>,
    /// What changes for FIBs, by node, ascending.
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
    /// Tells what became of a key.
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
