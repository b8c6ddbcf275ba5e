//! The fast checksum against the slow, obvious one, and the incremental updates against both.

use proptest::prelude::*;
use scalebricks_wire::checksum::{self, Sum};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// RFC 1071 §1, word by word: big-endian 16-bit words, odd octet padded, carries wrapped around at once.
fn slow(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[test]
fn the_example_of_rfc_1071() {
    // RFC 1071 §3: the sum of these octets is ddf2.
    assert_eq!(checksum::checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    // RFC 1624 §4: checksum dd2f, field changes from 5555 to 3285, the result is 0000 (and not ffff).
    assert_eq!(checksum::update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn carries_of_the_longest_packet_are_kept() {
    for len in [65_535, 65_534, 70_001] {
        assert_eq!(checksum::checksum(&vec![0xff; len]), slow(&vec![0xff; len]), "{len} octets");
    }
}

proptest! {
    #[test]
    fn fast_equals_slow(bytes in prop::collection::vec(any::<u8>(), 0..300), skip in 0usize..8) {
        let bytes = &bytes[skip.min(bytes.len())..];
        prop_assert_eq!(checksum::checksum(bytes), slow(bytes));
    }

    #[test]
    fn pieces_of_even_length_add_up(a: Vec<u16>, b: Vec<u8>, word: u16, long: u32) {
        let a: Vec<u8> = a.iter().flat_map(|w| w.to_be_bytes()).collect();
        let whole = [&word.to_be_bytes()[..], &long.to_be_bytes(), &a, &b].concat();
        let sum = Sum::new().bytes(&a).u32(long).u16(word).bytes(&b).finish();
        prop_assert_eq!(sum, slow(&whole));
    }

    #[test]
    fn incremental_equals_full(
        mut bytes in prop::collection::vec(any::<u8>(), 20..60), at in 0usize..8, new: u16,
    ) {
        bytes[18] = 1; // a header with a checksum is never all zeros
        let (at, before) = (at * 2, slow(&bytes));
        let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
        prop_assert_eq!(checksum::update_u16(before, old, new), slow(&bytes));
    }

    #[test]
    fn pseudo_headers(v4: (u32, u32), v6: (u128, u128), protocol: u8, payload: Vec<u8>) {
        let len = payload.len() as u16;
        let tail = [0, 0, 0, protocol];
        let bytes = [&v4.0.to_be_bytes()[..], &v4.1.to_be_bytes(), &[0, protocol], &len.to_be_bytes(), &payload];
        let (src, dst) = (Ipv4Addr::from(v4.0), Ipv4Addr::from(v4.1));
        let sum = checksum::upper_layer(IpAddr::V4(src), IpAddr::V4(dst), protocol, &payload);
        prop_assert_eq!(sum, Some(slow(&bytes.concat())));
        let bytes = [
            &v6.0.to_be_bytes()[..], &v6.1.to_be_bytes(), &u32::from(len).to_be_bytes(), &tail, &payload,
        ];
        let (src, dst) = (Ipv6Addr::from(v6.0), Ipv6Addr::from(v6.1));
        let sum = checksum::upper_layer(IpAddr::V6(src), IpAddr::V6(dst), protocol, &payload);
        prop_assert_eq!(sum, Some(slow(&bytes.concat())));
    }
}
