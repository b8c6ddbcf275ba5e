//! ARP (RFC 826) on one link.
//!
//! The node answers requests for its own addresses and for those it took over. What other stations announce updates
//! neighbours that the node already tracks; it creates no new ones.

use super::config::is_host;
use super::neighbour::MacEvidence;
use super::{Consumed, LocalStack, Outbox};
use crate::gateway::fabric::mac::OutputPort;
use scalebricks_wire::MacAddr;
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::ethernet::{self, ETHERTYPE_ARP, Frame};
use std::net::{IpAddr, Ipv4Addr};

impl LocalStack {
    pub(super) fn receive_arp(
        &mut self,
        port: OutputPort,
        frame: &Frame,
        payload: &[u8],
        out: &mut Outbox,
    ) -> Consumed {
        let Ok(arp) = Arp::parse(payload) else {
            self.stats.dropped_malformed += 1;
            return Consumed::Yes;
        };
        match arp.operation {
            Operation::Request => self.stats.arp_requests_in += 1,
            Operation::Reply => self.stats.arp_replies_in += 1,
            Operation::Other(_) => return Consumed::No,
        }
        let link = self.link(port);
        // RFC 5227 §2.1.1: a station that probes whether an address is free has no address yet.
        let is_probe = arp.operation == Operation::Request && arp.sender_ip.is_unspecified();
        if !self.is_station(port, arp.sender_mac) || !(is_probe || is_host(IpAddr::V4(arp.sender_ip))) {
            self.stats.dropped_bad_source += 1;
            return Consumed::Yes;
        }
        if link.is_own(IpAddr::V4(arp.sender_ip)) {
            self.stats.address_conflicts += 1;
            return Consumed::Yes;
        }
        if self.is_contested(port, IpAddr::V4(arp.sender_ip)) {
            return Consumed::Yes;
        }
        if !is_probe {
            let link = self.link(port);
            let is_answer = arp.operation == Operation::Reply
                && frame.dst == link.mac
                && (link.is_own(IpAddr::V4(arp.target_ip)) || arp.target_ip.is_unspecified());
            let said = if is_answer { MacEvidence::Answer } else { MacEvidence::Update };
            self.hear(port, IpAddr::V4(arp.sender_ip), Some(arp.sender_mac), said, out);
        }
        if arp.operation == Operation::Request && self.is_claimed(port, IpAddr::V4(arp.target_ip)) {
            self.answer_arp(port, &arp, out);
        }
        Consumed::Yes
    }

    /// Whether this can be the MAC address of a single other station (RFC 1812 §3.3.2: group addresses are not
    /// believed).
    pub(super) fn is_station(&self, port: OutputPort, mac: MacAddr) -> bool {
        !mac.is_multicast() && mac != MacAddr::default() && mac != self.link(port).mac
    }

    /// Processes what a station said about a neighbour, and sends the frames that waited for it.
    pub(super) fn hear(
        &mut self,
        port: OutputPort,
        address: IpAddr,
        mac: Option<MacAddr>,
        said: MacEvidence,
        out: &mut Outbox,
    ) {
        let key = (port as u8, address);
        let frames = self.neighbours.hear(key, mac, said, self.now, &mut self.stats);
        self.send_held(key, frames, out);
    }

    fn answer_arp(&mut self, port: OutputPort, request: &Arp, out: &mut Outbox) {
        if !self.limiters.neighbour_answers.take(self.now) {
            self.stats.dropped_rate += 1;
            return;
        }
        let reply = request.reply(self.link(port).mac);
        if self.send_arp(port, request.sender_mac, &reply, out) {
            self.stats.arp_replies_out += 1;
        }
    }

    /// Asks for a neighbour: by broadcast, or by unicast to check that it is still there (RFC 1122 §2.3.2.1 (2)). A
    /// node that may not claim its address asks without a sender address (RFC 5227 §2.1.1), so that no station learns
    /// one.
    pub(super) fn ask_by_arp(
        &mut self,
        port: OutputPort,
        address: Ipv4Addr,
        mac: Option<MacAddr>,
        out: &mut Outbox,
    ) {
        let Some(IpAddr::V4(own)) = self.link(port).source(address.into()) else {
            self.stats.dropped_no_own_address += 1;
            return;
        };
        let own = if self.claims_own() { own } else { Ipv4Addr::UNSPECIFIED };
        if self.send_request(port, mac.unwrap_or(MacAddr::BROADCAST), own, address, out) {
            self.stats.arp_requests_out += 1;
        }
    }

    /// Sends an ARP announcement (RFC 5227 §2.3): a request for the local address, from that address.
    pub(super) fn announce_by_arp(&mut self, port: OutputPort, own: Ipv4Addr, out: &mut Outbox) {
        if self.send_request(port, MacAddr::BROADCAST, own, own, out) {
            self.stats.arp_announcements_out += 1;
        }
    }

    fn send_request(
        &mut self,
        port: OutputPort,
        to: MacAddr,
        own: Ipv4Addr,
        target_ip: Ipv4Addr,
        out: &mut Outbox,
    ) -> bool {
        let request = Arp {
            operation: Operation::Request,
            sender_mac: self.link(port).mac,
            sender_ip: own,
            target_mac: MacAddr::default(),
            target_ip,
        };
        self.send_arp(port, to, &request, out)
    }

    fn send_arp(&mut self, port: OutputPort, to: MacAddr, arp: &Arp, out: &mut Outbox) -> bool {
        let header = ethernet::header(to, self.link(port).mac, ETHERTYPE_ARP);
        self.push(port, [&header[..], &arp.to_bytes()].concat(), out)
    }
}
