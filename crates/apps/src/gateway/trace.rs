//! Computes where a node would send a packet, with the node's own code: a scratch [`Node`] with in-memory ports over
//! the running node's tables.
//!
//! Nothing is sent or counted. State that a running node has from earlier packets is missing: a later fragment finds no
//! first one, and VLB's intermediate node is one of the possible ones.

use crate::gateway::architecture::Architecture;
use crate::gateway::node::{Node, NodePorts, NodeTables};
use scalebricks_elements::gateway::NodeConfig;
use scalebricks_elements::gateway::flow::{FlowCount, FlowCounters, FlowState};
use scalebricks_elements::gateway::packet::classify::key_of;
use scalebricks_elements::gateway::packet::identification::Identifications;
use scalebricks_elements::gateway::reason::DropReason;
use scalebricks_elements::gateway::role::PortRole;
use scalebricks_io::pool::MAX_PACKET_BYTES;
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, PoolError, memory_port_pair};
use scalebricks_tables::{GptReader, KeyBatch};
use scalebricks_types::{FlowKey, KeyHash, NodeHint, NodeId};
use std::sync::Arc;
use std::time::Duration;

/// Capacity of a scratch port in frames: more than the fragments of any packet.
const PORT_FRAMES: usize = 512;

/// The path that a packet would take, with the lookups on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceReport {
    /// Its key; `None` if it has none or needs none.
    pub key: Option<(FlowKey, KeyHash)>,
    /// The GPT's answer for the key: the node it resolves to.
    pub gpt: Option<Option<NodeId>>,
    /// The lookup table's answer (hash partition only).
    pub lookup: Option<Option<NodeId>>,
    /// The FIB entry of the key, with the flow's counters if they are kept here.
    pub flow: Option<(FlowState, Option<FlowCount>)>,
    /// The frames sent, in order at each port.
    pub sent: Vec<(PortRole, Vec<u8>)>,
    /// The drop reason, if it is dropped.
    pub dropped: Option<DropReason>,
}

/// Why a packet could not be traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The frame is longer than any packet.
    #[error("a frame of {0} bytes is over the limit of {MAX_PACKET_BYTES}")]
    TooLong(usize),
    /// The scratch node has no buffers.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Traces a frame that arrives at `port`. `config` and `tables` are those of the node; the tables need their own
/// readers. Cost: some 100 µs and a few buffers of 66 kB; the running node is not touched.
///
/// # Errors
/// [`TraceError`].
pub fn trace(
    config: NodeConfig,
    mut tables: NodeTables,
    port: PortRole,
    frame: &[u8],
) -> Result<TraceReport, TraceError> {
    let mut pool = Pool::new(2 * PORT_FRAMES, MAX_PACKET_BYTES)?;
    let packet = pool.packet(frame).ok_or(TraceError::TooLong(frame.len()))?;
    let mut traced =
        TraceReport { key: None, gpt: None, lookup: None, flow: None, sent: Vec::new(), dropped: None };
    traced.key = key_of(&config, port, frame);
    if let Some(key) = traced.key {
        ask(&config, &mut tables, key, &mut traced);
    }
    let (mut node, mut far) = scratch(config, tables, pool);
    node.list_drops();
    let [internet, base_station, fabric] = &mut far;
    let arrival = match port {
        PortRole::Internet => internet,
        PortRole::BaseStation => base_station,
        PortRole::Fabric => fabric,
    };
    if arrival.send(packet).is_err() {
        unreachable!("an empty port has room for a frame");
    }
    node.turn(Duration::ZERO);
    for (role, link) in PortRole::ALL.into_iter().zip(&mut far) {
        while let Some(packet) = link.receive() {
            traced.sent.push((role, packet.data().to_vec()));
        }
    }
    traced.dropped = node.take_drops().first().map(|dropped| dropped.reason);
    Ok(traced)
}

/// A node like the running one, except for its ports, in the order of [`PortRole::ALL`], and its counters, which are
/// separate.
fn scratch(config: NodeConfig, tables: NodeTables, pool: Pool) -> (Node<Packet>, [MemoryPort<Packet>; 3]) {
    let (internet, far_internet) = memory_port_pair(PORT_FRAMES);
    let (base_station, far_base_station) = memory_port_pair(PORT_FRAMES);
    let (fabric, far_fabric) = memory_port_pair(PORT_FRAMES);
    let ports = NodePorts {
        internet: Box::new(internet),
        base_station: Box::new(base_station),
        fabric: Box::new(fabric),
    };
    let tables = NodeTables { counters: Arc::new(FlowCounters::new(0)), ..tables };
    // Separate numbers, so that a traced packet uses none up.
    let identifications = Arc::new(Identifications::new(config.id, config.size, 0));
    let config = NodeConfig { identifications, ..config };
    let node = Node::new(config, tables, ports, Box::new(pool));
    (node, [far_internet, far_base_station, far_fabric])
}

/// Looks up a key in the node's tables.
fn ask(
    config: &NodeConfig,
    tables: &mut NodeTables,
    (key, hash): (FlowKey, KeyHash),
    traced: &mut TraceReport,
) {
    let (key, hash) = ([key], [hash]);
    let keys = KeyBatch::new(&key, &hash);
    let node = |table: &mut dyn GptReader| {
        let mut hint = [NodeHint::NONE];
        table.lookup_batch(keys, &mut hint);
        config.size.resolve(hint[0])
    };
    traced.gpt = Some(node(tables.gpt.as_mut()));
    if let Some(lookup) =
        tables.lookup.as_mut().filter(|_| tables.architecture == Architecture::HashPartition)
    {
        traced.lookup = Some(node(lookup.as_mut()));
    }
    let mut value = [None];
    tables.fib.lookup_batch(keys, &mut value);
    traced.flow = value[0].map(FlowState::decode).map(|flow| {
        let is_here = flow.node == config.id;
        (flow, is_here.then(|| tables.counters.read(flow.index)))
    });
}
