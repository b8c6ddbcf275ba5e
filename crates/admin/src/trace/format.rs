//! Formats frames, keys and outcomes as text.

use super::step;
use crate::model::{Dropped, Output, OutputKind, PortRole, Step};
use scalebricks_elements::gateway::{FabricMac, FlowCount, FlowState, OutputPort, Phase};
use scalebricks_types::{KeyProfile, NodeId};
use scalebricks_wire::arp::{Arp, Operation};
use scalebricks_wire::gtpu::{self, Gtpu, MessageType};
use scalebricks_wire::transport::Udp;
use scalebricks_wire::{IpPacket, IpSummary, MacAddr, ethernet, parse_frame, parse_ip, protocol};
use std::net::{IpAddr, Ipv4Addr};

/// Describes the headers of a frame, layer by layer, as far as they can be parsed.
pub(super) fn headers(port: PortRole, frame: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    let link = match parse_frame(frame) {
        Ok(link) => link,
        Err(error) => return vec![step("ethernet", format!("{} bytes: {error}", frame.len()))],
    };
    let mut text = format!("{} to {}, {} bytes", link.src, link.dst, frame.len());
    if let Some(mac) = FabricMac::decode(link.dst).filter(|_| port == PortRole::Fabric) {
        text = format!("{text}: {}", fabric(mac));
    }
    steps.push(step("ethernet", text));
    let Some(payload) = frame.get(link.l3_offset..) else { return steps };
    if link.ethertype == ethernet::ETHERTYPE_ARP {
        steps.push(step("arp", arp(payload)));
        return steps;
    }
    if !link.is_ip() {
        steps.push(step("ethernet", format!("ethertype {:#06x}, not IP", link.ethertype)));
        return steps;
    }
    let packet = match parse_ip(payload) {
        Ok(packet) => packet,
        Err(error) => {
            steps.push(step("ip", error.to_string()));
            return steps;
        }
    };
    steps.push(step("ip", ip(&packet.summary)));
    if let Some(tunnelled) = tunnel(&packet) {
        steps.push(step("gtpu", tunnelled.text()));
        steps.extend(tunnelled.inner.map(|inner| step("inner ip", ip(&inner))));
    }
    steps
}

/// A GTP-U message.
struct Tunnelled {
    kind: MessageType,
    teid: u32,
    qfi: Option<u8>,
    inner: Option<IpSummary>,
}

impl Tunnelled {
    fn text(&self) -> String {
        let qfi = self.qfi.map_or_else(String::new, |qfi| format!(", QFI {qfi}"));
        match self.kind {
            MessageType::GPdu => format!("user data in tunnel {:#x}{qfi}", self.teid),
            kind => format!("message {} for tunnel {:#x}", kind.number(), self.teid),
        }
    }
}

fn tunnel(packet: &IpPacket<'_>) -> Option<Tunnelled> {
    let is_whole_udp = packet.summary.protocol == protocol::UDP && !packet.summary.is_later_fragment();
    let l4 = packet.l4();
    let ports = packet.summary.ports.filter(|ports| is_whole_udp && ports.1 == gtpu::PORT);
    ports?;
    // A first fragment lacks the rest of the datagram, but its start contains the tunnel header.
    let payload = match Udp::parse(l4) {
        Ok(udp) => udp.payload(),
        Err(_) => l4.get(scalebricks_wire::transport::UDP_HEADER_LEN..)?,
    };
    match Gtpu::parse(payload) {
        Ok(message) => Some(Tunnelled {
            kind: message.message_type(),
            teid: message.teid().get(),
            qfi: message.pdu_session_container().and_then(Result::ok).map(|c| c.qfi().get()),
            inner: parse_ip(message.payload()).ok().map(|inner| inner.summary),
        }),
        Err(_) => payload.first_chunk::<8>().map(|&[_, kind, _, _, a, b, c, d]| Tunnelled {
            kind: MessageType::from_u8(kind),
            teid: u32::from_be_bytes([a, b, c, d]),
            qfi: None,
            inner: None,
        }),
    }
}

fn arp(payload: &[u8]) -> String {
    match Arp::parse(payload) {
        Ok(Arp { operation: Operation::Request, sender_ip, target_ip, .. }) => {
            format!("{sender_ip} asks who has {target_ip}")
        }
        Ok(Arp { operation: Operation::Reply, sender_ip, sender_mac, .. }) => {
            format!("{sender_ip} is at {sender_mac}")
        }
        Ok(Arp { operation: Operation::Other(number), .. }) => format!("operation {number}"),
        Err(error) => error.to_string(),
    }
}

/// An IP packet in one line.
fn ip(ip: &IpSummary) -> String {
    let fragment = match ip.fragment {
        None => String::new(),
        Some(fragment) => {
            let more = if fragment.more { ", more follow" } else { ", the last" };
            format!(", fragment {:#x} at {}{more}", fragment.id, fragment.offset)
        }
    };
    format!("{}, TTL {}, {} bytes{fragment}", ends(ip), ip.ttl, ip.total_len)
}

/// Protocol, source and destination.
fn ends(ip: &IpSummary) -> String {
    let name = protocol_name(ip.protocol);
    match (ip.ports, ip.icmp) {
        (Some((src, dst)), _) => format!("{name} {} to {}", socket(ip.src, src), socket(ip.dst, dst)),
        (None, Some((kind, code))) => {
            format!("{name} type {kind} code {code} {} to {}", ip.src, ip.dst)
        }
        (None, None) => format!("{name} {} to {}", ip.src, ip.dst),
    }
}

fn socket(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

fn protocol_name(number: u8) -> String {
    match number {
        protocol::TCP => "TCP".to_owned(),
        protocol::UDP => "UDP".to_owned(),
        protocol::SCTP => "SCTP".to_owned(),
        protocol::ICMPV4 => "ICMP".to_owned(),
        protocol::ICMPV6 => "ICMPv6".to_owned(),
        other => format!("protocol {other}"),
    }
}

/// Describes the key of a frame.
pub(super) fn key(port: PortRole, frame: &[u8], profile: KeyProfile) -> String {
    let Ok(link) = parse_frame(frame) else { return String::new() };
    let Some(Ok(packet)) = frame.get(link.l3_offset..).map(parse_ip) else { return String::new() };
    let is_upstream = match port {
        PortRole::Internet => false,
        PortRole::BaseStation => true,
        PortRole::Fabric => FabricMac::decode(link.dst).is_some_and(|mac| mac.port == OutputPort::Internet),
    };
    if is_upstream && profile.is_of_appliance() {
        return format!("inside host {}", packet.summary.src);
    }
    if is_upstream {
        return tunnel(&packet).map_or_else(String::new, |tunnel| format!("uplink TEID {:#x}", tunnel.teid));
    }
    match profile {
        KeyProfile::Ue => format!("UE {}", packet.summary.dst),
        KeyProfile::Inside => format!("inside host {}", packet.summary.dst),
        KeyProfile::Nat44(_) => format!("port block of {}", ends(&packet.summary)),
        KeyProfile::Flow5 => match packet.quoted() {
            Some(Ok(quoted)) => format!("five-tuple of the quoted packet, reversed: {}", ends(&quoted)),
            _ => format!("five-tuple {}", ends(&packet.summary)),
        },
    }
}

/// A FIB entry.
pub(super) fn flow(flow: &FlowState, count: Option<FlowCount>) -> String {
    let qfi = flow.qfi.map_or_else(String::new, |qfi| format!(", QFI {}", qfi.get()));
    let counts = count.map_or_else(String::new, |count| {
        format!(
            "; {} packets ({} bytes) down, {} ({}) up so far",
            count.downstream_packets, count.downstream_bytes, count.upstream_packets, count.upstream_bytes
        )
    });
    format!(
        "pinned to node {}, downlink TEID {:#x}, base station {} of the configuration{qfi}{counts}",
        flow.node.get(),
        flow.teid.get(),
        flow.base_station.0
    )
}

fn fabric(mac: FabricMac) -> String {
    let task = match mac.phase {
        Phase::Handling => format!("node {} handles it", mac.node.get()),
        Phase::Lookup => format!("node {} looks its handling node up", mac.node.get()),
        Phase::Indirect => format!("node {} sends it on to node {}", mac.node.get(), mac.output_node.get()),
        Phase::IndirectLookup => format!(
            "node {} sends it on to node {}, which looks its handling node up",
            mac.node.get(),
            mac.output_node.get()
        ),
        Phase::Probe => format!("node {} answers it", mac.node.get()),
    };
    let again = if mac.again { ", forwarded once more" } else { "" };
    format!("{task}, it leaves to the {}{again}", port_words(mac.port))
}

const fn port_words(port: OutputPort) -> &'static str {
    match port {
        OutputPort::Internet => "Internet",
        OutputPort::BaseStation => "base station",
    }
}

/// Describes a frame that leaves the node.
pub(super) fn output(port: PortRole, frame: &[u8], gateway: Ipv4Addr) -> Output {
    let link = parse_frame(frame).ok();
    let mac =
        |of: fn(&ethernet::Frame) -> MacAddr| link.as_ref().map(|l| of(l).to_string()).unwrap_or_default();
    let packet = link.as_ref().and_then(|link| parse_ip(frame.get(link.l3_offset..)?).ok());
    let (what, summary) = match (port, link.as_ref().and_then(|link| FabricMac::decode(link.dst)), packet) {
        (PortRole::Fabric, Some(mac), _) => (fabric_kind(mac), fabric(mac)),
        (PortRole::BaseStation, _, Some(packet)) if packet.summary.src == IpAddr::V4(gateway) => {
            let tunnelled = tunnel(&packet);
            let text = tunnelled
                .as_ref()
                .map_or_else(|| "a later fragment of the tunnel's packet".to_owned(), Tunnelled::text);
            let inner = tunnelled
                .as_ref()
                .and_then(|t| t.inner)
                .map_or_else(String::new, |inner| format!(": {}", ends(&inner)));
            let kind = OutputKind::Tunnel {
                base_station: packet.summary.dst,
                teid: tunnelled.as_ref().map(|t| t.teid),
                qfi: tunnelled.as_ref().and_then(|t| t.qfi),
            };
            (kind, format!("to base station {}, {text}{inner}", packet.summary.dst))
        }
        (PortRole::Internet | PortRole::BaseStation, _, Some(packet)) => {
            let (src, dst) = (packet.summary.src, packet.summary.dst);
            (OutputKind::Plain { src, dst }, ends(&packet.summary))
        }
        _ => (OutputKind::Other, format!("{} bytes", frame.len())),
    };
    Output {
        port,
        what,
        dst_mac: mac(|l| l.dst),
        src_mac: mac(|l| l.src),
        frame_hex: super::hex(frame),
        summary,
    }
}

fn fabric_kind(mac: FabricMac) -> OutputKind {
    OutputKind::Fabric {
        phase: match mac.phase {
            Phase::Handling => "handling",
            Phase::Lookup => "lookup",
            Phase::Indirect => "indirect",
            Phase::IndirectLookup => "indirect-lookup",
            Phase::Probe => "probe",
        }
        .to_owned(),
        node: u16::from(mac.node.get()),
        output_node: u16::from(mac.output_node.get()),
        output: match mac.port {
            OutputPort::Internet => PortRole::Internet,
            OutputPort::BaseStation => PortRole::BaseStation,
        },
        again: mac.again,
    }
}

/// The result of the trace in one line.
pub(super) fn verdict(id: NodeId, outputs: &[Output], dropped: Option<&Dropped>) -> String {
    let id = id.get();
    match (dropped, outputs) {
        (Some(drop), []) => format!("node {id} drops it: {}", drop.reason),
        (Some(drop), _) => format!("node {id} drops it and tells the sender: {}", drop.reason),
        (None, []) => format!("nothing leaves node {id}"),
        (None, [first, rest @ ..]) => {
            let more =
                if rest.is_empty() { String::new() } else { format!(", in {} fragments", rest.len() + 1) };
            match &first.what {
                OutputKind::Fabric { node, .. } => {
                    format!("node {id} sends it to node {node}: {}", first.summary)
                }
                OutputKind::Tunnel { .. } => format!("node {id} sends it {}{more}", first.summary),
                OutputKind::Plain { .. } => {
                    format!("node {id} sends it to the Internet: {}{more}", first.summary)
                }
                OutputKind::Other => format!("node {id} sends it by the {} port{more}", first.port),
            }
        }
    }
}
