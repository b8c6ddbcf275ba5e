//! Requests that the node answers, and those that it does not.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::gateway::lab::*;
use etherparse::{ArpOperation, PacketBuilder};
use scalebricks_elements::gateway::local::{Consumed, LocalLimits, Rate};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 33);
const HOST6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x99, 0, 0, 0, 0, 0x33);

fn ping(port_mac: [u8; 6], src: Ipv4Addr, dst: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(mac_of(src), port_mac)
        .ipv4(src.octets(), dst.octets(), 3)
        .icmpv4_echo_request(0x1234, 7)
        .write(&mut frame, data)
        .unwrap();
    frame
}

fn ping6(port_mac: [u8; 6], src: Ipv6Addr, dst: Ipv6Addr, data: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(mac_of(src), port_mac)
        .ipv6(src.octets(), dst.octets(), 3)
        .icmpv6_echo_request(0x1234, 7)
        .write(&mut frame, data)
        .unwrap();
    frame
}

/// The frame with one octet changed, and the IPv4 header checksum corrected.
fn changed(frame: &[u8], at: usize, value: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at] = value;
    if frame[12..14] == [8, 0] {
        let header = etherparse::Ipv4Header::from_slice(&frame[14..]).unwrap().0;
        frame[24..26].copy_from_slice(&header.calc_header_checksum().to_be_bytes());
    }
    frame
}

#[test]
fn arp_is_answered_for_own_addresses_of_the_link_only() {
    let mut lab = Lab::resolved();
    let stranger = Ipv4Addr::new(198, 51, 100, 99);
    let reply = lab.one_answer(INTERNET, &arp_request(stranger, OWN));
    let want = arp(ArpOperation::REPLY, INTERNET_MAC, OWN, mac_of(stranger), stranger, mac_of(stranger));
    assert_eq!(reply, want);
    // A host that probes whether the address is free (RFC 5227 §2.1.1).
    let probe = arp(ArpOperation::REQUEST, mac_of(stranger), [0; 4].into(), [0; 6], OWN, [0xff; 6]);
    let reply = lab.one_answer(INTERNET, &probe);
    assert_eq!(read_arp(&reply).unwrap().target_ipv4, [0; 4]);
    for other in [GATEWAY, OWN_RAN, ROUTERS[0], Ipv4Addr::new(198, 51, 100, 11)] {
        lab.no_answer(INTERNET, &arp_request(stranger, other));
    }
    // Another host with our IP address or our MAC address.
    lab.no_answer(INTERNET, &arp(ArpOperation::REQUEST, mac_of(stranger), OWN, [0; 6], OWN, [0xff; 6]));
    assert_eq!(lab.local.stats().address_conflicts, 1);
    for mac in [[0xff; 6], [0; 6], [1, 0, 0x5e, 0, 0, 1]] {
        let mut lie = arp_request(stranger, OWN);
        lie[22..28].copy_from_slice(&mac);
        lab.no_answer(INTERNET, &lie);
    }
    assert_eq!(lab.local.stats().dropped_bad_source, 3);
    // Not our address.
    let mut elsewhere = arp_request(stranger, OWN);
    elsewhere[..6].copy_from_slice(&[2, 0, 0, 0, 9, 9]);
    assert_eq!(lab.receive(INTERNET, &elsewhere), Consumed::No);
    let tagged =
        [&elsewhere[..0], &[0xff; 6], &mac_of(stranger), &[0x81, 0, 0, 5], &arp_request(stranger, OWN)[12..]]
            .concat();
    assert_eq!(lab.receive(INTERNET, &tagged), Consumed::No, "of another network");
    let priority = [&tagged[..14], &[0xe0, 0], &tagged[16..]].concat();
    lab.one_answer(INTERNET, &priority);
}

#[test]
fn solicitations_are_answered_for_own_addresses() {
    let mut lab = Lab::resolved();
    let asker: Ipv6Addr = "2001:db8:1::99".parse().unwrap();
    for own in [OWN6, LINK_LOCAL] {
        let got = lab.one_answer(INTERNET, &solicitation(asker, own, Some(mac_of(asker))));
        // Router, solicited, override.
        assert_eq!(got, advertisement(INTERNET_MAC, own, mac_of(asker), asker, 0xe0, Some(INTERNET_MAC)));
        // A host without an address gets the reply sent to all nodes (RFC 4861 §7.2.4).
        let got = lab.one_answer(INTERNET, &solicitation(Ipv6Addr::UNSPECIFIED, own, None));
        let all = "ff02::1".parse().unwrap();
        let to = [0x33, 0x33, 0, 0, 0, 1];
        assert_eq!(got, advertisement(INTERNET_MAC, own, to, all, 0xa0, Some(INTERNET_MAC)));
    }
    lab.no_answer(INTERNET, &solicitation(asker, ROUTER6, Some(mac_of(asker))));
    lab.no_answer(INTERNET, &solicitation(asker, GATEWAY6, Some(mac_of(asker))));
    lab.no_answer(RAN, &solicitation(asker, OWN6, Some(mac_of(asker))));
}

#[test]
fn what_may_come_from_off_the_link_is_ignored() {
    let mut lab = Lab::resolved();
    let asker: Ipv6Addr = "2001:db8:1::99".parse().unwrap();
    let good = solicitation(asker, OWN6, Some(mac_of(asker)));
    lab.one_answer(INTERNET, &good);
    lab.no_answer(INTERNET, &changed(&good, 21, 254));
    lab.no_answer(INTERNET, &changed(&good, 56, good[56] ^ 1));
    let with = |src: Ipv6Addr, kind: (u8, [u8; 4]), body: &[u8]| {
        let (group, to) = solicited_node(OWN6);
        icmp6((mac_of(asker), to), src, group, 255, kind, body)
    };
    let target = OWN6.octets();
    for (src, body) in [
        (asker, [&target[..], &[1, 0, 2, 3, 4, 5, 6, 7]].concat()),
        (asker, [&target[..], &[1, 2, 2, 3, 4, 5, 6, 7]].concat()),
        (asker, target[..15].to_vec()),
        (Ipv6Addr::UNSPECIFIED, [&target[..], &[1, 1, 2, 3, 4, 5, 6, 7]].concat()),
        (asker, [&[0xff, 2], &target[2..]].concat()),
    ] {
        lab.no_answer(INTERNET, &with(src, (135, [0; 4]), &body));
    }
    let stats = lab.local.stats();
    assert_eq!((stats.dropped_hop_limit, stats.dropped_checksum), (1, 1));
    assert_eq!((stats.dropped_malformed, stats.dropped_bad_source), (3, 2));
    assert_eq!(stats.neighbour_solicitations_in, 1);
}

#[test]
fn echoes_come_back_whole_up_to_the_mtu() {
    let mut lab = Lab::resolved();
    for len in [0_u16, 1, 56, 1_472] {
        let data: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let got = lab.one_answer(INTERNET, &ping(INTERNET_MAC, HOST, OWN, &data));
        assert_sound(&got);
        assert!(ROUTERS.iter().any(|router| got[..6] == mac_of(*router)));
        let mut want = Vec::new();
        PacketBuilder::ethernet2(INTERNET_MAC, got[..6].try_into().unwrap())
            .ipv4(OWN.octets(), HOST.octets(), 64)
            .icmpv4_echo_reply(0x1234, 7)
            .write(&mut want, &data)
            .unwrap();
        // The library's requests have DF set and identification 0, and so do its replies.
        assert_eq!(got, want);
    }
    for len in [0, 1, 56, 1_452] {
        let data = vec![0xa5; len];
        let got = lab.one_answer(INTERNET, &ping6(INTERNET_MAC, HOST6, OWN6, &data));
        let mut want = Vec::new();
        PacketBuilder::ethernet2(INTERNET_MAC, mac_of(ROUTER6))
            .ipv6(OWN6.octets(), HOST6.octets(), 64)
            .icmpv6_echo_reply(0x1234, 7)
            .write(&mut want, &data)
            .unwrap();
        assert_eq!(got, want);
    }
    lab.no_answer(INTERNET, &ping(INTERNET_MAC, HOST, OWN, &[0; 1_473]));
    lab.no_answer(INTERNET, &ping6(INTERNET_MAC, HOST6, OWN6, &[0; 1_453]));
    assert_eq!(lab.local.stats().dropped_answer_too_big, 2);
    let tagged = ping(INTERNET_MAC, HOST, OWN, b"x");
    let tagged = [&tagged[..12], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9], &tagged[12..]].concat();
    lab.one_answer(INTERNET, &tagged);
}

#[test]
fn echoes_to_others_and_doubtful_ones_are_not_answered() {
    let mut lab = Lab::resolved();
    for (port, mac, dst) in [
        (INTERNET, INTERNET_MAC, ROUTERS[0]),
        (INTERNET, INTERNET_MAC, OWN_RAN),
        (RAN, RAN_MAC, OWN),
        (RAN, INTERNET_MAC, OWN_RAN),
    ] {
        assert_eq!(lab.receive(port, &ping(mac, HOST, dst, b"x")), Consumed::No);
    }
    lab.one_answer(INTERNET, &ping(INTERNET_MAC, HOST, GATEWAY, b"x"));
    lab.one_answer(INTERNET, &ping6(INTERNET_MAC, HOST6, GATEWAY6, b"x"));
    let good = ping(INTERNET_MAC, HOST, OWN, b"hello");
    lab.no_answer(INTERNET, &ping([0xff; 6], HOST, OWN, b"x"));
    lab.no_answer(INTERNET, &changed(&good, 45, 9)); // its data
    let mut header = good.clone();
    header[25] ^= 1;
    lab.no_answer(INTERNET, &header);
    lab.no_answer(INTERNET, &changed(&good, 20, 0x20)); // more fragments
    lab.no_answer(INTERNET, &changed(&good, 20, 0x01)); // a later one
    for src in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255], OWN.octets()] {
        lab.no_answer(INTERNET, &ping(INTERNET_MAC, src.into(), OWN, b"x"));
    }
    let stats = lab.local.stats();
    assert_eq!((stats.dropped_link_broadcast, stats.dropped_checksum, stats.dropped_fragment), (1, 2, 2));
    assert_eq!((stats.dropped_bad_source, stats.echo_replies_out, stats.echo_replies_v6_out), (5, 1, 1));
}

#[test]
fn who_is_on_the_link_and_unknown_is_asked_for_before_he_is_answered() {
    let mut lab = Lab::resolved();
    let near = Ipv4Addr::new(198, 51, 100, 99);
    let near6: Ipv6Addr = "fe80::99".parse().unwrap();
    let question = lab.one_answer(INTERNET, &ping(INTERNET_MAC, near, OWN, b"x"));
    assert_eq!(target(&question), Some(IpAddr::from(near)));
    let reply = lab.one_answer(INTERNET, &answer(&question).unwrap());
    assert_eq!(reply[..6], mac_of(near));
    let question = lab.one_answer(INTERNET, &ping6(INTERNET_MAC, near6, LINK_LOCAL, b"x"));
    assert_eq!(target(&question), Some(IpAddr::from(near6)));
    let reply = lab.one_answer(INTERNET, &answer(&question).unwrap());
    assert_eq!(read_icmp6(&reply).unwrap().2, near6);
}

#[test]
fn a_path_is_answered_where_and_whence_it_is_asked() {
    let mut lab = Lab::resolved();
    for (own, station, next_hop) in [(GATEWAY, STATIONS[1], RAN_ROUTER), (OWN_RAN, STATIONS[0], STATIONS[0])]
    {
        // Echo request, S set, sequence 0x1234 (TS 29.281 §7.2.1).
        let request = [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0];
        let got = lab.one_answer(RAN, &udp(station, 40_000, own, 2152, &request));
        assert_sound(&got);
        // Echo response with recovery 0 (§7.2.2).
        let response = [0x32, 2, 0, 6, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 14, 0];
        let mut want = Vec::new();
        PacketBuilder::ethernet2(RAN_MAC, mac_of(next_hop))
            .ipv4(own.octets(), station.octets(), 64)
            .udp(2152, 40_000)
            .write(&mut want, &response)
            .unwrap();
        assert_eq!(got, want);
    }
    let request = [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0];
    assert_eq!(
        lab.receive(RAN, &udp(STATIONS[0], 1, Ipv4Addr::new(10, 254, 0, 11), 2152, &request)),
        Consumed::No
    );
    assert_eq!(lab.receive(RAN, &udp(STATIONS[0], 1, GATEWAY, 2153, &request)), Consumed::No);
    lab.no_answer(RAN, &udp(STATIONS[0], 0, GATEWAY, 2152, &request));
    lab.no_answer(RAN, &udp(STATIONS[0], 1, GATEWAY, 2152, &request[..9]));
    let mut wrong = udp(STATIONS[0], 1, GATEWAY, 2152, &request);
    wrong[40] ^= 1;
    lab.no_answer(RAN, &wrong);
    wrong[40..42].copy_from_slice(&[0, 0]); // none was computed
    lab.one_answer(RAN, &wrong);
    // A checksum that Linux left to the interface: the sum of the pseudo header, as seen on a veth pair.
    let pseudo: u32 = [0x0afe, 0x0015, 0x0aff, 0x0001, 17, 20].iter().sum();
    wrong[40..42].copy_from_slice(&(pseudo as u16).to_be_bytes());
    lab.one_answer(RAN, &wrong);
    let stats = lab.local.stats();
    assert_eq!((stats.gtpu_echo_responses_out, stats.dropped_malformed, stats.dropped_checksum), (4, 2, 1));
    assert_eq!(stats.gtpu_echo_requests_in, 4);
    // The tunnel endpoint is not reachable from the Internet.
    let mut outside = udp(HOST, 1, GATEWAY, 2152, &request);
    outside[..6].copy_from_slice(&INTERNET_MAC);
    assert_eq!(lab.receive(INTERNET, &outside), Consumed::No);
}

#[test]
fn other_messages_of_the_path_are_counted() {
    let mut lab = Lab::resolved();
    let from = |message: &[u8]| udp(STATIONS[1], 2152, GATEWAY, 2152, message);
    let error =
        [0x32, 26, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0xde, 0xad, 0xbe, 0xef, 133, 0, 4, 10, 20, 0, 5];
    lab.no_answer(RAN, &from(&error));
    lab.no_answer(RAN, &from(&error[..17]));
    lab.no_answer(RAN, &from(&[0x32, 2, 0, 6, 0, 0, 0, 0, 0, 1, 0, 0, 14, 0]));
    lab.no_answer(RAN, &from(&[0x32, 31, 0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 141, 1, 0x85]));
    lab.no_answer(RAN, &from(&[0x30, 254, 0, 0, 0, 0, 0, 1]));
    lab.no_answer(RAN, &from(&[0x30, 99, 0, 0, 0, 0, 0, 1]));
    let stats = lab.local.stats();
    let counts = [
        stats.error_indications_in,
        stats.gtpu_echo_responses_in,
        stats.extension_notifications_in,
        stats.end_markers_in,
        stats.other_gtpu_in,
        stats.dropped_malformed, // the error whose length says more
    ];
    assert_eq!(counts, [1; 6]);
    assert_eq!(lab.receive(RAN, &from(&[0x30, 255, 0, 1, 0, 0, 0, 1, 0x45])), Consumed::No, "a G-PDU");
}

#[test]
fn who_uses_extension_headers_we_must_know_and_do_not_is_told_which_we_do() {
    let mut lab = Lab::resolved();
    // G-PDU, E and S set, sequence 9, with a RAN container (0x81).
    let message = [0x36, 255, 0, 9, 0, 0, 0, 1, 0, 9, 0, 0x81, 1, 0, 0, 0, 0x45];
    let got = lab.one_answer(RAN, &udp(STATIONS[1], 40_000, GATEWAY, 2152, &message));
    assert_sound(&got);
    let want = [0x32, 31, 0, 7, 0, 0, 0, 0, 0, 9, 0, 0, 141, 1, 0x85];
    assert_eq!(&got[42..], want);
    assert_eq!(got[34..38], [0x08, 0x68, 0x08, 0x68], "GTP-U's port both ways");
    // An extension that may be skipped.
    let message = [0x36, 255, 0, 9, 0, 0, 0, 1, 0, 9, 0, 0x40, 1, 0, 0, 0, 0x45];
    assert_eq!(lab.receive(RAN, &udp(STATIONS[1], 40_000, GATEWAY, 2152, &message)), Consumed::No);
}

#[test]
fn an_unknown_tunnel_is_an_error_indication() {
    let mut lab = Lab::resolved();
    let message = [0x30, 255, 0, 1, 0xde, 0xad, 0xbe, 0xef, 0x45];
    let frame = udp(STATIONS[1], 40_000, GATEWAY, 2152, &message);
    let tagged = [&frame[..12], &[0x81, 0, 0, 9], &frame[12..]].concat();
    for frame in [&frame, &tagged] {
        lab.local.unknown_tunnel(frame, lab.now, &mut lab.out);
        let got = lab.sent().remove(0).1;
        // TEID data I, peer address: the destination of the G-PDU (TS 29.281 §7.3.1); port 2152 (§4.4.2).
        let error =
            [0x32, 26, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0xde, 0xad, 0xbe, 0xef, 133, 0, 4, 10, 255, 0, 1];
        let mut want = Vec::new();
        PacketBuilder::ethernet2(RAN_MAC, mac_of(RAN_ROUTER))
            .ipv4(GATEWAY.octets(), STATIONS[1].octets(), 64)
            .udp(2152, 2152)
            .write(&mut want, &error)
            .unwrap();
        assert_eq!(got, want);
    }
    let echo = [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0];
    for bad in [
        udp(STATIONS[1], 1, GATEWAY, 2152, &echo),
        udp(STATIONS[1], 1, HOST, 2152, &message),
        udp([224, 0, 0, 1].into(), 1, GATEWAY, 2152, &message),
        udp(GATEWAY, 1, GATEWAY, 2152, &message),
        frame[..40].to_vec(),
        vec![],
    ] {
        lab.local.unknown_tunnel(&bad, lab.now, &mut lab.out);
    }
    assert_eq!(lab.sent(), []);
    assert_eq!((lab.local.stats().dropped(), lab.local.stats().unknown_tunnels_in), (6, 8));
}

#[test]
fn errors_are_limited_a_peer_and_in_all() {
    let limits = LocalLimits {
        error_indications: Rate { per_second: 10, burst: 40 },
        error_indications_a_peer: Rate { per_second: 1, burst: 5 },
        ..LocalLimits::default()
    };
    let mut lab = Lab::new(scalebricks_elements::gateway::local::LocalConfig { limits, ..config() });
    lab.settle();
    let message = [0x30, 255, 0, 1, 0xde, 0xad, 0xbe, 0xef, 0x45];
    for n in 0..100 {
        for _ in 0..10 {
            let frame = udp(Ipv4Addr::new(10, 20, 1, n), 1, GATEWAY, 2152, &message);
            lab.local.unknown_tunnel(&frame, lab.now, &mut lab.out);
        }
        let sent = lab.sent().len();
        assert!(sent <= 5, "{sent}");
    }
    let stats = lab.local.stats();
    assert_eq!(stats.error_indications_out, 40);
    assert_eq!(stats.dropped_rate + stats.dropped_peer_rate, 960);
    lab.now += Duration::from_secs(1);
    let frame = udp(Ipv4Addr::new(10, 20, 1, 200), 1, GATEWAY, 2152, &message);
    lab.local.unknown_tunnel(&frame, lab.now, &mut lab.out);
    assert_eq!(lab.local.stats().error_indications_out, 41);
}

#[test]
fn an_unknown_user_is_unreachable() {
    let mut lab = Lab::resolved();
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [2, 0x5b, 0, 1, 1, 1])
        .ipv4(HOST.octets(), [10, 0, 0, 9], 64)
        .udp(1, 2)
        .write(&mut frame, &[7; 900])
        .unwrap();
    lab.local.unknown_user(&frame, lab.now, &mut lab.out);
    let (port, got) = lab.sent().remove(0);
    assert_eq!(port, INTERNET);
    assert_sound(&got);
    assert_eq!(got.len(), 14 + 576);
    assert_eq!(got[26..34], [198, 51, 100, 10, 192, 0, 2, 33]);
    assert_eq!(got[34..36], [3, 1], "host unreachable");
    assert_eq!(got[42..][..100], frame[14..][..100], "it quotes");
    let mut frame6 = Vec::new();
    PacketBuilder::ethernet2([2; 6], [2; 6])
        .ipv6(HOST6.octets(), [0xfd; 16], 64)
        .udp(1, 2)
        .write(&mut frame6, &[7; 1_400])
        .unwrap();
    lab.local.unknown_user(&frame6, lab.now, &mut lab.out);
    let got6 = lab.sent().remove(0).1;
    assert_sound(&got6);
    assert_eq!((got6.len(), &got6[..6]), (14 + 1_280, &mac_of(ROUTER6)[..]));
    let (kind, src, dst, _) = read_icmp6(&got6).unwrap();
    assert_eq!((kind, got6[55], src, dst), (1, 3, OWN6, HOST6));
    // An error is never answered with an error, and errors per sender are rate-limited.
    lab.local.unknown_user(&got, lab.now, &mut lab.out);
    assert_eq!(lab.local.stats().dropped_no_error_allowed, 1);
    (0..10).for_each(|_| lab.local.unknown_user(&frame, lab.now, &mut lab.out));
    assert_eq!((lab.sent().len(), lab.local.stats().dropped_peer_rate), (5, 5));
}

#[test]
fn answers_of_each_kind_are_limited() {
    let one = Rate { per_second: 1, burst: 1 };
    let limits = LocalLimits {
        neighbour_answers: one,
        echo_replies: one,
        gtpu_answers: one,
        ..LocalLimits::default()
    };
    let mut lab = Lab::new(scalebricks_elements::gateway::local::LocalConfig { limits, ..config() });
    lab.settle();
    let echo = [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0];
    for frame in [
        ping(RAN_MAC, STATIONS[0], GATEWAY, b"x"),
        udp(STATIONS[0], 1, GATEWAY, 2152, &echo),
        arp_request(STATIONS[0], OWN_RAN),
    ] {
        lab.one_answer(RAN, &frame);
        lab.no_answer(RAN, &frame);
    }
    assert_eq!(lab.local.stats().dropped_rate, 3);
    lab.now += Duration::from_secs(1);
    lab.one_answer(RAN, &arp_request(STATIONS[0], OWN_RAN));
}

#[test]
fn what_the_outbox_does_not_take_is_counted() {
    let mut lab = Lab::resolved();
    lab.out = scalebricks_elements::gateway::local::Outbox::new(2);
    for _ in 0..5 {
        assert_eq!(lab.receive(INTERNET, &arp_request(ROUTERS[0], OWN)), Consumed::Yes);
    }
    assert_eq!((lab.sent().len(), lab.local.stats().dropped_outbox_full), (2, 3));
    assert_eq!(lab.local.stats().arp_replies_out, 2);
}
