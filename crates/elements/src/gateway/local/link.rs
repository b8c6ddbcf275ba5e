//! One outside link: the node's addresses on it.

use super::config::Interface;
use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::outside::adjacency::Net;
use scalebricks_wire::{MacAddr, nd};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An outside link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) port: OutputPort,
    pub(super) mac: MacAddr,
    pub(super) mtu: usize,
    /// As configured, with the IPv6 link-local address last.
    addresses: Vec<(IpAddr, u8)>,
}

/// Length of the link-local network (RFC 4291 §2.5.6).
const LINK_LOCAL_LEN: u8 = 64;

impl Link {
    pub(super) fn new(port: OutputPort, interface: Interface) -> Self {
        let mut addresses = interface.addresses;
        let link_local = IpAddr::V6(nd::link_local(interface.mac));
        if addresses.iter().all(|(address, _)| *address != link_local) {
            addresses.push((link_local, LINK_LOCAL_LEN));
        }
        Self { port, mac: interface.mac, mtu: usize::from(interface.mtu), addresses }
    }

    /// The node's addresses, each with its network's prefix length.
    pub(super) fn addresses(&self) -> &[(IpAddr, u8)] {
        &self.addresses
    }

    /// Whether the address is the node's own.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// The node's address in the smallest network that contains a neighbour: the sender of requests to it.
    pub(super) fn source_v4(&self, neighbour: Ipv4Addr) -> Option<Ipv4Addr> {
        let own = self.addresses.iter().filter_map(|(own, len)| match own {
            IpAddr::V4(own) => Some((*own, *len)),
            IpAddr::V6(_) => None,
        });
        let holding = own.filter(|(own, len)| Net::new(own.to_bits(), *len).contains(neighbour.to_bits()));
        holding.max_by_key(|(_, len)| *len).map(|(own, _)| own)
    }

    /// As [`Link::source_v4`].
    pub(super) fn source_v6(&self, neighbour: Ipv6Addr) -> Option<Ipv6Addr> {
        let own = self.addresses.iter().filter_map(|(own, len)| match own {
            IpAddr::V6(own) => Some((*own, *len)),
            IpAddr::V4(_) => None,
        });
        let holding = own.filter(|(own, len)| Net::new(own.to_bits(), *len).contains(neighbour.to_bits()));
        holding.max_by_key(|(_, len)| *len).map(|(own, _)| own)
    }

    /// The first non-link-local address of the same IP version as `peer`: the node's source address.
    pub(super) fn speaker(&self, peer: IpAddr) -> Option<IpAddr> {
        let is_wide = |own: &IpAddr| !matches!(own, IpAddr::V6(own) if own.is_unicast_link_local());
        self.addresses.iter().map(|(own, _)| *own).find(|own| own.is_ipv4() == peer.is_ipv4() && is_wide(own))
    }
}
