//! The outside links and the node's addresses on them.

use super::config::{Interface, holds};
use crate::gateway::fabric::mac::OutputPort;
use scalebricks_wire::{MacAddr, nd};
use std::net::IpAddr;

/// An outside link.
#[derive(Debug)]
pub(super) struct OutsideLink {
    pub(super) port: OutputPort,
    pub(super) mac: MacAddr,
    pub(super) mtu: usize,
    /// As configured, with the IPv6 link-local address last.
    addresses: Vec<(IpAddr, u8)>,
}

/// Length of the link-local network (RFC 4291 §2.5.6).
const LINK_LOCAL_LEN: u8 = 64;

impl OutsideLink {
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
    pub(super) fn source(&self, neighbour: IpAddr) -> Option<IpAddr> {
        let holding = self.addresses.iter().filter(|network| holds(**network, neighbour));
        holding.max_by_key(|(_, len)| *len).map(|(own, _)| *own)
    }

    /// The first non-link-local address of the same IP version as `peer`: the node's source address.
    pub(super) fn speaker(&self, peer: IpAddr) -> Option<IpAddr> {
        let is_wide = |own: &IpAddr| !matches!(own, IpAddr::V6(own) if own.is_unicast_link_local());
        self.addresses.iter().map(|(own, _)| *own).find(|own| own.is_ipv4() == peer.is_ipv4() && is_wide(own))
    }
}
