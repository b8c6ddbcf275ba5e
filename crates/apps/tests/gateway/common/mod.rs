//! A small cluster, and frames built by an independent library.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test helper fails by panicking"
)]

use etherparse::PacketBuilder;
use scalebricks_apps::gateway::{Architecture, Cluster, ClusterConfig, Dropped, FlowSpec};
use scalebricks_elements::gateway::{BaseStation, BaseStationId, OutputPort, Policy};
use scalebricks_io::{Packet, PacketBuf, Pool, Tag};
use scalebricks_tables::compact::Structure;
use scalebricks_tables::setsep::{Params, SetSepBuilder};
use scalebricks_types::{
    ClusterSize, Delta, FlowKey, HashSeed, KeyHash, KeyHasher, KeyProfile, NodeId, PartitionCount, Qfi, Teid,
};
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
pub const SERVER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 7);
pub const PEER_MAC: [u8; 6] = [0x00, 0x16, 0x3e, 1, 2, 3];

/// Flow `n`: UDP from the server's port 53 to the UE's port 4000.
pub fn ue(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0100 + n)
}

pub fn ue6(n: u32) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0x100, n as u16, 0, 0, 0, 1)
}

pub fn key(profile: KeyProfile, n: u32, v6: bool) -> FlowKey {
    match (profile, v6) {
        (KeyProfile::Inside | KeyProfile::Nat44(_), _) => panic!("keys of gateways only"),
        (KeyProfile::Ue, false) => FlowKey::ue(IpAddr::V4(ue(n))),
        (KeyProfile::Ue, true) => FlowKey::ue(IpAddr::V6(ue6(n))),
        (KeyProfile::Flow5, false) => FlowKey::five_tuple_v4(SERVER, ue(n), 17, 53, 4000),
        (KeyProfile::Flow5, true) => FlowKey::five_tuple_v6(SERVER6, ue6(n), 17, 53, 4000),
    }
}

/// Even flows are IPv4, odd ones IPv6; every third has a QFI.
pub fn flows(count: u32, nodes: usize, profile: KeyProfile) -> Vec<FlowSpec> {
    (0..count)
        .map(|n| FlowSpec {
            key: key(profile, n, n % 2 == 1),
            uplink_teid: Teid::new(0x8000_0000 + n),
            downlink_teid: Teid::new(0x1000 + n),
            base_station: BaseStationId((n % 4) as u16),
            qfi: (n % 3 == 0).then(|| Qfi::new(9).unwrap()),
            node: NodeId::new((n / 7 % nodes as u32) as u8),
        })
        .collect()
}

pub fn station(n: u16) -> BaseStation {
    BaseStation {
        address: Ipv4Addr::new(10, 254, 0, n as u8),
        mac: MacAddr([0x00, 0x16, 0x3e, 9, 9, n as u8]),
    }
}

pub struct Bench {
    pub cluster: Cluster,
    pub pool: Pool,
    pub flows: Vec<FlowSpec>,
    pub policy: Policy,
    next_id: u64,
}

/// A packet that left the cluster.
pub struct Left {
    pub node: usize,
    pub output: OutputPort,
    pub tag: Tag,
    pub frame: Vec<u8>,
}

pub fn bench(architecture: Architecture, nodes: usize, policy: Policy) -> Bench {
    bench_with(600, architecture, nodes, policy)
}

pub fn bench_with(flow_count: u32, architecture: Architecture, nodes: usize, policy: Policy) -> Bench {
    let flows = flows(flow_count, nodes, policy.key_profile);
    let pool = Pool::new(4_096, 60_000).unwrap();
    let config = ClusterConfig {
        appliance: None,
        size: ClusterSize::new(nodes).unwrap(),
        architecture,
        gpt: Structure::default(),
        policy,
        seed: SEED,
        base_stations: (0..4).map(station).collect(),
        outside_capacity: 2_048,
        fabric_capacity: 64,
        buffers: pool.clone(),
    };
    let mut cluster = Cluster::new(&config, &flows).unwrap();
    for node in cluster.nodes_mut() {
        node.list_drops();
    }
    Bench { cluster, pool, flows, policy, next_id: 0 }
}

pub const SEED: HashSeed = HashSeed::new(7, 8);

impl Bench {
    /// The update that pins `key` to another node, as its owner would send it. The build is deterministic, so an owner
    /// created here sends bits that fit.
    pub fn stale_delta(&self, key: &FlowKey, node: u8) -> Delta {
        let hasher = KeyHasher::new(SEED);
        let keys: Vec<(KeyHash, u8)> = self
            .flows
            .iter()
            .flat_map(|f| [f.key, FlowKey::teid(f.uplink_teid)].map(|key| (hasher.hash(&key), f.node.get())))
            .collect();
        let size = ClusterSize::new(self.cluster.nodes().len()).unwrap();
        let partitions = PartitionCount::new(scalebricks_apps::gateway::flow_tables::PARTITIONS).unwrap();
        let params = Params::for_keys(keys.len() as u64, size.value_bits(), partitions).unwrap();
        let mut owner = SetSepBuilder::new(params).build(&keys).unwrap();
        owner.update(hasher.hash(key), node).unwrap()
    }

    /// Puts a frame into a node's port opposite to `output`, addressed to the node unless `keep_mac`.
    pub fn inject(&mut self, node: usize, output: OutputPort, frame: &[u8], keep_mac: bool) -> u64 {
        let mut packet: Packet = self.pool.packet(frame).unwrap();
        let links = &mut self.cluster.links_mut()[node];
        let (port, mac) = match output {
            OutputPort::BaseStation => (&mut links.internet, links.macs.internet),
            OutputPort::Internet => (&mut links.base_station, links.macs.base_station),
        };
        if !keep_mac {
            packet.data_mut()[..6].copy_from_slice(&mac.octets());
        }
        let id = self.next_id;
        self.next_id += 1;
        packet.set_tag(Tag { id, ..Tag::default() });
        port.send(packet).unwrap();
        id
    }

    /// Runs until idle; returns the packets that left and those dropped.
    pub fn run(&mut self, threads: usize) -> (Vec<Left>, Vec<Dropped>) {
        self.cluster.run_until_idle(threads);
        let mut left = Vec::new();
        for (node, links) in self.cluster.links_mut().iter_mut().enumerate() {
            let ports = [
                (&mut links.internet, OutputPort::Internet),
                (&mut links.base_station, OutputPort::BaseStation),
            ];
            for (port, output) in ports {
                while let Some(packet) = port.receive() {
                    left.push(Left { node, output, tag: packet.tag(), frame: packet.data().to_vec() });
                }
            }
        }
        let dropped = self
            .cluster
            .nodes_mut()
            .iter_mut()
            .flat_map(scalebricks_apps::gateway::Node::take_drops)
            .collect();
        (left, dropped)
    }

    /// Sends one frame through the cluster; returns its outcome.
    pub fn one(
        &mut self,
        node: usize,
        output: OutputPort,
        frame: &[u8],
        keep_mac: bool,
    ) -> Result<Vec<Left>, &'static str> {
        self.inject(node, output, frame, keep_mac);
        let (left, dropped) = self.run(1);
        match dropped.as_slice() {
            [] => Ok(left),
            [drop] if left.is_empty() => Err(drop.reason.name()),
            _ => panic!("left {} times and dropped {dropped:?}", left.len()),
        }
    }
}

/// A downstream UDP frame of flow `n`; its IP packet starts at octet 14.
pub fn downstream(n: u32, payload: &[u8]) -> Vec<u8> {
    let link = PacketBuilder::ethernet2(PEER_MAC, [0; 6]);
    let mut frame = Vec::new();
    if n.is_multiple_of(2) {
        link.ipv4(SERVER.octets(), ue(n).octets(), 60).udp(53, 4000).write(&mut frame, payload).unwrap();
    } else {
        link.ipv6(SERVER6.octets(), ue6(n).octets(), 60).udp(53, 4000).write(&mut frame, payload).unwrap();
    }
    frame
}

/// An upstream UDP packet of flow `n`, without Ethernet.
pub fn upstream_inner(n: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    if n.is_multiple_of(2) {
        let ip = PacketBuilder::ipv4(ue(n).octets(), SERVER.octets(), 60);
        ip.udp(4000, 53).write(&mut packet, payload).unwrap();
    } else {
        let ip = PacketBuilder::ipv6(ue6(n).octets(), SERVER6.octets(), 60);
        ip.udp(4000, 53).write(&mut packet, payload).unwrap();
    }
    packet
}

/// G-PDU bytes around a user's packet; `with_options` adds a sequence number and a PDU session container.
pub fn g_pdu(teid: u32, inner: &[u8], with_options: bool) -> Vec<u8> {
    let mut message = vec![if with_options { 0x36 } else { 0x30 }, 255];
    let extra: &[u8] = if with_options { &[0, 5, 0, 0x85, 1, 0x10, 9, 0] } else { &[] };
    message.extend(((inner.len() + extra.len()) as u16).to_be_bytes());
    message.extend(teid.to_be_bytes());
    message.extend(extra);
    message.extend(inner);
    message
}

/// A frame with a UDP datagram from a base station to the gateway.
pub fn to_gateway(gateway: Ipv4Addr, port: u16, message: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(PEER_MAC, [0; 6])
        .ipv4(station(1).address.octets(), gateway.octets(), 60)
        .udp(2152, port)
        .write(&mut frame, message)
        .unwrap();
    frame
}

/// The fields of a GTP-U frame that tests compare: outer destination, TEID, QFI, inner packet. Fixed offsets, no
/// options in the outer header.
pub fn tunnelled(frame: &[u8]) -> (Ipv4Addr, u32, Option<u8>, Vec<u8>) {
    let ip = etherparse::Ipv4HeaderSlice::from_slice(&frame[14..]).unwrap();
    assert_eq!(ip.header_checksum(), ip.to_header().calc_header_checksum(), "outer IPv4 checksum");
    assert_eq!(usize::from(ip.total_len()), frame.len() - 14);
    let udp = &frame[34..42];
    assert!(udp[0] >= 0xc0, "a source port of the dynamic range");
    assert_eq!(u16::from_be_bytes([udp[2], udp[3]]), 2152);
    assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), frame.len() - 34);
    let gtpu = &frame[42..];
    assert_eq!(gtpu[1], 255);
    assert_eq!(usize::from(u16::from_be_bytes([gtpu[2], gtpu[3]])), gtpu.len() - 8);
    let teid = u32::from_be_bytes([gtpu[4], gtpu[5], gtpu[6], gtpu[7]]);
    let (qfi, inner) = match gtpu[0] {
        0x30 => (None, 8),
        0x34 => {
            assert_eq!(
                (gtpu[11], gtpu[12], gtpu[13], gtpu[15]),
                (0x85, 1, 0, 0),
                "a DL PDU session container, last"
            );
            (Some(gtpu[14] & 0x3f), 16)
        }
        flags => panic!("GTP-U flags {flags:#x}"),
    };
    (ip.destination_addr(), teid, qfi, gtpu[inner..].to_vec())
}
