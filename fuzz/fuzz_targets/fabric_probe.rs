//! Fabric probes, with and without VLAN tags: each is answered, dropped once or accepted, without a panic. A decoded
//! probe encodes to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_elements::gateway::fabric::health::PROBE_EVERY;
use scalebricks_elements::gateway::fabric::health::probe::{FRAME_BYTES, Probe, ProbeKey, TAGGED};
use scalebricks_apps::gateway::flow_tables::FlowTables;
use scalebricks_elements::gateway::{Adjacencies, FabricHealth, FabricMac, Identifications, NodeConfig, OutsideMacs, Policy};
use scalebricks_apps::gateway::{Architecture, Layout, Node, NodePorts};
use scalebricks_io::{MemoryPort, Packet, Pool, memory_port_pair};
use scalebricks_types::{ClusterSize, HashSeed, NodeId};
use scalebricks_wire::MacAddr;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

const SECRET: HashSeed = HashSeed::new(1, 2);
const ID: NodeId = NodeId::new(0);

struct Rig {
    node: Node<Packet>,
    health: Arc<FabricHealth>,
    fabric: MemoryPort<Packet>,
    pool: Pool,
    now: Duration,
}

fn rig() -> Rig {
    let size = ClusterSize::new(3).unwrap();
    let gpt = scalebricks_tables::compact::Structure::default();
    let layout = Layout { size, architecture: Architecture::ScaleBricks, gpt, seed: SECRET };
    let tables = FlowTables::new(&layout, ID, 1, 0).unwrap();
    let pool = Pool::new(256, 2_000).unwrap();
    let mac = |n| MacAddr([2, 0, 0, 0, 0, n]);
    let macs = OutsideMacs { internet: mac(1), base_station: mac(2), router: mac(3) };
    let (near, fabric) = memory_port_pair(64);
    let ports = NodePorts {
        internet: Box::new(memory_port_pair(1).0),
        base_station: Box::new(memory_port_pair(1).0),
        fabric: Box::new(near),
    };
    let config = NodeConfig {
        appliance: None,
        id: ID,
        size,
        policy: Policy::default(),
        seed: SECRET,
        macs,
        addresses: Arc::new([]),
        adjacencies: Arc::new(Adjacencies::fixed(macs.router, &[])),
        identifications: Arc::new(Identifications::new(ID, size, 0)),
    };
    let mut node = Node::new(config, tables.node_tables(0), ports, Box::new(pool.clone()));
    node.list_drops();
    let health = Arc::new(FabricHealth::new(ID, size, SECRET, Some(PROBE_EVERY)));
    node.set_fabric_health(Arc::clone(&health));
    Rig { node, health, fabric, pool, now: Duration::ZERO }
}

thread_local!(static RIG: RefCell<Rig> = RefCell::new(rig()));

fuzz_target!(|bytes: &[u8]| {
    RIG.with_borrow_mut(|rig| {
        let key = ProbeKey::new(SECRET);
        for bytes in bytes.chunks(TAGGED + 1) {
            let Some((&mode, content)) = bytes.split_first() else { return };
            rig.now += Duration::from_millis(u64::from(mode >> 1));
            let mut frame = [&FabricMac::probe(ID).encode().octets()[..], content].concat();
            if let Some(probe) = content.first_chunk().filter(|_| mode & 1 == 0).and_then(Probe::decode) {
                assert_eq!(probe.encode()[..], content[..TAGGED]);
                frame = key.frame(&Probe { to: ID, ..probe }, MacAddr([2; 6])).to_vec();
            }
            let packet = rig.pool.packet(&frame).expect("the last packets gave their buffers back");
            rig.fabric.send(packet).expect("the ring is empty");
            let before = rig.node.stats();
            rig.node.turn(rig.now);
            let after = rig.node.stats();
            let taken = after.probes_in - before.probes_in;
            assert_eq!(taken + after.dropped.total() - before.dropped.total(), 1);
            assert!(taken == 0 || frame.len() == FRAME_BYTES);
            drop(rig.node.take_drops());
            while rig.fabric.receive().is_some() {}
            let routes = rig.health.refresh(rig.now);
            assert!(routes.detours().all(|(node, via)| node != via && node != ID && via != ID));
            assert!(rig.health.grants_to_me(rig.now).len() < 3);
        }
    });
});
