//! `RouterOutput`.

use crate::columns::{DstIp, DstIp6, Ip6Header, IpHeader};
use crate::fabric::mac::{ExternalPort, PORTS, RouterMac};
use crate::fabric::next_hops::{CONNECTED, NextHops};
use crate::gateway::DropReason;
use crate::header;
use crate::header6;
use crate::values::{Ip6s, Ips};
use scalebricks_graph::{Class, Control, DropId, Element, Frame, Handle, Meta, Out, SlotList, element};
use scalebricks_io::PacketBuf;
use scalebricks_wire::ethernet::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, HEADER_LEN};
use scalebricks_wire::ipv4::Ipv4;
use scalebricks_wire::ipv6;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

element! {
    /// The slow way out of a node of a cluster router: packets whose next hop has no known MAC address, and those that
    /// are themselves for a neighbour. It parses the packet, removes the Ethernet header, and sends the packet to the
    /// `ARPQuerier` or `IP6NDSolicitor` of its port, with the next hop's address as destination annotation. Packets for
    /// the node itself go to outputs 0 and 1.
    pub struct RouterOutput as "RouterOutput" {
        ports: usize, own: HashSet<IpAddr>, hops: Arc<NextHops>, dst: Handle<DstIp>, dst6: Handle<DstIp6>,
    }
    inputs { push "in": "Frames that leave at this node, with encoded addresses.", }
    outputs {
        push "own": "IPv4 packets for this node.",
        push "own6": "IPv6 packets for this node.",
        push "port" [OneOrMore]: "By external port: IPv4 packets to neighbours there, then IPv6 packets.",
    }
    params RouterOutputParams {
        /// Number of external ports.
        ports: usize,
        /// The node's own IPv4 addresses.
        own: Ips = Ips::default(),
        /// The node's own IPv6 addresses.
        own6: Ip6s = Ip6s::default(),
    }
    example { "1", "192.0.2.1", "2001:db8::1", }
    writes { DstIp, DstIp6, IpHeader, Ip6Header, }
    drops {
        BAD_MAC = DropReason::BadFabricMac,
        NO_PORT = "no_port": "The node has no external port of the number in the address.",
        NO_NEXT_HOP = "no_next_hop": "The MAC address of the next hop is unknown.",
        NO_PACKET = "no_ip_packet": "The frame contains no complete IP packet.",
        OTHER_FAMILY = "other_family": "The next hop is not of the packet's IP version.",
    }
    counters { NEIGHBOURS = "to_neighbours": "Packets to resolve.", OWN = "own": "Packets for this node.", }
    binds { dst, dst6, }
}

/// Where a packet goes: output, and the address of the next hop.
type Exit = (usize, IpAddr);

impl RouterOutput {
    /// The element of a node with this number of ports and these addresses of its own.
    pub fn new(ports: usize, own: impl IntoIterator<Item = IpAddr>, hops: Arc<NextHops>) -> Self {
        let own = own.into_iter().collect();
        Self { ports, own, hops, dst: Handle::default(), dst6: Handle::default() }
    }

    pub(crate) fn set_hops(&mut self, hops: &Arc<NextHops>) {
        self.hops = Arc::clone(hops);
    }

    /// The output of a frame, after noting where its IP header is.
    fn exit(&self, frame: &[u8], meta: &mut Meta) -> Result<Exit, DropId> {
        let mac = ethernet::destination(frame).and_then(RouterMac::decode).ok_or(Self::BAD_MAC)?;
        if mac.port.index() >= self.ports {
            return Err(Self::NO_PORT);
        }
        let (front, packet) = frame.split_at_checked(HEADER_LEN).ok_or(Self::NO_PACKET)?;
        let dst = match front.last_chunk().map(|octets| u16::from_be_bytes(*octets)) {
            Some(ETHERTYPE_IPV4) => {
                let ip = Ipv4::parse(packet).map_err(|_| Self::NO_PACKET)?;
                header::note(meta, 0, ip.header_len(), ip.total_len());
                IpAddr::V4(ip.dst())
            }
            Some(ETHERTYPE_IPV6) => {
                let (fixed, total) = header6::check(packet).map_err(|_| Self::NO_PACKET)?;
                header::note(meta, 0, ipv6::HEADER_LEN, total);
                IpAddr::V6(header6::dst(fixed))
            }
            _ => return Err(Self::NO_PACKET),
        };
        let six = usize::from(dst.is_ipv6());
        if self.own.contains(&dst) {
            return Ok((six, dst));
        }
        let next = self.next(mac, dst)?;
        Ok((2 + 2 * mac.port.index() + six, next))
    }

    /// The address of the next hop of a packet to `dst`.
    fn next(&self, mac: RouterMac, dst: IpAddr) -> Result<IpAddr, DropId> {
        if mac.next_hop == CONNECTED {
            return Ok(dst);
        }
        let neighbour = self.hops.neighbour(mac.next_hop).filter(|neighbour| neighbour.port == mac.port);
        let neighbour = neighbour.ok_or(Self::NO_NEXT_HOP)?;
        if neighbour.address.is_ipv6() == dst.is_ipv6() {
            Ok(neighbour.address)
        } else {
            Err(Self::OTHER_FAMILY)
        }
    }
}

impl Class for RouterOutput {
    fn make(params: RouterOutputParams) -> Result<Self, String> {
        let RouterOutputParams { ports, own: Ips(own), own6: Ip6s(own6) } = params;
        if ExternalPort::new(u8::try_from(ports.wrapping_sub(1)).unwrap_or(u8::MAX)).is_none() {
            return Err(format!("{ports} external ports, of 1 to {PORTS}"));
        }
        let own = own.into_iter().map(IpAddr::V4).chain(own6.into_iter().map(IpAddr::V6));
        Ok(Self::new(ports, own, Arc::new(NextHops::new(0))))
    }
}

impl Control for RouterOutput {}

impl<P: PacketBuf> Element<P> for RouterOutput {
    fn push(&mut self, _: usize, batch: &mut SlotList, frame: &mut Frame<P>, out: &mut Out<'_>) {
        let (mut neighbours, mut own) = (0, 0);
        for slot in batch.drain() {
            let (packet, meta) = frame.both_mut(&slot);
            let (output, next) = match self.exit(packet.data(), meta) {
                Ok(exit) => exit,
                Err(reason) => {
                    out.drop(slot, reason);
                    continue;
                }
            };
            // The frame is longer: its packet was parsed. What follows the packet goes too.
            packet.truncate(HEADER_LEN + usize::from(meta.length));
            if packet.trim_front(HEADER_LEN).is_err() {
                out.drop(slot, Self::NO_PACKET);
                continue;
            }
            meta.flags = 0;
            let (dst, dst6) = match next {
                IpAddr::V4(ip) => (ip, Ipv6Addr::UNSPECIFIED),
                IpAddr::V6(ip) => (Ipv4Addr::UNSPECIFIED, ip),
            };
            frame.column_mut(self.dst)[&slot] = DstIp(dst);
            frame.column_mut(self.dst6)[&slot] = DstIp6(dst6);
            let is_own = output < 2;
            (own, neighbours) = (own + u64::from(is_own), neighbours + u64::from(!is_own));
            out.push(output, slot);
        }
        out.count(Self::NEIGHBOURS, neighbours);
        out.count(Self::OWN, own);
    }
}

#[cfg(test)]
#[path = "router_output_tests.rs"]
mod tests;
