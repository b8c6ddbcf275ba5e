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

/// An event.
pub(super) enum Event {
    /// The record of membership was read.
    Viewed(Revision, View),
    /// A node's pulse came through the engine.
    Pulsed(NodeId),
    /// The record of the table's shape was read.
    Shaped(Revision, Shape),
    /// A change of shape is in the log.
    Reshaped(PartitionId),
    /// Another node sent a message.
    Came(NodeId, Vec<u8>),
    /// A partition was restored from a snapshot; with the last position of its log.
    Restored(u64, Box<Partition>, Position),
    /// The next entries of a partition.
    Entries(PartitionId, u64, Vec<Entry>),
    /// The log of a partition ends here, before entries that were handed over.
    LogLost(PartitionId, u64, Position),
    /// A node has reported the first position, and the log of the partition ends at the second, which is lower.
    LogEnds(PartitionId, Position, Position),
    /// A partition's snapshot is durable, or could not be stored.
    Kept(PartitionId, bool),
    /// Closures are in the log.
    Closed(PartitionId),
    /// This process sends calls to a partition that this node may own.
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
    /// Starts the transfer of flow counters from and to these tables.
    Carry(SharedTables),
    /// Asks for the positions of the tables in a partition.
    Where(PartitionId, oneshot::Sender<Option<Report>>),
    /// Asks which of these keys of a partition have left and are still held.
    Leaving(PartitionId, Vec<FlowKey>, oneshot::Sender<Vec<bool>>),
    /// Asks a node to compare its tables with the logs, and to list so many differences.
    Verify(NodeId, u32, oneshot::Sender<Verdict>),
    /// Notifies all nodes that a node's flows go to others.
    Tell(RepinNotice),
}
