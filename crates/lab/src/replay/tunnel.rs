//! Puts a mobile's packet into GTP-U, as its base station would. Header bytes are written here at fixed offsets: what
//! the cluster's parser reads was not written by its own crate.

use scalebricks_types::Teid;
use std::net::Ipv4Addr;

/// Most bytes put in front of a packet: Ethernet, IPv4, UDP, GTP-U with its optional fields and a container.
pub(super) const MAX_HEADERS: usize = 14 + 20 + 8 + 12 + 4;

const GTPU_PORT: u16 = 2152;

/// The way of a packet from its base station to the gateway.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uplink {
    /// Ethernet destination: the node where it enters.
    pub(super) dst_mac: [u8; 6],
    /// Ethernet source.
    pub(super) src_mac: [u8; 6],
    /// The base station.
    pub(super) src: Ipv4Addr,
    /// The gateway.
    pub(super) dst: Ipv4Addr,
    /// The gateway's end of the flow's tunnel.
    pub(super) teid: Teid,
    /// Chooses the optional parts, the UDP source port and whether there is a UDP checksum.
    pub(super) draw: u64,
}

/// The packet is too large for an IPv4 packet with these headers in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// Writes the whole frame into `frame`, which is emptied first.
pub(super) fn wrap(inner: &[u8], uplink: &Uplink, frame: &mut Vec<u8>) -> Result<(), TooLarge> {
    let optional = optional_part(uplink.draw);
    let gtpu_len = optional.len() + inner.len();
    let udp_len = 8 + 8 + gtpu_len;
    let total = u16::try_from(20 + udp_len).map_err(|_| TooLarge)?;
    let udp_len = udp_len as u16; // below `total`
    frame.clear();
    frame.extend_from_slice(&uplink.dst_mac);
    frame.extend_from_slice(&uplink.src_mac);
    frame.extend_from_slice(&[0x08, 0x00]);
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[4..6].copy_from_slice(&(uplink.draw as u16).to_be_bytes());
    ip[12..16].copy_from_slice(&uplink.src.octets());
    ip[16..20].copy_from_slice(&uplink.dst.octets());
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend_from_slice(&ip);
    let udp_at = frame.len();
    frame.extend_from_slice(&(0xc000 | (uplink.draw >> 16) as u16).to_be_bytes());
    frame.extend_from_slice(&GTPU_PORT.to_be_bytes());
    frame.extend_from_slice(&udp_len.to_be_bytes());
    frame.extend_from_slice(&[0, 0]);
    frame.extend_from_slice(&[0x30 | flags(uplink.draw), 255]);
    frame.extend_from_slice(&(gtpu_len as u16).to_be_bytes());
    frame.extend_from_slice(&uplink.teid.get().to_be_bytes());
    frame.extend_from_slice(optional);
    frame.extend_from_slice(inner);
    if uplink.draw >> 40 & 1 == 1 {
        let pseudo_tail = [0, 17, (udp_len >> 8) as u8, udp_len as u8];
        // A sum of 0 is sent as its other form, since 0 says "none" (RFC 768).
        let sum = match checksum(&[&ip[12..20], &pseudo_tail, &frame[udp_at..]]) {
            0 => 0xffff,
            sum => sum,
        };
        frame[udp_at + 6..udp_at + 8].copy_from_slice(&sum.to_be_bytes());
    }
    Ok(())
}

/// The E, S and PN flags (TS 29.281 §5.1) that go with [`optional_part`].
const fn flags(draw: u64) -> u8 {
    match draw >> 48 & 3 {
        0 => 0,
        1 => 0b010,
        2 => 0b100,
        _ => 0b111,
    }
}

/// Nothing; a sequence number; an uplink PDU session container (TS 38.415 §5.5.2.2); all of it.
const fn optional_part(draw: u64) -> &'static [u8] {
    match draw >> 48 & 3 {
        0 => &[],
        1 => &[0x12, 0x34, 0, 0],
        2 => &[0, 0, 0, 0x85, 1, 0x10, 9, 0],
        _ => &[0x12, 0x34, 7, 0x85, 1, 0x10, 9, 0],
    }
}

/// The Internet checksum over parts, all but the last of even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum: u64 = 0;
    for part in parts {
        let (pairs, last) = part.as_chunks::<2>();
        sum += pairs.iter().map(|&pair| u64::from(u16::from_be_bytes(pair))).sum::<u64>();
        sum += last.first().map_or(0, |&octet| u64::from(octet) << 8);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use scalebricks_wire::gtpu::{Gtpu, MessageType};
    use scalebricks_wire::transport::Udp;
    use scalebricks_wire::{checksum as wire_checksum, ipv4_header_checksum_ok, parse_ip};

    fn uplink(draw: u64) -> Uplink {
        Uplink {
            dst_mac: [2; 6],
            src_mac: [4; 6],
            src: Ipv4Addr::new(10, 200, 0, 1),
            dst: Ipv4Addr::new(10, 255, 0, 1),
            teid: Teid::new(0xdead_beef),
            draw,
        }
    }

    #[test]
    fn every_form_reads_back_with_good_checksums() {
        let mut frame = Vec::new();
        for form in 0..4u64 {
            for with_checksum in [0, 1] {
                for len in [20_u16, 21, 1500] {
                    let inner: Vec<u8> = (0..len).map(|n| n as u8).collect();
                    wrap(&inner, &uplink(form << 48 | with_checksum << 40 | 0x1234_5678), &mut frame)
                        .unwrap();
                    assert!(frame.len() <= MAX_HEADERS + inner.len());
                    let ip = parse_ip(&frame[14..]).unwrap();
                    assert!(ipv4_header_checksum_ok(ip.bytes()));
                    let udp = Udp::parse(ip.l4()).unwrap();
                    assert_eq!((udp.dst_port(), udp.checksum() != 0), (2152, with_checksum == 1));
                    if with_checksum == 1 {
                        let (src, dst) = (uplink(0).src, uplink(0).dst);
                        let sum = wire_checksum::pseudo_header_v4(src, dst, 17, udp.len());
                        assert_eq!(sum.bytes(ip.l4()).finish(), 0);
                    }
                    let message = Gtpu::parse(udp.payload()).unwrap();
                    assert_eq!(message.message_type(), MessageType::GPdu);
                    assert_eq!(message.teid(), Teid::new(0xdead_beef));
                    assert_eq!(message.payload(), inner);
                }
            }
        }
    }

    #[test]
    fn what_exceeds_an_ip_packet_is_refused() {
        let mut frame = Vec::new();
        let largest = 65_535 - 36;
        assert_eq!(wrap(&vec![0; largest], &uplink(0), &mut frame), Ok(()));
        assert_eq!(wrap(&vec![0; largest + 1], &uplink(0), &mut frame), Err(TooLarge));
        assert_eq!(wrap(&vec![0; largest], &uplink(2 << 48), &mut frame), Err(TooLarge));
    }
}
