//! Both ends of tunnels.

use super::super::inbound::{Inbound, OpenError, Outer};
use super::super::outbound::{Outbound, SealError};
use super::super::sa::Sa;
use super::super::suite::Cipher;
use super::{opened, sa, sealed};
use crate::rig::ipv4_of;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use scalebricks_io::{PacketBuf, Pool};
use scalebricks_wire::esp::header;
use scalebricks_wire::ipv4::{Ipv4, Ipv4Header, header_checksum_ok};
use scalebricks_wire::ipv6::{Ipv6, Ipv6Header};

fn sender(sa: Sa) -> Outbound {
    Outbound::new(sa, StdRng::seed_from_u64(1)).unwrap()
}

fn inner_v4(payload: &[u8], dscp_ecn: u8) -> Vec<u8> {
    let fields = |header: &mut Ipv4Header| header.dscp_ecn = dscp_ecn;
    ipv4_of(fields, payload)
}

fn inner_v6(payload: &[u8], traffic_class: u8) -> Vec<u8> {
    let header = Ipv6Header {
        traffic_class,
        flow_label: 5,
        payload_len: payload.len() as u16,
        next_header: 17,
        hop_limit: 9,
        src: "2001:db8:1::1".parse().unwrap(),
        dst: "2001:db8:2::1".parse().unwrap(),
    };
    [&header.to_bytes()[..], payload].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_goes_in_comes_out(
        is_gcm: bool, is_v6: bool, is_in_udp: bool, esn: bool, is_inner_v6: bool, class: u8, padded in 0..4usize,
        payload in prop::collection::vec(any::<u8>(), 0..1_400),
    ) {
        let mut pool = Pool::new(2, 2_000).unwrap();
        let lines = format!("esn = {esn}\n{}", if is_in_udp { "udp = {}" } else { "" });
        let sa = sa(is_gcm, is_v6, &lines);
        let inner = if is_inner_v6 { inner_v6(&payload, class) } else { inner_v4(&payload, class) };
        let (mut out, mut into) = (sender(sa.clone()), Inbound::new(sa.clone()).unwrap());
        // What Ethernet has added behind the packet does not pass.
        let mut packet = sealed(&mut out, &mut pool, &[&inner[..], &[9; 3][..padded.min(3)]].concat()).unwrap();
        let bytes = packet.data().to_vec();
        prop_assert_eq!(bytes.len(), sa.packet_len(inner.len()));
        if is_v6 {
            let outer = Ipv6::parse(&bytes).unwrap();
            prop_assert_eq!((outer.traffic_class(), outer.hop_limit()), (class, 64));
        } else {
            prop_assert!(header_checksum_ok(&bytes));
            let outer = Ipv4::parse(&bytes).unwrap();
            prop_assert_eq!((outer.dscp_ecn(), outer.dont_fragment()), (class, is_inner_v6));
        }
        if payload.len() > 16 {
            prop_assert!(!bytes.windows(16).any(|window| payload.windows(16).any(|clear| clear == window)));
        }
        packet.append(&[0; 7][..padded]).unwrap();
        prop_assert_eq!(opened(&mut into, &mut packet), Ok(inner.clone()));
        let mut again = pool.packet(&bytes).unwrap();
        prop_assert_eq!(opened(&mut into, &mut again), Err(OpenError::Replay));
        prop_assert_eq!((out.carried(), into.carried()), ((1, inner.len() as u64), (1, inner.len() as u64)));
    }

    #[test]
    fn forged_bytes_never_pass_and_never_move_the_window(
        is_gcm: bool, is_v6: bool, is_in_udp: bool, at: prop::sample::Index, bits in 1..=255u8, cut: prop::sample::Index,
    ) {
        let mut pool = Pool::new(2, 2_000).unwrap();
        let sa = sa(is_gcm, is_v6, if is_in_udp { "udp = {}" } else { "" });
        let (mut out, mut into) = (sender(sa.clone()), Inbound::new(sa.clone()).unwrap());
        let good = sealed(&mut out, &mut pool, &inner_v4(b"payload", 0)).unwrap().data().to_vec();
        let mut forged = good.clone();
        let secured = sa.outer_len()..good.len();
        forged[secured.start + at.index(secured.len())] ^= bits;
        let end = secured.start + cut.index(secured.len());
        for bytes in [&forged[..], &forged[..end]] {
            let mut packet = pool.packet(bytes).unwrap();
            if let Outer::Esp(place) = Outer::read(bytes)
                && into.takes(&place)
            {
                prop_assert!(opened(&mut into, &mut packet).is_err());
            }
        }
        prop_assert_eq!(into.sequence(), 0);
        prop_assert!(opened(&mut into, &mut pool.packet(&good).unwrap()).is_ok());
    }

    #[test]
    fn any_bytes_are_an_outer_packet_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0..3usize) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = [*first, 0x45, 0x60][version];
        }
        if let Outer::Esp(at) = Outer::read(&bytes) {
            prop_assert!(at.start + 8 <= at.end && at.end <= bytes.len());
        }
    }
}

#[test]
fn numbers_end_and_do_not_wrap() {
    let mut pool = Pool::new(2, 2_000).unwrap();
    let mut end = sender(sa(true, false, ""));
    assert_eq!(end.reserve(u64::from(u32::MAX) - 1).unwrap().count() as u64, u64::from(u32::MAX) - 1);
    assert_eq!(end.reserve(5), Ok(u64::from(u32::MAX)..=u64::from(u32::MAX)));
    assert_eq!(end.reserve(1), Err(SealError::Exhausted));
    // With ESN the high bits take over, and the receiver follows.
    let sa = sa(false, false, "esn = true");
    let (mut out, mut into) = (sender(sa.clone()), Inbound::new(sa).unwrap());
    // The receiver infers high bits from the numbers it has seen: without any, the last 1,023 of 2^32 would be negative.
    out.reserve(0xffff_0000).unwrap();
    assert!(opened(&mut into, &mut sealed(&mut out, &mut pool, &inner_v4(b"x", 0)).unwrap()).is_ok());
    out.reserve(0xfffd).unwrap();
    assert_eq!(out.sequence(), u64::from(u32::MAX) - 1);
    for _ in 0..3 {
        let mut packet = sealed(&mut out, &mut pool, &inner_v4(b"x", 0)).unwrap();
        assert!(opened(&mut into, &mut packet).is_ok(), "{}", out.sequence());
    }
    assert_eq!(into.sequence(), u64::from(u32::MAX) + 2);
}

#[test]
fn lifetimes_end() {
    let mut pool = Pool::new(2, 2_000).unwrap();
    let packet = inner_v4(b"x", 0);
    for hard in
        ["hard = { packets = 3 }\nsoft = { packets = 2 }", "hard = { bytes = 63 }\nsoft = { bytes = 42 }"]
    {
        let sa = sa(true, false, hard);
        let (mut out, mut into) = (sender(sa.clone()), Inbound::new(sa).unwrap());
        for sent in 1..=3 {
            let mut packet = sealed(&mut out, &mut pool, &packet).unwrap();
            assert!(opened(&mut into, &mut packet).is_ok());
            assert_eq!((out.is_ageing(), into.is_ageing()), (sent >= 2, sent >= 2));
        }
        assert_eq!(sealed(&mut out, &mut pool, &packet).unwrap_err(), SealError::Expired);
        let mut late = sender(super::sa(true, false, ""));
        late.reserve(9).unwrap();
        let mut late = sealed(&mut late, &mut pool, &packet).unwrap();
        assert_eq!(opened(&mut into, &mut late), Err(OpenError::Expired));
    }
}

#[test]
fn what_is_authentic_must_still_be_right() {
    let mut pool = Pool::new(2, 2_000).unwrap();
    let elsewhere = ipv4_of(|header| header.dst = [11, 0, 0, 1].into(), b"x");
    let no_ect = inner_v4(b"x", 0);
    for (bytes, mark, expected) in [(&elsewhere, false, OpenError::Policy), (&no_ect, true, OpenError::Ecn)] {
        let (mut out, mut into) = (sender(sa(true, false, "")), Inbound::new(sa(true, false, "")).unwrap());
        let mut packet = sealed(&mut out, &mut pool, bytes).unwrap();
        if mark {
            super::super::inner::set_dscp_ecn(packet.data_mut(), 3);
        }
        assert_eq!(opened(&mut into, &mut packet), Err(expected));
    }
    // The mark of a router in the tunnel reaches the inner packet, whose checksum stays right.
    let (mut out, mut into) = (sender(sa(false, false, "")), Inbound::new(sa(false, false, "")).unwrap());
    let mut packet = sealed(&mut out, &mut pool, &inner_v4(b"x", 0xb8 | 2)).unwrap();
    super::super::inner::set_dscp_ecn(packet.data_mut(), 3);
    assert_eq!(opened(&mut into, &mut packet), Ok(inner_v4(b"x", 0xb8 | 3)));
}

#[test]
fn ivs_do_not_repeat() {
    let mut pool = Pool::new(2, 2_000).unwrap();
    for is_gcm in [false, true] {
        let mut end = sender(sa(is_gcm, false, ""));
        let mut all = std::collections::HashSet::new();
        for _ in 0..2_000 {
            let packet = sealed(&mut end, &mut pool, &inner_v4(b"x", 0)).unwrap();
            assert!(all.insert(packet.data()[28..28 + end.sa().suite().iv_len()].to_vec()));
        }
    }
    let mut other = Outbound::new(sa(true, false, ""), StdRng::seed_from_u64(2)).unwrap();
    let one = sealed(&mut sender(sa(true, false, "")), &mut pool, &inner_v4(b"x", 0)).unwrap().data()[28..36]
        .to_vec();
    assert_ne!(one, sealed(&mut other, &mut pool, &inner_v4(b"x", 0)).unwrap().data()[28..36]);
}

/// A packet with this plaintext up to the trailer, authentic whatever it says.
fn authentic(sa: &Sa, sequence: u64, plain: &[u8]) -> Vec<u8> {
    let suite = sa.suite();
    let iv = vec![3; suite.iv_len()];
    let mut esp = [&header(sa.spi, sequence as u32)[..], &iv, plain, &vec![0; suite.icv_len()]].concat();
    Cipher::new(&sa.keys).unwrap().seal(&mut esp, sequence, sa.esn).unwrap();
    let outer = |ip: &mut Ipv4Header| {
        (ip.protocol, ip.src, ip.dst) = (50, [192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    };
    ipv4_of(outer, &esp)
}

/// Padding, next header and inner length of a sender that knows the keys.
#[test]
fn authentic_nonsense_is_dropped_by_its_name_and_its_number_counts() {
    let mut pool = Pool::new(2, 2_000).unwrap();
    let inner = inner_v4(b"four", 0);
    assert_eq!(inner.len(), 24);
    let with = |inner: &[u8], tail: &[u8]| [inner, tail].concat();
    let long = [&inner[..2], &[0, 40], &inner[4..]].concat();
    let cases = [
        (with(&inner, &[1, 2, 3, 4, 5, 6, 6, 4]), Ok(())),
        // RFC 4303 §2.7: what follows the inner packet hides its length.
        (with(&inner, &[9, 9, 9, 9, 1, 2, 2, 4]), Ok(())),
        (with(&inner, &[1, 2, 3, 4, 5, 7, 6, 4]), Err(OpenError::Malformed)),
        (with(&inner, &[1, 2, 3, 4, 5, 6, 31, 4]), Err(OpenError::Malformed)),
        (with(&inner, &[1, 2, 3, 4, 5, 6, 255, 4]), Err(OpenError::Malformed)),
        (with(&inner, &[1, 2, 3, 4, 5, 6, 6, 41]), Err(OpenError::Malformed)),
        (with(&inner, &[1, 2, 3, 4, 5, 6, 6, 50]), Err(OpenError::Malformed)),
        (with(&inner, &[1, 2, 3, 4, 5, 6, 6, 59]), Err(OpenError::Dummy)),
        (with(&long, &[1, 2, 3, 4, 5, 6, 6, 4]), Err(OpenError::Malformed)),
        (with(&[0; 24], &[1, 2, 3, 4, 5, 6, 6, 4]), Err(OpenError::Malformed)),
        (Vec::new(), Err(OpenError::Malformed)),
    ];
    for is_gcm in [true, false] {
        let sa = sa(is_gcm, false, "");
        let mut into = Inbound::new(sa.clone()).unwrap();
        for (at, (plain, expected)) in cases.iter().enumerate() {
            let sequence = 1 + at as u64;
            let bytes = authentic(&sa, sequence, plain);
            let mut packet = pool.packet(&bytes).unwrap();
            let result = opened(&mut into, &mut packet);
            assert_eq!(result, expected.map(|()| inner.clone()), "{at}");
            // An authentic packet is not accepted twice, whatever was wrong with it.
            assert_eq!(opened(&mut into, &mut pool.packet(&bytes).unwrap()), Err(OpenError::Replay), "{at}");
            assert_eq!(into.sequence(), sequence);
        }
        assert_eq!(into.carried(), (2, 2 * inner.len() as u64));
        // Number 0 is none.
        let mut zero = pool.packet(&authentic(&sa, 0, &cases[0].0)).unwrap();
        assert_eq!(opened(&mut into, &mut zero), Err(OpenError::Replay));
    }
}

/// The last number with ESN is used once, and then nothing is sent.
#[test]
fn extended_numbers_end() {
    let mut pool = Pool::new(2, 2_000).unwrap();
    let mut end = sender(sa(true, false, "esn = true"));
    end.reserve(u64::MAX - 1).unwrap();
    assert!(sealed(&mut end, &mut pool, &inner_v4(b"x", 0)).is_ok());
    assert_eq!(end.sequence(), u64::MAX);
    assert_eq!(sealed(&mut end, &mut pool, &inner_v4(b"x", 0)).unwrap_err(), SealError::Exhausted);
}
