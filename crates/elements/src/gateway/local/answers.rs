//! Answers at the node's own addresses: ICMP echo on the links, GTP-U path management at the tunnel endpoint.

use super::config::is_host;
use super::{Consumed, LocalStack, Outbox};
use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::packet::classify::KNOWN_EXTENSIONS;
use scalebricks_wire::ethernet::Frame;
use scalebricks_wire::gtpu::element::ErrorIndication;
use scalebricks_wire::gtpu::{self, Gtpu, MessageType, message};
use scalebricks_wire::ipv4::{Ipv4Header, MIN_HEADER_LEN};
use scalebricks_wire::transport::{UDP_HEADER_LEN, Udp, udp_header};
use scalebricks_wire::{IpPacket, checksum, icmp_echo, ipv4_header_checksum_ok, parse_ip, protocol};
use std::net::{IpAddr, Ipv4Addr};

/// Time to live of the answers.
const TTL: u8 = 64;

impl LocalStack {
    /// Processes an IP packet if it is for a local address and of a kind that is answered or counted.
    pub(super) fn receive_ip(
        &mut self,
        port: OutputPort,
        frame: &Frame,
        payload: &[u8],
        out: &mut Outbox,
    ) -> Consumed {
        let Ok(packet) = parse_ip(payload) else { return Consumed::No };
        let ip = &packet.summary;
        let icmp = if ip.is_ipv4() { protocol::ICMPV4 } else { protocol::ICMPV6 };
        let is_gtpu = port == OutputPort::BaseStation && matches!(ip.ports, Some((_, gtpu::PORT)));
        let is_wanted = ip.protocol == icmp || (ip.protocol == protocol::UDP && ip.is_ipv4() && is_gtpu);
        if !is_wanted || !self.is_answered(port, ip.dst) {
            return Consumed::No;
        }
        if !self.lease.may_forward(self.now) {
            self.stats.dropped_no_lease += 1;
        } else if frame.dst.is_multicast() {
            self.stats.dropped_link_broadcast += 1; // RFC 1122 §3.3.6
        } else if ip.is_ipv4() && !ipv4_header_checksum_ok(packet.bytes()) {
            self.stats.dropped_checksum += 1;
        } else if ip.fragment.is_some() {
            self.stats.dropped_fragment += 1;
        } else if !is_host(ip.src) || self.is_answered(port, ip.src) {
            self.stats.dropped_bad_source += 1;
        } else if ip.protocol == icmp {
            self.receive_icmp(port, &packet, out);
        } else {
            return self.receive_gtpu(&packet, out);
        }
        Consumed::Yes
    }

    /// Whether packets to this address are for the node: a local address of the link, one it took over, or the
    /// gateway's address.
    pub(super) fn is_answered(&self, port: OutputPort, address: IpAddr) -> bool {
        self.link(port).is_own(address)
            || self.claimed.holds(port, address)
            || address == self.gateway
            || address == self.gateway_v6
    }

    fn receive_icmp(&mut self, port: OutputPort, packet: &IpPacket<'_>, out: &mut Outbox) {
        let is_ipv4 = packet.summary.is_ipv4();
        if !icmp_echo::checksum_ok(packet) {
            self.stats.dropped_checksum += 1;
            return;
        }
        if !icmp_echo::is_request(packet) {
            self.stats.other_icmp_in += 1;
            return;
        }
        let stats = &mut self.stats;
        *(if is_ipv4 { &mut stats.echo_requests_in } else { &mut stats.echo_requests_v6_in }) += 1;
        if icmp_echo::reply_len(packet) > self.link(port).mtu {
            self.stats.dropped_answer_too_big += 1;
            return;
        }
        if !self.limiters.echo_replies.take(self.now) {
            self.stats.dropped_rate += 1;
            return;
        }
        let mut reply = vec![0; icmp_echo::reply_len(packet)];
        if icmp_echo::reply(packet, &mut reply).is_err() {
            self.stats.dropped_malformed += 1;
        } else if self.send_ip(port, packet.summary.src, &reply, out) {
            let stats = &mut self.stats;
            *(if is_ipv4 { &mut stats.echo_replies_out } else { &mut stats.echo_replies_v6_out }) += 1;
        }
    }

    /// A datagram to GTP-U's port at a local address of the base-station link. The fast path processes G-PDUs.
    fn receive_gtpu(&mut self, packet: &IpPacket<'_>, out: &mut Outbox) -> Consumed {
        let Some(datagram) = GtpuDatagram::read(packet) else {
            self.stats.dropped_malformed += 1;
            return Consumed::Yes;
        };
        if !datagram.is_checksum_ok {
            self.stats.dropped_checksum += 1;
            return Consumed::Yes;
        }
        let message = &datagram.message;
        let kind = message.message_type();
        // TS 29.281 §5.2.1: whatever the message, report the supported extension headers to its sender.
        if message.extensions().first_unsupported(&KNOWN_EXTENSIONS).is_some() {
            self.other_in(kind);
            self.notify_of_extensions(&datagram, out);
            return Consumed::Yes;
        }
        match kind {
            MessageType::GPdu => return Consumed::No,
            MessageType::EchoRequest => {
                self.stats.gtpu_echo_requests_in += 1;
                self.answer_path(&datagram, out);
            }
            MessageType::ErrorIndication if ErrorIndication::parse(message.payload()).is_err() => {
                self.stats.dropped_malformed += 1;
            }
            _ => self.other_in(kind),
        }
        Consumed::Yes
    }

    /// Counts a message that is not answered.
    fn other_in(&mut self, kind: MessageType) {
        let stats = &mut self.stats;
        *match kind {
            MessageType::EchoRequest => &mut stats.gtpu_echo_requests_in,
            MessageType::EchoResponse => &mut stats.gtpu_echo_responses_in,
            MessageType::ErrorIndication => &mut stats.error_indications_in,
            MessageType::SupportedExtensionHeaders => &mut stats.extension_notifications_in,
            MessageType::EndMarker => &mut stats.end_markers_in,
            MessageType::GPdu | MessageType::Other(_) => &mut stats.other_gtpu_in,
        } += 1;
    }

    /// TS 29.281 §7.2.2: sends an echo response to the port of the request (§4.4.2). The sequence number defaults to 0.
    fn answer_path(&mut self, datagram: &GtpuDatagram<'_>, out: &mut Outbox) {
        let response = message::echo_response(datagram.message.sequence().unwrap_or(0));
        if self.answer_gtpu(datagram, datagram.src_port, &response, out) {
            self.stats.gtpu_echo_responses_out += 1;
        }
    }

    /// TS 29.281 §7.2.3: sends the list of supported extension headers to GTP-U's port (§4.4.2).
    fn notify_of_extensions(&mut self, datagram: &GtpuDatagram<'_>, out: &mut Outbox) {
        let mut notification = [0; 32];
        let sequence = datagram.message.sequence().unwrap_or(0);
        let written =
            message::supported_extension_headers(&mut notification, sequence, &KNOWN_EXTENSIONS).unwrap_or(0);
        let notification = notification.get(..written).unwrap_or_default();
        if self.answer_gtpu(datagram, gtpu::PORT, notification, out) {
            self.stats.extension_notifications_out += 1;
        }
    }

    fn answer_gtpu(
        &mut self,
        datagram: &GtpuDatagram<'_>,
        port: u16,
        message: &[u8],
        out: &mut Outbox,
    ) -> bool {
        if !self.limiters.gtpu_answers.take(self.now) {
            self.stats.dropped_rate += 1;
            return false;
        }
        self.send_gtpu(datagram.dst, datagram.src, port, message, out)
    }

    /// Sends a GTP-U message of at most a few dozen octets on the base-station link.
    pub(super) fn send_gtpu(
        &mut self,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        dst_port: u16,
        message: &[u8],
        out: &mut Outbox,
    ) -> bool {
        let udp_len = (UDP_HEADER_LEN + message.len()) as u16;
        let header = Ipv4Header {
            dscp_ecn: 0,
            total_len: MIN_HEADER_LEN as u16 + udp_len,
            identification: 0, // RFC 6864 §4.1: any value is valid with DF set
            dont_fragment: true,
            more_fragments: false,
            fragment_units: 0,
            ttl: TTL,
            protocol: protocol::UDP,
            src,
            dst,
        };
        let udp = udp_header(gtpu::PORT, dst_port, udp_len, 0);
        let pseudo = checksum::pseudo_header_v4(src, dst, protocol::UDP, udp_len);
        let sum = checksum::udp(pseudo.bytes(&udp).bytes(message).finish());
        let udp = udp_header(gtpu::PORT, dst_port, udp_len, sum);
        let packet = [&header.to_bytes()[..], &udp, message].concat();
        self.send_ip(OutputPort::BaseStation, IpAddr::V4(dst), &packet, out)
    }
}

/// A GTP-U message over IPv4.
pub(super) struct GtpuDatagram<'a> {
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
    src_port: u16,
    pub(super) is_checksum_ok: bool,
    pub(super) message: Gtpu<'a>,
}

impl<'a> GtpuDatagram<'a> {
    /// Parses a whole packet; `None` if its lengths contradict each other or its source port is 0, which no host uses.
    pub(super) fn read(packet: &IpPacket<'a>) -> Option<Self> {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (packet.summary.src, packet.summary.dst) else {
            return None;
        };
        let udp = Udp::parse(packet.l4()).ok()?;
        let datagram = packet.l4().get(..usize::from(udp.len()))?;
        let pseudo = checksum::pseudo_header_v4(src, dst, protocol::UDP, udp.len());
        // On virtual links Linux passes packets on with only the pseudo header's sum, for an interface to complete.
        let is_unfinished = udp.checksum() == !pseudo.finish();
        let is_checksum_ok = udp.checksum() == 0 || is_unfinished || pseudo.bytes(datagram).finish() == 0;
        let message = Gtpu::parse(udp.payload()).ok()?;
        (udp.src_port() != 0).then_some(Self { src, dst, src_port: udp.src_port(), is_checksum_ok, message })
    }
}
