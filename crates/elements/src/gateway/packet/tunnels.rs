//! Encapsulates users' packets downstream and decapsulates them upstream, in place.
//!
//! Reads the base stations and next hops; writes the packet's headers and the flow's counters.

use crate::gateway::config::NodeConfig;
use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::flow::{FlowCounters, FlowState};
use crate::gateway::outside::adjacency::{Adjacencies, NextHop};
use crate::gateway::packet::classify::Parsed;
use crate::gateway::packet::identification::Identifications;
use crate::gateway::packet::plain;
use crate::gateway::packet::policy::{DoesNotFit, Policy};
use crate::gateway::reason::DropReason;
use scalebricks_io::PacketBuf;
use scalebricks_tables::prefetch_in_front;
use scalebricks_types::KeyHash;
use scalebricks_wire::encap::{CONTAINER_LEN, OUTER_V4_IP_LEN, OuterV4Fields, OuterV4Template, Tunnel};
use scalebricks_wire::scope::is_link_local;
use scalebricks_wire::{MacAddr, ethernet, ipv4_header_checksum_ok, parse_ip};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Time to live of the outer packet, as hosts send today (RFC 1700).
const OUTER_TTL: u8 = 64;

/// The result of processing a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TunnelOutcome {
    /// It is complete and fits its link.
    Leaves,
    /// It is complete, and its outer packet must be fragmented.
    InPieces(NextHop),
    /// It is complete except for the MAC address of this next hop.
    Unresolved(IpAddr),
    /// It is too large; report this MTU to its sender.
    TooBig(u16),
    /// It must be dropped.
    Dropped(DropReason),
}

impl TunnelOutcome {
    /// A complete packet that fits its link.
    const fn over(next_hop: NextHop) -> Self {
        match next_hop {
            NextHop::Via(_) => Self::Leaves,
            NextHop::Ask(next_hop) => Self::Unresolved(next_hop),
            NextHop::NoRoute => Self::Dropped(DropReason::NoRoute),
        }
    }
}

/// Whether an encapsulated packet fits the base-station link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkFit {
    Link,
    InPieces,
}

/// Everything that encapsulation and decapsulation need.
#[derive(Debug)]
pub(crate) struct Tunnels {
    pub(crate) policy: Policy,
    pub(crate) adjacencies: Arc<Adjacencies>,
    /// The node's own MAC address on the Internet link.
    pub(crate) internet: MacAddr,
    /// The fields that all outer headers share.
    outer: OuterV4Template,
    identifications: Arc<Identifications>,
    counters: Arc<FlowCounters>,
}

impl Tunnels {
    /// Creates it for a node.
    pub(crate) fn new(config: &NodeConfig, counters: Arc<FlowCounters>) -> Self {
        Self {
            policy: config.policy,
            adjacencies: Arc::clone(&config.adjacencies),
            internet: config.macs.internet,
            outer: OuterV4Template::new(config.macs.base_station, config.policy.gateway_address, OUTER_TTL),
            identifications: Arc::clone(&config.identifications),
            counters,
        }
    }

    /// Prefetches the cache line of a flow's counters.
    #[inline(always)]
    pub(crate) fn prefetch_counters(&self, flow: &FlowState) {
        self.counters.prefetch(flow.index);
    }

    /// Downstream: puts the user's packet into the flow's tunnel.
    #[inline(always)]
    pub(crate) fn encapsulate<P: PacketBuf>(
        &self,
        packet: &mut P,
        parsed: &Parsed,
        hash: KeyHash,
        flow: &FlowState,
    ) -> TunnelOutcome {
        // The common case is separate: a general next hop would be returned through memory, which costs time.
        let Some((address, mac)) = self.adjacencies.base_station_via(flow.base_station) else {
            return self.encapsulate_slowly(packet, parsed, hash, flow);
        };
        match self.write_tunnel_headers(packet, parsed, hash, flow, address, mac) {
            Ok(LinkFit::Link) => TunnelOutcome::Leaves,
            Ok(LinkFit::InPieces) => TunnelOutcome::InPieces(NextHop::Via(mac)),
            Err(fate) => fate,
        }
    }

    /// [`Self::encapsulate`] for any base station and next hop.
    #[inline(never)]
    fn encapsulate_slowly<P: PacketBuf>(
        &self,
        packet: &mut P,
        parsed: &Parsed,
        hash: KeyHash,
        flow: &FlowState,
    ) -> TunnelOutcome {
        let Some((address, next_hop)) = self.adjacencies.base_station(flow.base_station, hash.get()) else {
            return TunnelOutcome::Dropped(DropReason::UnknownFlow);
        };
        if next_hop == NextHop::NoRoute {
            return TunnelOutcome::Dropped(DropReason::NoRoute);
        }
        match self.write_tunnel_headers(packet, parsed, hash, flow, address, next_hop.mac()) {
            Ok(LinkFit::Link) => TunnelOutcome::over(next_hop),
            Ok(LinkFit::InPieces) => TunnelOutcome::InPieces(next_hop),
            Err(fate) => fate,
        }
    }

    /// Writes the tunnel's headers before the user's packet, and counts it.
    #[inline(always)]
    fn write_tunnel_headers<P: PacketBuf>(
        &self,
        packet: &mut P,
        parsed: &Parsed,
        hash: KeyHash,
        flow: &FlowState,
        address: Ipv4Addr,
        mac: MacAddr,
    ) -> Result<LinkFit, TunnelOutcome> {
        let user_len = parsed.user_len;
        let overhead = OUTER_V4_IP_LEN + if flow.qfi.is_some() { CONTAINER_LEN } else { 0 };
        if user_len + overhead > usize::from(u16::MAX) {
            return Err(TunnelOutcome::Dropped(DropReason::TooLarge));
        }
        let mtu = usize::from(self.policy.base_station_mtu);
        let fits = if user_len + overhead > mtu { LinkFit::InPieces } else { LinkFit::Link };
        if fits == LinkFit::InPieces {
            let mtu = (mtu - overhead) as u16; // below the link's, which has 16 bits
            if let DoesNotFit::Refuse { mtu } = self.does_not_fit(packet, parsed, mtu) {
                return Err(TunnelOutcome::TooBig(mtu));
            }
        }
        cut_out(packet, parsed, ethernet::HEADER_LEN + overhead)?;
        let outer = OuterV4Fields {
            dst_mac: mac,
            dst: address,
            // Copies DSCP but not ECN: RFC 6040 §4.1 requires it to be cleared unless the far end is known to combine
            // it.
            dscp_ecn: parsed.traffic_class & 0xfc,
            // RFC 6864 §4.1: an unfragmented packet is atomic; only fragments need a unique number.
            identification: (fits == LinkFit::InPieces).then(|| self.identifications.next(address)),
            tunnel: Tunnel { teid: flow.teid, qfi: flow.qfi, src_port: entropy_port(hash) },
        };
        if self.outer.write(&outer, packet.data_mut(), user_len).is_err() {
            return Err(TunnelOutcome::Dropped(DropReason::NoBuffer));
        }
        self.counters.count(flow.index, false, user_len);
        Ok(fits)
    }

    /// What happens to a user's packet for which its tunnel has room for only `mtu` octets. Kept out of the common
    /// path.
    #[cold]
    fn does_not_fit<P: PacketBuf>(&self, packet: &P, parsed: &Parsed, mtu: u16) -> DoesNotFit {
        let user = packet.data().get(usize::from(parsed.user_offset)..).unwrap_or_default();
        self.policy.does_not_fit(user, mtu)
    }

    /// Upstream: takes the user's packet out of its tunnel.
    #[inline(always)]
    pub(crate) fn decapsulate<P: PacketBuf>(
        &self,
        packet: &mut P,
        parsed: &Parsed,
        hash: KeyHash,
        flow: &FlowState,
    ) -> TunnelOutcome {
        // Checked before decapsulation, so that captures of drops contain the whole frame.
        let start = usize::from(parsed.user_offset);
        let Some(user) = packet.data().get(start..start + parsed.user_len) else {
            return TunnelOutcome::Dropped(DropReason::Truncated);
        };
        let mac = plain::destination(user, self.policy.verify_ipv4_checksum)
            .and_then(|dst| self.adjacencies.internet_via(dst));
        let Some(mac) = mac else {
            return self.decapsulate_slowly(packet, parsed, hash, flow);
        };
        match self.write_ethernet_header(packet, parsed, flow, ethernet::ETHERTYPE_IPV4, mac) {
            Ok(()) => TunnelOutcome::Leaves,
            Err(fate) => fate,
        }
    }

    /// [`Self::decapsulate`] for any packet and next hop.
    #[inline(never)]
    fn decapsulate_slowly<P: PacketBuf>(
        &self,
        packet: &mut P,
        parsed: &Parsed,
        hash: KeyHash,
        flow: &FlowState,
    ) -> TunnelOutcome {
        let start = usize::from(parsed.user_offset);
        let Some(user) = packet.data().get(start..start + parsed.user_len) else {
            return TunnelOutcome::Dropped(DropReason::Truncated);
        };
        let Ok(ip) = parse_ip(user) else {
            return TunnelOutcome::Dropped(DropReason::MalformedInner);
        };
        let is_ipv4 = ip.summary.is_ipv4();
        if self.policy.verify_ipv4_checksum && is_ipv4 && !ipv4_header_checksum_ok(user) {
            return TunnelOutcome::Dropped(DropReason::BadIpv4Checksum);
        }
        let is_link_local = is_link_local(ip.summary.src) || is_link_local(ip.summary.dst);
        if is_link_local && self.adjacencies.is_strict() {
            return TunnelOutcome::Dropped(DropReason::LinkLocal);
        }
        let next_hop = self.adjacencies.internet(ip.summary.dst, hash.get());
        if next_hop == NextHop::NoRoute {
            return TunnelOutcome::Dropped(DropReason::NoRoute);
        }
        let ethertype = if is_ipv4 { ethernet::ETHERTYPE_IPV4 } else { ethernet::ETHERTYPE_IPV6 };
        match self.write_ethernet_header(packet, parsed, flow, ethertype, next_hop.mac()) {
            Ok(()) => TunnelOutcome::over(next_hop),
            Err(fate) => fate,
        }
    }

    /// Replaces the tunnel's headers by an Ethernet header, and counts the packet.
    #[inline(always)]
    fn write_ethernet_header<P: PacketBuf>(
        &self,
        packet: &mut P,
        parsed: &Parsed,
        flow: &FlowState,
        ethertype: u16,
        mac: MacAddr,
    ) -> Result<(), TunnelOutcome> {
        cut_out(packet, parsed, ethernet::HEADER_LEN)?;
        let header = ethernet::header(mac, self.internet, ethertype);
        packet.data_mut()[..ethernet::HEADER_LEN].copy_from_slice(&header);
        self.counters.count(flow.index, true, parsed.user_len);
        Ok(())
    }
}

impl Tunnels {
    /// For an appliance: trims a packet to the user's IP packet behind room for an Ethernet header, and counts it.
    pub(crate) fn cut_to_user<P: PacketBuf>(
        &self,
        packet: &mut P,
        parsed: &Parsed,
        flow: &FlowState,
    ) -> Result<(), DropReason> {
        match cut_out(packet, parsed, ethernet::HEADER_LEN) {
            Ok(()) => {}
            Err(TunnelOutcome::Dropped(reason)) => return Err(reason),
            Err(_) => return Err(DropReason::NoBuffer),
        }
        let is_upstream = parsed.output == OutputPort::Internet;
        self.counters.count(flow.index, is_upstream, parsed.user_len);
        Ok(())
    }
}

/// Prefetches the cache line before the packet where its tunnel headers will be written, if any.
#[inline(always)]
pub(crate) fn prefetch_tunnel<P: PacketBuf>(packet: &P, parsed: &Parsed) {
    if parsed.output == OutputPort::BaseStation {
        prefetch_headers(packet.data());
    }
}

/// The same for a frame that will be encapsulated.
#[inline(always)]
pub(crate) fn prefetch_headers(bytes: &[u8]) {
    prefetch_in_front(bytes, OUTER_V4_IP_LEN);
}

/// Trims a packet to the user's IP packet, with `front` octets of room before it.
#[inline(always)]
fn cut_out<P: PacketBuf>(packet: &mut P, parsed: &Parsed, front: usize) -> Result<(), TunnelOutcome> {
    let (start, len) = (usize::from(parsed.user_offset), parsed.user_len);
    packet.reframe(start, len, front).map_err(|_| {
        // On failure the packet is unchanged.
        let is_there = start + len <= packet.data().len();
        TunnelOutcome::Dropped(if is_there { DropReason::NoBuffer } else { DropReason::Truncated })
    })
}

/// The outer UDP source port: 14 bits of the flow's hash in the dynamic range (RFC 6335 §6), so that links and receive
/// queues behind the gateway spread flows but keep each flow together (TS 29.281 §4.4.2.0).
const fn entropy_port(hash: KeyHash) -> u16 {
    0xc000 | (hash.get() as u16 & 0x3fff)
}
