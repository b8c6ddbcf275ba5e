//! Changes the address and port of one end of an IPv4 packet in place, for address translation. All checksums that cover
//! them are updated from the change alone (RFC 1624), so a wrong checksum stays wrong, and DF, options and payload are
//! not touched.

use crate::checksum::{self, update_u16};
use crate::ipv4::MIN_HEADER_LEN;
use crate::{icmp, protocol};
use std::net::Ipv4Addr;

/// One end of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Source address and port.
    Source,
    /// Destination address and port.
    Destination,
}

/// Replaces an end of the packet at the start of `bytes`, which may be cut behind the port, as packets that ICMP errors quote
/// are. Of an ICMP query, the port is the identifier. A UDP checksum of 0 stays 0 (RFC 768). Returns whether it did: of
/// fragments that are not the first, and of other protocols than TCP, UDP and ICMP queries, nothing is changed.
///
/// Cost: about ten 16-bit words are read and written, independent of the packet's length.
pub fn replace_end(bytes: &mut [u8], end: End, address: Ipv4Addr, port: u16) -> bool {
    let Some(fixed) = bytes.first_chunk::<MIN_HEADER_LEN>() else { return false };
    let header_len = usize::from(fixed[0] & 0xf) * 4;
    let is_later_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0;
    let (address_at, port_at) = match end {
        End::Source => (12, 0),
        End::Destination => (16, 2),
    };
    let layout = match fixed[9] {
        protocol::TCP => Some((port_at, 16, true)),
        protocol::UDP => Some((port_at, 6, true)),
        protocol::ICMPV4 => Some((4, 2, false)),
        _ => None,
    };
    let Some((port_at, checksum_at, is_pseudo)) = layout.filter(|_| !is_later_fragment) else { return false };
    let is_udp = fixed[9] == protocol::UDP;
    if header_len < MIN_HEADER_LEN {
        return false;
    }
    let Some((header, l4)) = bytes.split_at_mut_checked(header_len) else { return false };
    let Some(port_field) = l4.get_mut(port_at..port_at + 2) else { return false };
    let (old_port, new_port) = (u16_of(port_field), port);
    port_field.copy_from_slice(&port.to_be_bytes());
    let old: [u8; 4] =
        [header[address_at], header[address_at + 1], header[address_at + 2], header[address_at + 3]];
    let new = address.octets();
    header[address_at..address_at + 4].copy_from_slice(&new);
    change(header.get_mut(10..12), |sum| of_address(sum, old, new));
    change(l4.get_mut(checksum_at..checksum_at + 2), |sum| {
        if is_udp && sum == 0 {
            return 0;
        }
        let sum = if is_pseudo { of_address(sum, old, new) } else { sum };
        let sum = update_u16(sum, old_port, new_port);
        if is_udp { checksum::udp(sum) } else { sum }
    });
    true
}

/// Replaces an address of the IPv4 header at the start of `bytes`, and updates the header's checksum alone. Returns whether
/// there is a header. For ICMP messages, whose checksum does not cover addresses.
pub fn replace_address(bytes: &mut [u8], end: End, address: Ipv4Addr) -> bool {
    let Some(header) = bytes.first_chunk_mut::<MIN_HEADER_LEN>() else { return false };
    let at = if end == End::Source { 12 } else { 16 };
    let old = [header[at], header[at + 1], header[at + 2], header[at + 3]];
    header[at..at + 4].copy_from_slice(&address.octets());
    change(header.get_mut(10..12), |sum| of_address(sum, old, address.octets()));
    true
}

/// Computes the checksum of an ICMP message anew.
pub fn sum_icmp(message: &mut [u8]) {
    let Some(field) = message.get_mut(2..4) else { return };
    field.fill(0);
    let sum = checksum::checksum(message).to_be_bytes();
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum);
    }
}

/// Where the packet that an ICMP error quotes begins, from the error's IP header on.
pub fn quoted_offset(packet: &[u8]) -> usize {
    packet.first().map_or(0, |first| usize::from(first & 0xf) * 4) + icmp::HEADER_LEN
}

fn u16_of(field: &[u8]) -> u16 {
    match *field {
        [high, low] => u16::from_be_bytes([high, low]),
        _ => 0,
    }
}

fn change(field: Option<&mut [u8]>, update: impl FnOnce(u16) -> u16) {
    if let Some(field) = field {
        let sum = update(u16_of(field));
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

fn of_address(sum: u16, old: [u8; 4], new: [u8; 4]) -> u16 {
    let word = |octets: [u8; 4], at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
    update_u16(update_u16(sum, word(old, 0), word(new, 0)), word(old, 2), word(new, 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipv4::Ipv4Header;
    use crate::{ipv4_header_checksum_ok, parse_ip};
    use proptest::prelude::*;

    fn packet(protocol: u8, src: u32, dst: u32, l4: &[u8]) -> Vec<u8> {
        let header = Ipv4Header {
            dscp_ecn: 0,
            total_len: 20 + l4.len() as u16,
            identification: 7,
            dont_fragment: true,
            more_fragments: false,
            fragment_units: 0,
            ttl: 64,
            protocol,
            src: Ipv4Addr::from_bits(src),
            dst: Ipv4Addr::from_bits(dst),
        };
        [&header.to_bytes()[..], l4].concat()
    }

    fn full_sum(bytes: &[u8]) -> u16 {
        let packet = parse_ip(bytes).unwrap();
        let ip = packet.summary;
        if ip.protocol == protocol::ICMPV4 {
            checksum::checksum(packet.l4())
        } else {
            checksum::upper_layer(ip.src, ip.dst, ip.protocol, packet.l4()).unwrap()
        }
    }

    proptest! {
        #[test]
        fn checksums_equal_those_of_a_full_computation(
            src: u32, dst: u32, to: u32, port: u16, is_source: bool,
            protocol in prop::sample::select(vec![1_u8, 6, 17]),
            mut l4 in prop::collection::vec(any::<u8>(), 20..60),
        ) {
            let at = match protocol { 1 => 2, 6 => 16, _ => 6 };
            l4[at..at + 2].fill(0);
            if protocol == 1 {
                l4[0] = 8;
            }
            let mut bytes = packet(protocol, src, dst, &l4);
            let sum = if protocol == 17 { checksum::udp(full_sum(&bytes)) } else { full_sum(&bytes) };
            bytes[20 + at..22 + at].copy_from_slice(&sum.to_be_bytes());
            let before = bytes.clone();
            let end = if is_source { End::Source } else { End::Destination };
            prop_assert!(replace_end(&mut bytes, end, Ipv4Addr::from_bits(to), port));
            prop_assert!(ipv4_header_checksum_ok(&bytes));
            prop_assert_eq!(full_sum(&bytes), 0);
            // Nothing else has changed, and the way back leads to the same packet.
            let (old, old_port) = if is_source { (src, [20, 21]) } else { (dst, [22, 23]) };
            let old_port = if protocol == 1 { [24, 25] } else { old_port };
            let old_port = u16::from_be_bytes([before[old_port[0]], before[old_port[1]]]);
            prop_assert!(replace_end(&mut bytes, end, Ipv4Addr::from_bits(old), old_port));
            prop_assert_eq!(bytes, before);
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes: Vec<u8>, first in 0x40..=0x4f_u8, protocol in prop::sample::select(vec![1_u8, 6, 17, 132])) {
            if let Some(byte) = bytes.first_mut() { *byte = first; }
            if let Some(byte) = bytes.get_mut(9) { *byte = protocol; }
            let _ = replace_end(&mut bytes, End::Source, Ipv4Addr::LOCALHOST, 7);
            let _ = replace_address(&mut bytes, End::Destination, Ipv4Addr::LOCALHOST);
            sum_icmp(&mut bytes);
        }
    }

    #[test]
    fn no_udp_checksum_stays_none_and_a_wrong_one_stays_wrong() {
        let mut none = packet(17, 1, 2, &[0, 1, 0, 2, 0, 8, 0, 0]);
        assert!(replace_end(&mut none, End::Source, Ipv4Addr::new(9, 8, 7, 6), 5));
        assert_eq!(none[26..28], [0, 0]);
        let mut wrong = packet(17, 1, 2, &[0, 1, 0, 2, 0, 8, 0x12, 0x34]);
        assert!(replace_end(&mut wrong, End::Source, Ipv4Addr::new(9, 8, 7, 6), 5));
        assert_ne!(full_sum(&wrong), 0);
        assert!(!replace_end(&mut packet(132, 1, 2, &[0; 20]), End::Source, Ipv4Addr::LOCALHOST, 5));
    }
}
