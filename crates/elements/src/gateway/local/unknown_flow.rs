//! Errors about unknown tunnels, sent to base stations, and about unknown users, sent to the Internet. Rate-limited in
//! total and per peer, since sources may be forged.

use super::answers::GtpuDatagram;
use super::config::is_host;
use super::{ErrorLimit, Limiters, LocalStack, Outbox};
use crate::gateway::fabric::mac::OutputPort;
use scalebricks_wire::gtpu::MessageType;
use scalebricks_wire::gtpu::message::{MAX_ERROR_INDICATION_LEN, error_indication};
use scalebricks_wire::icmp_error::{self, MAX_V6_LEN, destination_unreachable};
use scalebricks_wire::{IpPacket, icmp, ipv4_header_checksum_ok, parse_frame, parse_ip};
use std::net::IpAddr;
use std::time::Duration;

impl LocalStack {
    /// Processes an upstream G-PDU of an unknown tunnel (whole frame, up to two VLAN tags, any Ethernet addresses):
    /// sends a GTP-U error indication to its outer source (TS 29.281 §7.3.1), within the limits.
    pub fn unknown_tunnel(&mut self, frame: &[u8], now: Duration, out: &mut Outbox) {
        self.now = now;
        self.stats.unknown_tunnels_in += 1;
        if let Some(packet) = self.packet_at_fault(frame) {
            self.indicate_error(&packet, out);
        }
        self.publish();
    }

    fn indicate_error(&mut self, packet: &IpPacket<'_>, out: &mut Outbox) {
        let datagram = GtpuDatagram::read(packet).filter(|_| packet.summary.fragment.is_none());
        let Some(datagram) = datagram.filter(|d| d.message.message_type() == MessageType::GPdu) else {
            self.stats.dropped_malformed += 1;
            return;
        };
        let (own, peer) = (IpAddr::V4(datagram.dst), IpAddr::V4(datagram.src));
        if !self.is_answered(OutputPort::BaseStation, own) {
            self.stats.dropped_no_own_address += 1;
        } else if !is_host(peer) || self.is_answered(OutputPort::BaseStation, peer) {
            self.stats.dropped_bad_source += 1;
        } else if !datagram.is_checksum_ok {
            self.stats.dropped_checksum += 1;
        } else if self.may_err(peer, |limits| &mut limits.error_indications) {
            let mut message = [0; MAX_ERROR_INDICATION_LEN];
            let written = error_indication(&mut message, datagram.message.teid(), own).unwrap_or(0);
            let message = message.get(..written).unwrap_or_default();
            if self.send_gtpu(datagram.dst, datagram.src, scalebricks_wire::gtpu::PORT, message, out) {
                self.stats.error_indications_out += 1;
            }
        }
    }

    /// Processes a downstream packet (whole frame, as above) for an unknown user: sends an ICMP "host unreachable" or
    /// ICMPv6 "address unreachable" to its sender from the Internet link's first address, within the limits.
    pub fn unknown_user(&mut self, frame: &[u8], now: Duration, out: &mut Outbox) {
        self.now = now;
        self.stats.unknown_users_in += 1;
        if let Some(packet) = self.packet_at_fault(frame) {
            self.report_unreachable(&packet, out);
        }
        self.publish();
    }

    fn report_unreachable(&mut self, packet: &IpPacket<'_>, out: &mut Outbox) {
        let peer = packet.summary.src;
        let gateway = if peer.is_ipv4() { IpAddr::V4(self.gateway) } else { IpAddr::V6(self.gateway_v6) };
        let from = self.link(OutputPort::Internet).speaker(peer).unwrap_or(gateway);
        let is_link_local = matches!(peer, IpAddr::V6(peer) if peer.is_unicast_link_local());
        if !icmp_error::is_allowed(&packet.summary, false) {
            self.stats.dropped_no_error_allowed += 1;
            return;
        }
        if self.is_answered(OutputPort::Internet, peer) || is_link_local {
            self.stats.dropped_bad_source += 1;
            return;
        }
        if !is_host(from) {
            self.stats.dropped_no_own_address += 1;
            return;
        }
        if !self.may_err(peer, |limits| &mut limits.unreachables) {
            return;
        }
        let code = if peer.is_ipv4() { icmp::v4::CODE_HOST } else { icmp::v6::CODE_ADDRESS };
        let mut error = [0; MAX_V6_LEN];
        let Ok(written) = destination_unreachable(packet.bytes(), from, code, &mut error) else {
            self.stats.dropped_no_error_allowed += 1;
            return;
        };
        if self.send_ip(OutputPort::Internet, peer, error.get(..written).unwrap_or_default(), out) {
            let stats = &mut self.stats;
            *(if peer.is_ipv4() { &mut stats.unreachables_out } else { &mut stats.unreachables_v6_out }) += 1;
        }
    }

    /// The packet in a frame, if it was unicast and its header is valid.
    fn packet_at_fault<'a>(&mut self, frame: &'a [u8]) -> Option<IpPacket<'a>> {
        let parsed = parse_frame(frame).ok();
        let is_group = parsed.is_some_and(|header| header.dst.is_multicast());
        let packet = parsed.and_then(|header| parse_ip(frame.get(header.l3_offset..)?).ok());
        let Some(packet) = packet else {
            self.stats.dropped_malformed += 1;
            return None;
        };
        if is_group {
            self.stats.dropped_no_error_allowed += 1; // RFC 1812 §4.3.2.7
            return None;
        }
        if packet.summary.is_ipv4() && !ipv4_header_checksum_ok(packet.bytes()) {
            self.stats.dropped_checksum += 1;
            return None;
        }
        Some(packet)
    }

    /// Takes the tokens of an error, or counts why the error is not sent.
    fn may_err(&mut self, peer: IpAddr, which: impl Fn(&mut Limiters) -> &mut ErrorLimit) -> bool {
        let limit = which(&mut self.limiters);
        if !limit.all.has_token(self.now) {
            self.stats.dropped_rate += 1;
        } else if !limit.peers.take(peer, self.now) {
            self.stats.dropped_peer_rate += 1;
        } else {
            return limit.all.take(self.now);
        }
        false
    }
}
