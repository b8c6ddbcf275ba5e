//! Split horizon, storm guard, TTL, full ports, empty pools: each drop has its reason.

use super::frames::{Protocol, Spec, mac, v4};
use super::rig::{Rig, Setting, port};
use scalebricks_elements::flat::{Action, FlatName, NameKind, UnknownNamePolicy};
use scalebricks_wire::MacAddr;
use std::time::Duration;

const SPEC: Spec = Spec {
    mac: 1,
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

const fn macs(n: u8) -> FlatName {
    FlatName::Mac(MacAddr([0x02, 0, 0, 0, 1, n]))
}

fn lengths(left: &[Vec<Vec<u8>>]) -> Vec<usize> {
    left.iter().map(Vec::len).collect()
}

#[test]
fn nothing_leaves_where_it_came_in_nor_by_its_group() {
    let setting = Setting {
        groups: vec![None, Some(1), Some(1), Some(2), None],
        ..Setting::new(NameKind::Mac, UnknownNamePolicy::Flood)
    };
    let mut rig = Rig::new(&setting);
    rig.names(&[(macs(1), Action::Forward(port(1)))]);
    let known = SPEC.frame();
    assert_eq!(lengths(&rig.one(0, &known)), [0, 1, 0, 0, 0]);
    assert_eq!(lengths(&rig.one(1, &known)), [0; 5], "its own port");
    assert_eq!(lengths(&rig.one(2, &known)), [0; 5], "its group");
    assert_eq!(lengths(&rig.one(3, &known)), [0, 1, 0, 0, 0], "another group");
    assert_eq!([1, 2].map(|port| rig.count(port, "split_horizon")), [1, 1]);
    for unknown in [Spec { mac: 0, ..SPEC }, Spec { mac: 5, ..SPEC }] {
        assert_eq!(lengths(&rig.one(0, &unknown.frame())), [0, 1, 1, 1, 1]);
        assert_eq!(lengths(&rig.one(2, &unknown.frame())), [1, 0, 0, 1, 1]);
    }
    assert_eq!((rig.count(0, "unknown"), rig.count(0, "flooded")), (1, 2), "a broadcast has no name");
}

#[test]
fn a_switch_of_one_group_floods_nowhere() {
    let setting =
        Setting { groups: vec![Some(3); 3], ..Setting::new(NameKind::Mac, UnknownNamePolicy::Flood) };
    let mut rig = Rig::new(&setting);
    assert_eq!(lengths(&rig.one(0, &Spec { mac: 0, ..SPEC }.frame())), [0; 3]);
    assert_eq!(rig.count(0, "split_horizon"), 1);
}

#[test]
fn the_storm_guard_lets_a_burst_and_a_rate_through_port_by_port() {
    let setting = Setting { storm: Some((100, 5)), ..Setting::new(NameKind::Mac, UnknownNamePolicy::Flood) };
    let mut rig = Rig::new(&setting);
    rig.names(&[(macs(1), Action::Forward(port(1)))]);
    let (all, known) = (Spec { mac: 0, ..SPEC }.frame(), SPEC.frame());
    let flooded = |rig: &mut Rig, from: usize, ms: u64| {
        (0..20).map(|_| rig.push(&[(from, &all)], Duration::from_millis(ms))[3 - from].len()).sum::<usize>()
    };
    assert_eq!(flooded(&mut rig, 0, 0), 5);
    assert_eq!(flooded(&mut rig, 1, 0), 5, "a bucket a port");
    assert_eq!(flooded(&mut rig, 0, 100), 5, "ten tokens, of which five fit");
    assert_eq!(flooded(&mut rig, 0, 110), 1);
    assert_eq!(
        lengths(&rig.push(&[(0, &known)], Duration::from_millis(110))),
        [0, 1, 0, 0],
        "known names pass"
    );
    assert_eq!(rig.count(0, "storm"), 60 - 11);
    assert_eq!(rig.count(0, "flooded"), 11);
}

#[test]
fn what_bridges_keep_to_themselves_is_not_relayed() {
    let mut rig = Rig::new(&Setting::new(NameKind::Mac, UnknownNamePolicy::Flood));
    let mut frame = SPEC.frame();
    for last in 0..=0x10 {
        frame[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, last]);
        let left: usize = lengths(&rig.one(0, &frame)).into_iter().sum();
        assert_eq!(left, if last < 0x10 { 0 } else { 3 });
    }
    assert_eq!(rig.count(0, "link_local"), 16);
}

#[test]
fn only_routing_touches_the_time_to_live() {
    let mut rig = Rig::new(&Setting::new(NameKind::Ipv4, UnknownNamePolicy::Drop));
    let route = Action::Route { port: port(2), next_hop: MacAddr(mac(7)), source: MacAddr(mac(8)) };
    rig.names(&[(FlatName::Ipv4(v4(2)), route), (FlatName::Ipv4(v4(3)), Action::Forward(port(1)))]);
    for ttl in [0, 1] {
        assert_eq!(lengths(&rig.one(0, &Spec { ttl, ..SPEC }.frame())), [0; 4]);
        let forwarded = Spec { ttl, dst: 3, ..SPEC }.frame();
        assert_eq!(rig.one(0, &forwarded)[1], [forwarded], "a switch leaves it alone");
    }
    assert_eq!(rig.count(0, "expired"), 2);
    let left = rig.one(0, &Spec { ttl: 2, ..SPEC }.frame());
    let routed = etherparse::SlicedPacket::from_ethernet(&left[2][0]).unwrap();
    let Some(etherparse::NetSlice::Ipv4(ip)) = routed.net else { panic!("IPv4") };
    assert_eq!(ip.header().ttl(), 1);
    assert_eq!(ip.header().to_header().calc_header_checksum(), ip.header().header_checksum());
    // A wrong checksum is not corrected.
    let mut wrong = SPEC.frame();
    wrong[14 + 10] ^= 0x40;
    assert_eq!(lengths(&rig.one(0, &wrong)), [0; 4]);
    assert_eq!(rig.count(0, "bad_ipv4_checksum"), 1);
    // It is not routed to the port of its arrival, and its TTL causes no error.
    assert_eq!(lengths(&rig.one(2, &Spec { ttl: 1, ..SPEC }.frame())), [0; 4]);
    assert_eq!((rig.count(2, "split_horizon"), rig.count(2, "expired")), (1, 0));
}

#[test]
fn what_is_no_ip_packet_is_not_routed() {
    let mut rig = Rig::new(&Setting::new(NameKind::Mac, UnknownNamePolicy::Drop));
    let route = Action::Route { port: port(2), next_hop: MacAddr(mac(7)), source: MacAddr(mac(8)) };
    rig.names(&[(macs(1), route)]);
    let mut frame = SPEC.frame();
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    rig.one(0, &frame);
    rig.one(0, &frame[..14]);
    assert_eq!(rig.count(0, "not_routable"), 2);
    assert_eq!(lengths(&rig.one(0, &SPEC.frame())), [0, 0, 1, 0]);
}

#[test]
fn full_ports_and_empty_pools_are_counted() {
    let setting = Setting::new(NameKind::Mac, UnknownNamePolicy::Flood);
    let mut rig = Rig::with_room(&setting, 4, 64);
    rig.names(&[(macs(1), Action::Forward(port(1)))]);
    let (known, all) = (SPEC.frame(), Spec { mac: 0, ..SPEC }.frame());
    let left = rig.push(&[(0, &known), (2, &known), (0, &known), (2, &known), (3, &known)], Duration::ZERO);
    assert_eq!(left[1].len(), 4);
    assert_eq!(rig.count(1, "port_full"), 1);
    assert_eq!(rig.count(1, "tx_frames"), 4);
    // Two buffers: the frame, and one of the two copies needed.
    let mut rig = Rig::with_room(&setting, 4, 2);
    let left = rig.one(0, &all);
    assert_eq!(left.iter().map(Vec::len).sum::<usize>(), 2);
    assert_eq!((rig.count(2, "no_buffer"), left[3].len()), (1, 1));
}
