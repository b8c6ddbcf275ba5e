//! Clusters of nodes with hellos and resolvers, and hosts at their ports.

use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::router::cluster::Steering;
use scalebricks_apps::router::network::Loss;
use scalebricks_apps::router::node::{NodeConfig, NodeLink, NodePort, NodeTables};
use scalebricks_apps::router::node_cluster::NodeCluster;
use scalebricks_elements::fabric::links::{HelloTimes, Links};
use scalebricks_elements::fabric::mtus::Mtus;
use scalebricks_elements::fabric::next_hops::NextHops;
use scalebricks_elements::gateway::fabric::health::probe::{Kind, Probe, ProbeKey};
use scalebricks_graph::{Clock, Ledger, Worker};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_tables::lpm::{Lpm, Params};
use scalebricks_types::{ClusterSize, HashSeed, NodeId, NodeSet};
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::ethernet::{self, ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::ipv6::Ipv6Header;
use scalebricks_wire::nd::{self, Advertisement, Message};
use scalebricks_wire::{MacAddr, parse_frame};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// The cluster's secret.
pub const SECRET: u64 = 9;

/// The ethertype of hellos.
const HELLO: [u8; 2] = [0x88, 0xb5];

pub const STEP: Duration = Duration::from_millis(1);

/// Bytes per second of ports and links: far more than the tests send.
const RATE: u64 = 100_000_000;

/// The address of a node's port, as a host's gateway.
pub fn gateway(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, node as u8, 0, 1)
}

pub fn gateway6(node: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, node as u16, 0, 0, 0, 0, 1)
}

/// A host at the port of a node.
pub fn host(node: usize, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, node as u8, 0, number)
}

pub fn host6(node: usize, number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, node as u16, 0, 0, 0, 0, number)
}

pub fn port_mac(node: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, node as u8])
}

pub fn host_mac(node: usize, number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 2 + node as u8, number])
}

/// Nodes with a port each, whose networks are 10.n.0.0/16 and `2001:db8:n::/48`.
pub fn nodes(size: usize, steering: Steering, seed: u64) -> Vec<(NodeConfig, NodeTables)> {
    let size = ClusterSize::new(size).unwrap();
    let config = |id: NodeId| {
        let n = id.index();
        let device = "eth0".to_owned();
        let text = format!("{device}={}/16,{},{}/48", gateway(n), port_mac(n), gateway6(n));
        let link = |node: NodeId| NodeLink { node, device: format!("link{}", node.get()) };
        NodeConfig {
            id,
            size,
            ports: vec![NodePort { interface: text.parse().unwrap(), mtu: 1_500 }],
            links: size.nodes().filter(|&node| node != id).map(link).collect(),
            rate: RATE,
            link_rate: None,
            steering,
            queue: 1_000,
            burst: None,
            seed: seed + n as u64,
            errors_per_second: 100,
        }
    };
    let configs: Vec<NodeConfig> = size.nodes().map(config).collect();
    let (routes, routes6) = (Arc::new(Lpm::new(Params::SMALL)), Arc::new(Lpm::new(Params::SMALL)));
    for config in &configs {
        config.connected().into_iter().for_each(|(prefix, mac)| {
            routes.insert(prefix, mac.hop()).unwrap();
        });
        config.connected6().into_iter().for_each(|(prefix, mac)| {
            routes6.insert(prefix, mac.hop()).unwrap();
        });
    }
    let mtus = Arc::new(Mtus::new(size));
    let tables = |config: &NodeConfig| NodeTables {
        routes: Arc::clone(&routes),
        routes6: Arc::clone(&routes6),
        next_hops: Arc::new(NextHops::new(100)),
        links: Arc::new(
            Links::new(config.id, size, HashSeed::from_u64(SECRET), HelloTimes::default()).unwrap(),
        ),
        mtus: Arc::clone(&mtus),
    };
    configs.into_iter().map(|config| (config.clone(), tables(&config))).collect()
}

/// A cluster, and hosts that answer ARP and neighbour solicitations for every address at their port.
pub struct Cluster {
    pub nodes: Vec<(NodeConfig, NodeTables)>,
    pub inner: NodeCluster,
    /// What the hosts received, by port: frames that are no question about a MAC address.
    pub got: Vec<Vec<Vec<u8>>>,
    /// Questions that the hosts received, by port and asked address.
    pub asked: HashMap<(usize, String), usize>,
    /// Whether hosts answer.
    pub answers: bool,
    /// Most links that a packet passed.
    pub most_hops: u8,
    /// Packets that are no hellos and were lost on cut links.
    pub lost: usize,
}

impl Cluster {
    pub fn new(nodes: Vec<(NodeConfig, NodeTables)>) -> Self {
        let inner = NodeCluster::new(&nodes, (RATE, RATE), 1 << 13).unwrap();
        let got = vec![Vec::new(); nodes.len()];
        Self { nodes, inner, got, asked: HashMap::new(), answers: true, most_hops: 0, lost: 0 }
    }

    /// The same after all links came up.
    pub fn ready(nodes: Vec<(NodeConfig, NodeTables)>) -> Self {
        let mut cluster = Self::new(nodes);
        cluster.run(1_000);
        cluster
    }

    pub fn links(&self, node: usize) -> &Links {
        &self.nodes[node].1.links
    }

    /// Lets milliseconds pass.
    pub fn run(&mut self, ms: usize) {
        for _ in 0..ms {
            self.inner.network.step(STEP).unwrap();
            let is_data = |loss: &Loss| loss.packet.data()[12..14] != HELLO;
            self.lost += self.inner.network.take_lost().iter().filter(|loss| is_data(loss)).count();
            for departure in self.inner.network.take_departed() {
                self.most_hops = self.most_hops.max(departure.packet.tag().hops);
                let frame = departure.packet.data();
                match question(departure.port, frame) {
                    Some((asked, answer)) => {
                        *self.asked.entry((departure.port, asked)).or_default() += 1;
                        if self.answers {
                            self.inner.network.inject(departure.port, 0, &answer).unwrap();
                        }
                    }
                    None => self.got[departure.port].push(frame.to_vec()),
                }
            }
        }
    }

    /// A frame arrives at the port of a node.
    pub fn send(&mut self, node: usize, frame: &[u8]) {
        self.inner.network.inject(node, 0, frame).unwrap();
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.inner.network.counter(name)
    }

    /// What the hosts at a port received since the last call.
    pub fn take(&mut self, port: usize) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.got[port])
    }
}

/// The address that a frame asks for, and the answer.
fn question(port: usize, frame: &[u8]) -> Option<(String, Vec<u8>)> {
    let header = parse_frame(frame).ok()?;
    if header.ethertype == ETHERTYPE_ARP {
        let request = Arp::parse(&frame[14..]).ok()?;
        if request.operation != Operation::Request {
            return None;
        }
        let mac = host_mac(port, request.target_ip.octets()[3]);
        let reply = ethernet::header(request.sender_mac, mac, ETHERTYPE_ARP);
        return Some((request.target_ip.to_string(), [&reply[..], &request.reply(mac).to_bytes()].concat()));
    }
    let Some(Message::Solicitation(asked)) =
        (header.ethertype == ETHERTYPE_IPV6).then(|| nd::parse(&frame[14..]).ok().flatten())?
    else {
        return None;
    };
    let mac = host_mac(port, asked.target.octets()[15]);
    let answer = Advertisement::packet(asked.target, asked.src, asked.target, true, mac);
    let header = ethernet::header(header.src, mac, ETHERTYPE_IPV6);
    Some((asked.target.to_string(), [&header[..], &answer].concat()))
}

/// A frame with an IPv4 packet of a host to its gateway.
pub fn frame(from: usize, dst: Ipv4Addr, change: impl FnOnce(&mut Ipv4Header), payload: &[u8]) -> Vec<u8> {
    let mut header = Ipv4Header {
        dscp_ecn: 0,
        total_len: 20 + payload.len() as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_units: 0,
        ttl: 64,
        protocol: 17,
        src: host(from, 9),
        dst,
    };
    change(&mut header);
    let ethernet = ethernet::header(port_mac(from), host_mac(from, 9), ETHERTYPE_IPV4);
    [&ethernet[..], &header.to_bytes(), payload].concat()
}

/// The same with IPv6.
pub fn frame6(from: usize, dst: Ipv6Addr, change: impl FnOnce(&mut Ipv6Header), payload: &[u8]) -> Vec<u8> {
    let mut header = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header: 17,
        hop_limit: 64,
        src: host6(from, 9),
        dst,
    };
    change(&mut header);
    let ethernet = ethernet::header(port_mac(from), host_mac(from, 9), ETHERTYPE_IPV6);
    [&ethernet[..], &header.to_bytes(), payload].concat()
}

/// A UDP datagram's bytes with these ports and 8 bytes of payload.
pub fn udp(flow: u16) -> Vec<u8> {
    let mut bytes: Vec<u8> = [flow, 9, 16, 0].map(u16::to_be_bytes).concat();
    bytes.extend([7; 8]);
    bytes
}

/// A node alone, with the far ends of its devices.
pub struct Lone {
    worker: Worker<Packet>,
    ledger: Ledger,
    pool: Pool,
    ends: HashMap<String, (MemoryPort<Packet>, MemoryPort<Packet>)>,
    now: Duration,
    id: NodeId,
}

impl Lone {
    pub fn new(config: &NodeConfig, tables: &NodeTables) -> Self {
        let (mut graph, ledger) = config.graph(tables, &scalebricks_elements::registry()).unwrap();
        let (mut devices, mut ends) = (Devices::new(Clock::Wall), HashMap::new());
        let names = config.ports.iter().map(|port| &port.interface.device);
        for name in names.chain(config.links.iter().map(|link| &link.device)) {
            let ((near_in, far_in), (near_out, far_out)) = (memory_port_pair(64), memory_port_pair(64));
            devices.receive(Some(name), ReceiveBinding::Port(Box::new(near_in)));
            devices.send(name, SendBinding::Port(Box::new(near_out)));
            ends.insert(name.clone(), (far_in, far_out));
        }
        graph.open(&mut devices).unwrap();
        let pool = Pool::new(4_096, 2_048).unwrap();
        let worker = Worker::new(graph, Box::new(pool.clone()), ());
        Self { worker, ledger, pool, ends, now: Duration::ZERO, id: config.id }
    }

    /// A frame arrives at a device.
    pub fn send(&mut self, device: &str, frame: &[u8]) {
        let packet = self.pool.packet(frame).unwrap();
        self.ends.get_mut(device).unwrap().0.send(packet).unwrap();
    }

    /// Up to this many frames that left by a device.
    pub fn take_some(&mut self, device: &str, count: usize) -> Vec<Vec<u8>> {
        let far = &mut self.ends.get_mut(device).unwrap().1;
        std::iter::from_fn(|| far.receive()).take(count).map(|packet| packet.data().to_vec()).collect()
    }

    pub fn take(&mut self, device: &str) -> Vec<Vec<u8>> {
        self.take_some(device, usize::MAX)
    }

    /// Lets milliseconds pass.
    pub fn run(&mut self, ms: usize) {
        for _ in 0..ms {
            self.now += STEP;
            (0..8).for_each(|_| {
                self.worker.turn(self.now);
            });
        }
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.ledger.snapshot().iter().filter_map(|counted| counted.get(name)).sum()
    }

    /// A hello of a neighbour that hears this node arrives.
    pub fn hello_of(&mut self, from: u8) {
        let stamp = self.now.as_nanos() as u64 + 1;
        let hello = hello((from, self.id.get()), stamp, NodeSet::from_iter([self.id]), SECRET);
        self.send(&format!("link{from}"), &hello);
    }

    /// Hellos until the link to a neighbour is up.
    pub fn make_neighbour(&mut self, from: u8) {
        for _ in 0..4 {
            self.hello_of(from);
            self.run(100);
        }
        self.take(&format!("link{from}"));
    }
}

/// The frame of a hello, with the tag of a cluster.
pub fn hello((from, to): (u8, u8), stamp: u64, hears: NodeSet, secret: u64) -> Vec<u8> {
    let (from, to, none) = (NodeId::new(from), NodeId::new(to), NodeSet::EMPTY);
    let probe = Probe {
        kind: Kind::Probe,
        from,
        to,
        life: 0,
        epoch: 0,
        stamp,
        answers: 0,
        answers_life: 0,
        hears,
        reaches: none,
        grants: none,
    };
    ProbeKey::new(HashSeed::from_u64(secret)).frame(&probe, MacAddr([2; 6])).to_vec()
}
