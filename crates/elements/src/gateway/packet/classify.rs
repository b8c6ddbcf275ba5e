//! From a frame's bytes to its flow key, or to the reason why it has none.
//!
//! The ingress node checks everything about the packet; the handling node parses the same bytes again for the key only.
//! The two agree because one function does both.

use crate::gateway::config::NodeConfig;
use crate::gateway::fabric::mac::{FabricMac, OutputPort, Phase};
use crate::gateway::outside::adjacency::Adjacencies;
use crate::gateway::outside::local_addrs::LocalAddresses;
use crate::gateway::packet::fragment_cache::{DatagramId, FragmentCache};
use crate::gateway::packet::plain::{self, Plain};
use crate::gateway::packet::policy::Policy;
use crate::gateway::reason::DropReason;
use crate::gateway::role::PortRole;
use scalebricks_tables::hashing::BatchHasher;
use scalebricks_types::{FiveTuple, FlowKey, HashSeed, KeyHash, KeyHasher, KeyProfile, PortBlocks};
use scalebricks_wire::ethernet;
use scalebricks_wire::gtpu::{self, Gtpu, MessageType, extension};
use scalebricks_wire::scope::is_link_local;
use scalebricks_wire::transport::{UDP_HEADER_LEN, Udp};
use scalebricks_wire::{
    IpPacket, IpSummary, ParseError, icmp, ipv4_header_checksum_ok, parse_frame, parse_ip, protocol,
};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// Extension headers that the gateway understands, of those that a receiver must comprehend (TS 29.281 §5.2.1).
pub(crate) const KNOWN_EXTENSIONS: [u8; 1] = [extension::kind::PDU_SESSION_CONTAINER];

/// What later stages need from a parsed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// Where the packet will leave; this determines its direction.
    pub(crate) output: OutputPort,
    /// Start of the user's IP packet: after Ethernet downstream, after GTP-U upstream.
    pub(crate) user_offset: u16,
    /// Its length, without Ethernet padding.
    pub(crate) user_len: usize,
    /// DSCP and ECN octet of the user's packet downstream; 0 upstream.
    pub(crate) traffic_class: u8,
    /// A hash of the fragmented datagram that this packet is part of.
    pub(crate) datagram: Option<u64>,
    /// It was already forwarded once more.
    pub(crate) again: bool,
}

impl Parsed {
    /// Placeholder where there is no packet.
    pub(crate) const NOTHING: Self = Self {
        output: OutputPort::Internet,
        user_offset: 0,
        user_len: 0,
        traffic_class: 0,
        datagram: None,
        again: false,
    };
}

/// Parses frames to flow keys. Each node has one, as it holds the fragment cache.
#[derive(Debug)]
pub(crate) struct Classifier {
    hasher: BatchHasher,
    profile: KeyProfile,
    verify_checksum: bool,
    gateway: std::net::Ipv4Addr,
    own: LocalAddresses,
    /// Whether packets from link-local addresses are refused too, not only packets to them.
    is_strict: bool,
    fragments: FragmentCache,
    datagram_hash: RandomState,
}

type Classified = Result<(Parsed, FlowKey), DropReason>;

impl Classifier {
    /// For `is_strict` see [`Adjacencies::is_strict`](crate::gateway::Adjacencies::is_strict).
    pub(crate) fn new(policy: &Policy, seed: HashSeed, own: LocalAddresses, is_strict: bool) -> Self {
        Self {
            hasher: BatchHasher::new(KeyHasher::new(seed)),
            profile: policy.key_profile,
            verify_checksum: policy.verify_ipv4_checksum,
            gateway: policy.gateway_address,
            own,
            is_strict,
            fragments: FragmentCache::default(),
            datagram_hash: RandomState::new(),
        }
    }

    /// Creates the classifier of a node.
    pub(crate) fn of(config: &NodeConfig) -> Self {
        Self::new(&config.policy, config.seed, config.own(), config.adjacencies.is_strict())
    }

    /// Takes the local addresses that belong to new next hops.
    pub(crate) fn set_adjacencies(&mut self, adjacencies: &Adjacencies) {
        if let Some(own) = adjacencies.own() {
            self.own.clone_from(own);
        }
        self.is_strict = adjacencies.is_strict();
    }

    /// Finds the key of any frame from the fabric that an ingress node has checked. Its fabric address tells the
    /// direction.
    pub(crate) fn any_after_fabric(&mut self, frame: &[u8], now: Duration) -> Classified {
        let mac = ethernet::destination(frame).and_then(FabricMac::decode).ok_or(DropReason::BadFabricMac)?;
        let (parsed, key) = match self.plain_after_fabric(frame, mac.port) {
            Some(plain) => plain,
            None => self.after_fabric(frame, mac.port, now)?,
        };
        Ok((Parsed { again: mac.again, ..parsed }, key))
    }

    /// Computes the one hash of each key.
    #[inline]
    pub(crate) const fn hasher(&self) -> &BatchHasher {
        &self.hasher
    }

    /// Checks a plain frame from outside and finds its key. Other frames go to [`Self::ingress`].
    #[inline(always)]
    pub(crate) fn plain_ingress(&self, frame: &[u8], output: OutputPort) -> Option<(Parsed, FlowKey)> {
        self.plain(frame, output, self.verify_checksum)
    }

    /// Checks a frame from outside and finds its key.
    pub(crate) fn ingress(&mut self, frame: &[u8], output: OutputPort, now: Duration) -> Classified {
        self.parse(frame, output, self.verify_checksum, now)
    }

    /// Finds the key of a plain frame that an ingress node has checked. Other frames go to [`Self::after_fabric`].
    #[inline(always)]
    pub(crate) fn plain_after_fabric(&self, frame: &[u8], output: OutputPort) -> Option<(Parsed, FlowKey)> {
        self.plain(frame, output, false)
    }

    /// Finds the key of a frame that an ingress node has checked.
    pub(crate) fn after_fabric(&mut self, frame: &[u8], output: OutputPort, now: Duration) -> Classified {
        self.parse(frame, output, false, now)
    }

    /// A call of its own, not the first step of the others: its results then go from registers to their destination.
    #[inline(always)]
    fn plain(&self, frame: &[u8], output: OutputPort, verify_checksum: bool) -> Option<(Parsed, FlowKey)> {
        let Plain { key, user_offset, user_len, traffic_class } =
            plain::of(frame, output, self.profile, self.gateway, &self.own, verify_checksum)?;
        Some((Parsed { output, user_offset, user_len, traffic_class, datagram: None, again: false }, key))
    }

    /// Any frame.
    #[inline(never)]
    pub(crate) fn parse(
        &mut self,
        bytes: &[u8],
        output: OutputPort,
        verify_checksum: bool,
        now: Duration,
    ) -> Classified {
        let frame = parse_frame(bytes).map_err(frame_error)?;
        if !frame.is_ip() {
            return Err(DropReason::NonIp);
        }
        if frame.dst.is_multicast() {
            return Err(DropReason::Multicast);
        }
        let l3_offset = frame.l3_offset;
        let ip_bytes = bytes.get(l3_offset..).ok_or(DropReason::Truncated)?;
        let packet = parse_ip(ip_bytes).map_err(ip_error)?;
        let ip = &packet.summary;
        if is_multicast(ip.dst) {
            return Err(DropReason::Multicast);
        }
        if verify_checksum && ip.is_ipv4() && !ipv4_header_checksum_ok(packet.bytes()) {
            return Err(DropReason::BadIpv4Checksum);
        }
        match output {
            OutputPort::BaseStation => self.downstream(&packet, l3_offset, now),
            OutputPort::Internet if self.profile.is_of_appliance() => self.inside(&packet, l3_offset),
            OutputPort::Internet => self.upstream(&packet, l3_offset),
        }
    }

    fn downstream(&mut self, packet: &IpPacket<'_>, l3_offset: usize, now: Duration) -> Classified {
        let ip = &packet.summary;
        if self.own.contains(&ip.dst) {
            return Err(DropReason::ForThisNode);
        }
        // A link-local destination names no UE behind another link, so it is refused even if the node is not strict.
        if is_link_local(ip.dst) || self.is_strict && is_link_local(ip.src) {
            return Err(DropReason::LinkLocal);
        }
        let datagram = DatagramId::of(ip);
        let key = match (self.profile, datagram) {
            (KeyProfile::Ue, _) => FlowKey::ue(ip.dst),
            (KeyProfile::Inside, _) if ip.is_ipv4() => FlowKey::ue(ip.dst),
            (KeyProfile::Inside, _) => return Err(DropReason::NoPin),
            (KeyProfile::Nat44(blocks), Some(datagram))
                if ip.is_later_fragment() && is_public(&blocks, ip.dst) =>
            {
                self.fragments.flow(&datagram, now).ok_or(DropReason::FragmentWithoutFirst)?
            }
            (KeyProfile::Nat44(blocks), datagram) => {
                let key = port_block(packet, &blocks)?;
                if let Some(datagram) = datagram {
                    self.fragments.learn(datagram, key, now);
                }
                key
            }
            (KeyProfile::Flow5, Some(datagram)) if ip.is_later_fragment() => {
                self.fragments.flow(&datagram, now).ok_or(DropReason::FragmentWithoutFirst)?
            }
            (KeyProfile::Flow5, datagram) => {
                let key = FlowKey::five_tuple(&downstream_tuple(packet)).ok_or(DropReason::MalformedIp)?;
                if let Some(datagram) = datagram {
                    self.fragments.learn(datagram, key, now);
                }
                key
            }
        };
        let parsed = Parsed {
            output: OutputPort::BaseStation,
            user_offset: l3_offset as u16, // at most 22: Ethernet and two tags
            user_len: ip.total_len as usize,
            traffic_class: ip.dscp_ecn,
            datagram: datagram.map(|d| self.datagram_hash.hash_one(d)),
            again: false,
        };
        Ok((parsed, key))
    }

    /// A packet from an inside host, whole or a fragment.
    fn inside(&self, packet: &IpPacket<'_>, l3_offset: usize) -> Classified {
        let ip = &packet.summary;
        if self.own.contains(&ip.dst) {
            return Err(DropReason::ForThisNode);
        }
        if is_link_local(ip.dst) || self.is_strict && is_link_local(ip.src) {
            return Err(DropReason::LinkLocal);
        }
        let IpAddr::V4(inside) = ip.src else { return Err(DropReason::NoPin) };
        let parsed = Parsed {
            output: OutputPort::Internet,
            user_offset: l3_offset as u16, // at most 22: Ethernet and two tags
            user_len: ip.total_len as usize,
            traffic_class: ip.dscp_ecn,
            datagram: DatagramId::of(ip).map(|d| self.datagram_hash.hash_one(d)),
            again: false,
        };
        Ok((parsed, FlowKey::inside(inside)))
    }

    fn upstream(&self, packet: &IpPacket<'_>, l3_offset: usize) -> Classified {
        let ip = &packet.summary;
        if ip.dst != IpAddr::V4(self.gateway) {
            return Err(DropReason::NotForGateway);
        }
        if ip.protocol != protocol::UDP {
            return Err(DropReason::NotGtpu);
        }
        if ip.fragment.is_some() {
            return Err(DropReason::GtpuFragment);
        }
        let udp = Udp::parse(packet.l4()).map_err(|_| DropReason::MalformedGtpu)?;
        if udp.dst_port() != gtpu::PORT {
            return Err(DropReason::NotGtpu);
        }
        let message = Gtpu::parse(udp.payload()).map_err(|_| DropReason::MalformedGtpu)?;
        if message.message_type() != MessageType::GPdu {
            return Err(DropReason::GtpuSignalling);
        }
        if message.extensions().first_unsupported(&KNOWN_EXTENSIONS).is_some() {
            return Err(DropReason::UnsupportedExtension);
        }
        let headers = usize::from(ip.l4_offset) + UDP_HEADER_LEN + message.header_len();
        let parsed = Parsed {
            output: OutputPort::Internet,
            user_offset: (l3_offset + headers) as u16, // within one IPv4 packet
            user_len: message.payload().len(),
            traffic_class: 0,
            datagram: None,
            again: false,
        };
        Ok((parsed, FlowKey::teid(message.teid())))
    }
}

/// The tuple that steers a downstream packet: its own, or, for an ICMP error, the reversed tuple of the quoted
/// (upstream) packet.
fn downstream_tuple(packet: &IpPacket<'_>) -> FiveTuple {
    match packet.quoted() {
        Some(Ok(quoted)) => quoted.five_tuple().reversed(),
        _ => packet.summary.five_tuple(),
    }
}

fn is_public(blocks: &PortBlocks, address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if blocks.is_public(address))
}

/// The port block that a packet from outside belongs to: by its destination port; for an ICMP query or reply by its
/// identifier (RFC 5508 §3.1); for an ICMP error by the source port or identifier of the packet that it quotes (§4.2).
fn port_block(packet: &IpPacket<'_>, blocks: &PortBlocks) -> Result<FlowKey, DropReason> {
    let ip = &packet.summary;
    let IpAddr::V4(public) = ip.dst else { return Err(DropReason::NoPin) };
    if !blocks.is_public(public) {
        return Err(DropReason::NotForGateway);
    }
    let port = match packet.quoted() {
        Some(Ok(quoted)) => match quoted.ports {
            Some((own, _)) => Some(own),
            None => quoted_identifier(packet.l4(), &quoted),
        },
        Some(Err(_)) => None,
        None => ip.ports.map(|(_, own)| own).or_else(|| identifier(ip.protocol, packet.l4())),
    };
    let block = port.and_then(|port| blocks.of_public(public, port)).ok_or(DropReason::NoPin)?;
    Ok(FlowKey::port_block(public, block))
}

/// The identifier of an ICMP message that has one: echo, timestamp, information, address mask (RFC 792, RFC 950).
fn identifier(protocol: u8, l4: &[u8]) -> Option<u16> {
    const WITH_IDENTIFIER: [u8; 8] = [0, 8, 13, 14, 15, 16, 17, 18];
    match l4 {
        &[kind, _, _, _, high, low, ..]
            if protocol == protocol::ICMPV4 && WITH_IDENTIFIER.contains(&kind) =>
        {
            Some(u16::from_be_bytes([high, low]))
        }
        _ => None,
    }
}

/// The identifier of an ICMP message that an ICMP error quotes.
fn quoted_identifier(error: &[u8], quoted: &IpSummary) -> Option<u16> {
    if quoted.is_later_fragment() {
        return None;
    }
    identifier(quoted.protocol, error.get(icmp::HEADER_LEN..)?.get(usize::from(quoted.l4_offset)..)?)
}

fn frame_error(error: ParseError) -> DropReason {
    match error {
        ParseError::Truncated => DropReason::Truncated,
        _ => DropReason::NonIp, // more tags than a gateway parses
    }
}

fn ip_error(error: ParseError) -> DropReason {
    match error {
        ParseError::Truncated => DropReason::Truncated,
        _ => DropReason::MalformedIp,
    }
}

/// Multicast, and the limited broadcast address.
fn is_multicast(address: IpAddr) -> bool {
    address.is_multicast() || address == IpAddr::V4(std::net::Ipv4Addr::BROADCAST)
}

/// The key by which a node that accepts this frame steers it, whatever its MAC address.
pub fn key_of(config: &NodeConfig, port: PortRole, frame: &[u8]) -> Option<(FlowKey, KeyHash)> {
    let mut classifier =
        Classifier::new(&config.policy, config.seed, config.own(), config.adjacencies.is_strict());
    let now = Duration::ZERO;
    let classified = match port {
        PortRole::Internet => classifier.ingress(frame, OutputPort::BaseStation, now),
        PortRole::BaseStation => classifier.ingress(frame, OutputPort::Internet, now),
        PortRole::Fabric => {
            let mac = ethernet::destination(frame).and_then(FabricMac::decode)?;
            let passes_on = mac.phase.is_indirect() && mac.output_node != config.id;
            let needs_none = passes_on || mac.phase == Phase::Probe;
            if needs_none {
                return None;
            }
            classifier.after_fabric(frame, mac.port, now)
        }
    };
    let (_, key) = classified.ok()?;
    Some((key, KeyHasher::new(config.seed).hash(&key)))
}
