//! Parses a frame as a node parses it: Ethernet, IP, UDP, GTP-U, the inner packet.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_wire::fragment::{MIN_MTU, FragmentPlan};
use scalebricks_wire::gtpu::Gtpu;
use scalebricks_wire::transport::{Tcp, Udp};
use scalebricks_wire::{IpPacket, arp, ipv4_header_checksum_ok, parse_frame, parse_ip};

fuzz_target!(|bytes: &[u8]| {
    let Ok(frame) = parse_frame(bytes) else { return };
    let l3 = &bytes[frame.l3_offset..];
    let _ = arp::Arp::parse(l3);
    let Some(outer) = ip(l3) else { return };
    let _ = Tcp::parse(outer.l4());
    let Ok(udp) = Udp::parse(outer.l4()) else { return };
    let Ok(gtpu) = Gtpu::parse(udp.payload()) else { return };
    assert_eq!(&udp.payload()[gtpu.header_len()..][..gtpu.payload().len()], gtpu.payload());
    ip(gtpu.payload());
});

fn ip(bytes: &[u8]) -> Option<IpPacket<'_>> {
    let packet = parse_ip(bytes).ok()?;
    let summary = packet.summary;
    assert_eq!(packet.bytes(), &bytes[..summary.total_len as usize]);
    assert_eq!(packet.l4(), &packet.bytes()[usize::from(summary.l4_offset)..]);
    assert_eq!(summary.src.is_ipv4(), summary.dst.is_ipv4());
    assert!(summary.ports.is_none() || !summary.is_later_fragment());
    ipv4_header_checksum_ok(bytes);
    cut(packet.bytes());
    Some(packet)
}

fn cut(packet: &[u8]) {
    let Ok(plan) = FragmentPlan::new(packet, MIN_MTU) else { return };
    let mut header = [0; 60];
    let mut end = 0;
    for piece in plan.clone() {
        assert_eq!(piece.offset, end);
        end += piece.len;
        assert!(piece.header_len + piece.len <= MIN_MTU);
        assert_eq!(plan.write_header(piece, &mut header), Ok(piece.header_len));
        assert!(ipv4_header_checksum_ok(&header));
    }
}
