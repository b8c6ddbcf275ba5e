//! A firewall and a NAT over four nodes in memory: pins, one hop in both directions, drain and death.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's helpers fail the test")]

use crate::gateway::common::{PEER_MAC, SEED, SERVER};
use etherparse::PacketBuilder;
use scalebricks_apps::gateway::appliance::{firewall, nat44};
use scalebricks_apps::gateway::cluster::WiredNodes;
use scalebricks_apps::gateway::{Architecture, ClusterConfig, FlowList, FlowSpec, Layout, worker};
use scalebricks_elements::gateway::{BaseStation, DropReason, Policy};
use scalebricks_io::{Packet, PacketBuf, Pool};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, KeyProfile, NodeId, PortBlocks};
use scalebricks_wire::MacAddr;
use std::net::Ipv4Addr;

const NODES: usize = 4;
const HOSTS: u8 = 24;

/// The link of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Inside,
    Outside,
}

fn host(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, 0, n)
}

fn blocks() -> PortBlocks {
    "10.1.0.0/24:192.0.2.0/30:1024:512".parse().unwrap()
}

struct Rig {
    wired: WiredNodes,
    lists: Vec<FlowList>,
    profile: KeyProfile,
    pool: Pool,
    /// By host, its handling node.
    pins: Vec<usize>,
    /// Frames that should have crossed the fabric.
    crossings: u64,
    /// Packets handled, by node.
    handled: [u64; NODES],
}

impl Rig {
    fn new(profile: KeyProfile, appliance: &str) -> Self {
        let size = ClusterSize::new(NODES).unwrap();
        let pool = Pool::new(1_024, 2_000).unwrap();
        let inside = |n| BaseStation { address: host(n), mac: MacAddr([0, 0x16, 0x3e, 1, 0, n]) };
        let config = ClusterConfig {
            size,
            architecture: Architecture::ScaleBricks,
            gpt: Structure::default(),
            policy: Policy { key_profile: profile, verify_ipv4_checksum: false, ..Policy::default() },
            seed: SEED,
            base_stations: (0..HOSTS).map(inside).collect(),
            outside_capacity: 256,
            fabric_capacity: 256,
            buffers: pool.clone(),
            appliance: Some(appliance.into()),
        };
        let layout = Layout { size, architecture: config.architecture, gpt: config.gpt, seed: config.seed };
        let lists: Vec<FlowList> =
            size.nodes().map(|id| FlowList::new(&layout, id, 1, usize::from(HOSTS)).unwrap()).collect();
        let wired = WiredNodes::new(&config, |id| lists[id.index()].tables().node_tables(0));
        let pins = (0..usize::from(HOSTS)).map(|n| n % NODES).collect();
        let mut rig = Self { wired, lists, profile, pool, pins, crossings: 0, handled: [0; NODES] };
        rig.pin(0..NODES);
        rig
    }

    /// Brings the pins to these nodes.
    fn pin(&mut self, nodes: impl IntoIterator<Item = usize>) {
        let spec = |(n, node): (usize, &usize)| {
            FlowSpec::of_inside(self.profile, host(n as u8), NodeId::new(*node as u8)).unwrap()
        };
        let specs: Vec<FlowSpec> = self.pins.iter().enumerate().skip(1).map(spec).collect();
        for node in nodes {
            self.lists[node].change_to(&specs, |_| {}).unwrap();
        }
    }

    /// Moves the pins of a node to the nodes that `live`.
    fn leave(&mut self, node: usize, live: &[usize]) {
        let mut heirs = live.iter().cycle();
        for pin in self.pins.iter_mut().filter(|pin| **pin == node) {
            *pin = *heirs.next().unwrap();
        }
    }

    /// Sends a packet into a node, and returns all that leaves: the node, the link and the frame.
    fn pass(&mut self, node: usize, link: Link, frame: &[u8]) -> Vec<(usize, Link, Vec<u8>)> {
        let mut packet: Packet = self.pool.packet(frame).unwrap();
        let links = &mut self.wired.links[node];
        let (port, mac) = match link {
            Link::Inside => (&mut links.base_station, links.macs.base_station),
            Link::Outside => (&mut links.internet, links.macs.internet),
        };
        packet.data_mut()[..6].copy_from_slice(&mac.octets());
        port.send(packet).unwrap();
        worker::run_until_idle(&mut self.wired.nodes, 1);
        let mut left = Vec::new();
        for (node, links) in self.wired.links.iter_mut().enumerate() {
            for (link, port) in
                [(Link::Inside, &mut links.base_station), (Link::Outside, &mut links.internet)]
            {
                left.extend(
                    std::iter::from_fn(|| port.receive()).map(|packet| (node, link, packet.data().to_vec())),
                );
            }
        }
        left
    }

    /// Sends a packet that must leave at `at` on the link `to`, after one hop if it entered elsewhere.
    fn passes(&mut self, node: usize, from: Link, frame: &[u8], at: usize, to: Link) -> Vec<u8> {
        let mut left = self.pass(node, from, frame);
        assert_eq!(left.len(), 1, "entered at {node}, pinned to {at}: {:?}", self.drops());
        let (left_at, link, sent) = left.remove(0);
        assert_eq!((left_at, link), (at, to), "entered at {node}");
        self.crossings += u64::from(node != at);
        self.handled[at] += 1;
        self.check();
        sent
    }

    /// Frames on the fabric and packets in each node's appliance add up.
    fn check(&self) {
        let frames: u64 = self.wired.fabric.iter().map(|stats| stats.read().frames).sum();
        assert_eq!(frames, self.crossings, "one hop");
        for (node, handled) in self.handled.iter().enumerate() {
            let ledger = self.wired.nodes[node].ledger();
            let of = |element| ledger.reading(element, "packets").map_or(0, |reading| reading.get());
            assert_eq!(of("from_inside") + of("from_outside"), *handled, "node {node}");
        }
    }

    fn drops(&self) -> Vec<(usize, DropReason, u64)> {
        let of = |(node, running): (usize, &scalebricks_apps::gateway::Node<Packet>)| {
            running
                .stats()
                .dropped
                .iter()
                .map(move |(reason, count)| (node, reason, count))
                .collect::<Vec<_>>()
        };
        self.wired.nodes.iter().enumerate().flat_map(of).collect()
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.wired.nodes.iter().map(|node| node.stats().dropped.get(reason)).sum()
    }
}

/// One end of a TCP connection of an inside host with the server.
struct Connection {
    host: u8,
    port: u16,
    /// Next sequence numbers: of the host, of the server.
    next: [u32; 2],
    /// Where the server sends to, if a NAT has translated.
    public: Option<(Ipv4Addr, u16)>,
}

impl Connection {
    fn new(host: u8) -> Self {
        Self { host, port: 40_000 + u16::from(host), next: [1_000, 9_000], public: None }
    }

    /// The next segment of one end.
    fn segment(&mut self, from: Link, syn: bool, payload: &[u8]) -> Vec<u8> {
        let (own, other) = if from == Link::Inside { (0, 1) } else { (1, 0) };
        let (mut src, mut dst) = ((host(self.host), self.port), (SERVER, 80));
        if from == Link::Outside {
            (src, dst) = (dst, self.public.unwrap_or(src));
        }
        let builder = PacketBuilder::ethernet2(PEER_MAC, [2; 6])
            .ipv4(src.0.octets(), dst.0.octets(), 64)
            .tcp(src.1, dst.1, self.next[own], 60_000);
        let is_first = syn && from == Link::Inside;
        let builder = if syn { builder.syn() } else { builder };
        let builder = if is_first { builder } else { builder.ack(self.next[other]) };
        let mut frame = Vec::new();
        builder.write(&mut frame, payload).unwrap();
        self.next[own] = self.next[own].wrapping_add(payload.len() as u32 + u32::from(syn));
        frame
    }
}

/// Sends a segment into `node`; it must leave at its host's pin on the other side, one hop older.
fn exchange(rig: &mut Rig, node: usize, connection: &mut Connection, from: Link, syn: bool, payload: &[u8]) {
    let frame = connection.segment(from, syn, payload);
    let to = if from == Link::Inside { Link::Outside } else { Link::Inside };
    let at = rig.pins[usize::from(connection.host)];
    let sent = rig.passes(node, from, &frame, at, to);
    assert_eq!(sent[22], frame[22] - 1, "the firewall is a hop");
    assert_eq!((&sent[26..34], &sent[34..]), (&frame[26..34], &frame[34..]), "nothing else changes");
    if to == Link::Inside {
        assert_eq!(sent[..6], [0, 0x16, 0x3e, 1, 0, connection.host]);
    }
}

/// Data in both directions, entering at each of the `nodes`.
fn data(rig: &mut Rig, connections: &mut [Connection], nodes: &[usize]) {
    for connection in connections {
        for node in nodes {
            exchange(rig, *node, connection, Link::Inside, false, b"request");
            exchange(rig, *node, connection, Link::Outside, false, b"an answer");
        }
    }
}

#[test]
fn connections_through_a_firewall_survive_a_drain_and_a_death() {
    let mut rig = Rig::new(KeyProfile::Inside, &firewall(""));
    let mut connections: Vec<Connection> = (1..HOSTS).map(Connection::new).collect();
    for connection in &mut connections {
        let node = usize::from(connection.host) / 5 % NODES;
        exchange(&mut rig, node, connection, Link::Inside, true, b"");
        exchange(&mut rig, (node + 1) % NODES, connection, Link::Outside, true, b"");
        exchange(&mut rig, (node + 2) % NODES, connection, Link::Inside, false, b"");
    }
    data(&mut rig, &mut connections, &[0, 1, 2, 3]);
    // Node 2 is drained: it still takes packets and sends them to the pins' new nodes.
    rig.leave(2, &[0, 1, 3]);
    rig.pin(0..NODES);
    let before = rig.handled[2];
    data(&mut rig, &mut connections, &[0, 1, 2, 3]);
    assert_eq!(rig.handled[2], before);
    // Node 3 dies: nothing enters there, and its tables stay as they were.
    rig.leave(3, &[0, 1]);
    rig.pin(0..3);
    let before = rig.handled[3];
    data(&mut rig, &mut connections, &[2, 1, 0]);
    assert_eq!(rig.handled[3], before);
    assert_eq!(rig.drops(), Vec::new());
}

/// A segment through a NAT, which enters at `node` and leaves at its host's pin; returns what leaves.
fn through_nat(rig: &mut Rig, node: usize, connection: &mut Connection, from: Link, flags: bool) -> Vec<u8> {
    let frame = connection.segment(from, flags, if flags { b"" } else { b"data" });
    let to = if from == Link::Inside { Link::Outside } else { Link::Inside };
    let at = rig.pins[usize::from(connection.host)];
    rig.passes(node, from, &frame, at, to)
}

/// A segment of the host, whose public end must be this one, and an answer to it.
fn asked_and_answered(rig: &mut Rig, nodes: [usize; 2], connection: &mut Connection, syn: bool) {
    let sent = through_nat(rig, nodes[0], connection, Link::Inside, syn);
    let public =
        (Ipv4Addr::new(sent[26], sent[27], sent[28], sent[29]), u16::from_be_bytes([sent[34], sent[35]]));
    let (address, block) = blocks().of_inside(host(connection.host)).unwrap();
    let (first, ports) = blocks().ports(block).unwrap();
    assert!(public.0 == address && (first..=first + (ports - 1)).contains(&public.1), "{public:?}");
    assert_eq!(*connection.public.get_or_insert(public), public, "the public end stays");
    let came = through_nat(rig, nodes[1], connection, Link::Outside, syn);
    assert_eq!(came[30..34], host(connection.host).octets());
    assert_eq!(came[36..38], connection.port.to_be_bytes());
}

#[test]
fn connections_through_a_nat_keep_their_public_ends_after_a_drain_and_a_death() {
    let appliance = nat44("INSIDE 10.1.0.0/24, PUBLIC 192.0.2.0/30, FIRST_PORT 1024, BLOCK 512");
    let mut rig = Rig::new(KeyProfile::Nat44(blocks()), &appliance);
    let mut connections: Vec<Connection> = (1..HOSTS).map(Connection::new).collect();
    for connection in &mut connections {
        let node = usize::from(connection.host) / 5 % NODES;
        asked_and_answered(&mut rig, [node, (node + 1) % NODES], connection, true);
        asked_and_answered(&mut rig, [(node + 2) % NODES, node], connection, false);
    }
    // As above.
    rig.leave(2, &[0, 1, 3]);
    rig.pin(0..NODES);
    for connection in &mut connections {
        (0..NODES)
            .for_each(|node| asked_and_answered(&mut rig, [node, (node + 1) % NODES], connection, false));
    }
    rig.leave(3, &[0, 1]);
    rig.pin(0..3);
    for connection in &mut connections {
        (0..3).for_each(|node| asked_and_answered(&mut rig, [node, (node + 1) % 3], connection, false));
    }
    assert_eq!(rig.drops(), Vec::new());
}

#[test]
fn a_wrong_hint_reaches_no_appliance_and_is_counted() {
    let mut rig = Rig::new(KeyProfile::Inside, &firewall(""));
    for n in 100..200 {
        let frame = Connection::new(n).segment(Link::Inside, true, b"");
        assert_eq!(rig.pass(usize::from(n) % NODES, Link::Inside, &frame), Vec::new());
    }
    // A GPT may also name no node for an unknown key, and a miss is looked up once more.
    assert_eq!(rig.dropped(DropReason::UnknownFlow) + rig.dropped(DropReason::NoSuchNode), 100);
    let handled =
        |node: &scalebricks_apps::gateway::Node<Packet>| node.ledger().reading("from_inside", "packets");
    assert!(rig.wired.nodes.iter().all(|node| handled(node).unwrap().get() == 0));
}

/// Sends packets of both directions to the outside link: where they leave is where they were handled.
const TURN_BACK: &str = "elementclass Appliance {
  input[0], input[1] => a :: Null, b :: Null;
  a -> [0] output; b -> [0] output; Idle -> [1] output; Idle -> [2] output; }";

#[test]
fn both_directions_of_a_nat_meet_at_one_node_by_port_block() {
    let mut rig = Rig::new(KeyProfile::Nat44(blocks()), TURN_BACK);
    for (n, node) in (1..HOSTS).flat_map(|n| (0..NODES).map(move |node| (n, node))) {
        let at = rig.pins[usize::from(n)];
        let (public, block) = blocks().of_inside(host(n)).unwrap();
        let (first, ports) = blocks().ports(block).unwrap();
        let out = Connection::new(n).segment(Link::Inside, true, b"");
        rig.passes(node, Link::Inside, &out, at, Link::Outside);
        for port in [first, first + ports - 1] {
            for frame in inbound(public, port) {
                rig.passes(node, Link::Outside, &frame, at, Link::Outside);
            }
        }
    }
    assert_eq!(rig.drops(), Vec::new());
}

fn ipv4(src: Ipv4Addr, dst: Ipv4Addr) -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
    PacketBuilder::ethernet2(PEER_MAC, [2; 6]).ipv4(src.octets(), dst.octets(), 64)
}

fn written<T>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), T>) -> Vec<u8> {
    let mut frame = Vec::new();
    assert!(write(&mut frame).is_ok());
    frame
}

/// All kinds of packets from outside that belong to a port: TCP, UDP in two fragments, an echo reply with this
/// identifier, and errors about a TCP segment and an echo request of that port.
fn inbound(public: Ipv4Addr, port: u16) -> Vec<Vec<u8>> {
    let tcp = written(|f| ipv4(SERVER, public).tcp(80, port, 1, 1).ack(5).write(f, b"data"));
    let mut first = written(|f| ipv4(SERVER, public).udp(53, port).write(f, &[7; 16]));
    let mut later = first.clone();
    let number = port.to_be_bytes();
    for (frame, offset) in [(&mut first, [0x20, 0]), (&mut later, [0, 3])] {
        frame[18..20].copy_from_slice(&number);
        frame[20..22].copy_from_slice(&offset);
    }
    let reply = written(|f| ipv4(SERVER, public).icmpv4_echo_reply(port, 1).write(f, b"ping"));
    let error = |quoted: &[u8]| {
        let unreachable =
            etherparse::Icmpv4Type::DestinationUnreachable(etherparse::icmpv4::DestUnreachableHeader::Host);
        let router = Ipv4Addr::new(203, 0, 113, 1);
        written(|f| ipv4(router, public).icmpv4(unreachable).write(f, &quoted[14..]))
    };
    let sent = written(|f| ipv4(public, SERVER).tcp(port, 80, 1, 1).syn().write(f, b""));
    let pinged = written(|f| ipv4(public, SERVER).icmpv4_echo_request(port, 1).write(f, b"ping"));
    vec![tcp, first, later, reply, error(&sent), error(&pinged)]
}

#[test]
fn what_names_no_port_block_is_counted() {
    let mut rig = Rig::new(KeyProfile::Nat44(blocks()), TURN_BACK);
    let public = Ipv4Addr::new(192, 0, 2, 0);
    let mut expect = |frame: &[u8], reason: DropReason| {
        let before = rig.dropped(reason);
        assert_eq!(rig.pass(1, Link::Outside, frame), Vec::new());
        assert_eq!(rig.dropped(reason), before + 1, "{reason}: {:?}", rig.drops());
    };
    let low = written(|f| ipv4(SERVER, public).udp(53, 1_023).write(f, b"x"));
    expect(&low, DropReason::NoPin);
    let mut gre = written(|f| ipv4(SERVER, public).udp(53, 2_000).write(f, b"xyz"));
    gre[23] = 47;
    expect(&gre, DropReason::NoPin);
    let redirect = written(|f| ipv4(SERVER, public).icmpv4_raw(5, 1, [0; 4]).write(f, &[0x45; 12]));
    expect(&redirect, DropReason::NoPin);
    let mut later = inbound(public, 2_000).remove(2);
    later[18..20].copy_from_slice(&[0xff, 0xfe]);
    expect(&later, DropReason::FragmentWithoutFirst);
    let elsewhere = written(|f| ipv4(SERVER, Ipv4Addr::new(192, 0, 2, 4)).udp(53, 2_000).write(f, b"x"));
    expect(&elsewhere, DropReason::NotForGateway);
    let v6 = written(|f| {
        PacketBuilder::ethernet2(PEER_MAC, [2; 6])
            .ipv6([0x20; 16], [0x21; 16], 64)
            .udp(53, 2_000)
            .write(f, b"x")
    });
    expect(&v6, DropReason::NoPin);
    // A block that is nobody's: the GPT names some node, and its FIB refuses.
    let (public, block) = blocks().of_inside(host(200)).unwrap();
    let nobody = written(|f| ipv4(SERVER, public).udp(53, blocks().ports(block).unwrap().0).write(f, b"x"));
    assert_eq!(rig.pass(2, Link::Outside, &nobody), Vec::new());
    assert_eq!(rig.dropped(DropReason::UnknownFlow) + rig.dropped(DropReason::NoSuchNode), 1);
}
