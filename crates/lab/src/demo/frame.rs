//! The bytes of a planned packet: the user's IP packet, and the frame it arrives in.

use super::mix;
use super::population::base_station;
use super::traffic::{Direction, MAX_IP_LENGTH, Plan, TunnelForm};
use scalebricks_elements::gateway::OutsideMacs;
use scalebricks_types::FiveTuple;
use scalebricks_wire::checksum::{self, Sum};
use scalebricks_wire::{ethernet, protocol};
use std::net::{IpAddr, Ipv4Addr};

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const TTL: u8 = 61;

/// Most octets in front of the user's packet: Ethernet, IPv4, UDP, GTP-U with optional fields and one extension.
const MAX_OUTER: usize = ethernet::HEADER_LEN + IPV4_HEADER + UDP_HEADER + 16;

/// Longest frame made here.
pub const MAX_FRAME: usize = MAX_OUTER + MAX_IP_LENGTH;

/// DSCP of expedited forwarding (RFC 3246), which flows of QFI 1 use here.
const EXPEDITED: u8 = 46 << 2;

/// Makes packets; keeps the room they are made in.
#[derive(Debug, Clone)]
pub struct FrameMaker {
    seed: u64,
    gateway: Ipv4Addr,
    frame: Box<[u8; MAX_FRAME]>,
}

impl FrameMaker {
    /// Makes packets of this seed; GTP-U goes to `gateway`.
    pub fn new(seed: u64, gateway: Ipv4Addr) -> Self {
        Self { seed, gateway, frame: Box::new([0; MAX_FRAME]) }
    }

    /// The frame that arrives at the ingress node, whose MAC addresses are `macs`.
    pub fn frame(&mut self, plan: &Plan, macs: &OutsideMacs) -> &[u8] {
        let outer = match plan.direction {
            Direction::Downstream => 0,
            Direction::Upstream(form) => IPV4_HEADER + UDP_HEADER + gtpu_len(form),
        };
        let start = ethernet::HEADER_LEN + outer;
        let len = write_user_packet(&mut self.frame[start..], self.seed, plan);
        let frame = &mut self.frame[..start + len];
        let header = match plan.direction {
            Direction::Downstream => {
                let is_v4 = plan.flow.downstream.dst.is_ipv4();
                let ethertype = if is_v4 { ethernet::ETHERTYPE_IPV4 } else { ethernet::ETHERTYPE_IPV6 };
                ethernet::header(macs.internet, macs.router, ethertype)
            }
            Direction::Upstream(form) => {
                write_tunnel(&mut frame[ethernet::HEADER_LEN..], plan, form, self.gateway);
                let station = base_station(plan.flow.base_station);
                ethernet::header(macs.base_station, station.mac, ethernet::ETHERTYPE_IPV4)
            }
        };
        frame[..ethernet::HEADER_LEN].copy_from_slice(&header);
        frame
    }

    /// The user's IP packet alone: what must come out.
    pub fn user_packet(&mut self, plan: &Plan) -> &[u8] {
        let len = write_user_packet(&mut self.frame[..], self.seed, plan);
        &self.frame[..len]
    }
}

/// Writes the user's IP packet at the front of `bytes`; returns its length.
fn write_user_packet(bytes: &mut [u8], seed: u64, plan: &Plan) -> usize {
    let tuple = match plan.direction {
        Direction::Downstream => plan.flow.downstream,
        Direction::Upstream(_) => plan.flow.downstream.reversed(),
    };
    let ip_header = if tuple.src.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
    let l4_header = if tuple.protocol == protocol::TCP { TCP_HEADER } else { UDP_HEADER };
    let len = plan.ip_len.max(ip_header + l4_header);
    let (header, segment) = bytes[..len].split_at_mut(ip_header);
    mix::fill(seed, plan.id, &mut segment[l4_header..]);
    write_ip_header(header, &tuple, segment.len(), plan);
    write_l4_header(segment, &tuple, plan.id);
    len
}

fn write_ip_header(header: &mut [u8], tuple: &FiveTuple, payload_len: usize, plan: &Plan) {
    let is_expedited = plan.flow.qfi.is_some_and(|qfi| qfi.get() == 1);
    let class = if is_expedited { EXPEDITED } else { 0 };
    let payload = payload_len as u16; // a planned packet is at most 1,500 octets long
    match (tuple.src, tuple.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let identification = plan.id as u16;
            write_ipv4_header(header, class, identification, tuple.protocol, payload, src, dst);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let first = 6 << 28 | u32::from(class) << 20 | plan.id as u32 & 0x000f_ffff;
            put(header, 0, &first.to_be_bytes());
            put(header, 4, &payload.to_be_bytes());
            put(header, 6, &[tuple.protocol, TTL]);
            put(header, 8, &src.octets());
            put(header, 24, &dst.octets());
        }
        _ => unreachable!("the population makes tuples of one family"),
    }
}

fn write_ipv4_header(
    header: &mut [u8],
    class: u8,
    identification: u16,
    protocol: u8,
    payload: u16,
    src: Ipv4Addr,
    dst: Ipv4Addr,
) {
    let total = IPV4_HEADER as u16 + payload;
    put(header, 0, &[0x45, class]);
    put(header, 2, &total.to_be_bytes());
    put(header, 4, &identification.to_be_bytes());
    put(header, 6, &[0x40, 0, TTL, protocol, 0, 0]); // don't fragment; no checksum yet
    put(header, 12, &src.octets());
    put(header, 16, &dst.octets());
    let sum = checksum::checksum(&header[..IPV4_HEADER]);
    put(header, 10, &sum.to_be_bytes());
}

fn write_l4_header(segment: &mut [u8], tuple: &FiveTuple, id: u64) {
    put(segment, 0, &tuple.src_port.to_be_bytes());
    put(segment, 2, &tuple.dst_port.to_be_bytes());
    let checksum_at = if tuple.protocol == protocol::TCP {
        put(segment, 4, &(id as u32).to_be_bytes());
        put(segment, 8, &(id >> 16).to_be_bytes()[4..]);
        put(segment, 12, &[0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]); // 20 octets, ACK and PSH, full window
        16
    } else {
        put(segment, 4, &(segment.len() as u16).to_be_bytes());
        put(segment, 6, &[0, 0]);
        6
    };
    let sum = pseudo_header(tuple, segment.len() as u16).bytes(segment).finish();
    let sum = if tuple.protocol == protocol::UDP { checksum::udp(sum) } else { sum };
    put(segment, checksum_at, &sum.to_be_bytes());
}

fn pseudo_header(tuple: &FiveTuple, len: u16) -> Sum {
    match (tuple.src, tuple.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::pseudo_header_v4(src, dst, tuple.protocol, len),
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            checksum::pseudo_header_v6(src, dst, tuple.protocol, u32::from(len))
        }
        _ => unreachable!("the population makes tuples of one family"),
    }
}

const fn gtpu_len(form: TunnelForm) -> usize {
    match form {
        TunnelForm::Plain => 8,
        TunnelForm::SequenceNumber => 12,
        TunnelForm::PduSession => 16,
    }
}

/// Writes outer IPv4, UDP and GTP-U (TS 29.281 §5.1) in front of the user's packet that is in place already.
fn write_tunnel(ip: &mut [u8], plan: &Plan, form: TunnelForm, gateway: Ipv4Addr) {
    let src = base_station(plan.flow.base_station).address;
    let (header, udp) = ip.split_at_mut(IPV4_HEADER);
    let udp_len = udp.len() as u16; // at most 1,500 + 24
    let gtpu = &mut udp[UDP_HEADER..];
    let gtpu_payload = udp_len - UDP_HEADER as u16 - 8;
    let flags = match form {
        TunnelForm::Plain => 0x30,
        TunnelForm::SequenceNumber => 0x32,
        TunnelForm::PduSession => 0x34,
    };
    put(gtpu, 0, &[flags, 255]);
    put(gtpu, 2, &gtpu_payload.to_be_bytes());
    put(gtpu, 4, &plan.flow.uplink_teid.get().to_be_bytes());
    let [high, low] = (plan.id as u16).to_be_bytes();
    match form {
        TunnelForm::Plain => {}
        TunnelForm::SequenceNumber => put(gtpu, 8, &[high, low, 0, 0]),
        TunnelForm::PduSession => {
            let qfi = plan.flow.qfi.map_or(9, scalebricks_types::Qfi::get);
            // No sequence number, next a PDU session container of 4 octets: uplink, QFI; nothing behind it.
            put(gtpu, 8, &[0, 0, 0, 0x85, 1, 0x10, qfi, 0]);
        }
    }
    put(udp, 0, &(0xc000 | plan.id as u16).to_be_bytes());
    put(udp, 2, &2_152u16.to_be_bytes());
    put(udp, 4, &udp_len.to_be_bytes());
    put(udp, 6, &[0, 0]);
    let sum = checksum::pseudo_header_v4(src, gateway, protocol::UDP, udp_len).bytes(udp).finish();
    put(udp, 6, &checksum::udp(sum).to_be_bytes());
    write_ipv4_header(header, 0, plan.id as u16, protocol::UDP, udp_len, src, gateway);
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::population::Population;
    use crate::demo::traffic::Traffic;
    use etherparse::{SlicedPacket, TransportSlice};
    use scalebricks_types::{ClusterSize, KeyProfile};
    use scalebricks_wire::MacAddr;

    const GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 31, 255, 254);

    fn macs() -> OutsideMacs {
        let mac = |n| MacAddr([2, 0, 0, 0, 0, n]);
        OutsideMacs { internet: mac(1), base_station: mac(2), router: mac(3) }
    }

    fn traffic(key: KeyProfile) -> Traffic {
        let size = ClusterSize::new(4).unwrap();
        Traffic::new(3, Population::new(3, 5_000, key, size, false), size)
    }

    /// Parses a packet with a parser that shares nothing with ours, and verifies its checksums.
    fn check_l4(packet: &SlicedPacket, tuple: &FiveTuple) {
        let ip = packet.net.as_ref().unwrap();
        match (ip, packet.transport.as_ref().unwrap()) {
            (etherparse::NetSlice::Ipv4(ip), transport) => {
                let header = ip.header().to_header();
                assert_eq!(header.header_checksum, header.calc_header_checksum());
                assert_eq!(IpAddr::from(header.source), tuple.src);
                assert_eq!(IpAddr::from(header.destination), tuple.dst);
                match transport {
                    TransportSlice::Tcp(tcp) => {
                        let sum = tcp.calc_checksum_ipv4(header.source, header.destination).unwrap();
                        assert_eq!(tcp.checksum(), sum);
                        assert_eq!(
                            (tcp.source_port(), tcp.destination_port()),
                            (tuple.src_port, tuple.dst_port)
                        );
                    }
                    TransportSlice::Udp(udp) => {
                        let sum = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
                        assert_eq!(udp.checksum(), sum);
                        assert_eq!(
                            (udp.source_port(), udp.destination_port()),
                            (tuple.src_port, tuple.dst_port)
                        );
                    }
                    other => panic!("{other:?}"),
                }
            }
            (etherparse::NetSlice::Ipv6(ip), transport) => {
                let header = ip.header().to_header();
                assert_eq!(IpAddr::from(header.source), tuple.src);
                assert_eq!(IpAddr::from(header.destination), tuple.dst);
                match transport {
                    TransportSlice::Tcp(tcp) => {
                        assert_eq!(
                            tcp.checksum(),
                            tcp.calc_checksum_ipv6(header.source, header.destination).unwrap()
                        );
                    }
                    TransportSlice::Udp(udp) => {
                        let sum = udp.to_header().calc_checksum_ipv6(&header, udp.payload()).unwrap();
                        assert_eq!(udp.checksum(), sum);
                    }
                    other => panic!("{other:?}"),
                }
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_parse_elsewhere_and_their_checksums_hold() {
        for key in [KeyProfile::Flow5, KeyProfile::Ue] {
            let traffic = traffic(key);
            let mut maker = FrameMaker::new(3, GATEWAY);
            let mut user_packets = maker.clone();
            for plan in (0..3_000).map(|id| traffic.plan(id)) {
                let frame = maker.frame(&plan, &macs());
                let packet = SlicedPacket::from_ethernet(frame).unwrap();
                let inner = user_packets.user_packet(&plan);
                let Direction::Upstream(form) = plan.direction else {
                    check_l4(&packet, &plan.flow.downstream);
                    assert_eq!(&frame[14..], inner);
                    continue;
                };
                let station = base_station(plan.flow.base_station).address;
                let outer = FiveTuple {
                    src: station.into(),
                    dst: GATEWAY.into(),
                    protocol: 17,
                    src_port: 0xc000 | plan.id as u16,
                    dst_port: 2_152,
                };
                check_l4(&packet, &outer);
                let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("no UDP") };
                let gtpu = udp.payload();
                assert_eq!(usize::from(u16::from_be_bytes([gtpu[2], gtpu[3]])), gtpu.len() - 8);
                assert_eq!(gtpu[4..8], plan.flow.uplink_teid.get().to_be_bytes());
                assert_eq!(&gtpu[gtpu_len(form)..], inner);
                check_l4(&SlicedPacket::from_ip(inner).unwrap(), &plan.flow.downstream.reversed());
            }
        }
    }

    #[test]
    fn packets_are_as_long_as_planned() {
        let traffic = traffic(KeyProfile::Flow5);
        let mut maker = FrameMaker::new(3, GATEWAY);
        for plan in (0..2_000).map(|id| traffic.plan(id)) {
            let len = maker.user_packet(&plan).len();
            assert!(len == plan.ip_len || (plan.ip_len == 46 && len <= 60), "{len} of {}", plan.ip_len);
        }
    }
}
