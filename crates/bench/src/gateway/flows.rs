//! The flows of the cluster that the measured node belongs to, each from its number.

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

/// Nodes of the cluster, as in the paper. [`node_of`] takes so many.
pub const NODES: usize = 4;

/// Fewest flows: each node has some.
pub const MIN_FLOWS: u64 = 64;

/// Most flows there are addresses for.
pub const MAX_FLOWS: u64 = 64 << 20;

/// Base stations, each with the tunnels of many flows.
const BASE_STATIONS: u16 = 256;

/// The first address of a user; flow `n` belongs to the `n`-th.
const FIRST_USER: u32 = 0x0a00_0000;

/// The node that is measured.
pub const HERE: NodeId = NodeId::new(0);

/// The secret of the cluster's hash, and the hash.
pub const SEED: HashSeed = HashSeed::from_u64(7);
/// See [`SEED`].
pub const HASHER: KeyHasher = KeyHasher::new(SEED);

/// The node a flow is pinned to: every fourth, on average, here.
pub const fn node_of(flow: u64) -> NodeId {
    NodeId::new((mix(flow ^ 0x0F0F) >> 62) as u8) // two bits
}

/// The address of a flow's user.
pub fn user(flow: u64) -> Ipv4Addr {
    Ipv4Addr::from(FIRST_USER + flow as u32) // below `MAX_FLOWS`
}

/// The flow of a user's address.
pub fn flow_of(user: Ipv4Addr) -> u64 {
    u64::from(user.to_bits().wrapping_sub(FIRST_USER))
}

/// The other end of a flow: its address and port, and the user's port.
pub fn server(flow: u64) -> (Ipv4Addr, u16, u16) {
    let (address, ports) = (mix(flow), mix(!flow));
    (Ipv4Addr::from(0x5000_0000 | (address as u32 & 0x0fff_ffff)), ports as u16, (ports >> 16) as u16)
}

/// The key of its downstream packets.
pub fn key(flow: u64) -> FlowKey {
    let (server, from, to) = server(flow);
    FlowKey::five_tuple_v4(server, user(flow), UDP, from, to)
}

/// The tunnel of its upstream packets.
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

/// What a FIB holds for it.
pub fn state(flow: u64, index: FlowIndex) -> FlowState {
    let spec = spec(flow);
    PinnedState::from(&spec).at(spec.node, index)
}

/// A base station.
pub const fn base_station(id: BaseStationId) -> BaseStation {
    let [high, low] = id.0.to_be_bytes();
    BaseStation { address: Ipv4Addr::new(192, 168, high, low), mac: MacAddr([0x02, 0x5a, 3, 0, high, low]) }
}

/// All of them.
pub fn base_stations() -> Vec<BaseStation> {
    (0..BASE_STATIONS).map(|id| base_station(BaseStationId(id))).collect()
}

/// The addresses on the measured node's links.
pub const MACS: OutsideMacs = OutsideMacs {
    internet: MacAddr([0x02, 0x5a, 0, 0, 0, 0]),
    base_station: MacAddr([0x02, 0x5a, 1, 0, 0, 0]),
    router: MacAddr([0x02, 0x5a, 2, 0, 0, 0]),
};

/// How a node is made, the measured one or another with the same links.
pub fn node_config(id: NodeId, size: ClusterSize) -> NodeConfig {
    NodeConfig {
        id,
        size,
        policy: Policy::default(),
        seed: SEED,
        macs: MACS,
        // As a node on real links has.
        addresses: Arc::new([IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10))]),
        adjacencies: Arc::new(Adjacencies::fixed(MACS.router, &base_stations())),
        identifications: Arc::new(Identifications::new(id, size, 0)),
    }
}
