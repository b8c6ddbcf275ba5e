//! Two real nodes with tables fed as by the control plane, while flows move between them.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use crate::gateway::common::{SEED, bench_with, downstream, flows, g_pdu, to_gateway, upstream_inner};
use scalebricks_apps::gateway::{Architecture, FlowSpec, FlowTables, Node, NodePorts};
use scalebricks_elements::gateway::{FlowCount, OutputPort, Policy};
use scalebricks_graph::Mark;
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_tables::compact::{Control, Op, Params, Structure};
use scalebricks_types::{Applied, KeyHasher, NodeId, PartitionCount};
use std::time::Duration;

const FLOWS: u32 = 200;

/// A node on the test's thread, the far ends of its outside links, and its tables.
struct Running {
    node: Node<Packet>,
    internet: MemoryPort<Packet>,
    base_station: MemoryPort<Packet>,
    mark: Mark,
    tables: FlowTables,
    left: usize,
}

impl Running {
    fn new(id: usize, params: Params, fabric: MemoryPort<Packet>, pool: &Pool) -> Self {
        let like = bench_with(2, Architecture::ScaleBricks, 2, Policy::default());
        let config = like.cluster.nodes()[id].config().clone();
        let mut tables = FlowTables::for_log(config.id, params, KeyHasher::new(SEED), 1, 0);
        let (internet, far_internet) = memory_port_pair(2_048);
        let (base_station, far_base_station) = memory_port_pair(2_048);
        let ports = NodePorts {
            internet: Box::new(internet),
            base_station: Box::new(base_station),
            fabric: Box::new(fabric),
        };
        let mut node = Node::new(config, tables.node_tables(0), ports, Box::new(pool.clone()));
        node.list_drops();
        let mark = tables.mark(0).unwrap();
        Self { node, internet: far_internet, base_station: far_base_station, mark, tables, left: 0 }
    }

    fn inject(&mut self, pool: &mut Pool, output: OutputPort, frame: &[u8]) {
        let macs = self.node.config().macs;
        let (port, mac) = match output {
            OutputPort::BaseStation => (&mut self.internet, macs.internet),
            OutputPort::Internet => (&mut self.base_station, macs.base_station),
        };
        let mut packet = pool.packet(frame).unwrap();
        packet.data_mut()[..6].copy_from_slice(&mac.octets());
        port.send(packet).unwrap();
    }

    fn turn(&mut self) -> usize {
        self.mark.pass();
        let moved = self.node.turn(Duration::ZERO);
        for port in [&mut self.internet, &mut self.base_station] {
            self.left += std::iter::from_fn(|| port.receive()).count();
        }
        moved
    }
}

/// Sends one packet of each flow in each direction to each node; adds the expected counts per flow to `sent`.
fn traffic(nodes: &mut [Running; 2], pool: &mut Pool, round: u32, sent: &mut [FlowCount]) {
    for n in (0..FLOWS).step_by(2) {
        let payload = vec![7; (n + round) as usize % 400];
        let (down, inner) = (downstream(n, &payload), upstream_inner(n, &payload));
        let message = g_pdu(0x8000_0000 + n, &inner, false);
        let up = to_gateway(Policy::default().gateway_address, 2152, &message);
        let ingress = ((n / 2 + round) % 2) as usize;
        nodes[ingress].inject(pool, OutputPort::BaseStation, &down);
        nodes[1 - ingress].inject(pool, OutputPort::Internet, &up);
        sent[n as usize] += FlowCount {
            downstream_packets: 1,
            downstream_bytes: down.len() as u64 - 14,
            upstream_packets: 1,
            upstream_bytes: inner.len() as u64,
        };
    }
}

fn run(nodes: &mut [Running; 2]) {
    while nodes.iter_mut().map(Running::turn).sum::<usize>() > 0 {}
}

/// Moves a flow as the control plane does: FIB there, GPTs, FIB here.
fn pin(nodes: &mut [Running; 2], control: &mut Control, spec: &FlowSpec, from: Option<usize>, to: usize) {
    let hasher = KeyHasher::new(SEED);
    for (key, value) in spec.entries() {
        nodes[to].tables.set_logged(&key, value).unwrap();
        let (hash, node) = (hasher.hash(&key), to as u8);
        let op = if from.is_some() { Op::Update(hash, node) } else { Op::Insert(hash, node) };
        for delta in control.batch(&[op]).unwrap() {
            for node in &mut *nodes {
                assert_eq!(node.tables.apply_gpt(&delta), Ok(Applied::Advanced));
            }
        }
    }
}

/// Counts of departed flows are transferred to the flows' current nodes.
fn exchange(nodes: &mut [Running; 2], specs: &[FlowSpec], at: &[usize]) {
    for node in 0..2 {
        nodes[node].tables.expire(Duration::ZERO);
        for (uplink, count) in nodes[node].tables.take_departed() {
            let n = specs.iter().position(|spec| spec.uplink_teid == uplink).unwrap();
            nodes[at[n]].tables.carry_over(uplink, count);
        }
    }
}

#[test]
fn nodes_forward_over_them_and_totals_stay_exact_while_flows_move() {
    Structure::ALL.into_iter().for_each(move_flows);
}

fn move_flows(structure: Structure) {
    let mut pool = Pool::new(4_096, 2_000).unwrap();
    let params =
        Params::for_keys(structure, 2 * u64::from(FLOWS), 1, PartitionCount::new(4).unwrap()).unwrap();
    let mut control = Control::new(params);
    let (a, b) = memory_port_pair(2_048);
    let mut nodes = [Running::new(0, params, a, &pool), Running::new(1, params, b, &pool)];
    let specs = flows(FLOWS, 2, Policy::default().key_profile);
    let mut at: Vec<usize> = specs.iter().map(|spec| spec.node.index()).collect();
    for spec in &specs {
        pin(&mut nodes, &mut control, spec, None, spec.node.index());
    }
    let mut sent = vec![FlowCount::default(); FLOWS as usize];
    for round in 0..12 {
        traffic(&mut nodes, &mut pool, round, &mut sent);
        nodes[0].turn(); // some packets are under way when flows move
        let mut gone = Vec::new();
        for (n, spec) in specs.iter().enumerate().filter(|(n, _)| n % 3 != round as usize % 3) {
            pin(&mut nodes, &mut control, spec, Some(at[n]), 1 - at[n]);
            gone.push((at[n], spec));
            at[n] = 1 - at[n];
        }
        run(&mut nodes);
        for (node, spec) in gone {
            spec.entries().iter().for_each(|(key, _)| nodes[node].tables.remove(key));
        }
        run(&mut nodes);
        exchange(&mut nodes, &specs, &at);
    }
    for _ in 0..2 {
        run(&mut nodes);
        exchange(&mut nodes, &specs, &at);
    }
    for (n, spec) in specs.iter().enumerate() {
        assert_eq!(nodes[at[n]].tables.count(spec.uplink_teid), Some(sent[n]), "flow {n}");
        assert_eq!(nodes[1 - at[n]].tables.count(spec.uplink_teid), None, "flow {n}");
        let state = nodes[at[n]].tables.flow(&spec.key).unwrap();
        assert_eq!((state.node, state.teid), (NodeId::new(at[n] as u8), spec.downlink_teid));
    }
    let left: usize = nodes.iter().map(|node| node.left).sum();
    assert_eq!(left, 12 * FLOWS as usize, "every packet has left");
    assert!(nodes.iter_mut().all(|node| node.node.take_drops().is_empty()));
}
