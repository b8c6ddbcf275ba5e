//! RFC 4787, 5382, 5508, 6888, 7857, clause by clause.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use super::packets::*;
use scalebricks_flows::nat::{Event, Filtering, Outcome, Refusal, Side};
use scalebricks_wire::parse_ip;
use std::net::Ipv4Addr;

/// RFC 4787 REQ-1, REQ-2, REQ-3, REQ-4.
#[test]
fn mappings_do_not_depend_on_destinations_and_keep_parity() {
    let mut rig = Rig::new(|config| config.subscriber_blocks = 2);
    let mut seen = std::collections::BTreeSet::new();
    for port in 5_000..5_100 {
        let public = rig.udp((host(1), port), (remote(1), 53)).unwrap();
        assert_eq!(rig.udp((host(1), port), (remote(2), 99)).unwrap(), public);
        // Pooling is paired: one public address.
        assert_eq!(public.0, rig.udp((host(1), 5_000), (remote(1), 53)).unwrap().0);
        assert!(seen.insert(public), "no port is given twice");
        if port < 5_032 {
            assert_eq!(public.1 & 1, port & 1);
        }
        let answer = rig.back(&udp((remote(1), 53), public, b"yes")).unwrap();
        assert_eq!(ends(&answer), ((remote(1), 53), (host(1), port)));
    }
    // TCP has ports of its own.
    rig.connect((host(1), 5_000), (remote(1), 80));
    assert_eq!((rig.nat.mappings(), rig.nat.blocks_in_use(), rig.nat.subscribers()), (101, 2, 1));
}

/// RFC 4787 REQ-8, RFC 5382 REQ-3.
#[test]
fn filters_pass_what_they_should() {
    let (inside, first) = ((host(1), 5_000), (remote(1), 53));
    for (filtering, passes) in [
        (Filtering::EndpointIndependent, [true, true, true]),
        (Filtering::AddressDependent, [true, true, false]),
        (Filtering::AddressAndPortDependent, [true, false, false]),
    ] {
        let mut rig = Rig::new(|config| config.filtering = filtering);
        let public = rig.udp(inside, first).unwrap();
        let tries = [first, (remote(1), 54), (remote(2), 53)];
        let got = tries.map(|from| rig.back(&udp(from, public, b"")));
        assert_eq!(got.each_ref().map(Result::is_ok), passes, "{filtering:?}");
        assert!(got.iter().flatten().all(|packet| ends(packet).1 == inside));
        assert!(got.iter().filter_map(|got| got.as_ref().err()).all(|refusal| *refusal == Refusal::Filtered));
        // The contact ends with its session.
        rig.wait(299);
        rig.udp(inside, (remote(3), 1)).unwrap();
        rig.wait(10);
        assert_eq!(rig.back(&udp((remote(1), 54), public, b"")).is_ok(), passes[2], "{filtering:?}");
    }
}

/// RFC 4787 REQ-5, REQ-6; RFC 5508 REQ-2.
#[test]
fn only_outbound_packets_refresh_mappings() {
    let mut rig = Rig::new(|_| {});
    let (inside, far) = ((host(1), 5_000), (remote(1), 53));
    let public = rig.udp(inside, far).unwrap();
    for _ in 0..3 {
        rig.wait(200);
        assert_eq!(rig.udp(inside, far).unwrap(), public);
    }
    rig.wait(200);
    rig.back(&udp(far, public, b"")).unwrap();
    rig.wait(101);
    assert_eq!(rig.back(&udp(far, public, b"")), Err(Refusal::NoMapping));
    // The session has lived on, and gets its first choice of a port again.
    assert_eq!(rig.udp(inside, far).unwrap(), public);
    assert_eq!(rig.nat.events().get(Event::Remapped), 1);

    let asked = rig.out(&query(8, host(1), remote(1), 77)).unwrap();
    let ((address, id), _) = ends(&asked);
    rig.wait(59);
    let reply = rig.back(&query(0, remote(1), address, id)).unwrap();
    assert_eq!(ends(&reply), ((remote(1), 77), (host(1), 77)));
    rig.wait(2);
    assert_eq!(rig.back(&query(0, remote(1), address, id)), Err(Refusal::NoMapping));
}

/// RFC 4787 REQ-9: the source is the public one.
#[test]
fn inside_hosts_reach_each_other_by_public_addresses() {
    let mut rig = Rig::new(|_| {});
    let server = rig.udp((host(2), 9_000), (remote(1), 1)).unwrap();
    let got = rig.hairpin(&udp((host(1), 5_000), server, b"hi")).unwrap();
    let (client, to) = ends(&got);
    assert_eq!(to, (host(2), 9_000));
    assert_eq!(client.0.octets()[..3], [192, 0, 2]);
    let answer = rig.hairpin(&udp((host(2), 9_000), client, b"hi")).unwrap();
    assert_eq!(ends(&answer), (server, (host(1), 5_000)));
    assert_eq!(rig.nat.events().get(Event::Hairpinned), 2);
    // Nobody has that port: the packet is refused as it came.
    let nobody = (server.0, server.1 ^ 1);
    assert_eq!(rig.hairpin(&udp((host(1), 5_001), nobody, b"")), Err(Refusal::NoMapping));
    // RFC 5508 REQ-7: an error about a hairpinned packet.
    let error = error(3, host(2), client.0, &got, 8);
    let got = rig.hairpin(&error).unwrap();
    let packet = parse_ip(&got).unwrap();
    assert_eq!((packet.summary.src, packet.summary.dst), (server.0.into(), host(1).into()));
    let quoted = packet.quoted().unwrap().unwrap();
    assert_eq!((quoted.src, quoted.dst), (host(1).into(), server.0.into()));
    assert_eq!(quoted.ports, Some((5_000, server.1)));
}

/// RFC 5382 REQ-2, REQ-4, REQ-5.
#[test]
fn connections_keep_mappings_and_strangers_open_none() {
    let mut rig = Rig::new(|_| {});
    let (inside, far) = ((host(1), 5_000), (remote(1), 80));
    let unsolicited = tcp(far, (Ipv4Addr::new(192, 0, 2, 1), 2_000), (1, 0, SYN), b"");
    assert_eq!(rig.back(&unsolicited), Err(Refusal::NoMapping));
    let public = rig.connect(inside, far);
    rig.wait(7_439);
    let data = rig.back(&tcp(far, public, (501, 101, ACK), b"data")).unwrap();
    assert_eq!(ends(&data), (far, inside));
    rig.wait(7_441);
    assert_eq!(rig.back(&tcp(far, public, (505, 101, ACK), b"")), Err(Refusal::NoMapping));
    // A middle of a connection begins nothing here.
    assert_eq!(rig.out(&tcp(inside, far, (101, 505, ACK), b"")), Err(Refusal::Segment));

    // Simultaneous open.
    let (public, _) = ends(&rig.out(&tcp(inside, far, (100, 0, SYN), b"")).unwrap());
    rig.back(&tcp(far, public, (500, 0, SYN), b"")).unwrap();
    rig.out(&tcp(inside, far, (100, 501, SYN | ACK), b"")).unwrap();
    rig.back(&tcp(far, public, (500, 101, SYN | ACK), b"")).unwrap();
    rig.out(&tcp(inside, far, (101, 501, ACK), b"data")).unwrap();
    // Closed by both: the mapping stays for the transitory time, then ends.
    rig.out(&tcp(inside, far, (105, 501, FIN | ACK), b"")).unwrap();
    rig.back(&tcp(far, public, (501, 106, FIN | ACK), b"")).unwrap();
    rig.out(&tcp(inside, far, (106, 502, ACK), b"")).unwrap();
    rig.wait(239);
    assert_eq!(rig.nat.mappings(), 1);
    rig.wait(2);
    assert_eq!(rig.nat.mappings(), 0);
}

/// RFC 5961, RFC 9293 §3.5.1: a host that has forgotten its connection gets out of it through the NAT.
#[test]
fn the_peer_can_challenge_a_new_syn_of_a_forgotten_connection() {
    let mut rig = Rig::new(|_| {});
    let (inside, far) = ((host(1), 5_000), (remote(1), 80));
    let public = rig.connect(inside, far);
    let again = rig.out(&tcp(inside, far, (9_000, 0, SYN), b"")).unwrap();
    assert_eq!(ends(&again), (public, far));
    rig.back(&tcp(far, public, (501, 101, ACK), b"")).unwrap();
    rig.out(&tcp(inside, far, (101, 0, RST), b"")).unwrap();
    rig.out(&tcp(inside, far, (9_000, 0, SYN), b"")).unwrap();
    assert_eq!(rig.nat.events().get(Event::Challenged), 1);
    // A blind reset from outside does not reach the host.
    let mut rig = Rig::new(|_| {});
    let public = rig.connect(inside, far);
    assert_eq!(rig.back(&tcp(far, public, (700, 0, RST), b"")), Err(Refusal::Segment));
}

/// RFC 5508 REQ-3 to REQ-6, RFC 5382 REQ-10.
#[test]
fn errors_are_translated_with_what_they_quote_and_end_nothing() {
    let router = remote(99);
    let mut rig = Rig::new(|_| {});
    let (inside, far) = ((host(1), 5_000), (remote(1), 80));
    let public = rig.connect(inside, far);
    let sent = [
        rig.out(&tcp(inside, far, (101, 501, ACK), b"data")).unwrap(),
        rig.out(&udp(inside, far, b"data")).unwrap(),
        rig.out(&query(8, host(1), remote(1), 5_000)).unwrap(),
    ];
    for packet in &sent {
        for (kind, octets) in [(3, 8), (11, 8), (12, 200)] {
            let got = rig.back(&error(kind, router, public.0, packet, octets)).unwrap();
            let _ = ends(&got);
            let read = parse_ip(&got).unwrap();
            assert_eq!((read.summary.src, read.summary.dst), (router.into(), host(1).into()));
            let quoted = scalebricks_flows::tracker::quoted_tuple(&read).unwrap().unwrap();
            assert_eq!((quoted.src, quoted.src_port), (inside.0.into(), inside.1));
            // What the host has sent, checksums included.
            let quoted = &got[28..];
            if octets == 200 {
                let _ = ends(quoted);
            } else {
                assert!(scalebricks_wire::ipv4_header_checksum_ok(quoted));
            }
        }
    }
    assert_eq!(rig.nat.mappings(), 3);
    rig.back(&tcp(far, public, (501, 105, ACK), b"still")).unwrap();

    // From inside, by a router that has no mapping: the public address speaks for it.
    let came = rig.back(&udp(far, ends(&sent[1]).0, b"late")).unwrap();
    let got = rig.out(&error(3, Ipv4Addr::new(10, 9, 9, 9), far.0, &came, 8)).unwrap();
    let read = parse_ip(&got).unwrap();
    assert_eq!((read.summary.src, read.summary.dst), (public.0.into(), far.0.into()));
    assert_eq!(read.quoted().unwrap().unwrap().ports, Some((80, ends(&sent[1]).0.1)));
    assert_eq!(rig.nat.events().get(Event::ErrorTranslated), 10);
}

/// RFC 4787 REQ-14: in any order.
#[test]
fn fragments_are_translated_as_one_datagram() {
    let mut rig = Rig::new(|_| {});
    let (inside, far) = ((host(1), 5_000), (remote(1), 80));
    let payload: Vec<u8> = (0..3_000_u32).map(|at| at as u8).collect();
    let whole = udp(inside, far, &payload);
    let mut parts = fragments(&whole, 1_000);
    parts.reverse();
    let last = parts.pop().unwrap();
    for mut part in parts {
        assert_eq!(rig.nat.translate(Side::Inside, &mut part, rig.now), Outcome::Held);
    }
    let mut part = last;
    let Outcome::Translated(done) = rig.nat.translate(Side::Inside, &mut part, rig.now) else {
        unreachable!("the datagram is complete")
    };
    assert_eq!((done.to, done.fragment_len), (Side::Outside, Some(1_020)));
    assert_eq!(ends(rig.nat.whole()).1, far);
    assert_eq!(rig.nat.whole()[28..], payload);
    assert_eq!(rig.nat.mappings(), 1);
}

/// RFC 6888 REQ-4, REQ-5, REQ-8.
#[test]
fn subscribers_have_limits_and_blocks_rest_before_others_get_them() {
    // Four blocks: two of each of the two addresses.
    let plan = {
        use scalebricks_flows::nat::{Plan, Prefix};
        let inside = Prefix::new(host(0), 24).unwrap();
        let public = Prefix::new(Ipv4Addr::new(192, 0, 2, 0), 31).unwrap();
        Plan::new(&[inside], &[public], 1_024..=1_039, 8).unwrap()
    };
    let mut rig = Rig::with_plan(plan, |config| {
        config.subscriber_blocks = 2;
        config.subscriber_mappings = 20;
        config.subscriber_sessions = 30;
    });
    let far = (remote(1), 53);
    for port in 0..16 {
        rig.udp((host(1), port), far).unwrap();
    }
    assert_eq!(rig.udp((host(1), 16), far), Err(Refusal::NoPort));
    for id in 0..4 {
        rig.out(&query(8, host(1), far.0, id)).unwrap();
    }
    assert_eq!(rig.out(&query(8, host(1), far.0, 4)), Err(Refusal::MappingLimit));
    for port in 0..10 {
        rig.udp((host(1), 0), (remote(2), port)).unwrap();
    }
    assert_eq!(rig.udp((host(1), 0), (remote(2), 10)), Err(Refusal::SessionLimit));
    assert_eq!(rig.nat.refused_lines(10), format!("{}\t3\n", host(1)));
    rig.udp((host(2), 1), far).unwrap();
    rig.udp((host(3), 1), far).unwrap();
    assert_eq!(rig.udp((host(4), 1), far), Err(Refusal::NoBlock));
    assert_eq!(rig.nat.blocks_in_use(), 4);
    // All mappings end; blocks are still kept for their subscribers.
    rig.wait(301);
    assert_eq!((rig.nat.mappings(), rig.nat.blocks_in_use()), (0, 4));
    assert_eq!(rig.udp((host(4), 1), far), Err(Refusal::NoBlock));
    rig.udp((host(2), 1), far).unwrap();
    rig.wait(120);
    assert_eq!((rig.nat.blocks_in_use(), rig.nat.subscribers()), (1, 1));
    rig.udp((host(4), 1), far).unwrap();
    let log = rig.nat.event_lines();
    assert_eq!(log.matches("assigned").count(), 5, "{log}");
    assert_eq!(log.matches("released").count(), 3, "{log}");
    assert_eq!(rig.nat.block_lines(Some(host(4)), 10).lines().count(), 1);
    assert_eq!(rig.nat.mapping_lines(None, 1).lines().count(), 1);
}

/// Strangers take no more than half of a subscriber's sessions, and keep no TCP mapping.
#[test]
fn sessions_from_outside_are_limited() {
    let mut rig = Rig::new(|config| config.subscriber_sessions = 10);
    let public = rig.udp((host(1), 5), (remote(1), 53)).unwrap();
    for port in 0..5 {
        rig.back(&udp((remote(2), port), public, b"")).unwrap();
    }
    assert_eq!(rig.back(&udp((remote(2), 5), public, b"")), Err(Refusal::SessionLimit));
    for port in 0..4 {
        rig.udp((host(1), 5), (remote(3), port)).unwrap();
    }
    assert_eq!(rig.udp((host(1), 5), (remote(3), 4)), Err(Refusal::SessionLimit));

    let mut rig = Rig::new(|_| {});
    let (public, _) = ends(&rig.out(&tcp((host(1), 5), (remote(1), 80), (100, 0, SYN), b"")).unwrap());
    for at in 0..3 {
        rig.wait(100);
        let _ = rig.back(&tcp((remote(2), at), public, (1, 0, SYN), b""));
    }
    assert_eq!(rig.nat.mappings(), 0);
}
