//! Builds captured frames, octet by octet.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const MOBILE_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
pub(super) const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 2];

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;

pub(super) fn ethernet(dst: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&dst[..], &SERVER_MAC, &ethertype.to_be_bytes(), payload].concat()
}

const fn ethertype(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 6 { 0x86dd } else { 0x0800 }
}

/// A frame with an IP packet, padded as Ethernet wants it.
pub(super) fn frame(packet: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(MOBILE_MAC, ethertype(packet), packet);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// A frame with an IP packet behind VLAN tags, the outermost first.
pub(super) fn vlan(tags: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut frame = [MOBILE_MAC, SERVER_MAC].concat();
    for (n, tag) in tags.iter().enumerate() {
        let is_last = n + 1 == tags.len();
        frame.extend(if is_last { 0x8100_u16 } else { 0x88a8 }.to_be_bytes());
        frame.extend(tag.to_be_bytes());
    }
    [&frame[..], &ethertype(packet).to_be_bytes(), packet].concat()
}

/// What an IPv4 header says of fragments.
#[derive(Clone, Copy, Default)]
pub(super) struct Piece {
    pub(super) id: u16,
    pub(super) offset: u16,
    pub(super) more: bool,
}

pub(super) fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, piece: Piece, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    packet[4..6].copy_from_slice(&piece.id.to_be_bytes());
    let flags = (piece.offset / 8) | if piece.more { 0x2000 } else { 0 };
    packet[6..8].copy_from_slice(&flags.to_be_bytes());
    let sum: u32 = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    packet.extend(payload);
    packet
}

/// The same with a header checksum as a card that computes it later leaves it.
pub(super) fn unsummed(mut packet: Vec<u8>) -> Vec<u8> {
    packet[10] ^= 0xff;
    packet
}

/// Without extension headers.
pub(super) fn ipv6_plain(src: Ipv6Addr, dst: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 255];
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet.extend(payload);
    packet
}

/// Behind a hop-by-hop header with padding.
pub(super) fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv6_plain(src, dst, 0, &[&[protocol, 0, 1, 4, 0, 0, 0, 0], payload].concat())
}

/// A fragment of a UDP datagram.
pub(super) fn ipv6_fragment(src: Ipv6Addr, dst: Ipv6Addr, piece: Piece, bytes: &[u8]) -> Vec<u8> {
    let mut payload = vec![UDP, 0];
    payload.extend((piece.offset | u16::from(piece.more)).to_be_bytes());
    payload.extend(u32::from(piece.id).to_be_bytes());
    payload.extend(bytes);
    ipv6_plain(src, dst, 44, &payload)
}

/// A neighbour solicitation (135) or advertisement (136) about an address.
pub(super) fn neighbour_discovery(kind: u8, target: Ipv6Addr) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), &[2, 1], &SERVER_MAC].concat()
}

pub(super) fn tcp(src: u16, dst: u16, flags: u8, len: usize) -> Vec<u8> {
    let mut segment = [src.to_be_bytes(), dst.to_be_bytes()].concat();
    segment.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    segment.extend((0..len).map(|n| n as u8));
    segment
}

pub(super) fn udp(src: u16, dst: u16, len: usize) -> Vec<u8> {
    let mut datagram = [src.to_be_bytes(), dst.to_be_bytes(), (8 + len as u16).to_be_bytes()].concat();
    datagram.extend([0, 0]);
    datagram.extend((0..len).map(|n| n as u8));
    datagram
}

/// An ICMP error that quotes the start of a packet.
pub(super) fn icmp_error(kind: u8, code: u8, quoted: &[u8]) -> Vec<u8> {
    [&[kind, code, 0, 0, 0, 0, 0, 0], &quoted[..quoted.len().min(28)]].concat()
}
