//! Frames from every side of a cluster, in all architectures, with and without slow paths, while flows are added,
//! removed and moved; and of clusters keyed as a firewall and as a NAT. Each frame leaves once, is dropped once, is held, or is delivered to its node, without a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::gateway::{Architecture, Cluster, ClusterConfig, FlowSpec, Node};
use scalebricks_elements::gateway::local::{
    FrameKind, HoldOutcome, Interface, LocalStack, LocalConfig, LocalLimits, Outbox, Route, Consumed,
};
use scalebricks_elements::gateway::{
    BaseStation, BaseStationId, DropReason, OutputPort, OutsideMacs, Policy, PuntReason,
};
use scalebricks_fuzz::{Steps, mend};
use scalebricks_io::{Packet, PacketBuf, Pool, Tag};
use scalebricks_types::{ClusterSize, FlowKey, HashSeed, KeyProfile, NodeId, Qfi, Teid};
use scalebricks_wire::MacAddr;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::time::Duration;

const NODES: usize = 3;
const FLOWS: u32 = 16;
const BASE_STATION: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 2);
const POLICY_MTU: u16 = 576;

fn policy() -> Policy {
    Policy { verify_ipv4_checksum: false, base_station_mtu: POLICY_MTU, ..Policy::default() }
}

fn flow(n: u32) -> FlowSpec {
    FlowSpec {
        key: FlowKey::five_tuple_v4((0x0808_0808).into(), (0x0a2d_0000 + n).into(), 17, 53, 4000),
        uplink_teid: Teid::new(n),
        downlink_teid: Teid::new(100 + n),
        base_station: BaseStationId(0),
        qfi: n.is_multiple_of(2).then(|| Qfi::new(5).expect("small")),
        node: NodeId::new((n % 3) as u8),
    }
}

/// A cluster, its buffers and its clock.
struct Running {
    cluster: Cluster,
    pool: Pool,
    now: Duration,
    has_slow_paths: bool,
}

/// Handles packets at once, so that each one leaves or is dropped.
const APPLIANCE: &str = "elementclass Appliance {
    input[0] -> a :: Null -> [0] output; input[1] -> b :: Null -> [1] output; Idle -> [2] output; }";

fn running(architecture: Architecture, has_slow_paths: bool) -> Running {
    cluster_of(architecture, has_slow_paths, policy(), (0..FLOWS).map(flow).collect())
}

/// A cluster whose packets have the keys of an appliance.
fn appliance(profile: KeyProfile, has_slow_paths: bool) -> Running {
    let pin = |n: u32| FlowSpec::of_inside(profile, (0x0a2d_0000 + n).into(), NodeId::new((n % 3) as u8));
    let policy = Policy { key_profile: profile, ..policy() };
    let pins = (1..FLOWS).map(|n| pin(n).expect("an inside address")).collect();
    cluster_of(Architecture::ScaleBricks, has_slow_paths, policy, pins)
}

fn cluster_of(
    architecture: Architecture,
    has_slow_paths: bool,
    policy: Policy,
    flows: Vec<FlowSpec>,
) -> Running {
    let pool = Pool::new(256, 5_000).expect("a small one");
    let config = ClusterConfig {
        size: ClusterSize::new(NODES).expect("few"),
        architecture,
        gpt: scalebricks_tables::compact::Structure::default(),
        policy,
        seed: HashSeed::new(1, 2),
        base_stations: vec![BaseStation { address: BASE_STATION, mac: MacAddr([2, 0, 0, 0, 0, 9]) }],
        outside_capacity: 64,
        fabric_capacity: 64,
        buffers: pool.clone(),
        appliance: policy.key_profile.is_of_appliance().then(|| APPLIANCE.into()),
    };
    let mut cluster = Cluster::new(&config, &flows).expect("it fits");
    if has_slow_paths {
        cluster.nodes_mut().iter_mut().for_each(Node::keep_punts);
    }
    Running { cluster, pool, now: Duration::ZERO, has_slow_paths }
}

/// A node's slow path. The networks of its links are the same at every node.
fn local(node: u8, macs: &OutsideMacs, now: Duration) -> LocalStack {
    let interface =
        |mac, address: [u8; 4], mtu| Interface { mac, addresses: vec![(address.into(), 24)], mtu };
    let config = LocalConfig {
        internet: interface(macs.internet, [198, 51, 100, 10 + node], 1_500),
        base_station: interface(macs.base_station, [10, 255, 0, 10 + node], POLICY_MTU),
        routes: vec![Route {
            port: OutputPort::Internet,
            to: ([0, 0, 0, 0].into(), 0),
            via: vec![[198, 51, 100, 1].into()],
        }],
        base_stations: vec![BASE_STATION.into()],
        gateway: policy().gateway_address,
        gateway_v6: policy().gateway_address_v6,
        limits: LocalLimits {
            neighbours: 4,
            held_a_neighbour: 2,
            held_frames: 6,
            held_bytes: 8_000,
            ..LocalLimits::default()
        },
    };
    LocalStack::new(config, now)
}

thread_local!(static CLUSTERS: RefCell<Vec<Running>> = RefCell::new(
    [false, true].iter().flat_map(|slow| {
        let blocks = "10.45.0.0/24:192.0.2.0/30:1024:512".parse().expect("they fit");
        let gateways = Architecture::ALL.map(|architecture| running(architecture, *slow));
        let appliances = [KeyProfile::Inside, KeyProfile::Nat44(blocks)].map(|profile| appliance(profile, *slow));
        gateways.into_iter().chain(appliances)
    }).collect()
));

/// The location of each packet of an input.
#[derive(Debug, Default, PartialEq, Eq)]
struct Books {
    came: u64,
    left: u64,
    dropped: u64,
    /// Consumed by a slow path: messages for the node itself.
    ended: u64,
    held: u64,
}

/// Handles a packet in the slow path as a node's process does.
fn work(local: &mut LocalStack, node: &mut Node<Packet>, pool: &mut Pool, now: Duration, books: &mut Books) {
    let (mut out, mut punts) = (Outbox::new(32), Vec::new());
    node.take_punts(&mut punts);
    for punt in punts {
        match punt.why {
            PuntReason::NoFlow(_) => match local.receive(punt.link, punt.packet.data(), now, &mut out) {
                Consumed::Yes => books.ended += 1,
                Consumed::No => node.drop_punt(punt),
            },
            PuntReason::Unresolved { next_hop, kind } => {
                let held = local.hold(punt.link, next_hop, punt.packet.data(), kind, now, &mut out);
                match (held, kind) {
                    (HoldOutcome::Accepted, FrameKind::Packet) => books.held += 1,
                    (HoldOutcome::Dropped(reason), FrameKind::Packet) => node.drop_frame(punt.packet.data(), reason),
                    (_, FrameKind::Other) => {}
                }
            }
            PuntReason::UnknownFlow(_) => {
                match punt.link {
                    OutputPort::BaseStation => local.unknown_tunnel(punt.packet.data(), now, &mut out),
                    OutputPort::Internet => local.unknown_user(punt.packet.data(), now, &mut out),
                }
                node.drop_punt(punt);
            }
        }
    }
    local.poll(now, &mut out);
    node.set_adjacencies(local.adjacencies());
    for (frame, reason) in out.drain_lost() {
        books.held -= 1;
        node.drop_frame(&frame, reason);
    }
    for (port, frame, kind) in out.drain() {
        let is_packet = kind == FrameKind::Packet;
        books.held -= u64::from(is_packet);
        match pool.packet(&frame) {
            Some(mut packet) => {
                packet.set_tag(Tag { id: u64::from(is_packet), ..Tag::default() });
                assert!(node.send_frame(port, packet, kind), "no link is down");
            }
            None if is_packet => node.drop_frame(&frame, DropReason::NoBuffer),
            None => {}
        }
    }
}

/// Runs all nodes until no packet is in transit, and collects the packets that left.
fn settle(cluster: &mut Cluster, pool: &mut Pool, locals: &mut [LocalStack], now: Duration, books: &mut Books) {
    loop {
        let moved: usize = cluster.nodes_mut().iter_mut().map(|node| node.turn(now)).sum();
        for (node, local) in cluster.nodes_mut().iter_mut().zip(&mut *locals) {
            work(local, node, pool, now, books);
        }
        for links in cluster.links_mut() {
            while let Some(packet) = links.internet.receive().or_else(|| links.base_station.receive()) {
                // Messages of the slow path have no number. Of a fragmented packet, the first fragment counts.
                books.left += u64::from(packet.tag().id == 1 && packet.tag().piece <= 1);
            }
        }
        if moved == 0 {
            return;
        }
    }
}

fn dropped(cluster: &Cluster) -> u64 {
    cluster.nodes().iter().map(|node| node.stats().dropped.total()).sum()
}

/// Removes one of a flow's keys from a node's tables, or sets the node that has the flow.
fn change(cluster: &mut Cluster, what: u8, key: u8, to: u8) {
    let spec = flow(u32::from(key) % FLOWS);
    let tables = &mut cluster.tables_mut()[usize::from(what >> 6) % NODES];
    for key in spec.keys() {
        if to & 4 == 0 {
            tables.set(&key, NodeId::new(to % 3), &(&spec).into()).expect("it was there before");
        } else {
            tables.remove(&key);
        }
    }
}

/// Moves every flow back to its first node.
fn restore(cluster: &mut Cluster) {
    for tables in cluster.tables_mut() {
        for spec in (0..FLOWS).map(flow) {
            for key in spec.keys() {
                tables.set(&key, spec.node, &(&spec).into()).expect("it was there before");
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, steps)) = bytes.split_first() else { return };
    CLUSTERS.with_borrow_mut(|clusters| {
        let Running { cluster, pool, now, has_slow_paths } = {
            let count = clusters.len();
            &mut clusters[usize::from(kind) % count]
        };
        let mut locals = Vec::new();
        if *has_slow_paths {
            *now += Duration::from_secs(1);
            let links = cluster.links_mut().iter().zip(0..);
            locals.extend(links.map(|(links, at)| local(at, &links.macs, *now)));
            for (node, local) in cluster.nodes_mut().iter_mut().zip(&locals) {
                node.set_adjacencies(local.adjacencies());
            }
        }
        let (mut books, before) = (Books::default(), dropped(cluster));
        for (what, later, frame) in Steps(steps) {
            *now += Duration::from_millis(u64::from(later) * u64::from(later));
            if what & 0x20 != 0 {
                if let [key, to, ..] = frame {
                    change(cluster, what, *key, *to);
                }
                continue;
            }
            let links = &mut cluster.links_mut()[usize::from(what & 3) % NODES];
            let (port, mac) = match what & 4 {
                0 => (&mut links.internet, links.macs.internet),
                _ => (&mut links.base_station, links.macs.base_station),
            };
            let mut packet = pool.packet(frame).expect("all others gave their buffers back");
            if what & 8 == 0 && frame.len() >= 6 {
                packet.data_mut()[..6].copy_from_slice(&mac.octets());
            }
            if what & 16 == 0 {
                mend(packet.data_mut());
            }
            packet.set_tag(Tag { id: 1, ..Tag::default() });
            port.send(packet).expect("the ring is empty");
            books.came += 1;
            settle(cluster, pool, &mut locals, *now, &mut books);
        }
        books.dropped = dropped(cluster) - before;
        assert_eq!(books.came, books.left + books.dropped + books.ended + books.held, "{books:?}");
        restore(cluster);
    });
});
