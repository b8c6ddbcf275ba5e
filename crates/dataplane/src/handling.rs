//! The handling side of a node: from the flow's key to its state, and out.
//!
//! Reads: the FIB, the base stations. Writes: per-flow counters, the tunnel headers.
//! Next: the base-station port (downstream, encapsulated) or the Internet port (upstream, decapsulated). A flow that
//! is not here goes once more to where the GPT has it, else it is dropped.

use crate::adjacency::NextHop;
use crate::batch::Work;
use crate::fabric_mac::{FabricMac, OutputPort};
use crate::flow::FlowState;
use crate::node::Node;
use crate::policy::Oversize;
use crate::punt::Why;
use crate::reason::DropReason;
use scalebricks_io::{BURST, PacketBuf};
use scalebricks_tables::KeyBatch;
use scalebricks_types::{KeyHash, NodeHint};
use scalebricks_wire::encap::{CONTAINER_LEN, OUTER_V4_IP_LEN, OuterV4, Tunnel};
use scalebricks_wire::{ethernet, ipv4_header_checksum_ok, parse_ip};

impl<P: PacketBuf> Node<P> {
    /// Looks the waiting packets up in the FIB and acts on each.
    pub(crate) fn handle(&mut self) {
        if self.handling.is_empty() {
            return;
        }
        self.handling.hash(self.classifier.hasher());
        let mut values = [None; BURST];
        self.tables.fib.lookup_batch(self.handling.keys(), &mut values);
        for value in values.iter().flatten() {
            self.tables.counters.prefetch(FlowState::decode(*value).index);
        }
        let mut batch = self.handling.take();
        batch.drain_with(&values, |work, value| match (value, work.parsed.output) {
            (Some(value), OutputPort::BaseStation) => self.encapsulate(work, &FlowState::decode(value)),
            (Some(value), OutputPort::Internet) => self.decapsulate(work, &FlowState::decode(value)),
            (None, _) => self.forward_again(work),
        });
        self.handling.give_back(batch);
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
            _ => self.punt(work.packet, work.parsed.output.opposite(), Why::UnknownFlow),
        }
    }

    /// Downstream: the user's packet leaves in the flow's tunnel.
    fn encapsulate(&mut self, work: Work<'_, P>, flow: &FlowState) {
        let Work { mut packet, parsed, hash, .. } = work;
        let user_len = parsed.user_len;
        let station = self.adjacencies.base_station(flow.base_station, hash.get());
        let Some((address, next_hop)) = station else {
            return self.drop_packet(packet, DropReason::UnknownFlow);
        };
        if next_hop == NextHop::NoRoute {
            return self.drop_packet(packet, DropReason::NoRoute);
        }
        let overhead = OUTER_V4_IP_LEN + if flow.qfi.is_some() { CONTAINER_LEN } else { 0 };
        if user_len + overhead > usize::from(u16::MAX) {
            return self.drop_packet(packet, DropReason::TooLarge);
        }
        let mtu = usize::from(self.config.policy.base_station_mtu);
        let too_big = user_len + overhead > mtu;
        if too_big && self.config.policy.oversize == Oversize::Icmp {
            return self.refuse_too_big(packet, parsed, mtu - overhead);
        }
        if !strip_to_user(&mut packet, parsed.user_offset, parsed.user_len) {
            return self.drop_packet(packet, DropReason::Truncated);
        }
        if packet.prepend(ethernet::HEADER_LEN + overhead).is_err() {
            return self.drop_packet(packet, DropReason::NoBuffer);
        }
        self.outer_id = self.outer_id.wrapping_add(1);
        let outer = OuterV4 {
            dst_mac: next_hop.mac(),
            src_mac: self.config.macs.base_station,
            src: self.config.policy.gateway_address,
            dst: address,
            // DSCP copied. ECN not: RFC 6040 §4.1 has it cleared unless the far end is known to combine it.
            dscp_ecn: parsed.traffic_class & 0xfc,
            identification: self.outer_id,
            dont_fragment: false,
            ttl: OUTER_TTL,
            tunnel: Tunnel { teid: flow.teid, qfi: flow.qfi, src_port: entropy_port(hash) },
        };
        if outer.write(packet.data_mut(), user_len).is_err() {
            return self.drop_packet(packet, DropReason::NoBuffer);
        }
        self.tables.counters.count(flow.index, false, user_len);
        if too_big {
            return self.send_fragmented(packet, mtu, next_hop);
        }
        self.stats.base_station_out += 1;
        self.send_via(OutputPort::BaseStation, packet, next_hop);
    }

    /// Upstream: the user's packet leaves its tunnel.
    fn decapsulate(&mut self, work: Work<'_, P>, flow: &FlowState) {
        let Work { mut packet, parsed, hash, .. } = work;
        // Judged in its tunnel: whoever captures drops sees the whole frame.
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
        let next_hop = self.adjacencies.internet(ip.summary.dst, hash.get());
        if next_hop == NextHop::NoRoute {
            return self.drop_packet(packet, DropReason::NoRoute);
        }
        if !strip_to_user(&mut packet, parsed.user_offset, parsed.user_len) {
            return self.drop_packet(packet, DropReason::Truncated);
        }
        let ethertype = if is_ipv4 { ethernet::ETHERTYPE_IPV4 } else { ethernet::ETHERTYPE_IPV6 };
        if packet.prepend(ethernet::HEADER_LEN).is_err() {
            return self.drop_packet(packet, DropReason::NoBuffer);
        }
        packet.data_mut()[..ethernet::HEADER_LEN].copy_from_slice(&ethernet::header(
            next_hop.mac(),
            self.config.macs.internet,
            ethertype,
        ));
        self.tables.counters.count(flow.index, true, parsed.user_len);
        self.stats.internet_out += 1;
        self.send_via(OutputPort::Internet, packet, next_hop);
    }
}

/// Time to live of the outer packet, as hosts send today (RFC 1700).
const OUTER_TTL: u8 = 64;

/// Cuts a packet down to the user's IP packet in it.
fn strip_to_user<P: PacketBuf>(packet: &mut P, offset: u16, len: usize) -> bool {
    let stripped = packet.trim_front(usize::from(offset)).is_ok();
    packet.truncate(len);
    stripped && packet.data().len() == len
}

/// The outer UDP source port: 14 bits of the flow's hash in the dynamic range (RFC 6335 §6), so that links and
/// receive queues behind the gateway spread flows, never packets of one flow (TS 29.281 §4.4.2.0).
const fn entropy_port(hash: KeyHash) -> u16 {
    0xc000 | (hash.get() as u16 & 0x3fff)
}
