//! Frames at the external port and at a link of a cluster router's node: every packet that was received or created leaves,
//! is dropped, is consumed by an element, or is held, without a panic. The link's far end knows the cluster's secret, and
//! turns some inputs into hellos.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::click::devices::{Devices, ReceiveBinding, SendBinding};
use scalebricks_apps::router::cluster::Steering;
use scalebricks_apps::router::node::{NodeConfig, NodeLink, NodePort, NodeTables};
use scalebricks_elements::fabric::links::{HelloTimes, Links};
use scalebricks_elements::fabric::mac::{ExternalPort, RouterMac};
use scalebricks_elements::fabric::mtus::Mtus;
use scalebricks_elements::fabric::next_hops::{Neighbour, NextHops};
use scalebricks_elements::gateway::fabric::health::probe::{Probe, ProbeKey};
use scalebricks_fuzz::{Steps, mend};
use scalebricks_graph::spec::Counts;
use scalebricks_graph::{Clock, CounterSnapshot, Worker};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_tables::lpm::{Lpm, Params};
use scalebricks_types::{ClusterSize, HashSeed, NodeId};
use scalebricks_wire::MacAddr;
use std::sync::Arc;
use std::time::Duration;

const SECRET: HashSeed = HashSeed::new(1, 2);
const PORT: [u8; 6] = [2, 0, 0, 0, 0, 0x10];

/// Packet buffers: few, so that a run can exhaust them.
const BUFFERS: usize = 300;

/// Node 0 of three, with links to both.
fn node() -> (NodeConfig, NodeTables) {
    let (id, size) = (NodeId::new(0), ClusterSize::new(3).expect("three nodes"));
    let interface = "eth0=192.0.2.1/24,02:00:00:00:00:10,2001:db8:0:1::1/64".parse().expect("it is right");
    let config = NodeConfig {
        id,
        size,
        ports: vec![NodePort { interface, mtu: 1_280 }],
        links: [1, 2].map(|node| NodeLink { node: NodeId::new(node), device: format!("link{node}") }).to_vec(),
        rate: 1 << 30,
        link_rate: None,
        steering: Steering::Flowlets,
        queue: 50,
        burst: None,
        seed: 1,
        errors_per_second: 100,
    };
    let tables = NodeTables {
        routes: Arc::new(Lpm::new(Params::SMALL)),
        routes6: Arc::new(Lpm::new(Params::SMALL)),
        next_hops: Arc::new(NextHops::new(8)),
        links: Arc::new(Links::new(id, size, SECRET, HelloTimes::default()).expect("it has this node")),
        mtus: Arc::new(Mtus::new(size)),
    };
    let port = ExternalPort::new(0).expect("the first");
    for (prefix, mac) in config.connected() {
        tables.routes.insert(prefix, mac.hop()).expect("there is room");
    }
    for (prefix, mac) in config.connected6() {
        tables.routes6.insert(prefix, mac.hop()).expect("there is room");
    }
    for (number, address) in [(1, "192.0.2.99"), (2, "2001:db8:0:1::99")] {
        let address = address.parse().expect("an address");
        tables.next_hops.define(number, Some(Neighbour { port, address })).expect("there is room");
    }
    for (prefix, node, hop) in [("10.0.0.0/8", 0, 1), ("10.1.0.0/16", 1, 1), ("0.0.0.0/0", 2, 1)] {
        let mac = RouterMac::new(NodeId::new(node), port, hop);
        tables.routes.insert(prefix.parse().expect("a prefix"), mac.hop()).expect("there is room");
    }
    let mac = RouterMac::new(id, port, 2);
    tables.routes6.insert("2001:db8::/32".parse().expect("a prefix"), mac.hop()).expect("there is room");
    (config, tables)
}

/// All counters of packets that elements created or consumed.
fn balance(counted: &[CounterSnapshot], counts: Counts) -> u64 {
    let of = |one: &CounterSnapshot| {
        let counters = one.spec.counters.iter().filter(|counter| counter.counts == counts);
        counters.filter_map(|counter| one.get(counter.name)).sum::<u64>()
    };
    counted.iter().map(of).sum()
}

/// Collects the packets that left, and returns their number.
fn take(ports: &mut [(MemoryPort<Packet>, MemoryPort<Packet>)]) -> u64 {
    ports.iter_mut().map(|(_, far)| std::iter::from_fn(|| far.receive()).count() as u64).sum()
}

fuzz_target!(|bytes: &[u8]| {
    let (config, tables) = node();
    let (mut graph, ledger) = config.graph(&tables, &scalebricks_elements::registry()).expect("it is complete");
    let mut devices = Devices::new(Clock::Wall);
    let mut ports = Vec::new();
    for device in ["eth0", "link1", "link2"] {
        let ((near_in, far_in), (near_out, far_out)) = (memory_port_pair(64), memory_port_pair(64));
        devices.receive(Some(device), ReceiveBinding::Port(Box::new(near_in)));
        devices.send(device, SendBinding::Port(Box::new(near_out)));
        ports.push((far_in, far_out));
    }
    graph.open(&mut devices).expect("the ports are there");
    let mut pool = Pool::new(BUFFERS, 4_500).expect("a small one");
    let mut worker = Worker::new(graph, Box::new(pool.clone()), ());
    let key = ProbeKey::new(SECRET);
    let (mut now, mut came, mut left) = (Duration::ZERO, 0, 0);
    for (what, later, frame) in Steps(bytes) {
        let port = usize::from(what & 3) % 3;
        let hello = frame.first_chunk().filter(|_| what & 16 != 0).and_then(Probe::decode);
        let hello = hello.map(|probe| key.frame(&probe, MacAddr([2; 6])));
        let frame = hello.as_ref().map_or(frame, |hello| &hello[..]);
        if let Some(mut packet) = pool.packet(frame) {
            if what & 4 == 0 && port == 0 && frame.len() >= 6 {
                packet.data_mut()[..6].copy_from_slice(&PORT);
            }
            if what & 8 == 0 {
                mend(packet.data_mut());
            }
            came += u64::from(ports[port].0.send(packet).is_ok());
        }
        now += Duration::from_millis(u64::from(later) * u64::from(later));
        if what & 32 == 0 {
            worker.turn(now);
        }
        left += take(&mut ports);
    }
    // At most the packets in the ports have not been received.
    for _ in 0..16 {
        worker.turn(now);
        left += take(&mut ports);
    }
    let counted = ledger.snapshot();
    let dropped: u64 = counted.iter().map(CounterSnapshot::dropped).sum();
    let (made, ended) = (balance(&counted, Counts::Made), balance(&counted, Counts::Ended));
    let waiting = worker.graph().held() as u64;
    assert_eq!(
        came + made,
        left + dropped + ended + waiting,
        "left {left}, dropped {dropped}, ended {ended}, kept {waiting}"
    );
    for fault in ["slot_lost", "unworked"] {
        assert_eq!(counted.iter().filter_map(|one| one.get(fault)).sum::<u64>(), 0, "{fault}");
    }
    assert!(tables.links.reachable().contains(NodeId::new(0)));
});
