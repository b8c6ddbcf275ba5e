//! The quick parser against the parsers, in both directions: what it classifies is classified as they do, and of what
//! they accept it leaves out nothing that it is for. That is said here a second time, by fixed offsets.

use super::*;
use crate::gateway::packet::classify::{Classifier, Parsed};
use crate::gateway::packet::policy::Policy;
use proptest::prelude::*;
use scalebricks_types::HashSeed;
use scalebricks_wire::ipv4::Ipv4Header;
use scalebricks_wire::{checksum, ipv4_header_checksum_ok, parse_ip, protocol};
use std::sync::Arc;
use std::time::Duration;

const DOWN: OutputPort = OutputPort::BaseStation;
const UP: OutputPort = OutputPort::Internet;
const OWN: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const UE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const UE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 8, 1, 2, 3, 4);

fn own() -> LocalAddresses {
    LocalAddresses::new(Arc::new([OWN.into(), OWN_V6.into()]))
}

fn ethernet(ethertype: u16) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype.to_be_bytes()].concat()
}

fn ipv4(protocol: u8, dst: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let header = Ipv4Header {
        dscp_ecn: 0x2e,
        total_len: 20 + payload.len() as u16,
        identification: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_units: 0,
        ttl: 9,
        protocol,
        src: [192, 0, 2, 1].into(),
        dst,
    };
    [&ethernet(0x0800)[..], &header.to_bytes(), payload].concat()
}

fn ipv6(next: u8, dst: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(0x86dd);
    frame.extend([0x62, 0xe1, 0x23, 0x45, 0, payload.len() as u8, next, 9]);
    frame.extend(Ipv6Addr::new(0x2001, 0xdb8, 9, 9, 9, 9, 9, 9).octets());
    frame.extend(dst.octets());
    frame.extend(payload);
    frame
}

/// UDP from port 53 to `port`.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    [&[0, 53][..], &port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], payload].concat()
}

/// A frame to the gateway with a G-PDU that has these flags and these octets behind its mandatory part.
fn g_pdu(flags: u8, optional: &[u8]) -> Vec<u8> {
    let user = &ipv4(UDP, UE, &udp(4000, &[0xab; 18]))[14..];
    let len = (optional.len() + user.len()) as u16;
    let message = [&[flags, 0xff][..], &len.to_be_bytes(), &[1, 2, 3, 4], optional, user].concat();
    ipv4(UDP, Policy::default().gateway_address, &udp(PORT, &message))
}

/// A PDU session container of so many words behind the optional fields, and the type of what follows it.
fn container(words: u8, next: u8) -> Vec<u8> {
    let mut optional = vec![0, 5, 0, 0x85, words, 0x10, 9];
    optional.resize(4 + usize::from(words) * 4 - 1, 0x5a);
    optional.push(next);
    optional
}

/// A NAT with a block for port 4000 of `UE`.
fn nat() -> KeyProfile {
    KeyProfile::Nat44("10.1.0.0/24:203.0.113.8/30:1024:512".parse().unwrap())
}

/// Frames that real traffic is made of, with a name; the quick parser is for all of them.
fn usual() -> Vec<(&'static str, OutputPort, KeyProfile, Vec<u8>)> {
    use KeyProfile::{Flow5, Inside, Ue};
    let segment = udp(4000, &[0xab; 18]);
    let echo = [8, 0, 0, 0, 0, 1, 0, 2, 1, 2, 3, 4];
    vec![
        ("IPv4 by five-tuple", DOWN, Flow5, ipv4(UDP, UE, &segment)),
        ("IPv4 by UE", DOWN, Ue, ipv4(UDP, UE, &segment)),
        ("IPv4 ping by UE", DOWN, Ue, ipv4(protocol::ICMPV4, UE, &echo)),
        ("IPv6 UDP by UE", DOWN, Ue, ipv6(UDP, UE_V6, &segment)),
        ("IPv6 TCP by UE", DOWN, Ue, ipv6(protocol::TCP, UE_V6, &[0x11; 20])),
        ("IPv6 ping by UE", DOWN, Ue, ipv6(ICMPV6, UE_V6, &echo)),
        ("G-PDU", UP, Flow5, g_pdu(0x30, &[])),
        ("G-PDU with a container", UP, Flow5, g_pdu(0x34, &container(1, 0))),
        ("with a container and sequence number", UP, Ue, g_pdu(0x36, &container(1, 0))),
        ("with a container, sequence and N-PDU numbers", UP, Ue, g_pdu(0x37, &container(1, 0))),
        ("with a container of two words", UP, Ue, g_pdu(0x34, &container(2, 0))),
        ("with a container of delays", UP, Ue, g_pdu(0x34, &container(7, 0))),
        ("to an inside host", DOWN, Inside, ipv4(UDP, UE, &segment)),
        ("a ping to an inside host", DOWN, Inside, ipv4(protocol::ICMPV4, UE, &echo)),
        ("from an inside host", UP, Inside, ipv4(UDP, UE, &segment)),
        ("to a block of ports", DOWN, nat(), ipv4(UDP, UE, &segment)),
        ("from a host behind a NAT", UP, nat(), ipv4(protocol::ICMPV4, UE, &echo)),
    ]
}

/// Frames that are left to the parsers: right ones and wrong ones.
fn unusual() -> Vec<(&'static str, OutputPort, KeyProfile, Vec<u8>)> {
    use KeyProfile::{Flow5, Inside, Ue};
    let segment = udp(4000, &[0xab; 18]);
    let fragment = |mut frame: Vec<u8>| {
        frame[20..22].copy_from_slice(&[0x20, 0]);
        frame
    };
    let tagged = |frame: Vec<u8>| [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
    let two = [&container(1, 0x85)[..], &[1, 0x10, 9, 0]].concat();
    let options = [&[UDP, 0, 1, 4, 0, 0, 0, 0][..], &segment].concat();
    vec![
        ("own IPv4", DOWN, Flow5, ipv4(UDP, OWN, &segment)),
        ("own IPv4 by UE", DOWN, Ue, ipv4(UDP, OWN, &segment)),
        ("own IPv6 by UE", DOWN, Ue, ipv6(UDP, OWN_V6, &segment)),
        ("IPv4 multicast", DOWN, Ue, ipv4(UDP, [224, 0, 0, 5].into(), &segment)),
        ("IPv4 link-local", DOWN, Ue, ipv4(UDP, [169, 254, 1, 2].into(), &segment)),
        ("IPv6 link-local", DOWN, Ue, ipv6(UDP, "fe80::1".parse().unwrap(), &segment)),
        ("IPv6 multicast", DOWN, Ue, ipv6(UDP, "ff02::1".parse().unwrap(), &segment)),
        ("IPv6 by five-tuple", DOWN, Flow5, ipv6(UDP, UE_V6, &segment)),
        ("IPv6 with options", DOWN, Ue, ipv6(protocol::HOP_BY_HOP, UE_V6, &options)),
        ("a fragment by UE", DOWN, Ue, fragment(ipv4(UDP, UE, &segment))),
        ("a tag, by UE", DOWN, Ue, tagged(ipv6(UDP, UE_V6, &segment))),
        ("ARP", DOWN, Ue, [&ethernet(0x0806)[..], &[0; 60]].concat()),
        ("a ping by five-tuple", DOWN, Flow5, ipv4(protocol::ICMPV4, UE, &[8, 0, 0, 0, 0, 1, 0, 2])),
        ("a sequence number alone", UP, Flow5, g_pdu(0x32, &[0, 5, 0, 0])),
        ("two containers", UP, Flow5, g_pdu(0x34, &two)),
        ("an unknown extension", UP, Flow5, g_pdu(0x34, &[0, 0, 0, 0x9f, 1, 0x10, 9, 0])),
        ("no extension", UP, Flow5, g_pdu(0x34, &[0, 0, 0, 0])),
        ("a container of no words", UP, Flow5, g_pdu(0x34, &[0, 0, 0, 0x85, 0, 0x10, 9, 0])),
        ("IPv6 to an inside host", DOWN, Inside, ipv6(UDP, UE_V6, &segment)),
        ("IPv6 from an inside host", UP, Inside, ipv6(UDP, UE_V6, &segment)),
        ("to the node from an inside host", UP, Inside, ipv4(UDP, OWN, &segment)),
        ("to no address of the NAT", DOWN, nat(), ipv4(UDP, [203, 0, 113, 17].into(), &segment)),
        ("to no block of ports", DOWN, nat(), ipv4(UDP, UE, &udp(1000, &[0xab; 18]))),
        ("a ping to a block of ports", DOWN, nat(), ipv4(protocol::ICMPV4, UE, &[8, 0, 0, 0, 0x10, 0, 0, 2])),
    ]
}

fn quick(frame: &[u8], output: OutputPort, profile: KeyProfile, verify: bool) -> Option<Plain> {
    of(frame, output, profile, Policy::default().gateway_address, &own(), verify)
}

#[test]
fn usual_packets_are_classified_quickly_and_others_are_not() {
    for (name, output, profile, frame) in usual() {
        assert!(quick(&frame, output, profile, true).is_some(), "{name}");
        assert!(agrees(&frame, output, profile, true).unwrap(), "{name}");
    }
    for (name, output, profile, frame) in unusual() {
        assert_eq!(quick(&frame, output, profile, true), None, "{name}");
        assert!(agrees(&frame, output, profile, true).is_ok(), "{name}");
    }
}

/// What the quick parser is for, among the frames that the parsers accept: by fixed offsets, each rule by itself.
fn is_usual(frame: &[u8], output: OutputPort, profile: KeyProfile) -> bool {
    let at = |at: usize| frame.get(at).copied().unwrap_or(0);
    let short = |at_octet: usize| usize::from(at(at_octet)) << 8 | usize::from(at(at_octet + 1));
    let has_ports = |protocol: u8| [6, 17, 132, 136].contains(&protocol);
    if short(12) == 0x86dd {
        let known = has_ports(at(20)) || at(20) == 58;
        return output == DOWN && profile == KeyProfile::Ue && known && at(22).max(at(38)) < 0xfe;
    }
    let is_plain_v4 = short(12) == 0x0800
        && at(14) == 0x45
        && matches!(short(20), 0 | 0x4000 | 0x8000 | 0xc000) // no fragment, whatever DF says
        && at(30) < 224
        && ![short(26), short(30)].contains(&0xa9fe)
        && frame.len() >= 14 + 24;
    if !is_plain_v4 {
        return false;
    }
    match (output, profile) {
        (DOWN, KeyProfile::Ue) | (_, KeyProfile::Inside) | (UP, KeyProfile::Nat44(_)) => true,
        (DOWN, KeyProfile::Flow5 | KeyProfile::Nat44(_)) => has_ports(at(23)) && short(16) >= 24,
        // Nothing behind the message in UDP, nor behind UDP in IP.
        (UP, _) => {
            let is_exact = short(38) + 20 == short(16) && short(44) + 36 == short(16);
            is_exact
                && match at(42) {
                    0x30 => true,
                    // The octet behind the words of the container says that nothing follows.
                    0x34..=0x37 => {
                        let words = usize::from(at(54));
                        at(53) == 0x85 && words > 0 && at(54 + words * 4 - 1) == 0
                    }
                    _ => false,
                }
        }
    }
}

/// Whether the quick parser classified a frame, if it did so as the parsers do, and if it was right to leave it to them.
fn agrees(
    frame: &[u8],
    output: OutputPort,
    profile: KeyProfile,
    verify: bool,
) -> Result<bool, TestCaseError> {
    let policy = Policy { key_profile: profile, verify_ipv4_checksum: verify, ..Policy::default() };
    let mut classifier = Classifier::new(&policy, HashSeed::from_u64(1), own(), true);
    let slow = classifier.parse(frame, output, verify, Duration::ZERO);
    let quick = quick(frame, output, profile, verify);
    if let Some(Plain { key, user_offset, user_len, traffic_class }) = quick {
        let parsed = Parsed { output, user_offset, user_len, traffic_class, datagram: None, again: false };
        prop_assert_eq!(slow, Ok((parsed, key)));
    }
    prop_assert_eq!(quick.is_some(), slow.is_ok() && is_usual(frame, output, profile), "{:?}", slow);
    Ok(quick.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Octets changed, checksum made right again or not, padded and cut, judged in both directions and profiles.
    #[test]
    fn one_look_agrees_with_the_parsers(
        changes in proptest::collection::vec((0_usize..74, prop_oneof![
            any::<u8>(), Just(0), Just(1), Just(17), Just(58), Just(0x34), Just(0x45), Just(0x85), Just(0xff),
        ]), 0..3),
        summed: bool, verify: bool, len in 0_usize..130, cut: bool, from_usual in 0_u8..4,
    ) {
        let frames = if from_usual > 0 { usual() } else { unusual() };
        for (_, output, profile, mut frame) in frames {
            for &(at, octet) in &changes {
                if let Some(place) = frame.get_mut(at) {
                    *place = octet;
                }
            }
            if summed && frame[12..14] == [8, 0] {
                frame[24..26].fill(0);
                let sum = checksum::checksum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            if cut {
                frame.resize(len, 0);
            }
            agrees(&frame, output, profile, verify)?;
            agrees(&frame, output.opposite(), profile, verify)?;
            if let Some(dst) = frame.get(14..).and_then(|packet| destination(packet, verify)) {
                let packet = parse_ip(&frame[14..]).unwrap();
                prop_assert_eq!(packet.summary.dst, IpAddr::from(dst));
                prop_assert!(!verify || ipv4_header_checksum_ok(packet.bytes()));
            }
        }
    }
}
