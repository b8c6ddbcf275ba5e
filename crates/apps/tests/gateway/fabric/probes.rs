//! Probes that a node sends and answers, and frames that only look like probes.

use super::rig::{node, settled};
use crate::gateway::common::SEED;
use proptest::prelude::*;
use proptest::test_runner::{TestRunner, contextualize_config};
use scalebricks_apps::gateway::flow_tables::FlowTables;
use scalebricks_apps::gateway::{Architecture, Layout, Node};
use scalebricks_elements::gateway::fabric::health::PROBE_EVERY;
use scalebricks_elements::gateway::fabric::health::probe::{FRAME_BYTES, Kind, Probe, ProbeKey};
use scalebricks_elements::gateway::{FabricHealth, FabricMac};
use scalebricks_io::{MemoryPort, Packet, PacketBuf, Pool, memory_port_pair};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, HashSeed, NodeId, NodeSet};
use scalebricks_wire::MacAddr;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

const SOURCE: MacAddr = MacAddr([0x02, 0x5b, 0, 1, 1, 0]);
const START: Duration = Duration::from_secs(9);

/// Node 0 of three, and the far end of its fabric port.
struct Lone {
    node: Node<Packet>,
    fabric: MemoryPort<Packet>,
    /// Buffers for frames.
    pool: Pool,
}

/// A node with this health and this number of buffers.
fn lone(health: Option<&Arc<FabricHealth>>, buffers: usize) -> Lone {
    let size = ClusterSize::new(3).unwrap();
    let layout =
        Layout { size, architecture: Architecture::ScaleBricks, gpt: Structure::default(), seed: SEED };
    let (near, fabric) = memory_port_pair(256);
    let own = Pool::new(buffers.max(1), 2_000).unwrap();
    let id = NodeId::new(0);
    let tables = FlowTables::new(&layout, id, 1, 0).unwrap();
    let (mut node, _) = node(&layout, id, tables.node_tables(0), Box::new(near), &own);
    if let Some(health) = health {
        node.set_fabric_health(Arc::clone(health));
    }
    Lone { node, fabric, pool: Pool::new(1_000, 2_000).unwrap() }
}

fn health(interval: Option<Duration>) -> Arc<FabricHealth> {
    Arc::new(FabricHealth::new(NodeId::new(0), ClusterSize::new(3).unwrap(), SEED, interval))
}

impl Lone {
    /// Gives the node these frames and runs one turn; returns the probes that it sent.
    fn give(&mut self, frames: &[Vec<u8>], now: Duration) -> Vec<Probe> {
        for frame in frames {
            assert!(self.fabric.send(self.pool.packet(frame).unwrap()).is_ok());
        }
        self.node.turn(now);
        let sent = std::iter::from_fn(|| self.fabric.receive());
        let key = ProbeKey::new(SEED);
        sent.map(|packet| key.open(packet.data()).expect("a probe")).collect()
    }

    fn drops(&mut self) -> Vec<&'static str> {
        self.node.take_drops().iter().map(|drop| drop.reason.name()).collect()
    }
}

/// A probe of node 1 for node 0.
fn probe(kind: Kind) -> Probe {
    let sets = NodeSet::EMPTY;
    Probe {
        kind,
        from: NodeId::new(1),
        to: NodeId::new(0),
        life: 1,
        epoch: 1,
        stamp: 5,
        answers: 0,
        answers_life: 0,
        hears: sets,
        reaches: sets,
        grants: sets,
    }
}

fn frame(probe: &Probe) -> Vec<u8> {
    ProbeKey::new(SEED).frame(probe, SOURCE).to_vec()
}

#[test]
fn a_node_probes_all_others_each_interval() {
    let mut lone = lone(Some(&health(Some(PROBE_EVERY))), 64);
    let mut sent = Vec::new();
    for ms in 0..1_000 {
        sent.extend(lone.give(&[], START + Duration::from_millis(ms)));
    }
    assert_eq!(sent.len(), 2 * 10);
    for to in [1, 2].map(NodeId::new) {
        assert_eq!(sent.iter().filter(|probe| probe.to == to && probe.kind == Kind::Probe).count(), 10);
    }
    let stats = lone.node.stats();
    assert_eq!((stats.probes_out, stats.probes_unsent, stats.fabric_out), (20, 0, 0));
}

#[test]
fn a_probe_is_echoed_by_the_worker_that_receives_it_and_an_echo_is_not() {
    for interval in [Some(PROBE_EVERY), None] {
        let health = health(interval);
        let mut lone = lone(Some(&health), 64);
        lone.give(&[], START);
        let now = START + Duration::from_millis(1);
        // The padding of short frames changes nothing.
        let padded = [frame(&probe(Kind::Probe)), vec![0; 40]].concat();
        let sent = lone.give(&[padded, frame(&probe(Kind::Echo))], now);
        assert_eq!(sent.len(), 1);
        assert_eq!(
            (sent[0].kind, sent[0].to, sent[0].answers, sent[0].answers_life),
            (Kind::Echo, NodeId::new(1), 5, 1)
        );
        assert!(health.hears(now).contains(NodeId::new(1)));
        let stats = lone.node.stats();
        assert_eq!((stats.probes_in, stats.fabric_in, stats.dropped.total()), (2, 0, 0));
    }
}

#[test]
fn bad_probes_are_dropped_by_name_and_change_nothing() {
    let good = probe(Kind::Probe);
    let of = |probe: Probe| frame(&probe);
    let mut damaged = frame(&good);
    damaged[60] ^= 1;
    let mut other_type = frame(&good);
    other_type[12..14].copy_from_slice(&[0x08, 0x00]);
    let frames = [
        damaged,
        other_type,
        frame(&good)[..FRAME_BYTES - 1].to_vec(),
        frame(&good)[..6].to_vec(),
        ProbeKey::new(HashSeed::new(0, 0)).frame(&good, SOURCE).to_vec(),
        of(Probe { from: NodeId::new(0), ..good }),
        of(Probe { from: NodeId::new(3), ..good }),
        // Names another node, but is addressed to this one.
        [&FabricMac::probe(NodeId::new(0)).encode().octets(), &of(Probe { to: NodeId::new(2), ..good })[6..]]
            .concat(),
    ];
    let health = health(None);
    let mut lone = lone(Some(&health), 64);
    assert_eq!(lone.give(&frames, START), []);
    assert_eq!(lone.drops(), vec!["bad_probe"; frames.len()]);
    assert_eq!(health.hears(START), NodeSet::EMPTY);
    assert_eq!(lone.node.stats().fabric_in, frames.len() as u64);
}

#[test]
fn a_node_that_takes_no_part_drops_probes_by_name() {
    let mut lone = lone(None, 64);
    assert_eq!(lone.give(&[frame(&probe(Kind::Probe))], START), []);
    assert_eq!(lone.drops(), ["bad_probe"]);
}

#[test]
fn replayed_probes_do_not_make_a_node_flood() {
    let mut lone = lone(Some(&health(None)), 64);
    lone.give(&[], START);
    let frames = vec![frame(&probe(Kind::Probe)); 100];
    let mut echoes = 0;
    for ms in 0..200 {
        echoes += lone.give(&frames, START + Duration::from_millis(ms)).len();
    }
    assert_eq!(echoes, 2 * 64);
    let stats = lone.node.stats();
    assert_eq!((stats.probes_in, stats.probes_out), (20_000, 128));
    assert_eq!(stats.probes_unsent, 20_000 - 128);
}

#[test]
fn without_buffers_probes_are_not_sent_and_counted() {
    let mut lone = lone(Some(&health(Some(PROBE_EVERY))), 1);
    assert_eq!(lone.give(&[], START).len(), 1, "there is one buffer");
    let stats = lone.node.stats();
    assert_eq!((stats.probes_out, stats.probes_unsent), (1, 1));
    // An echo needs no buffer: it reuses that of the probe.
    assert_eq!(lone.give(&[frame(&probe(Kind::Probe))], START + Duration::from_millis(1)).len(), 1);
}

#[test]
fn any_frame_to_the_probe_address_is_answered_once_or_dropped_once() {
    let lone = RefCell::new(lone(Some(&health(None)), 64));
    let mut runner = TestRunner::new(contextualize_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    }));
    let bytes = prop::collection::vec(any::<u8>(), 0..220);
    let damage = prop::collection::vec((0..FRAME_BYTES, any::<u8>()), 0..4);
    let now = Cell::new(START);
    let run = runner.run(&(bytes, damage, any::<bool>()), |(bytes, damage, is_random)| {
        let mut lone = lone.borrow_mut();
        let mut given = if is_random { bytes } else { frame(&probe(Kind::Probe)) };
        damage.iter().filter(|_| !is_random).for_each(|(at, bits)| given[*at] ^= bits);
        let to = FabricMac::probe(NodeId::new(0)).encode().octets();
        given = [&to[..], given.get(6..).unwrap_or_default()].concat();
        let before = lone.node.stats().dropped.total();
        now.set(now.get() + Duration::from_millis(10));
        let answers = lone.give(&[given], now.get()).len() as u64;
        prop_assert_eq!(answers + lone.node.stats().dropped.total() - before, 1);
        Ok(())
    });
    run.unwrap();
}

#[test]
fn probes_are_no_packets_of_the_fabric() {
    let mut rig = settled(Architecture::ScaleBricks, 3);
    let before = rig.stats();
    rig.pass(Duration::from_secs(1));
    let after = rig.stats();
    assert_eq!((after.fabric_in, after.fabric_out), (before.fabric_in, before.fabric_out));
    // Two of three nodes send ten probes per second each, and echoes.
    assert_eq!(after.probes_out - before.probes_out, 3 * 2 * 10 * 2);
    assert_eq!(after.dropped.total(), 0);
}
