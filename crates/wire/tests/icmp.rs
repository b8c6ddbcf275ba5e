//! ICMP errors: built, read back, and refused where the RFCs forbid them.

use proptest::prelude::*;
use scalebricks_wire::icmp_error::{
    MAX_V4_LEN, MAX_V6_LEN, any_v4, destination_unreachable, fragmentation_needed, packet_too_big,
};
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::ipv6::Ipv6Header;
use scalebricks_wire::{WriteError, checksum, ipv4_header_checksum_ok, parse_ip, parse_quoted};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const FROM_V4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const FROM_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xff);

/// A UDP packet from port 53 to 4000; `units` is the fragment offset.
fn v4(src: [u8; 4], dst: [u8; 4], payload_len: usize, units: u16) -> Vec<u8> {
    let header = Ipv4Header {
        dscp_ecn: 0,
        total_len: (28 + payload_len) as u16,
        identification: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_units: units,
        ttl: 9,
        protocol: 17,
        src: src.into(),
        dst: dst.into(),
    };
    [&header.to_bytes()[..], &[0, 53, 0x0f, 0xa0, 0, 0, 0, 0], &vec![0x5a; payload_len]].concat()
}

fn v6(dst: Ipv6Addr, next_header: u8, payload_len: usize) -> Vec<u8> {
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: 7,
        payload_len: (8 + payload_len) as u16,
        next_header,
        hop_limit: 9,
        src: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
        dst,
    };
    [&header.to_bytes()[..], &[0, 53, 0x0f, 0xa0, 0, 0, 0, 0], &vec![0x5a; payload_len]].concat()
}

const A: [u8; 4] = [198, 51, 100, 1];
const B: [u8; 4] = [198, 51, 100, 2];
const V6_DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

proptest! {
    #[test]
    fn fragmentation_needed_quotes_the_original(len in 0usize..3000, mtu: u16) {
        let original = v4(A, B, len, 0);
        let mut out = vec![0; 2000];
        let n = fragmentation_needed(&original, FROM_V4, mtu, &mut out).unwrap();
        prop_assert_eq!(n, MAX_V4_LEN.min(28 + original.len()));
        prop_assert!(ipv4_header_checksum_ok(&out));
        let ip = parse_ip(&out[..n]).unwrap();
        prop_assert_eq!((ip.summary.src, ip.summary.dst), (IpAddr::V4(FROM_V4), IpAddr::from(A)));
        prop_assert_eq!(ip.summary.icmp, Some((3, 4)));
        prop_assert_eq!(checksum::checksum(ip.l4()), 0);
        prop_assert_eq!(&ip.l4()[4..8], &u32::from(mtu).to_be_bytes()[..]);
        prop_assert_eq!(&ip.l4()[8..], &original[..n - 28]);
        prop_assert_eq!(ip.quoted(), Some(Ok(parse_ip(&original).unwrap().summary)));
    }

    #[test]
    fn any_error_is_written_up_to_the_limit(
        len in 0usize..900, kind: u8, code: u8, rest: [u8; 4], limit in 0usize..700, room in 0usize..700,
    ) {
        let original = v4(A, B, len, 0);
        let mut out = vec![0; room];
        let most = limit.min(room).min(MAX_V4_LEN);
        match any_v4(&original, FROM_V4, (kind, code), rest, limit, &mut out) {
            Ok(n) => {
                prop_assert_eq!(n, most.min(28 + original.len()));
                prop_assert!(ipv4_header_checksum_ok(&out) && checksum::checksum(&out[20..n]) == 0);
                prop_assert_eq!((out[20], out[21], &out[24..28], &out[28..n]), (kind, code, &rest[..], &original[..n - 28]));
            }
            Err(error) => prop_assert!(error == WriteError::NoRoom && most < 28, "{error} {most}"),
        }
        let (mut any, mut one) = ([0; MAX_V4_LEN], [0; MAX_V4_LEN]);
        let any_len = any_v4(&original, FROM_V4, (3, code), [0; 4], usize::MAX, &mut any).unwrap();
        let one_len = destination_unreachable(&original, FROM_V4.into(), code, &mut one).unwrap();
        prop_assert_eq!((any_len, any), (one_len, one));
    }

    #[test]
    fn packet_too_big_quotes_the_original(len in 0usize..3000, mtu: u32) {
        let original = v6(V6_DST, 17, len);
        let mut out = vec![0; 2000];
        let n = packet_too_big(&original, FROM_V6, mtu, &mut out).unwrap();
        prop_assert_eq!(n, MAX_V6_LEN.min(48 + original.len()));
        let ip = parse_ip(&out[..n]).unwrap();
        prop_assert_eq!(ip.summary.icmp, Some((2, 0)));
        prop_assert_eq!(checksum::upper_layer(ip.summary.src, ip.summary.dst, 58, ip.l4()), Some(0));
        prop_assert_eq!(&ip.l4()[4..8], &mtu.to_be_bytes()[..]);
        prop_assert_eq!(ip.quoted(), Some(Ok(parse_ip(&original).unwrap().summary)));
    }
}

#[test]
fn a_quote_of_header_and_eight_octets_is_enough() {
    let original = v4(A, B, 1000, 0);
    let summary = parse_ip(&original).unwrap().summary;
    assert_eq!(parse_quoted(&original[..28]), Ok(summary));
    let original = v6(V6_DST, 17, 1000);
    assert_eq!(parse_quoted(&original[..48]), Ok(parse_ip(&original).unwrap().summary));
}

#[test]
fn what_must_not_be_answered_is_refused() {
    let mut out = [0; 1500];
    let mut refused = |original: &[u8]| {
        destination_unreachable(original, FROM_V4.into(), 1, &mut out) == Err(WriteError::NoErrorAllowed)
    };
    assert!(!refused(&v4(A, B, 10, 0)));
    assert!(refused(&v4(A, B, 10, 1)), "later fragment");
    assert!(refused(&v4(A, [224, 0, 0, 1], 10, 0)), "multicast destination");
    assert!(refused(&v4(A, [255; 4], 10, 0)), "broadcast destination");
    for source in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
        assert!(refused(&v4(source, B, 10, 0)), "source {source:?}");
    }
    let mut error = vec![0; 1500];
    let n = fragmentation_needed(&v4(A, B, 10, 0), FROM_V4, 1400, &mut error).unwrap();
    assert!(refused(&error[..n]), "an ICMP error");

    let multicast = v6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 17, 10);
    assert_eq!(any_v4(&multicast, FROM_V4, (3, 1), [0; 4], 576, &mut out), Err(WriteError::AddressFamily));
    let refusal = destination_unreachable(&multicast, FROM_V6.into(), 0, &mut out);
    assert_eq!(refusal, Err(WriteError::NoErrorAllowed));
    assert!(packet_too_big(&multicast, FROM_V6, 1280, &mut out).is_ok(), "RFC 4443 §2.4 (e.3)");
    let mut redirect = v6(V6_DST, 58, 10);
    redirect[40] = 137;
    assert_eq!(packet_too_big(&redirect, FROM_V6, 1280, &mut out), Err(WriteError::NoErrorAllowed));
}

#[test]
fn versions_must_agree_and_the_output_must_fit() {
    let (four, six, mut out) = (v4(A, B, 10, 0), v6(V6_DST, 17, 10), [0; 1500]);
    assert_eq!(packet_too_big(&four, FROM_V6, 1280, &mut out), Err(WriteError::AddressFamily));
    assert_eq!(fragmentation_needed(&six, FROM_V4, 1280, &mut out), Err(WriteError::AddressFamily));
    let n = fragmentation_needed(&four, FROM_V4, 1280, &mut out).unwrap();
    for short in 0..n {
        let refusal = fragmentation_needed(&four, FROM_V4, 1280, &mut out[..short]);
        assert_eq!(refusal, Err(WriteError::NoRoom), "{short} of {n} octets");
    }
}
