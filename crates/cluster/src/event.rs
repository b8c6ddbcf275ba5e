//! What a node's actor is told.

use super::repins::RepinNotice;
use super::shared_tables::SharedTables;
use super::verify::Verdict;
use scalebricks_control::calls::Refusal;
use scalebricks_control::distribution::Report;
use scalebricks_control::engine::{Entry, Revision};
use scalebricks_control::membership::View;
use scalebricks_control::partition::Partition;
use scalebricks_control::record::{Call, CallId, Session};
use scalebricks_control::shape::Shape;
use scalebricks_elements::gateway::FlowCount;
use scalebricks_types::{FlowKey, NodeId, PartitionId, Position, Teid};
use std::time::Duration;
use tokio::sync::oneshot;

/// Something happened.
pub(super) enum Event {
    /// The record of membership.
    Viewed(Revision, View),
    /// A node's pulse came through the engine.
    Pulsed(NodeId),
    /// The record of the table's shape.
    Shaped(Revision, Shape),
    /// A change of shape is in the log.
    Reshaped(PartitionId),
    /// Another node says something.
    Came(NodeId, Vec<u8>),
    /// A partition in the state of a snapshot, and the last position of its log.
    Restored(u64, Box<Partition>, Position),
    /// Its next entries.
    Entries(PartitionId, u64, Vec<Entry>),
    /// The log of a partition ends here, before what was handed over of it.
    LogLost(PartitionId, u64, Position),
    /// A node has reported the first of these positions, and the log of the partition ends at the second, which is before it.
    LogEnds(PartitionId, Position, Position),
    /// A partition's snapshot is durable, or could not be stored.
    Kept(PartitionId, bool),
    /// A death is in the log.
    Repinned(PartitionId, NodeId),
    /// Closures are in the log.
    Closed(PartitionId),
    /// This process calls a partition that may be this node's.
    Called(PartitionId, Vec<Call>),
    /// Calls are not in the log, and never will be.
    NotLogged(PartitionId, Vec<CallId>, Refusal),
    /// What does a key lead to?
    Ask(FlowKey, oneshot::Sender<Option<Session>>),
    /// Tell when all nodes have applied this.
    Wait(Vec<(PartitionId, Position)>, oneshot::Sender<()>),
    /// What has a flow counted at this node?
    Tally(NodeId, Teid, oneshot::Sender<Option<FlowCount>>),
    /// Wait so long, when a node was removed, before keys that it may still forward go to other flows.
    RebindAfter(Duration),
    /// Counters of flows are to move with them, from and to these tables.
    Carry(SharedTables),
    /// Where are the tables, in a partition?
    Where(PartitionId, oneshot::Sender<Option<Report>>),
    /// Which of these keys of a partition have left, and are still held?
    Leaving(PartitionId, Vec<FlowKey>, oneshot::Sender<Vec<bool>>),
    /// Have a node compare its tables with the logs, and tell of so many differences.
    Verify(NodeId, u32, oneshot::Sender<Verdict>),
    /// Tell all that a node's flows go to others.
    Tell(RepinNotice),
}
