//! Every received frame leaves, is dropped or waits, however full ports and pools are. Flooding needs no slots.

use super::frames::{Protocol, Spec, WORLD, specs};
use super::kinds::{actions, name};
use super::reference::Names;
use super::rig::{Rig, Setting};
use proptest::prelude::*;
use scalebricks_elements::flat::{MAX_PORTS, NameKind, UnknownNamePolicy};
use std::time::Duration;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_comes_leaves_is_dropped_or_waits(
        names in proptest::collection::vec((0..WORLD, any::<u8>(), actions()), 0..40),
        groups in proptest::collection::vec(proptest::option::of(0..2_u16), 4),
        storm in proptest::option::of((1..1_000_u32, 1..20_u32)),
        (room, buffers) in (1..100_usize, 1..400_usize),
        turns in proptest::collection::vec(proptest::collection::vec((0..4_usize, specs()), 0..120), 1..10),
    ) {
        for kind in [NameKind::Mac, NameKind::Tuple { with_port: true }] {
            let unknown = if kind == NameKind::Mac { UnknownNamePolicy::Flood } else { UnknownNamePolicy::Answer };
            let setting = Setting { groups: groups.clone(), storm, ..Setting::new(kind, unknown) };
            let mut rig = Rig::with_room(&setting, room, buffers);
            let names: Names =
                names.iter().filter_map(|&(n, m, action)| Some((name(kind, n, m)?, action))).collect();
            rig.names(&names.into_iter().collect::<Vec<_>>());
            let (mut offered, mut came) = (0, 0);
            for (turn, frames) in (0..).zip(&turns) {
                offered += frames.iter().filter(|(port, spec)| rig.offer(*port, &spec.frame())).count() as u64;
                rig.turn(Duration::from_millis(turn));
                rig.check_books();
                came = (0..4).map(|port| rig.count(port, "rx_frames")).sum();
                prop_assert!(came <= offered);
                // Otherwise the frames that left stay, and ports and pool fill up.
                if turn % 3 == 2 {
                    rig.take();
                }
            }
            for turn in 0..offered {
                rig.turn(Duration::from_secs(turn));
            }
            prop_assert_eq!((rig.count_all("rx_frames"), rig.held()), (offered, 0), "{} before", came);
            rig.check_books();
        }
    }
}

const BROADCAST: Spec = Spec {
    mac: 0,
    vlan: None,
    is_v6: false,
    src: 1,
    dst: 2,
    protocol: Protocol::Udp,
    src_port: 1_000,
    dst_port: 80,
    ttl: 64,
    label: 0,
};

#[test]
fn a_burst_is_flooded_to_as_many_ports_as_there_may_be() {
    let setting =
        Setting { groups: vec![None; MAX_PORTS], ..Setting::new(NameKind::Mac, UnknownNamePolicy::Flood) };
    let mut rig = Rig::with_room(&setting, 40, 20_000);
    let frame = BROADCAST.frame();
    let from = MAX_PORTS / 2;
    assert!((0..40).all(|_| rig.offer(from, &frame)));
    // A turn takes the same number of frames from each of many ports.
    let mut left = rig.take();
    for _ in 0..40 {
        rig.turn(Duration::ZERO);
        left.iter_mut().zip(rig.take()).for_each(|(all, more)| all.extend(more));
    }
    for (port, left) in left.iter().enumerate() {
        assert_eq!(left.len(), if port == from { 0 } else { 40 }, "port {port}");
    }
    assert_eq!((rig.count(from, "flooded"), rig.count_all("no_buffer"), rig.held()), (40, 0, 0));
    rig.check_books();
}

#[test]
fn busy_ports_share_a_turn() {
    let mut rig = Rig::with_room(
        &Setting { groups: vec![None; 16], ..Setting::new(NameKind::Mac, UnknownNamePolicy::Drop) },
        400,
        8_000,
    );
    let frame = Spec { mac: 1, ..BROADCAST }.frame();
    for _ in 0..400 {
        (0..16).for_each(|port| assert!(rig.offer(port, &frame)));
    }
    for _ in 0..20 {
        rig.turn(Duration::ZERO);
    }
    for port in 0..16 {
        // An equal share would be 160.
        let came = rig.count(port, "rx_frames");
        assert!(came >= 100, "port {port}: {came}");
    }
}
