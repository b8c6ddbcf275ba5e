//! Frames from every side of a cluster: nothing panics, and each leaves once or is dropped once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_apps::gateway::{Architecture, Cluster, ClusterConfig, FlowSpec};
use scalebricks_elements::gateway::{BaseStation, BaseStationId, Policy};
use scalebricks_io::{PacketBuf, Pool, Tag};
use scalebricks_types::{ClusterSize, FlowKey, HashSeed, NodeId, Qfi, Teid};
use scalebricks_wire::MacAddr;
use std::cell::RefCell;

fn cluster() -> (Cluster, Pool) {
    let pool = Pool::new(256, 5_000).unwrap();
    let flow = |n: u32| FlowSpec {
        key: FlowKey::five_tuple_v4((0x0808_0808).into(), (0x0a2d_0000 + n).into(), 17, 53, 4000),
        uplink_teid: Teid::new(n),
        downlink_teid: Teid::new(100 + n),
        base_station: BaseStationId(0),
        qfi: n.is_multiple_of(2).then(|| Qfi::new(5).unwrap()),
        node: NodeId::new((n % 3) as u8),
    };
    let config = ClusterConfig {
        size: ClusterSize::new(3).unwrap(),
        architecture: Architecture::ScaleBricks,
        gpt: scalebricks_tables::compact::Structure::default(),
        policy: Policy { verify_ipv4_checksum: false, base_station_mtu: 576, ..Policy::default() },
        seed: HashSeed::new(1, 2),
        base_stations: vec![BaseStation { address: (0x0aff_0002).into(), mac: MacAddr([2, 0, 0, 0, 0, 9]) }],
        outside_capacity: 64,
        fabric_capacity: 64,
        buffers: pool.clone(),
    };
    let mut cluster = Cluster::new(&config, &(0..16).map(flow).collect::<Vec<_>>()).unwrap();
    cluster.nodes_mut().iter_mut().for_each(scalebricks_apps::gateway::Node::list_drops);
    (cluster, pool)
}

thread_local!(static CLUSTER: RefCell<(Cluster, Pool)> = RefCell::new(cluster()));

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, frame)) = bytes.split_first() else { return };
    CLUSTER.with_borrow_mut(|(cluster, pool)| {
        let mut packet = pool.packet(frame).expect("the last packet gave its buffer back");
        let links = &mut cluster.links_mut()[usize::from(mode & 3) % 3];
        let (port, mac) = match mode & 4 {
            0 => (&mut links.internet, links.macs.internet),
            _ => (&mut links.base_station, links.macs.base_station),
        };
        if mode & 8 == 0 && frame.len() >= 6 {
            packet.data_mut()[..6].copy_from_slice(&mac.octets());
        }
        packet.set_tag(Tag { id: 1, ..Tag::default() });
        port.send(packet).expect("the ring is empty");
        cluster.run_until_idle(1);
        let mut left = 0;
        for links in cluster.links_mut() {
            while let Some(packet) = links.internet.receive().or_else(|| links.base_station.receive()) {
                left += usize::from(packet.tag().piece <= 1);
            }
        }
        let dropped: usize = cluster.nodes_mut().iter_mut().map(|node| node.take_drops().len()).sum();
        assert_eq!(left + dropped, 1, "left {left} times, dropped {dropped} times");
    });
});
