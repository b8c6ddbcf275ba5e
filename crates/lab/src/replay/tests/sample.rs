//! A capture with a frame of every kind.

use super::build::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const MOBILE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const MOBILE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 1, 0, 0, 0, 1);
const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 2, 0, 0, 0, 2);
/// Two stations of one link.
const NEIGHBOURS: [Ipv4Addr; 2] = [Ipv4Addr::new(169, 254, 10, 1), Ipv4Addr::new(169, 254, 255, 2)];
const NEIGHBOURS_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfebf, 0, 0, 0, 0, 0, 0, 2)];

fn to_mobile(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4(SERVER, MOBILE, protocol, Piece::default(), payload)
}

fn from_mobile(protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4(MOBILE, SERVER, protocol, Piece::default(), payload)
}

pub(super) fn frames() -> Vec<Vec<u8>> {
    let kinds = [
        tcp_conversations(),
        udp_and_others(),
        fragments(),
        no_conversation(),
        sizes(),
        checksums(),
        link_local(),
        link_local_pieces(),
        neighbours(),
    ];
    kinds.concat()
}

/// 4 conversations: 5 up, 5 down.
fn tcp_conversations() -> Vec<Vec<u8>> {
    let callee = Ipv4Addr::new(10, 45, 9, 2);
    let caller = Ipv4Addr::new(198, 51, 100, 9);
    let v6_up = ipv6(MOBILE_V6, SERVER_V6, TCP, &tcp(4000, 443, SYN, 0));
    let v6_down = ipv6(SERVER_V6, MOBILE_V6, TCP, &tcp(443, 4000, SYN | ACK, 0));
    vec![
        frame(&from_mobile(TCP, &tcp(4000, 443, SYN, 0))),
        frame(&to_mobile(TCP, &tcp(443, 4000, SYN | ACK, 0))),
        frame(&from_mobile(TCP, &tcp(4000, 443, ACK, 700))),
        frame(&to_mobile(TCP, &tcp(443, 4000, ACK, 1400))),
        // The server speaks first, but the SYN that comes later in the file is the mobile's.
        frame(&to_mobile(TCP, &tcp(443, 4001, ACK, 10))),
        frame(&from_mobile(TCP, &tcp(4001, 443, SYN, 0))),
        // The capture shows only the answer to a SYN: its sender is the first.
        frame(&ipv4(callee, caller, TCP, Piece::default(), &tcp(22, 5555, SYN | ACK, 0))),
        frame(&ipv4(caller, callee, TCP, Piece::default(), &tcp(5555, 22, ACK, 0))),
        frame(&v6_up),
        frame(&v6_down),
    ]
}

/// 4 conversations: 5 up, 4 down.
fn udp_and_others() -> Vec<Vec<u8>> {
    let ask = from_mobile(UDP, &udp(5000, 53, 30));
    let answer = to_mobile(UDP, &udp(53, 5000, 300));
    vec![
        frame(&ask),
        frame(&answer),
        vlan(&[42], &answer),
        // An error about the question comes from a router on the way; one about the answer from the mobile.
        frame(&ipv4(ROUTER, MOBILE, 1, Piece::default(), &icmp_error(11, 0, &ask))),
        frame(&from_mobile(1, &icmp_error(3, 3, &answer))),
        // An error about a packet the capture does not show: that packet was the mobile's.
        frame(&ipv4(
            ROUTER,
            MOBILE,
            1,
            Piece::default(),
            &icmp_error(11, 0, &from_mobile(UDP, &udp(5001, 99, 9))),
        )),
        // No ports.
        frame(&from_mobile(50, &[7; 40])),
        frame(&from_mobile(50, &[8; 40])),
        // From itself to itself.
        frame(&ipv4(MOBILE, MOBILE, UDP, Piece::default(), &udp(9, 9, 5))),
    ]
}

/// 1 conversation: 2 up, 5 down, and 2 without a first before them.
fn fragments() -> Vec<Vec<u8>> {
    let down = udp(53, 6000, 1200);
    let up = udp(6000, 53, 1200);
    let piece = |id, offset: u16, more| Piece { id, offset, more };
    let to = |piece, bytes: &[u8]| frame(&ipv4(SERVER, MOBILE, UDP, piece, bytes));
    let from = |piece, bytes: &[u8]| frame(&ipv4(MOBILE, SERVER, UDP, piece, bytes));
    vec![
        from(piece(1, 0, true), &up[..800]),
        from(piece(1, 800, false), &up[800..]),
        to(piece(1, 0, true), &down[..400]),
        to(piece(1, 800, false), &down[800..]),
        to(piece(1, 400, true), &down[400..800]),
        // Out of order in the file.
        to(piece(2, 400, false), &down[400..]),
        to(piece(2, 0, true), &down[..400]),
        to(piece(2, 400, false), &down[400..]),
        from(piece(3, 400, false), &up[400..]),
    ]
}

/// 10 frames that no conversation claims.
fn no_conversation() -> Vec<Vec<u8>> {
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let to_group = ipv4(SERVER, group, UDP, Piece::default(), &udp(1, 2, 20));
    let mut short_header = from_mobile(UDP, &udp(1, 2, 20));
    short_header[0] = 0x43;
    let whole = frame(&to_mobile(UDP, &udp(53, 5000, 300)));
    vec![
        ethernet([0xff; 6], 0x0806, &[0, 1, 8, 0, 6, 4, 0, 1]),
        ethernet([1, 0x80, 0xc2, 0, 0, 0], 38, &[0x42; 46]),
        ethernet(MOBILE_MAC, 0x88cc, &[0; 50]),
        ethernet([1, 0, 0x5e, 1, 2, 3], 0x0800, &to_group),
        frame(&to_group),
        ethernet([0xff; 6], 0x0800, &from_mobile(UDP, &udp(68, 67, 240))),
        whole[..200].to_vec(),
        whole[..20].to_vec(),
        whole[..5].to_vec(),
        frame(&short_header),
    ]
}

/// 1 conversation: 2 up, of which one is too large for its tunnel, 2 down.
fn sizes() -> Vec<Vec<u8>> {
    vec![
        frame(&from_mobile(UDP, &udp(7000, 53, 20))),
        frame(&to_mobile(UDP, &udp(53, 7000, 9_000 - 28))),
        frame(&to_mobile(UDP, &udp(53, 7000, 65_500 - 28))),
        too_large(),
    ]
}

/// From a mobile, and too large for its tunnel.
pub(in crate::replay) fn too_large() -> Vec<u8> {
    frame(&from_mobile(UDP, &udp(7000, 53, 65_520 - 28)))
}

/// No new conversation: 1 up, 2 down with wrong checksums, and a fragment that follows one of them.
fn checksums() -> Vec<Vec<u8>> {
    let down = udp(53, 5000, 600);
    let piece = |offset, more| Piece { id: 77, offset, more };
    vec![
        frame(&unsummed(from_mobile(UDP, &udp(5000, 53, 30)))),
        frame(&unsummed(to_mobile(UDP, &udp(53, 5000, 300)))),
        frame(&unsummed(ipv4(SERVER, MOBILE, UDP, piece(0, true), &down[..400]))),
        frame(&ipv4(SERVER, MOBILE, UDP, piece(400, false), &down[400..])),
    ]
}

/// 4 conversations both ways: 5 up, 1 down, and 4 down to link-local addresses.
fn link_local() -> Vec<Vec<u8>> {
    let [a, b] = NEIGHBOURS_V6;
    let [a_v4, b_v4] = NEIGHBOURS;
    let v4 = |src, dst, payload: &[u8]| ipv4(src, dst, UDP, Piece::default(), payload);
    let (ask, answer) = (udp(5353, 53, 30), udp(53, 5353, 300));
    vec![
        frame(&ipv6_plain(a, b, UDP, &ask)),
        frame(&ipv6_plain(b, a, UDP, &answer)),
        vlan(&[42], &ipv6(a, b, UDP, &ask)),
        vlan(&[7, 42], &ipv6(b, a, UDP, &answer)),
        frame(&v4(a_v4, b_v4, &ask)),
        frame(&v4(b_v4, a_v4, &answer)),
        // Only one end is on the link.
        frame(&v4(a_v4, SERVER, &ask)),
        frame(&v4(SERVER, a_v4, &answer)),
        frame(&v4(MOBILE, b_v4, &ask)),
        frame(&v4(b_v4, MOBILE, &answer)),
    ]
}

/// No new conversation: 4 fragments to link-local addresses and one from there without a first, a whole packet to one
/// with a wrong checksum, and one of which the file has only a part. 1 conversation of fragments over IPv6: 2 up, 2 down,
/// and 1 without a first.
fn link_local_pieces() -> Vec<Vec<u8>> {
    let [a, b] = NEIGHBOURS_V6;
    let [a_v4, b_v4] = NEIGHBOURS;
    let (up, down) = (udp(5353, 53, 600), udp(53, 5353, 600));
    let piece = |id, offset, more| Piece { id, offset, more };
    let v4 = |piece, bytes: &[u8]| frame(&ipv4(b_v4, a_v4, UDP, piece, bytes));
    let v6 = |piece, bytes: &[u8]| frame(&ipv6_fragment(b, a, piece, bytes));
    let to_mobile_v6 = |piece, bytes: &[u8]| frame(&ipv6_fragment(SERVER_V6, MOBILE_V6, piece, bytes));
    let from_mobile_v6 = |piece, bytes: &[u8]| frame(&ipv6_fragment(MOBILE_V6, SERVER_V6, piece, bytes));
    vec![
        v4(piece(5, 0, true), &down[..400]),
        v4(piece(5, 400, false), &down[400..]),
        v6(piece(6, 0, true), &down[..400]),
        v6(piece(6, 400, false), &down[400..]),
        // From a link-local address, so of a mobile; but without its first fragment it has no conversation.
        frame(&ipv6_fragment(a, SERVER_V6, piece(7, 400, false), &up[400..])),
        frame(&unsummed(ipv4(b_v4, a_v4, UDP, Piece::default(), &down))),
        frame(&ipv6_plain(b, a, UDP, &down))[..200].to_vec(),
        from_mobile_v6(piece(8, 0, true), &up[..400]),
        from_mobile_v6(piece(8, 400, false), &up[400..]),
        to_mobile_v6(piece(9, 0, true), &down[..400]),
        to_mobile_v6(piece(9, 400, false), &down[400..]),
        to_mobile_v6(piece(10, 400, false), &down[400..]),
    ]
}

/// 2 conversations of neighbour discovery: 2 up, 1 down and 1 to a link-local address; 1 question to a group, and 1
/// packet behind more tags than a gateway reads.
fn neighbours() -> Vec<Vec<u8>> {
    let [a, b] = NEIGHBOURS_V6;
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);
    let question = ipv6_plain(a, group, 58, &neighbour_discovery(135, b));
    vec![
        ethernet([0x33, 0x33, 0xff, 0, 0, 2], 0x86dd, &question),
        frame(&ipv6_plain(a, b, 58, &neighbour_discovery(135, b))),
        frame(&ipv6_plain(b, a, 58, &neighbour_discovery(136, b))),
        frame(&ipv6_plain(MOBILE_V6, SERVER_V6, 58, &neighbour_discovery(135, SERVER_V6))),
        frame(&ipv6_plain(SERVER_V6, MOBILE_V6, 58, &neighbour_discovery(136, SERVER_V6))),
        vlan(&[1, 2, 3], &to_mobile(UDP, &udp(53, 5000, 300))),
    ]
}

/// As many packets from a mobile as to it.
pub(in crate::replay) fn udp_both_ways(exchanges: u16) -> Vec<Vec<u8>> {
    let exchange = |n| {
        let (ask, answer) = (udp(5000 + n % 7, 53, 30), udp(53, 5000 + n % 7, 300));
        [frame(&from_mobile(UDP, &ask)), frame(&to_mobile(UDP, &answer))]
    };
    (0..exchanges).flat_map(exchange).collect()
}
