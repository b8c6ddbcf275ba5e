use super::*;
use crate::fabric::next_hops::Neighbour;
use crate::rig::{Rig, ipv4_of, ipv6_of};
use proptest::prelude::*;
use scalebricks_types::NodeId;

/// Next hop 1 is 192.0.2.1 at port 0, 2 is `2001:db8::2` at port 1.
fn rig() -> Rig {
    let hops = NextHops::new(10);
    for (number, port, address) in [(1, 0, "192.0.2.1"), (2, 1, "2001:db8::2")] {
        let port = ExternalPort::new(port).unwrap();
        hops.define(number, Some(Neighbour { port, address: address.parse().unwrap() })).unwrap();
    }
    let own = ["10.0.9.1", "2001:db8::9:1"].map(|address| address.parse().unwrap());
    Rig::new(6, |builder| {
        builder.add("o", RouterOutput::new(2, own, Arc::new(hops))).chain(&["in", "o", "out0"]);
        (1..6).for_each(|at| {
            builder.connect("o", at, &format!("out{at}"), 0);
        });
    })
}

fn frame(port: u8, hop: u16, packet: &[u8]) -> Vec<u8> {
    let mac = RouterMac::new(NodeId::new(0), ExternalPort::new(port).unwrap(), hop).encode();
    let ethertype = if packet.first().is_some_and(|first| first >> 4 == 6) { [0x86, 0xdd] } else { [8, 0] };
    [&mac.octets()[..], b"source", &ethertype, packet].concat()
}

fn four(dst: &str) -> Vec<u8> {
    ipv4_of(|header| header.dst = dst.parse().unwrap(), b"abc")
}

fn six(dst: &str) -> Vec<u8> {
    ipv6_of(|header| header.dst = dst.parse().unwrap(), b"abc")
}

#[test]
fn packets_go_to_the_resolver_of_their_port_and_own_ones_stay() {
    let mut rig = rig();
    let padded = |mut frame: Vec<u8>| {
        frame.extend([0; 9]);
        frame
    };
    rig.send([
        frame(0, 1, &four("10.0.0.7")),
        frame(1, 2, &six("2001:db9::7")),
        padded(frame(1, CONNECTED, &four("10.0.0.8"))),
        frame(0, CONNECTED, &six("2001:db8::8")),
        frame(0, CONNECTED, &four("10.0.9.1")),
        frame(1, 2, &six("2001:db8::9:1")),
    ]);
    rig.turn();
    let got: Vec<Vec<u8>> = [2, 5, 4, 3, 0, 1].into_iter().flat_map(|end| rig.got(end)).collect();
    let sent = [
        four("10.0.0.7"),
        six("2001:db9::7"),
        four("10.0.0.8"),
        six("2001:db8::8"),
        four("10.0.9.1"),
        six("2001:db8::9:1"),
    ];
    assert_eq!(got, sent);
    assert_eq!(["to_neighbours", "own"].map(|name| rig.number("o", name)), [4, 2]);
}

#[test]
fn what_has_no_way_is_dropped_by_name() {
    let mut rig = rig();
    rig.send([
        frame(2, 1, &four("10.0.0.7")),
        frame(1, 1, &four("10.0.0.7")), // the next hop is at port 0
        frame(0, 3, &four("10.0.0.7")),
        frame(0, 10, &four("10.0.0.7")),
        frame(0, 1, &six("2001:db9::7")),
        frame(0, 1, &four("10.0.0.7")[..19]),
        frame(0, 1, &six("2001:db9::7")[..42]),
        frame(0, 1, &[]),
        frame(0, 1, b"")[..13].to_vec(),
        vec![2; 60],
    ]);
    rig.turn();
    let names = ["no_port", "no_next_hop", "other_family", "no_ip_packet", "bad_fabric_mac"];
    assert_eq!(names.map(|name| rig.number("o", name)), [1, 3, 1, 4, 1]);
    for wrong in ["0", "65", "x"] {
        let built = Rig::with_buffers(5, 3, |builder| {
            builder.declare("o", "RouterOutput", &[wrong]).chain(&["in", "o", "out0"]);
            builder.connect("o", 1, "out1", 0).connect("o", 2, "out2", 0);
        });
        assert!(built.is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any bytes behind an encoded address: each frame leaves or is dropped.
    #[test]
    fn any_bytes_leave_or_are_counted(
        frames in prop::collection::vec((0..4u8, any::<bool>(), prop::collection::vec(any::<u8>(), 0..80)), 1..40),
    ) {
        let mut rig = rig();
        let count = frames.len() as u64;
        rig.send(frames.into_iter().map(|(port, is_connected, bytes)| {
            frame(port, if is_connected { CONNECTED } else { 1 }, &bytes)
        }));
        rig.turn();
        let dropped: u64 = rig.ledger.snapshot().iter().map(scalebricks_graph::CounterSnapshot::dropped).sum();
        let left: usize = (0..6).map(|end| rig.got(end).len()).sum();
        prop_assert_eq!(left as u64 + dropped, count);
    }
}
