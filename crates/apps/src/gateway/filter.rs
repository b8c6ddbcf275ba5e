//! Filters for captures: conditions on addresses, tunnels and ports, of outer and inner headers.

use scalebricks_types::Teid;
use scalebricks_wire::arp::Arp;
use scalebricks_wire::gtpu::{self, Gtpu};
use scalebricks_wire::transport::Udp;
use scalebricks_wire::{IpSummary, ethernet, parse_frame, parse_ip, protocol};
use std::net::IpAddr;

/// Conditions on a frame, all of which must hold. Without conditions, every frame matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filter {
    /// Source or destination of the outer or the inner packet, or either address of an ARP message.
    pub host: Option<IpAddr>,
    /// TEID of a GTP-U message of any kind.
    pub teid: Option<Teid>,
    /// Source or destination port of UDP, outer or inner.
    pub udp_port: Option<u16>,
}

/// The parts of a frame that a filter uses.
#[derive(Debug, Default)]
struct ParsedFrame {
    arp: Option<Arp>,
    outer: Option<IpSummary>,
    teid: Option<Teid>,
    inner: Option<IpSummary>,
}

impl scalebricks_graph::tap::Filter for Filter {
    /// Whether a frame matches. Cost: nothing without conditions, otherwise parsing the frame's headers.
    fn matches(&self, frame: &[u8]) -> bool {
        if *self == Self::default() {
            return true;
        }
        let seen = ParsedFrame::of(frame);
        self.host.is_none_or(|host| seen.is_of_host(host))
            && self.teid.is_none_or(|teid| seen.teid == Some(teid))
            && self.udp_port.is_none_or(|port| seen.packets().any(|ip| is_of_udp_port(ip, port)))
    }
}

impl ParsedFrame {
    /// Parses what it can; the rest stays empty.
    fn of(frame: &[u8]) -> Self {
        let mut seen = Self::default();
        let Ok(link) = parse_frame(frame) else { return seen };
        let Some(payload) = frame.get(link.l3_offset..) else { return seen };
        if link.ethertype == ethernet::ETHERTYPE_ARP {
            seen.arp = Arp::parse(payload).ok();
        }
        let Some(outer) = parse_ip(payload).ok().filter(|_| link.is_ip()) else { return seen };
        seen.outer = Some(outer.summary);
        let is_whole_udp = outer.summary.protocol == protocol::UDP && outer.summary.fragment.is_none();
        let udp = Udp::parse(outer.l4()).ok().filter(|_| is_whole_udp);
        let Some(udp) = udp.filter(|udp| udp.dst_port() == gtpu::PORT) else { return seen };
        let Ok(message) = Gtpu::parse(udp.payload()) else { return seen };
        seen.teid = Some(message.teid());
        if message.message_type() == gtpu::MessageType::GPdu {
            seen.inner = parse_ip(message.payload()).ok().map(|inner| inner.summary);
        }
        seen
    }

    fn packets(&self) -> impl Iterator<Item = &IpSummary> {
        [&self.outer, &self.inner].into_iter().flatten()
    }

    fn is_of_host(&self, host: IpAddr) -> bool {
        let is_in_arp = |arp: &Arp| host == arp.sender_ip || host == arp.target_ip;
        self.arp.as_ref().is_some_and(is_in_arp) || self.packets().any(|ip| ip.src == host || ip.dst == host)
    }
}

fn is_of_udp_port(ip: &IpSummary, port: u16) -> bool {
    ip.protocol == protocol::UDP && ip.ports.is_some_and(|(src, dst)| src == port || dst == port)
}
