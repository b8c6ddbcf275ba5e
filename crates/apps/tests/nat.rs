//! The example NAT over captures. etherparse checks addresses, and tshark all checksums, quoted packets and fragments.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::router::{Frames, arp, routed_by};
use etherparse::{IpFragOffset, Ipv4Header, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use std::io::Write;
use std::path::Path;
use std::process::Command;

const EXAMPLE: &str = include_str!("../../../examples/flows/nat44.click");
const OWN: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0x20], [2, 0, 0, 0, 1, 0x20]];
const OWN_IP: [[u8; 4]; 2] = [[100, 64, 0, 1], [198, 51, 100, 2]];
/// A subscriber and the provider's router.
const HOST: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 1, 0xfe]];
const HOST_IP: [[u8; 4]; 2] = [[100, 64, 0, 9], [198, 51, 100, 1]];
const FAR: [u8; 4] = [203, 0, 113, 1];

type End = ([u8; 4], u16);

fn frame(from: usize, src: [u8; 4], dst: [u8; 4]) -> etherparse::PacketBuilderStep<etherparse::IpHeaders> {
    PacketBuilder::ethernet2(HOST[from], OWN[from]).ipv4(src, dst, 64)
}

fn udp(from: usize, (src, sport): End, (dst, dport): End, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame(from, src, dst).udp(sport, dport).write(&mut bytes, payload).unwrap();
    bytes
}

/// A SYN, or a SYN-ACK of it.
fn syn(from: usize, (src, sport): End, (dst, dport): End, acknowledged: Option<u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let segment = frame(from, src, dst).tcp(sport, dport, 100, 8_000).syn();
    match acknowledged {
        Some(number) => segment.ack(number).write(&mut bytes, b"").unwrap(),
        None => segment.write(&mut bytes, b"").unwrap(),
    }
    bytes
}

fn ping(id: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame(0, HOST_IP[0], FAR).icmpv4_echo_request(id, 1).write(&mut bytes, b"ping").unwrap();
    bytes
}

fn pong(to: [u8; 4], id: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame(1, FAR, to).icmpv4_echo_reply(id, 1).write(&mut bytes, b"ping").unwrap();
    bytes
}

/// "Time exceeded" about a packet, by a router on the way.
fn expired(about: &[u8], to: [u8; 4]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let error =
        etherparse::Icmpv4Type::TimeExceeded(etherparse::icmpv4::TimeExceededCode::TtlExceededInTransit);
    frame(1, [203, 0, 113, 77], to).icmpv4(error).write(&mut bytes, &about[14..42]).unwrap();
    bytes
}

/// A datagram in two fragments, the second one first.
fn fragments(bytes: &[u8]) -> [Vec<u8>; 2] {
    let part = |offset: usize, data: &[u8], more| {
        let mut header = Ipv4Header::from_slice(&bytes[14..]).unwrap().0;
        header.dont_fragment = false;
        (header.more_fragments, header.fragment_offset) =
            (more, IpFragOffset::try_new(offset as u16 / 8).unwrap());
        header.set_payload_len(data.len()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        let mut out = bytes[..14].to_vec();
        header.write(&mut out).unwrap();
        [&out, data].concat()
    };
    let payload = &bytes[34..];
    [part(800, &payload[800..], false), part(0, &payload[..800], true)]
}

/// Source and destination of a packet that is no fragment; of a query, its identifier.
fn ends(bytes: &[u8]) -> Option<(u8, End, End)> {
    let packet = SlicedPacket::from_ethernet(bytes).unwrap();
    let Some(NetSlice::Ipv4(ip)) = packet.net else { return None };
    let (src, dst) = (ip.header().source(), ip.header().destination());
    let (sport, dport) = match packet.transport? {
        TransportSlice::Udp(udp) => (udp.source_port(), udp.destination_port()),
        TransportSlice::Tcp(tcp) => (tcp.source_port(), tcp.destination_port()),
        TransportSlice::Icmpv4(icmp) => {
            let id = u16::from_be_bytes([icmp.bytes5to8()[0], icmp.bytes5to8()[1]]);
            (id, id)
        }
        _ => return None,
    };
    Some((ip.header().protocol().0, (src, sport), (dst, dport)))
}

/// No checksum is wrong, and this many are right. Without tshark, says so.
fn check(capture: &Path, right: [(&str, usize); 4]) {
    let tshark = |filter: String| {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(capture);
        for protocol in ["ip", "udp", "tcp"] {
            command.args(["-o", &format!("{protocol}.check_checksum:TRUE")]);
        }
        command.args(["-Y", &filter]).output()
    };
    let Ok(wrong) = tshark(right.map(|(of, _)| format!("{of}.checksum.status == 0")).join(" || ")) else {
        assert_ne!(std::env::var("REQUIRE_TSHARK").as_deref(), Ok("1"), "no tshark");
        let _ = writeln!(std::io::stderr(), "skipped: no tshark (on Debian: apt install tshark)");
        return;
    };
    assert!(wrong.status.success(), "{}", String::from_utf8_lossy(&wrong.stderr));
    assert_eq!(String::from_utf8_lossy(&wrong.stdout), "");
    for (of, count) in right {
        let lines = tshark(format!("{of}.checksum.status == 1")).unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&lines).lines().count(), count, "{of} in {}", capture.display());
    }
}

#[test]
fn subscribers_reach_the_outside_and_answers_come_back() {
    let at = |milliseconds: u64| milliseconds * 1_000_000;
    let inside = |port| (HOST_IP[0], port);
    let long: Vec<u8> = (0..1_200_u32).map(|at| at as u8).collect();
    let [second, first] = fragments(&udp(0, inside(6_000), (FAR, 53), &long));
    let left: Frames = vec![
        (at(10), udp(0, inside(5_000), (FAR, 53), b"question")),
        (at(20), syn(0, inside(5_001), (FAR, 80), None)),
        (at(30), ping(77)),
        (at(31), second),
        (at(32), first),
        (at(41), arp(OWN[0], 2, (HOST[0], HOST_IP[0]), (OWN[0], OWN_IP[0]))),
        // A stranger inside is refused.
        (at(70), udp(0, ([10, 0, 0, 1], 5_000), (FAR, 53), b"forged")),
    ];
    let gateway = arp(OWN[1], 2, (HOST[1], HOST_IP[1]), (OWN[1], OWN_IP[1]));
    let folder = tempfile::tempdir().unwrap();
    let [_, out] = routed_by(EXAMPLE, [&left, &vec![(at(11), gateway.clone())]], folder.path());
    // An ARP request; three packets; a datagram in two fragments.
    let sent: Vec<_> = out.iter().filter_map(|(_, bytes)| ends(bytes)).collect();
    assert_eq!((out.len(), sent.len()), (6, 3), "{sent:?}");
    // Number 9 has the tenth block of the first address: 1,024 + 9 · 512.
    for (_, src, _) in &sent {
        assert!(src.0 == [192, 0, 2, 16] && (5_632..6_144).contains(&src.1), "{src:?}");
    }
    check(&folder.path().join("out-eth1.pcap"), [("ip", 5), ("udp", 2), ("tcp", 1), ("icmp", 1)]);
    let [(_, dns, _), (_, web, _), (_, echo, _)] = sent[..] else { panic!("{sent:?}") };

    // The same again: ports are the same. Now the outside answers.
    let right: Frames = vec![
        (at(11), gateway),
        (at(40), udp(1, (FAR, 53), dns, b"answer")),
        (at(45), syn(1, (FAR, 80), web, Some(101))),
        (at(46), pong(echo.0, echo.1)),
        (at(47), expired(&out[1].1, dns.0)),
        (at(48), udp(1, (FAR, 53), (dns.0, 1_024), b"nobody has this port")),
    ];
    let [back, again] = routed_by(EXAMPLE, [&left, &right], folder.path());
    assert_eq!(again, out);
    let got: Vec<_> = back.iter().filter_map(|(_, bytes)| ends(bytes)).collect();
    let answers = [(17, (FAR, 53), inside(5_000)), (6, (FAR, 80), inside(5_001)), (1, (FAR, 77), inside(77))];
    assert_eq!(got[..3], answers);
    // The error: about the packet that the subscriber has sent.
    let error = &back.iter().filter(|(_, bytes)| ends(bytes).is_some()).nth(3).unwrap().1;
    assert_eq!(error[30..34], HOST_IP[0]);
    let quoted = &error[42..];
    assert_eq!((&quoted[12..16], &quoted[20..22]), (&HOST_IP[0][..], &5_000_u16.to_be_bytes()[..]));
    assert_eq!(got.len(), 4);
    // The quoted IP header counts too.
    check(&folder.path().join("out-eth0.pcap"), [("ip", 4), ("udp", 1), ("tcp", 1), ("icmp", 2)]);
}
