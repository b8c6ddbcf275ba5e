//! Reordering of a synthetic backbone mix: all packets of one input to one output, as in the paper's experiment.

use super::rig::{check, frame_of, hops, table};
use scalebricks_apps::router::cluster::{RouterCluster, RouterConfig, Steering};
use scalebricks_apps::router::mix::{Mix, MixPacket};
use scalebricks_apps::router::reorder::{Counts, Reordering};
use scalebricks_io::PacketBuf;
use scalebricks_types::ClusterSize;
use std::time::Duration;

/// A line of 1 Gb/s.
const LINE: u64 = 125_000_000;

const STEP: Duration = Duration::from_micros(20);

/// Packets of the mix for half a second, at so many tenths of the line.
fn packets(seed: u64, load: u64) -> Vec<MixPacket> {
    Mix::new(LINE, LINE / 10 * load, seed)
        .take_while(|packet| packet.at < Duration::from_millis(500))
        .collect()
}

/// All from input 0 to output 2 of four nodes with links of R, as in the paper. The counts, late packets on one path,
/// nodes per packet, and sprayed packets.
fn run(steering: Steering, burst: Option<u64>, packets: &[MixPacket]) -> (Counts, u64, f64, u64) {
    let size = ClusterSize::new(4).unwrap();
    let config = RouterConfig {
        size,
        ports: 1,
        port_rate: LINE,
        link_rate: LINE,
        steering,
        queue: 10_000,
        burst,
        seed: 1,
    };
    let mut cluster = RouterCluster::new(&config, &table(4), &hops(4), 1 << 15).unwrap();
    let (mut order, mut on_paths) = (Reordering::new(), Reordering::new());
    let (mut next, mut links, mut late_on_a_path) = (0, 0, 0);
    let end = Duration::from_millis(700);
    while cluster.network.now() < end {
        let due = cluster.network.now() + STEP;
        while let Some(packet) = packets.get(next).filter(|packet| packet.at <= due) {
            cluster.network.inject(0, next as u64, &frame_of(0, 2, packet.flow, packet.bytes)).unwrap();
            next += 1;
        }
        cluster.network.step(STEP).unwrap();
        for departure in cluster.network.take_departed() {
            let tag = departure.packet.tag();
            let MixPacket { flow, number, .. } = packets[departure.id() as usize];
            check(departure.packet.data(), departure.port, 2);
            order.arrive(flow, number);
            late_on_a_path += u64::from(on_paths.arrive(flow << 24 | departure.path(), number));
            links += u64::from(tag.hops);
        }
    }
    let counts = order.counts();
    assert_eq!((counts.packets, cluster.network.dropped()), (packets.len() as u64, 0), "{}", steering.name());
    let sprayed = cluster.network.counter("sprayed");
    (counts, late_on_a_path, 1.0 + links as f64 / packets.len() as f64, sprayed)
}

#[test]
fn flowlets_reorder_far_less_than_direct_vlb() {
    for (seed, load) in [(1, 4), (2, 6), (3, 8), (4, 9)] {
        let packets = packets(seed, load);
        assert!(packets.len() > 10_000, "{}", packets.len());
        let [valiant, direct, flowlets] = Steering::ALL.map(|steering| run(steering, None, &packets));
        println!("seed {seed}, load 0.{load}: {} packets", packets.len());
        for (steering, (counts, _, nodes, _)) in Steering::ALL.into_iter().zip([&valiant, &direct, &flowlets])
        {
            println!(
                "{:<10} sequences {:.5} late {:.5} flows {:.4} nodes {nodes:.2}",
                steering.name(),
                counts.sequence_ratio(),
                counts.late_ratio(),
                counts.flow_ratio()
            );
        }
        for (name, (_, late_on_a_path, _, _)) in
            [("valiant", &valiant), ("direct", &direct), ("flowlets", &flowlets)]
        {
            assert_eq!(*late_on_a_path, 0, "{name}: a path reorders");
        }
        let ratio = |counts: &Counts| (counts.sequence_ratio(), counts.late_ratio());
        assert!(ratio(&direct.0).0 > 0.002 && ratio(&valiant.0).0 > 0.005, "{:?}", direct.0);
        assert!(ratio(&flowlets.0).0 < ratio(&direct.0).0 / 5.0, "{:?} and {:?}", flowlets.0, direct.0);
        assert!(ratio(&flowlets.0).1 < ratio(&direct.0).1 / 5.0, "{:?} and {:?}", flowlets.0, direct.0);
        // Only R/N of the traffic for one output goes directly, so many packets take three nodes.
        assert!(direct.2 > 2.05 && flowlets.2 > 2.0, "{} {}", direct.2, flowlets.2);
    }
}

/// With small budgets flowlets stop fitting, and are sprayed: still in less disorder than without flowlets.
#[test]
fn flowlets_that_do_not_fit_are_sprayed() {
    let packets = packets(4, 9);
    let [direct, flowlets] =
        [Steering::Direct, Steering::Flowlets].map(|steering| run(steering, Some(16_384), &packets));
    println!("16 KiB budgets: {:?}, {} sprayed; without flowlets {:?}", flowlets.0, flowlets.3, direct.0);
    assert!(flowlets.3 > 1_000 && flowlets.0.sequences > 0, "{} sprayed, {:?}", flowlets.3, flowlets.0);
    assert!(flowlets.0.sequences < direct.0.sequences && flowlets.1 == 0, "{:?}, {:?}", flowlets.0, direct.0);
}
