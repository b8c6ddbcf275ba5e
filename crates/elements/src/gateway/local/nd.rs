//! Neighbour discovery (RFC 4861 §7.2) on one link.
//!
//! As with ARP, what other stations announce updates neighbours that the node tracks and creates no new ones. This is
//! less than RFC 4861 §7.2.3 allows.

use super::neighbour::MacEvidence;
use super::{Consumed, LocalStack, Outbox};
use crate::gateway::fabric::mac::OutputPort;
use scalebricks_wire::MacAddr;
use scalebricks_wire::ethernet::{self, ETHERTYPE_IPV6, Frame};
use scalebricks_wire::nd::{self, Advertisement, Message, NdError, Solicitation};
use scalebricks_wire::parse_ip;
use std::net::{IpAddr, Ipv6Addr};

impl LocalStack {
    /// Processes an IPv6 packet if it is neighbour discovery.
    pub(super) fn receive_nd(
        &mut self,
        port: OutputPort,
        frame: &Frame,
        packet: &[u8],
        out: &mut Outbox,
    ) -> Consumed {
        if parse_ip(packet).is_err() {
            return Consumed::No;
        }
        match nd::parse(packet) {
            Ok(Some(Message::Solicitation(message))) => self.receive_solicitation(port, frame, &message, out),
            Ok(Some(Message::Advertisement(message))) => self.receive_advertisement(port, &message, out),
            Ok(None) => return Consumed::No,
            Err(NdError::HopLimit) => self.stats.dropped_hop_limit += 1,
            Err(NdError::Checksum) => self.stats.dropped_checksum += 1,
            Err(NdError::Addresses) => self.stats.dropped_bad_source += 1,
            Err(NdError::Fragmented) => self.stats.dropped_fragment += 1,
            Err(NdError::Malformed(_) | NdError::Code) => self.stats.dropped_malformed += 1,
        }
        Consumed::Yes
    }

    fn receive_solicitation(
        &mut self,
        port: OutputPort,
        frame: &Frame,
        message: &Solicitation,
        out: &mut Outbox,
    ) {
        self.stats.neighbour_solicitations_in += 1;
        let link = self.link(port);
        let (src, target) = (IpAddr::V6(message.src), IpAddr::V6(message.target));
        let is_for_own = self.is_claimed(port, target);
        if link.is_own(src) {
            self.stats.address_conflicts += 1;
            return;
        }
        if self.is_contested(port, src) {
            return;
        }
        // RFC 4861 §7.2.4: a sender without an address is answered by multicast to all nodes.
        if message.src.is_unspecified() {
            if is_for_own {
                self.advertise(
                    port,
                    nd::multicast_mac(nd::ALL_NODES),
                    nd::ALL_NODES,
                    message.target,
                    false,
                    out,
                );
            }
            return;
        }
        let asker = message.source_mac.unwrap_or(frame.src);
        if !self.is_station(port, asker) {
            self.stats.dropped_bad_source += 1;
            return;
        }
        if message.source_mac.is_some() {
            self.hear(port, src, message.source_mac, MacEvidence::Update, out);
        }
        if is_for_own {
            self.advertise(port, asker, message.src, message.target, true, out);
        }
    }

    fn receive_advertisement(&mut self, port: OutputPort, message: &Advertisement, out: &mut Outbox) {
        self.stats.neighbour_advertisements_in += 1;
        let link = self.link(port);
        let address = IpAddr::V6(message.target);
        if link.is_own(address) {
            self.stats.address_conflicts += 1;
            return;
        }
        if self.is_contested(port, address) {
            return;
        }
        let link = self.link(port);
        if message.target_mac.is_some_and(|mac| !self.is_station(port, mac)) {
            self.stats.dropped_bad_source += 1;
            return;
        }
        let known = self.neighbours.mac(&(port as u8, address));
        let contradicts = known.is_some() && message.target_mac.is_some() && known != message.target_mac;
        let is_answer = message.is_solicited && link.is_own(IpAddr::V6(message.dst));
        let said = match (is_answer, message.is_override) {
            (true, is_override) if is_override || !contradicts => MacEvidence::Answer,
            (_, true) => MacEvidence::Update,
            (_, false) => MacEvidence::Hint,
        };
        self.hear(port, address, message.target_mac, said, out);
    }

    fn advertise(
        &mut self,
        port: OutputPort,
        to: MacAddr,
        dst: Ipv6Addr,
        own: Ipv6Addr,
        is_solicited: bool,
        out: &mut Outbox,
    ) {
        if !self.limiters.neighbour_answers.take(self.now) {
            self.stats.dropped_rate += 1;
        } else if self.send_advertisement(port, to, dst, own, is_solicited, out) {
            self.stats.neighbour_advertisements_out += 1;
        }
    }

    /// An unsolicited advertisement to all nodes (RFC 4861 §7.2.6).
    pub(super) fn announce_by_nd(&mut self, port: OutputPort, own: Ipv6Addr, out: &mut Outbox) {
        let to = nd::multicast_mac(nd::ALL_NODES);
        if self.send_advertisement(port, to, nd::ALL_NODES, own, false, out) {
            self.stats.neighbour_announcements_out += 1;
        }
    }

    fn send_advertisement(
        &mut self,
        port: OutputPort,
        to: MacAddr,
        dst: Ipv6Addr,
        own: Ipv6Addr,
        is_solicited: bool,
        out: &mut Outbox,
    ) -> bool {
        let mac = self.link(port).mac;
        let packet = Advertisement::packet(own, dst, own, is_solicited, mac);
        self.push(port, [&ethernet::header(to, mac, ETHERTYPE_IPV6)[..], &packet].concat(), out)
    }

    /// Asks for a neighbour: its solicited-node group, or by unicast to check that it is still there (RFC 4861 §7.2.2,
    /// §7.3.3). A node that may not claim its address asks from its link-local one, which is unique to it.
    pub(super) fn ask_by_nd(
        &mut self,
        port: OutputPort,
        address: Ipv6Addr,
        mac: Option<MacAddr>,
        out: &mut Outbox,
    ) {
        let link = self.link(port);
        let Some(IpAddr::V6(own)) = link.source(address.into()) else {
            self.stats.dropped_no_own_address += 1;
            return;
        };
        let own = if self.claims_own() { own } else { nd::link_local(link.mac) };
        let group = nd::solicited_node(address);
        let (to, dst) = mac.map_or((nd::multicast_mac(group), group), |mac| (mac, address));
        let packet = Solicitation::packet(own, dst, address, link.mac);
        let header = ethernet::header(to, link.mac, ETHERTYPE_IPV6);
        if self.push(port, [&header[..], &packet].concat(), out) {
            self.stats.neighbour_solicitations_out += 1;
        }
    }
}
