//! No input panics, and every range handed out lies in the buffer.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use scalebricks_types::Teid;
use scalebricks_wire::arp::Arp;
use scalebricks_wire::fragment::FragmentPlan;
use scalebricks_wire::gtpu::element::{Elements, ErrorIndication};
use scalebricks_wire::gtpu::{Gtpu, message};
use scalebricks_wire::icmp_error::{destination_unreachable, fragmentation_needed, packet_too_big};
use scalebricks_wire::transport::{Tcp, Udp};
use scalebricks_wire::{
    MacAddr, ParseError, ethernet, ipv4_header_checksum_ok, parse_frame, parse_ip, parse_quoted,
};

fn everything(bytes: &[u8]) {
    let mut out = [0; 1500];
    if let Ok(frame) = parse_frame(bytes) {
        assert!(frame.l3_offset <= bytes.len());
        ip(&bytes[frame.l3_offset..]);
    }
    ip(bytes);
    let _ = Arp::parse(bytes);
    ipv4_header_checksum_ok(bytes);
    let _ = parse_quoted(bytes);
    let _ = fragmentation_needed(bytes, [192, 0, 2, 1].into(), 1400, &mut out);
    let _ = packet_too_big(bytes, 1.into(), 1400, &mut out);
    let _ = destination_unreachable(bytes, [192, 0, 2, 1].into(), 0, &mut out);
    if let Ok(plan) = FragmentPlan::new(bytes, 68) {
        for piece in plan.clone() {
            plan.write_header(piece, &mut out).unwrap();
        }
    }
    l4(bytes);
}

fn ip(bytes: &[u8]) {
    let Ok(packet) = parse_ip(bytes) else { return };
    let summary = packet.summary;
    assert_eq!(packet.bytes().len(), summary.total_len as usize);
    assert!(packet.bytes().len() <= bytes.len());
    assert_eq!(packet.l4(), &packet.bytes()[usize::from(summary.l4_offset)..]);
    assert!(summary.header_len <= summary.l4_offset);
    assert!(!(summary.is_later_fragment() && summary.ports.is_some()));
    let _ = packet.quoted();
    l4(packet.l4());
}

fn l4(bytes: &[u8]) {
    if let Ok(udp) = Udp::parse(bytes) {
        assert_eq!(udp.payload().len() + 8, usize::from(udp.len()));
        gtpu(udp.payload());
    }
    if let Ok(tcp) = Tcp::parse(bytes) {
        assert_eq!(tcp.payload().len() + tcp.header_len(), bytes.len());
    }
    let _ = bytes.get(8..).map(parse_quoted);
    gtpu(bytes);
}

fn gtpu(bytes: &[u8]) {
    let Ok(gtpu) = Gtpu::parse(bytes) else { return };
    let extensions: usize = gtpu.extensions().map(|e| e.content.len() + 2).sum();
    assert_eq!(extensions, gtpu.extensions().len_bytes());
    assert_eq!(&bytes[gtpu.header_len()..][..gtpu.payload().len()], gtpu.payload());
    let _ = (gtpu.pdu_session_container(), ErrorIndication::parse(gtpu.payload()));
    assert!(Elements::new(gtpu.payload()).count() <= gtpu.payload().len());
}

/// Ethernet, a VLAN tag, IPv6 with hop-by-hop options and a fragment header, UDP, GTP-U with a container, ICMP error.
fn valid() -> Vec<u8> {
    let quoted = [&[0x45, 0, 0, 28, 0, 1, 0, 0, 9, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &[0; 8]].concat();
    let icmp = [&[3, 4, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
    let inner = [&[0x45, 0, 0, 56, 0, 1, 0, 0, 9, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1][..], &icmp].concat();
    let qfi = scalebricks_types::Qfi::new(9).unwrap();
    let header = message::gpdu_header_with_container(Teid::new(1), qfi, false, inner.len()).unwrap();
    let udp = [&[0x9c, 0x40, 8, 104, 0, 80, 0, 0][..], &header, &inner].concat();
    let extensions = [44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 7];
    let ip = [&[0x60, 0, 0, 0, 0, 96, 0, 64][..], &[0x20; 32], &extensions, &udp].concat();
    let mac = MacAddr([2; 6]);
    [&ethernet::header(mac, mac, 0x8100)[..], &ethernet::vlan_tag(5, 0x86dd), &ip].concat()
}

#[test]
fn the_packet_to_be_mutated_is_valid() {
    let bytes = valid();
    let outer = parse_ip(&bytes[18..]).unwrap();
    let gtpu = Gtpu::parse(Udp::parse(outer.l4()).unwrap().payload()).unwrap();
    assert!(parse_ip(gtpu.payload()).unwrap().quoted().unwrap().is_ok());
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = valid();
    for len in 0..bytes.len() {
        everything(&bytes[..len]);
        let cut =
            parse_frame(&bytes[..len]).and_then(|frame| parse_ip(&bytes[frame.l3_offset..len]).map(|_| ()));
        assert_eq!(cut, Err(ParseError::Truncated), "cut to {len}");
    }
}

#[test]
fn three_vlan_tags_are_refused_and_length_frames_are_not_ip() {
    let tags = [ethernet::vlan_tag(1, 0x88a8), ethernet::vlan_tag(2, 0x8100), ethernet::vlan_tag(3, 0x0800)];
    let mac = MacAddr([2; 6]);
    let mut bytes = [&ethernet::header(mac, mac, 0x8100)[..], &tags.concat()].concat();
    assert_eq!(parse_frame(&bytes), Err(ParseError::TooManyVlanTags));
    bytes[12..14].copy_from_slice(&[0, 12]);
    let frame = parse_frame(&bytes).unwrap();
    assert!(!frame.is_ip());
    assert!(ethernet::set_destination(&mut bytes, MacAddr([7; 6])));
    assert!(ethernet::set_addresses(&mut bytes, MacAddr([7; 6]), MacAddr([8; 6])));
    assert_eq!(bytes[..14], [7, 7, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 0, 12]);
    assert_eq!(ethernet::addresses(&bytes), Some((MacAddr([7; 6]), MacAddr([8; 6]))));
    assert!(!ethernet::set_destination(&mut bytes[..13], mac) && ethernet::addresses(&bytes[..13]).is_none());
}

#[test]
fn extension_headers_are_bounded() {
    let chain = |n: usize| {
        let body: Vec<u8> =
            (0..n).flat_map(|i| [if i + 1 == n { 17 } else { 60 }, 0, 1, 4, 0, 0, 0, 0]).collect();
        let header = [0x60, 0, 0, 0, 0, body.len() as u8, 60, 64];
        [&header[..], &[0x20; 32], &body].concat()
    };
    assert!(parse_ip(&chain(8)).is_ok());
    assert_eq!(parse_ip(&chain(9)).err(), Some(ParseError::TooManyExtensions));
}

#[test]
fn names_are_distinct() {
    let names: std::collections::HashSet<_> = ParseError::ALL.iter().map(|e| e.name()).collect();
    assert_eq!(names.len(), ParseError::ALL.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), first in prop::sample::select(
        vec![0x45u8, 0x4f, 0x60, 0x30, 0x34, 0x37, 0],
    )) {
        everything(&bytes);
        let mut bytes = bytes;
        if let Some(octet) = bytes.first_mut() {
            *octet = first;
            everything(&bytes);
        }
    }

    #[test]
    fn mutated_bytes(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = valid();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        everything(&bytes);
        everything(&bytes[18..]);
        everything(&bytes[74..]);
    }
}
