//! Events of a node's actor.

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
    /// Another node sent a message.
    Came(NodeId, Vec<u8>),
    /// A partition in the state of a snapshot, and the last position of its log.
    Restored(u64, Box<Partition>, Position),
    /// Its next entries.
    Entries(PartitionId, u64, Vec<Entry>),
    /// The log of a partition ends here, before entries that were handed over.
    LogLost(PartitionId, u64, Position),
    /// A node has reported the first of these positions, and the log of the partition ends at the second, which is before it.
    LogEnds(PartitionId, Position, Position),
    /// A partition's snapshot is durable, or could not be stored.
    Kept(PartitionId, bool),
    /// Closures are in the log.
    Closed(PartitionId),
    /// This process calls a partition that may be this node's.
    Called(PartitionId, Vec<Call>),
    /// Calls are not in the log, and never will be.
    NotLogged(PartitionId, Vec<CallId>, Refusal),
    /// Asks for the session of a key.
    Ask(FlowKey, oneshot::Sender<Option<Session>>),
    /// Asks to be notified when all nodes have applied these positions.
    Wait(Vec<(PartitionId, Position)>, oneshot::Sender<()>),
    /// Asks for a flow's counts at a node.
    Tally(NodeId, Teid, oneshot::Sender<Option<FlowCount>>),
    /// Sets how long keys that a removed node may still forward are not given to other flows.
    RebindAfter(Duration),
    /// Counters of flows are to move with them, from and to these tables.
    Carry(SharedTables),
    /// Where are the tables, in a partition?
    Where(PartitionId, oneshot::Sender<Option<Report>>),
    /// Which of these keys of a partition have left, and are still held?
    Leaving(PartitionId, Vec<FlowKey>, oneshot::Sender<Vec<bool>>),
    /// Asks a node to compare its tables with the logs, and to list so many differences.
    Verify(NodeId, u32, oneshot::Sender<Verdict>),
    /// Notifies all nodes that a node's flows go to others.
    Tell(RepinNotice),
}
