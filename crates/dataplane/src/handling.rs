//! The handling side of a node: from the flow's key to its state, and out.
//!
//! Reads: the FIB, the base stations. Writes: per-flow counters, the tunnel headers.
//! Next: the base-station port (downstream, encapsulated) or the Internet port (upstream, decapsulated). A flow that
//! is not here goes once more to where the GPT has it, else it is dropped.

use crate::adjacency::{NextHop, is_link_local};
use crate::batch::{LANES, Work};
use crate::classify::Parsed;
use crate::fabric_mac::{FabricMac, OutputPort};
use crate::flow::FlowState;
use crate::local::FrameKind;
use crate::node::Node;
use crate::plain;
use crate::policy::DoesNotFit;
use crate::punt::Why;
use crate::reason::DropReason;
use scalebricks_io::PacketBuf;
use scalebricks_tables::{KeyBatch, prefetch_in_front};
use scalebricks_types::{KeyHash, NodeHint};
use scalebricks_wire::encap::{CONTAINER_LEN, OUTER_V4_IP_LEN, OuterV4Fields, Tunnel};
use scalebricks_wire::{MacAddr, ethernet, ipv4_header_checksum_ok, parse_ip};
use std::net::Ipv4Addr;

impl<P: PacketBuf> Node<P> {
    /// Looks the waiting packets up in the FIB and acts on each.
    pub(crate) fn handle(&mut self) {
        if self.handling.is_empty() {
            return;
        }
        if !self.has_lease() {
            return self.drop_batch(|node| &mut node.handling);
        }
        for (packet, parsed) in self.handling.packets() {
            prefetch_tunnel(packet, parsed);
        }
        self.handling.hash(self.classifier.hasher());
        let mut values = [None; LANES];
        self.tables.fib.lookup_batch(self.handling.keys(), &mut values);
        for value in values.iter().flatten() {
            self.tables.counters.prefetch(FlowState::decode(*value).index);
        }
        let mut batch = self.handling.take();
        batch.drain_with(&values, |work, value| match value {
            Some(value) => self.handle_with(work, &FlowState::decode(value)),
            None => self.forward_again(work),
        });
        self.handling.give_back(batch);
    }

    /// Acts on a packet whose flow's entry was found.
    #[inline(always)]
    pub(crate) fn handle_with(&mut self, work: Work<'_, P>, flow: &FlowState) {
        match work.parsed.output {
            OutputPort::BaseStation => self.encapsulate(work, flow),
            OutputPort::Internet => self.decapsulate(work, flow),
        }
    }

    /// A flow that is not here may have moved since the ingress node looked: if the GPT here names another node, the
    /// packet goes there, once.
    fn forward_again(&mut self, work: Work<'_, P>) {
        let mut hint = [NodeHint::NONE];
        if !work.parsed.again && self.config.architecture == crate::Architecture::ScaleBricks {
            let (key, hash) = ([*work.key], [work.hash]);
            self.tables.gpt.lookup_batch(KeyBatch::new(&key, &hash), &mut hint);
        }
        match self.config.size.resolve(hint[0]) {
            Some(node) if node != self.config.id => {
                self.stats.forwarded_again += 1;
                let mac = FabricMac { again: true, ..FabricMac::handling(node, work.parsed.output) };
                self.send_fabric(work.packet, mac);
            }
            _ => self.punt(work.packet, work.parsed.output.opposite(), Why::UnknownFlow(*work.key)),
        }
    }

    /// Downstream: the user's packet leaves in the flow's tunnel.
    #[inline(always)]
    fn encapsulate(&mut self, work: Work<'_, P>, flow: &FlowState) {
        // The usual case apart: a next hop that may be anything is passed through memory, at a cost.
        let Some((address, mac)) = self.adjacencies.base_station_via(flow.base_station) else {
            return self.encapsulate_slowly(work, flow);
        };
        match self.put_into_tunnel(work, flow, address, mac) {
            Some((packet, Fits::Link)) => {
                self.stats.base_station_out += 1;
                self.send_outside(OutputPort::BaseStation, packet);
            }
            Some((packet, Fits::InPieces)) => self.send_fragmented(packet, NextHop::Via(mac)),
            None => {}
        }
    }

    /// [`Self::encapsulate`] for any base station over any next hop.
    #[inline(never)]
    fn encapsulate_slowly(&mut self, work: Work<'_, P>, flow: &FlowState) {
        let Some((address, next_hop)) = self.adjacencies.base_station(flow.base_station, work.hash.get())
        else {
            return self.drop_packet(work.packet, DropReason::UnknownFlow);
        };
        if next_hop == NextHop::NoRoute {
            return self.drop_packet(work.packet, DropReason::NoRoute);
        }
        match self.put_into_tunnel(work, flow, address, next_hop.mac()) {
            Some((packet, Fits::Link)) => {
                self.send_via(OutputPort::BaseStation, packet, next_hop, FrameKind::Packet);
            }
            Some((packet, Fits::InPieces)) => self.send_fragmented(packet, next_hop),
            None => {}
        }
    }

    /// The packet in its flow's tunnel, counted; or it is dropped.
    #[inline(always)]
    fn put_into_tunnel(
        &mut self,
        work: Work<'_, P>,
        flow: &FlowState,
        address: Ipv4Addr,
        mac: MacAddr,
    ) -> Option<(P, Fits)> {
        let Work { mut packet, parsed, hash, .. } = work;
        let user_len = parsed.user_len;
        let overhead = OUTER_V4_IP_LEN + if flow.qfi.is_some() { CONTAINER_LEN } else { 0 };
        if user_len + overhead > usize::from(u16::MAX) {
            self.drop_packet(packet, DropReason::TooLarge);
            return None;
        }
        let mtu = usize::from(self.config.policy.base_station_mtu);
        let fits = if user_len + overhead > mtu { Fits::InPieces } else { Fits::Link };
        if fits == Fits::InPieces {
            let mtu = (mtu - overhead) as u16; // below the link's, which has 16 bits
            if let DoesNotFit::Refuse { mtu } = self.does_not_fit(&packet, parsed, mtu) {
                self.refuse_too_big(packet, parsed, mtu);
                return None;
            }
        }
        if let Err(reason) = cut_out(&mut packet, parsed, ethernet::HEADER_LEN + overhead) {
            self.drop_packet(packet, reason);
            return None;
        }
        let outer = OuterV4Fields {
            dst_mac: mac,
            dst: address,
            // DSCP copied. ECN not: RFC 6040 §4.1 has it cleared unless the far end is known to combine it.
            dscp_ecn: parsed.traffic_class & 0xfc,
            // RFC 6864 §4.1: a whole packet is atomic, and only fragments need a number of their own.
            identification: (fits == Fits::InPieces).then(|| self.config.identifications.next(address)),
            tunnel: Tunnel { teid: flow.teid, qfi: flow.qfi, src_port: entropy_port(hash) },
        };
        if self.outer.write(&outer, packet.data_mut(), user_len).is_err() {
            self.drop_packet(packet, DropReason::NoBuffer);
            return None;
        }
        self.tables.counters.count(flow.index, false, user_len);
        Some((packet, fits))
    }

    /// Upstream: the user's packet leaves its tunnel.
    #[inline(always)]
    fn decapsulate(&mut self, work: Work<'_, P>, flow: &FlowState) {
        let Work { packet, parsed, hash, .. } = work;
        // Judged in its tunnel: whoever captures drops sees the whole frame.
        let start = usize::from(parsed.user_offset);
        let Some(user) = packet.data().get(start..start + parsed.user_len) else {
            return self.drop_packet(packet, DropReason::Truncated);
        };
        let mac = plain::destination(user, self.config.policy.verify_ipv4_checksum)
            .and_then(|dst| self.adjacencies.internet_via(dst));
        let Some(mac) = mac else {
            return self.decapsulate_slowly(packet, parsed, hash, flow);
        };
        if let Some(packet) = self.take_out(packet, parsed, flow, ethernet::ETHERTYPE_IPV4, mac) {
            self.stats.internet_out += 1;
            self.send_outside(OutputPort::Internet, packet);
        }
    }

    /// [`Self::decapsulate`] of any packet to any next hop.
    #[inline(never)]
    fn decapsulate_slowly(&mut self, packet: P, parsed: &Parsed, hash: KeyHash, flow: &FlowState) {
        let start = usize::from(parsed.user_offset);
        let Some(user) = packet.data().get(start..start + parsed.user_len) else {
            return self.drop_packet(packet, DropReason::Truncated);
        };
        let Ok(ip) = parse_ip(user) else {
            return self.drop_packet(packet, DropReason::MalformedInner);
        };
        let is_ipv4 = ip.summary.is_ipv4();
        if self.config.policy.verify_ipv4_checksum && is_ipv4 && !ipv4_header_checksum_ok(user) {
            return self.drop_packet(packet, DropReason::BadIpv4Checksum);
        }
        let is_link_local = is_link_local(ip.summary.src) || is_link_local(ip.summary.dst);
        if is_link_local && self.adjacencies.is_strict() {
            return self.drop_packet(packet, DropReason::LinkLocal);
        }
        let next_hop = self.adjacencies.internet(ip.summary.dst, hash.get());
        if next_hop == NextHop::NoRoute {
            return self.drop_packet(packet, DropReason::NoRoute);
        }
        let ethertype = if is_ipv4 { ethernet::ETHERTYPE_IPV4 } else { ethernet::ETHERTYPE_IPV6 };
        if let Some(packet) = self.take_out(packet, parsed, flow, ethertype, next_hop.mac()) {
            self.send_via(OutputPort::Internet, packet, next_hop, FrameKind::Packet);
        }
    }

    /// The user's packet behind an Ethernet header, counted; or it is dropped.
    #[inline(always)]
    fn take_out(
        &mut self,
        mut packet: P,
        parsed: &Parsed,
        flow: &FlowState,
        ethertype: u16,
        mac: MacAddr,
    ) -> Option<P> {
        if let Err(reason) = cut_out(&mut packet, parsed, ethernet::HEADER_LEN) {
            self.drop_packet(packet, reason);
            return None;
        }
        let header = ethernet::header(mac, self.config.macs.internet, ethertype);
        packet.data_mut()[..ethernet::HEADER_LEN].copy_from_slice(&header);
        self.tables.counters.count(flow.index, true, parsed.user_len);
        Some(packet)
    }
}

/// Asks for the line in front of a packet where its tunnel's headers will be written, if it gets one.
#[inline(always)]
pub(crate) fn prefetch_tunnel<P: PacketBuf>(packet: &P, parsed: &Parsed) {
    if parsed.output == OutputPort::BaseStation {
        prefetch_in_front(packet.data(), OUTER_V4_IP_LEN);
    }
}

/// Whether an encapsulated packet fits the base-station link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fits {
    Link,
    InPieces,
}

/// Time to live of the outer packet, as hosts send today (RFC 1700).
pub(crate) const OUTER_TTL: u8 = 64;

/// Cuts a packet down to the user's IP packet in it, with room for so many octets in front.
#[inline(always)]
fn cut_out<P: PacketBuf>(packet: &mut P, parsed: &Parsed, front: usize) -> Result<(), DropReason> {
    let (start, len) = (usize::from(parsed.user_offset), parsed.user_len);
    packet.reframe(start, len, front).map_err(|_| {
        // The packet is as it was.
        let is_there = start + len <= packet.data().len();
        if is_there { DropReason::NoBuffer } else { DropReason::Truncated }
    })
}

/// The outer UDP source port: 14 bits of the flow's hash in the dynamic range (RFC 6335 §6), so that links and
/// receive queues behind the gateway spread flows, never packets of one flow (TS 29.281 §4.4.2.0).
const fn entropy_port(hash: KeyHash) -> u16 {
    0xc000 | (hash.get() as u16 & 0x3fff)
}
