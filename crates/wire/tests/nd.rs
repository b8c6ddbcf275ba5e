//! Neighbour discovery and echoes: messages recorded from Linux, and invalid messages.

use proptest::prelude::*;
use scalebricks_wire::ParseError::{BadElement, Truncated};
use scalebricks_wire::nd::{self, Advertisement, Message, NdError, Solicitation};
use scalebricks_wire::{MacAddr, checksum, icmp_echo, parse_ip};
use std::net::Ipv6Addr;

const ONE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
const TWO: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 2);
const MAC_ONE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MAC_TWO: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// Captured from Linux: `ONE` asks for `TWO`, and is answered.
const LINUX_SOLICITATION: &str = "6000000000203aff20010db8000900000000000000000001ff0200000000000000000001ff000002\
    87001c150000000020010db80009000000000000000000020101020000000001";
const LINUX_ADVERTISEMENT: &str = "6000000000203aff20010db800090000000000000000000220010db8000900000000000000000001\
    88008a566000000020010db80009000000000000000000020201020000000002";

/// Linux pings, and is answered by another: IPv4 and IPv6.
const LINUX_ECHO: [&str; 2] = [
    "45000054380d40004001ee870a0900010a09000208007f7f3323000168b5016b000000000e690e0000000000101112131415161718191a1b\
     1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
    "45000054edb50000400178df0a0900020a0900010000877f3323000168b5016b000000000e690e0000000000101112131415161718191a1b\
     1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
];
const LINUX_ECHO6: [&str; 2] = [
    "60073dd700403a4020010db800090000000000000000000120010db80009000000000000000000028000227333250001\
     68b5016b0000000097710e0000000000101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
    "600de44700403a4020010db800090000000000000000000220010db80009000000000000000000018100217333250001\
     68b5016b0000000097710e0000000000101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn linux_asks_and_answers_as_we_do() {
    let asked = bytes(LINUX_SOLICITATION);
    let group = nd::solicited_node(TWO);
    assert_eq!(nd::multicast_mac(group), MacAddr([0x33, 0x33, 0xff, 0, 0, 2]));
    assert_eq!(asked, Solicitation::packet(ONE, group, TWO, MAC_ONE));
    let want = Solicitation { src: ONE, dst: group, target: TWO, source_mac: Some(MAC_ONE) };
    assert_eq!(nd::parse(&asked), Ok(Some(Message::Solicitation(want))));

    let answered = bytes(LINUX_ADVERTISEMENT);
    let want = Advertisement {
        src: TWO,
        dst: ONE,
        target: TWO,
        is_router: false,
        is_solicited: true,
        is_override: true,
        target_mac: Some(MAC_TWO),
    };
    assert_eq!(nd::parse(&answered), Ok(Some(Message::Advertisement(want))));
    // We are a router: one bit more, and so another checksum.
    let mut ours = Advertisement::packet(TWO, ONE, TWO, true, MAC_TWO);
    assert_eq!(ours[44], 0xe0);
    ours[44] = 0x60;
    assert_eq!(ours[42..44], checksum::update_u16(0x8a56, 0x6000, 0xe000).to_be_bytes());
    ours[42..44].copy_from_slice(&[0x8a, 0x56]);
    assert_eq!(ours[..], answered);
}

#[test]
fn linux_echoes_as_we_do() {
    let mut out = [0; 200];
    for [request, reply] in [LINUX_ECHO, LINUX_ECHO6].map(|pair| pair.map(bytes)) {
        let request = parse_ip(&request).unwrap();
        assert!(icmp_echo::is_request(&request) && icmp_echo::checksum_ok(&request));
        let len = icmp_echo::reply(&request, &mut out).unwrap();
        assert_eq!(len, icmp_echo::reply_len(&request));
        let (ours, theirs) = (parse_ip(&out[..len]).unwrap(), parse_ip(&reply).unwrap());
        assert!(icmp_echo::checksum_ok(&ours) && !icmp_echo::is_request(&ours));
        assert_eq!(ours.l4(), theirs.l4());
        // Linux clears DF and draws identifications and flow labels of its own.
        let dont_fragment = ours.summary.dont_fragment;
        assert_eq!(ours.summary, scalebricks_wire::IpSummary { dont_fragment, ..theirs.summary });
        assert!(!ours.summary.is_ipv4() || scalebricks_wire::ipv4_header_checksum_ok(ours.bytes()));
        assert!(icmp_echo::reply(&ours, &mut out.clone()).is_err(), "a reply is not replied to");
        assert!(icmp_echo::reply(&request, &mut out[..len - 1]).is_err());
    }
}

#[test]
fn addresses_are_made_of_macs() {
    let want: Ipv6Addr = "fe80::36:3eff:fe01:203".parse().unwrap();
    assert_eq!(nd::link_local(MacAddr([0x02, 0x36, 0x3e, 1, 2, 3])), want);
    // RFC 2464 §4: 34-56-78-9A-BC-DE gives 36-56-78-FF-FE-9A-BC-DE.
    let want: Ipv6Addr = "fe80::3656:78ff:fe9a:bcde".parse().unwrap();
    assert_eq!(nd::link_local(MacAddr([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde])), want);
    // RFC 4291 §2.7.1.
    let address: Ipv6Addr = "4037::01:800:200e:8c6c".parse().unwrap();
    assert_eq!(nd::solicited_node(address), "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
}

/// A packet changed at some places, its checksum mended.
fn changed(packet: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    for &(at, value) in changes {
        packet[at] = value;
    }
    packet[42..44].fill(0);
    let (src, dst) =
        (packet[8..24].first_chunk::<16>().copied(), packet[24..40].first_chunk::<16>().copied());
    let (src, dst) = (Ipv6Addr::from(src.unwrap_or_default()), Ipv6Addr::from(dst.unwrap_or_default()));
    let sum =
        checksum::pseudo_header_v6(src, dst, 58, packet.len() as u32 - 40).bytes(&packet[40..]).finish();
    packet[42..44].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn what_nobody_may_say() {
    let (asked, answered) = (bytes(LINUX_SOLICITATION), bytes(LINUX_ADVERTISEMENT));
    let malformed = |error| Err(NdError::Malformed(error));
    for (name, packet, want) in [
        ("hop limit", changed(&asked, &[(7, 254)]), Err(NdError::HopLimit)),
        ("code", changed(&asked, &[(41, 1)]), Err(NdError::Code)),
        ("multicast target", changed(&asked, &[(48, 0xff)]), Err(NdError::Addresses)),
        ("multicast source", changed(&asked, &[(8, 0xff)]), Err(NdError::Addresses)),
        ("option of length 0", changed(&asked, &[(65, 0)]), malformed(BadElement)),
        ("option that ends behind", changed(&asked, &[(65, 2)]), malformed(Truncated)),
        ("solicited by a group", changed(&answered, &[(24, 0xff)]), Err(NdError::Addresses)),
        ("another message", changed(&asked, &[(40, 134)]), Ok(None)),
        ("another protocol", changed(&asked, &[(6, 17)]), Ok(None)),
    ] {
        assert_eq!(nd::parse(&packet), want, "{name}");
    }
    let mut wrong = asked.clone();
    wrong[50] ^= 1;
    assert_eq!(nd::parse(&wrong), Err(NdError::Checksum));
    // Who has no address says not where he is, and asks the group (RFC 4861 §7.1.1).
    let nowhere: Vec<_> = (8..24).map(|at| (at, 0)).collect();
    assert_eq!(nd::parse(&changed(&asked, &nowhere)), Err(NdError::Addresses));
    let other_option = [&nowhere[..], &[(64, 14)]].concat();
    let Ok(Some(Message::Solicitation(probe))) = nd::parse(&changed(&asked, &other_option)) else {
        unreachable!("a probe")
    };
    assert_eq!((probe.src, probe.source_mac), (Ipv6Addr::UNSPECIFIED, None));
    // An atomic fragment (RFC 6980 §5).
    let fragment =
        [&asked[..6], &[44, 255], &asked[8..40], &[58, 0, 0, 0, 0, 0, 0, 1], &asked[40..]].concat();
    let fragment = [&fragment[..4], &[0, 40], &fragment[6..]].concat();
    assert_eq!(nd::parse(&fragment), Err(NdError::Fragmented));
}

proptest! {
    #[test]
    fn what_is_written_is_read(src: u128, dst: u128, target: u128, mac: [u8; 6], is_solicited: bool) {
        let unicast = |bits: u128| Ipv6Addr::from_bits(bits >> 1 | 1);
        let (src, dst, target) = (unicast(src), unicast(dst), unicast(target));
        let packet = Solicitation::packet(src, dst, target, MacAddr(mac));
        let want = Solicitation { src, dst, target, source_mac: Some(MacAddr(mac)) };
        prop_assert_eq!(nd::parse(&packet), Ok(Some(Message::Solicitation(want))));
        let packet = Advertisement::packet(src, dst, target, is_solicited, MacAddr(mac));
        let want = Advertisement {
            src, dst, target, is_router: true, is_solicited, is_override: true, target_mac: Some(MacAddr(mac)),
        };
        prop_assert_eq!(nd::parse(&packet), Ok(Some(Message::Advertisement(want))));
        for len in 0..packet.len() {
            prop_assert!(nd::parse(&packet[..len]).is_err());
        }
    }

    #[test]
    fn nothing_panics(
        mut packet in prop::collection::vec(any::<u8>(), 40..200),
        kind in 133u8..138, hop_limit in prop_oneof![Just(255u8), any::<u8>()], mend: bool,
    ) {
        packet[0] = 0x60;
        let len = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
        packet[6..8].copy_from_slice(&[58, hop_limit]);
        if let Some(first) = packet.get_mut(40) {
            *first = kind;
        }
        let packet = if mend && packet.len() >= 44 { changed(&packet, &[]) } else { packet };
        if let Ok(Some(_)) = nd::parse(&packet) {
            prop_assert_eq!(hop_limit, 255);
        }
    }
}
