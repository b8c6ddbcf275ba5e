//! What a node counts.

use super::{PortRole, WorkerView};
use crate::cluster::mesh::{MeshStats, PeerStats};
use crate::cluster::stats::PlaneStats;
use scalebricks_dataplane::{DropReason, NodeStats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What a node has counted since it started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// Seconds since the node started.
    pub uptime_s: f64,
    /// All workers together.
    pub total: NodeCounters,
    /// Each worker.
    pub workers: Vec<WorkerStats>,
    /// Each port, as its device counts.
    pub ports: Vec<PortCounters>,
    /// What is done off the fast path (ARP, neighbour discovery, echo and the like), by name.
    pub slow_path: BTreeMap<String, u64>,
    /// Packet buffers.
    pub pool: PoolView,
    /// The control plane, if the node has one and its engine could be reached.
    #[serde(default)]
    pub control: Option<ControlStats>,
}

/// What a node's control plane counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControlStats {
    /// Entries of logs that were applied, in partitions that were this node's then.
    pub entries: u64,
    /// Changes in them, or entries as a whole, that did nothing.
    pub voids: u64,
    /// Messages of other nodes that were not understood.
    pub malformed: u64,
    /// Messages of partitions' owners that something was missing before.
    pub gaps: u64,
    /// Messages of partitions' owners that the tables refused.
    pub refused: u64,
    /// Partitions in which this node gave a dead or drained node's flows to others.
    pub repins: u64,
    /// The other nodes, as this one reaches them.
    pub peers: Vec<PeerView>,
    /// What came from those who have not shown that they are peers, by name.
    pub strangers: BTreeMap<String, u64>,
}

/// How another node is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PeerView {
    /// The node.
    pub node: u16,
    /// Whether there is a connection over which messages go to it.
    pub is_connected: bool,
    /// Messages that wait to be sent to it.
    pub waiting: u64,
    /// What was counted, by name.
    pub counts: BTreeMap<String, u64>,
}

impl From<(PlaneStats, Option<MeshStats>)> for ControlStats {
    fn from((plane, mesh): (PlaneStats, Option<MeshStats>)) -> Self {
        // Named field by field, so that a new counter cannot be forgotten here.
        let PlaneStats { entries, voids, malformed, gaps, refused, repins } = plane;
        let mut stats = Self { entries, voids, malformed, gaps, refused, repins, ..Self::default() };
        if let Some(MeshStats { peers, strangers }) = mesh {
            stats.peers = peers
                .into_iter()
                .map(|(node, PeerStats { is_connected, waiting, counts })| PeerView {
                    node: u16::from(node.get()),
                    is_connected,
                    waiting: waiting as u64,
                    counts: counts.into_iter().map(|(what, n)| (what.name().to_owned(), n)).collect(),
                })
                .collect();
            stats.strangers = strangers.into_iter().map(|(what, n)| (what.name().to_owned(), n)).collect();
        }
        stats
    }
}

/// One worker's share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerStats {
    /// The worker, and how busy it is.
    pub worker: WorkerView,
    /// What it counted.
    pub counters: NodeCounters,
}

/// The data plane's counters, in packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCounters {
    /// Received from the Internet.
    pub internet_in: u64,
    /// Received from the base stations.
    pub base_station_in: u64,
    /// Received from the fabric.
    pub fabric_in: u64,
    /// Sent to the Internet, the node's own answers apart.
    pub internet_out: u64,
    /// Sent to base stations; a fragmented packet counts once.
    pub base_station_out: u64,
    /// Sent over the fabric.
    pub fabric_out: u64,
    /// Outer fragments sent in place of whole packets.
    pub fragments_made: u64,
    /// Packets that were fragmented.
    pub packets_fragmented: u64,
    /// ICMP errors sent.
    pub icmp_sent: u64,
    /// Packets sent on to another node because the flow was not here any more.
    pub forwarded_again: u64,
    /// Dropped, by reason; every reason is there.
    pub dropped: BTreeMap<String, u64>,
}

impl NodeCounters {
    /// All drops.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }
}

impl From<&NodeStats> for NodeCounters {
    fn from(stats: &NodeStats) -> Self {
        // Named field by field, so that a new counter cannot be forgotten here.
        let NodeStats {
            internet_in,
            base_station_in,
            fabric_in,
            internet_out,
            base_station_out,
            fabric_out,
            fragments_made,
            packets_fragmented,
            icmp_sent,
            forwarded_again,
            dropped,
        } = *stats;
        let count = |&reason: &DropReason| (reason.name().to_owned(), dropped.get(reason));
        Self {
            internet_in,
            base_station_in,
            fabric_in,
            internet_out,
            base_station_out,
            fabric_out,
            fragments_made,
            packets_fragmented,
            icmp_sent,
            forwarded_again,
            dropped: DropReason::ALL.iter().map(count).collect(),
        }
    }
}

/// A port's device counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortCounters {
    /// The port.
    pub role: PortRole,
    /// Packets received.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets that came while no descriptor was free.
    pub rx_missed: u64,
    /// Packets received with errors.
    pub rx_errors: u64,
    /// Receptions that found no free buffer.
    pub rx_no_buffer: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

/// Packet buffers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// Free.
    pub free: u64,
    /// In use: in queues, in descriptors, in a worker's hands.
    pub in_use: u64,
}
