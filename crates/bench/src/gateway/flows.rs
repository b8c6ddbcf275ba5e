//! The flows of the cluster that the measured node belongs to, derived from their numbers.

use crate::keys::mix;
use scalebricks_apps::gateway::{FlowSpec, PinnedState};
use scalebricks_elements::gateway::{
    Adjacencies, BaseStation, BaseStationId, FlowState, Identifications, NodeConfig, OutsideMacs, Policy,
};
use scalebricks_types::{ClusterSize, FlowIndex, FlowKey, HashSeed, KeyHasher, NodeId, Teid};
use scalebricks_wire::MacAddr;
use scalebricks_wire::protocol::UDP;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Nodes of the cluster, as in the paper and in [`node_of`].
pub const NODES: usize = 4;

/// Minimum flows, so that each node has some.
pub const MIN_FLOWS: u64 = 64;

/// Maximum flows, limited by the address range.
pub const MAX_FLOWS: u64 = 64 << 20;

/// Base stations, each with many tunnels.
const BASE_STATIONS: u16 = 256;

/// The first user address; flow `n` belongs to the `n`-th user.
const FIRST_USER: u32 = 0x0a00_0000;

/// The measured node.
pub const HERE: NodeId = NodeId::new(0);

/// The seed of the cluster's hash.
pub const SEED: HashSeed = HashSeed::from_u64(7);
/// The cluster's hasher.
pub const HASHER: KeyHasher = KeyHasher::new(SEED);

/// The node a flow is pinned to; a quarter of the flows are pinned here.
pub const fn node_of(flow: u64) -> NodeId {
    NodeId::new((mix(flow ^ 0x0F0F) >> 62) as u8) // two bits
}

/// The user's address of a flow.
pub fn user(flow: u64) -> Ipv4Addr {
    Ipv4Addr::from(FIRST_USER + flow as u32) // below `MAX_FLOWS`
}

/// The flow of a user's address.
pub fn flow_of(user: Ipv4Addr) -> u64 {
    u64::from(user.to_bits().wrapping_sub(FIRST_USER))
}

/// The server's address and port, and the user's port.
pub fn server(flow: u64) -> (Ipv4Addr, u16, u16) {
    let (address, ports) = (mix(flow), mix(!flow));
    (Ipv4Addr::from(0x5000_0000 | (address as u32 & 0x0fff_ffff)), ports as u16, (ports >> 16) as u16)
}

/// The key of downstream packets.
pub fn key(flow: u64) -> FlowKey {
    let (server, from, to) = server(flow);
    FlowKey::five_tuple_v4(server, user(flow), UDP, from, to)
}

/// The tunnel of upstream packets.
pub const fn uplink(flow: u64) -> Teid {
    Teid::new(flow as u32 + 1) // below `MAX_FLOWS`
}

/// The flow as a controller pins it.
pub fn spec(flow: u64) -> FlowSpec {
    FlowSpec {
        key: key(flow),
        uplink_teid: uplink(flow),
        downlink_teid: Teid::new(mix(flow ^ 0x7E1D) as u32),
        base_station: BaseStationId(mix(flow) as u16 % BASE_STATIONS),
        qfi: None,
        node: node_of(flow),
    }
}

/// The flow's state in a FIB.
pub fn state(flow: u64, index: FlowIndex) -> FlowState {
    let spec = spec(flow);
    PinnedState::from(&spec).at(spec.node, index)
}

/// A base station.
pub const fn base_station(id: BaseStationId) -> BaseStation {
    let [high, low] = id.0.to_be_bytes();
    BaseStation { address: Ipv4Addr::new(192, 168, high, low), mac: MacAddr([0x02, 0x5a, 3, 0, high, low]) }
}

/// All base stations.
pub fn base_stations() -> Vec<BaseStation> {
    (0..BASE_STATIONS).map(|id| base_station(BaseStationId(id))).collect()
}

/// The MAC addresses on the measured node's links.
pub const MACS: OutsideMacs = OutsideMacs {
    internet: MacAddr([0x02, 0x5a, 0, 0, 0, 0]),
    base_station: MacAddr([0x02, 0x5a, 1, 0, 0, 0]),
    router: MacAddr([0x02, 0x5a, 2, 0, 0, 0]),
};

/// The configuration of a node with the measured node's links.
pub fn node_config(id: NodeId, size: ClusterSize) -> NodeConfig {
    NodeConfig {
        appliance: None,
        id,
        size,
        policy: Policy::default(),
        seed: SEED,
        macs: MACS,
        // As for a node on real links.
        addresses: Arc::new([IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10))]),
        adjacencies: Arc::new(Adjacencies::fixed(MACS.router, &base_stations())),
        identifications: Arc::new(Identifications::new(id, size, 0)),
    }
}
