//! Builds planned packets with `etherparse`: the user's IP packet, and the frame in which it enters the cluster.

use super::mix;
use super::population::base_station;
use super::traffic::{Direction, MAX_IP_LENGTH, Plan};
use crate::tunnel::{self, Uplink};
use etherparse::{
    IpDscp, IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6FlowLabel, Ipv6Header, PacketBuilder,
    TcpHeader,
};
use scalebricks_elements::gateway::OutsideMacs;
use scalebricks_wire::{ethernet, protocol};
use std::net::{IpAddr, Ipv4Addr};

const TTL: u8 = 61;

/// Longest frame.
pub const MAX_FRAME: usize = tunnel::MAX_HEADERS + MAX_IP_LENGTH;

/// Builds packets. Keeps its buffers.
#[derive(Debug, Clone)]
pub struct FrameMaker {
    seed: u64,
    gateway: Ipv4Addr,
    payload: Vec<u8>,
    packet: Vec<u8>,
    frame: Vec<u8>,
}

impl FrameMaker {
    /// Builds packets of this seed. GTP-U is sent to `gateway`.
    pub const fn new(seed: u64, gateway: Ipv4Addr) -> Self {
        Self { seed, gateway, payload: Vec::new(), packet: Vec::new(), frame: Vec::new() }
    }

    /// The frame that arrives at the ingress node with the MAC addresses `macs`.
    pub fn frame(&mut self, plan: &Plan, macs: &OutsideMacs) -> &[u8] {
        self.user_packet(plan);
        let Direction::Upstream(form) = plan.direction else {
            let is_v4 = plan.flow.downstream.dst.is_ipv4();
            let ethertype = if is_v4 { ethernet::ETHERTYPE_IPV4 } else { ethernet::ETHERTYPE_IPV6 };
            self.frame.clear();
            self.frame.extend(ethernet::header(macs.internet, macs.router, ethertype));
            self.frame.extend_from_slice(&self.packet);
            return &self.frame;
        };
        let station = base_station(plan.flow.base_station);
        let uplink = Uplink {
            dst_mac: macs.base_station.octets(),
            src_mac: station.mac.octets(),
            src: station.address,
            dst: self.gateway,
            teid: plan.flow.uplink_teid,
            form,
            qfi: plan.flow.qfi.map_or(9, scalebricks_types::Qfi::get),
            number: plan.id as u16,
            has_checksum: true,
        };
        // A packet of at most 1,500 octets fits the tunnel.
        let _ = tunnel::wrap(&self.packet, &uplink, &mut self.frame);
        &self.frame
    }

    /// The user's IP packet, which must leave the cluster unchanged.
    pub fn user_packet(&mut self, plan: &Plan) -> &[u8] {
        let tuple = match plan.direction {
            Direction::Downstream => plan.flow.downstream,
            Direction::Upstream(_) => plan.flow.downstream.reversed(),
        };
        let is_tcp = tuple.protocol == protocol::TCP;
        let headers = if tuple.src.is_ipv4() { 20 } else { 40 } + if is_tcp { 20 } else { 8 };
        self.payload.resize(plan.ip_len.saturating_sub(headers), 0);
        mix::fill(self.seed, plan.id, &mut self.payload);
        let builder = PacketBuilder::ip(ip_headers(tuple.src, tuple.dst, plan));
        self.packet.clear();
        // A packet of at most 1,500 octets always fits.
        let _ = if is_tcp {
            let header = TcpHeader {
                source_port: tuple.src_port,
                destination_port: tuple.dst_port,
                sequence_number: plan.id as u32,
                acknowledgment_number: (plan.id >> 16) as u32,
                ack: true,
                psh: true,
                window_size: 0xffff,
                ..TcpHeader::default()
            };
            builder.tcp_header(header).write(&mut self.packet, &self.payload)
        } else {
            builder.udp(tuple.src_port, tuple.dst_port).write(&mut self.packet, &self.payload)
        };
        &self.packet
    }
}

fn ip_headers(src: IpAddr, dst: IpAddr, plan: &Plan) -> IpHeaders {
    // Flows with QFI 1 use expedited forwarding (RFC 3246).
    let dscp = if plan.flow.qfi.is_some_and(|qfi| qfi.get() == 1) { IpDscp::EF } else { IpDscp::default() };
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ipv4Header {
                dscp,
                identification: plan.id as u16,
                dont_fragment: true,
                time_to_live: TTL,
                source: src.octets(),
                destination: dst.octets(),
                ..Ipv4Header::default()
            };
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ipv6Header {
                traffic_class: dscp.value() << 2,
                flow_label: Ipv6FlowLabel::try_new(plan.id as u32 & 0x000f_ffff).unwrap_or_default(),
                hop_limit: TTL,
                source: src.octets(),
                destination: dst.octets(),
                ..Ipv6Header::default()
            };
            IpHeaders::Ipv6(header, Ipv6Extensions::default())
        }
        _ => unreachable!("both addresses of a flow have one family"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::population::Population;
    use crate::demo::traffic::Traffic;
    use crate::tunnel::TunnelForm;
    use scalebricks_types::{ClusterSize, FiveTuple, KeyProfile};
    use scalebricks_wire::{MacAddr, checksum, ipv4_header_checksum_ok, parse_ip};

    const GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 31, 255, 254);

    fn macs() -> OutsideMacs {
        let mac = |n| MacAddr([2, 0, 0, 0, 0, n]);
        OutsideMacs { internet: mac(1), base_station: mac(2), router: mac(3) }
    }

    fn traffic(key: KeyProfile) -> Traffic {
        let size = ClusterSize::new(4).unwrap();
        Traffic::new(3, Population::new(3, 5_000, key, size, false), size)
    }

    /// Parses an IP packet with the project's parser, which shares no code with the builder, and verifies addresses, ports and
    /// checksums.
    fn check_ip<'a>(bytes: &'a [u8], tuple: &FiveTuple) -> &'a [u8] {
        let packet = parse_ip(bytes).unwrap();
        assert_eq!(packet.summary.five_tuple(), *tuple);
        assert_eq!(packet.bytes().len(), bytes.len());
        let len = packet.l4().len() as u16;
        let sum = match (tuple.src, tuple.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                assert!(ipv4_header_checksum_ok(bytes));
                checksum::pseudo_header_v4(src, dst, tuple.protocol, len)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                checksum::pseudo_header_v6(src, dst, tuple.protocol, u32::from(len))
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(sum.bytes(packet.l4()).finish(), 0);
        packet.l4()
    }

    #[test]
    fn frames_are_parsed_and_have_correct_checksums() {
        for key in [KeyProfile::Flow5, KeyProfile::Ue] {
            let traffic = traffic(key);
            let mut maker = FrameMaker::new(3, GATEWAY);
            let mut user_packets = maker.clone();
            for plan in (0..3_000).map(|id| traffic.plan(id)) {
                let frame = maker.frame(&plan, &macs());
                let inner = user_packets.user_packet(&plan);
                let Direction::Upstream(form) = plan.direction else {
                    check_ip(&frame[14..], &plan.flow.downstream);
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
                let gtpu = &check_ip(&frame[14..], &outer)[8..];
                assert_eq!(usize::from(u16::from_be_bytes([gtpu[2], gtpu[3]])), gtpu.len() - 8);
                assert_eq!(gtpu[4..8], plan.flow.uplink_teid.get().to_be_bytes());
                let header =
                    [(TunnelForm::Plain, 8), (TunnelForm::SequenceNumber, 12), (TunnelForm::PduSession, 16)];
                let (_, header) = header.into_iter().find(|(of, _)| *of == form).unwrap();
                assert_eq!(&gtpu[header..], inner);
                check_ip(inner, &plan.flow.downstream.reversed());
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
