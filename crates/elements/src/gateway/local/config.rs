//! The configuration of a slow path.

use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::outside::adjacency::Net;
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One outside link of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The node's MAC address.
    pub mac: MacAddr,
    /// The node's addresses, each with the prefix length of its network on the link. The IPv6 link-local address
    /// derived from the MAC address is implied.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Largest IP packet, octets.
    pub mtu: u16,
}

/// The route to a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The link.
    pub port: OutputPort,
    /// The network: 0.0.0.0/0 and `::/0` are default routes.
    pub to: (IpAddr, u8),
    /// Next hops on the link, of the same IP version. Flows are spread over those that are reachable.
    pub via: Vec<IpAddr>,
}

/// A rate limit: tokens per second, and a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Tokens per second; 0 means never.
    pub per_second: u32,
    /// Burst size, at least 1.
    pub burst: u32,
}

/// Limits on memory, and on messages to unauthenticated peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalLimits {
    /// Neighbours besides base stations and next hops of routes: 1,024. A new one replaces the least recently requested
    /// one.
    pub neighbours: usize,
    /// Frames held per unresolved neighbour: 16; the newest stay (RFC 4861 §7.2.2).
    pub held_a_neighbour: usize,
    /// Total frames held: 1,024.
    pub held_frames: usize,
    /// Total octets held: 4 MiB.
    pub held_bytes: usize,
    /// ARP requests and neighbour solicitations for base stations and next hops: 1,000 per second, burst 100.
    pub asks: Rate,
    /// Requests for other addresses, caused by packets to them: 200 per second, burst 100.
    pub demand_asks: Rate,
    /// ARP replies and neighbour advertisements: 2,000 per second, burst 500.
    pub neighbour_answers: Rate,
    /// ICMP echo replies: 1,000 per second, burst 100.
    pub echo_replies: Rate,
    /// GTP-U echo responses and extension-header notifications: 10,000 per second, burst 2,000. All base stations may
    /// ask within the same second, and treat a missing answer as a failed path.
    pub gtpu_answers: Rate,
    /// Total GTP-U error indications: 1,000 per second, burst 200.
    pub error_indications: Rate,
    /// GTP-U error indications per peer: 50 per second, burst 20.
    pub error_indications_a_peer: Rate,
    /// Total ICMP destination unreachable: 500 per second, burst 100.
    pub unreachables: Rate,
    /// ICMP destination unreachable per peer: 10 per second, burst 6 (Linux's limit per peer).
    pub unreachables_a_peer: Rate,
}

impl Default for LocalLimits {
    fn default() -> Self {
        let rate = |per_second, burst| Rate { per_second, burst };
        Self {
            neighbours: 1_024,
            held_a_neighbour: 16,
            held_frames: 1_024,
            held_bytes: 4 << 20,
            asks: rate(1_000, 100),
            demand_asks: rate(200, 100),
            neighbour_answers: rate(2_000, 500),
            echo_replies: rate(1_000, 100),
            gtpu_answers: rate(10_000, 2_000),
            error_indications: rate(1_000, 200),
            error_indications_a_peer: rate(50, 20),
            unreachables: rate(500, 100),
            unreachables_a_peer: rate(10, 6),
        }
    }
}

/// The full configuration of a slow path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalConfig {
    /// The Internet link.
    pub internet: Interface,
    /// The base-station link.
    pub base_station: Interface,
    /// Routes besides the networks on the links. Of two routes to one network, the first counts.
    pub routes: Vec<Route>,
    /// Tunnel addresses of the base stations, by [`BaseStationId`](crate::gateway::BaseStationId).
    pub base_stations: Vec<Ipv4Addr>,
    /// The tunnel address of the gateway, the same at every node. The node answers packets to it, but answers ARP for
    /// it only if it is also an address of the base-station link.
    pub gateway: Ipv4Addr,
    /// The source of ICMPv6 errors where the Internet link has no IPv6 address.
    pub gateway_v6: Ipv6Addr,
    /// Limits; the defaults suit most nodes.
    pub limits: LocalLimits,
}

/// Why a configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalConfigError {
    /// A multicast or zero address cannot be an interface's.
    #[error("{0} is not a valid MAC address for an interface")]
    Mac(MacAddr),
    /// Every IPv4 host accepts 576 octets (RFC 791 §3.1), every IPv6 link 1,280 (RFC 8200 §5).
    #[error("MTU {mtu} is below the minimum of {least} for the link's addresses")]
    Mtu {
        /// The MTU given.
        mtu: u16,
        /// The minimum.
        least: u16,
    },
    /// The prefix is longer than the address.
    #[error("{0}/{1} is not a valid network")]
    Network(IpAddr, u8),
    /// No host can have this address.
    #[error("{0} is not a valid host address")]
    Address(IpAddr),
    /// A route without next hops leads nowhere.
    #[error("the route to {0}/{1} has no next hop")]
    NoNextHop(IpAddr, u8),
    /// The next hop is in no network of its link, or is the node itself.
    #[error("next hop {0} is not in any network of its link")]
    NextHop(IpAddr),
    /// No route leads to a base station.
    #[error("no route leads to base station {0}")]
    Unreachable(Ipv4Addr),
}

impl LocalConfig {
    /// The interface of a link.
    pub const fn interface(&self, port: OutputPort) -> &Interface {
        match port {
            OutputPort::Internet => &self.internet,
            OutputPort::BaseStation => &self.base_station,
        }
    }

    /// Validates the configuration. [`LocalStack::new`](super::LocalStack::new) does not: it treats unreachable
    /// destinations as such.
    ///
    /// # Errors
    /// [`LocalConfigError`], the first found.
    pub fn check(&self) -> Result<(), LocalConfigError> {
        for port in OutputPort::ALL {
            self.interface(port).check()?;
        }
        for route in &self.routes {
            self.check_route(route)?;
        }
        match self.base_stations.iter().find(|station| !self.reaches(**station)) {
            Some(station) => Err(LocalConfigError::Unreachable(*station)),
            None => Ok(()),
        }
    }

    fn check_route(&self, route: &Route) -> Result<(), LocalConfigError> {
        let (network, len) = route.to;
        check_len(network, len)?;
        if route.via.is_empty() {
            return Err(LocalConfigError::NoNextHop(network, len));
        }
        let interface = self.interface(route.port);
        let is_bad = |via: &&IpAddr| {
            let is_own = interface.addresses.iter().any(|(own, _)| own == *via);
            via.is_ipv4() != network.is_ipv4() || is_own || !is_host(**via) || !interface.is_on_link(**via)
        };
        route.via.iter().find(is_bad).map_or(Ok(()), |via| Err(LocalConfigError::NextHop(*via)))
    }

    fn reaches(&self, station: Ipv4Addr) -> bool {
        let address = IpAddr::V4(station);
        let routed = |route: &Route| {
            route.port == OutputPort::BaseStation && holds(route.to, address) && !route.via.is_empty()
        };
        self.base_station.is_on_link(address) || self.routes.iter().any(routed)
    }
}

impl Interface {
    /// Whether an address is in a network of the link. IPv6 link-local addresses always are.
    pub fn is_on_link(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
            || self.addresses.iter().any(|network| holds(*network, address))
    }

    fn check(&self) -> Result<(), LocalConfigError> {
        if self.mac.is_multicast() || self.mac == MacAddr::default() {
            return Err(LocalConfigError::Mac(self.mac));
        }
        let least = if self.addresses.iter().any(|(address, _)| address.is_ipv6()) { 1_280 } else { 576 };
        if self.mtu < least {
            return Err(LocalConfigError::Mtu { mtu: self.mtu, least });
        }
        for &(address, len) in &self.addresses {
            check_len(address, len)?;
            if !is_host(address) {
                return Err(LocalConfigError::Address(address));
            }
        }
        Ok(())
    }
}

fn check_len(address: IpAddr, len: u8) -> Result<(), LocalConfigError> {
    let width = if address.is_ipv4() { 32 } else { 128 };
    if len > width { Err(LocalConfigError::Network(address, len)) } else { Ok(()) }
}

/// Whether a network holds an address.
pub(super) fn holds((network, len): (IpAddr, u8), address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            Net::new(network.to_bits(), len).contains(address.to_bits())
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            Net::new(network.to_bits(), len).contains(address.to_bits())
        }
        _ => false,
    }
}

/// Whether a single host can have this address, so that it may be answered (RFC 1122 §3.2.1.3, RFC 4291 §2.5).
pub(super) fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let first = v4.octets()[0];
            first != 0 && first != 127 && first < 224
        }
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_loopback() && !v6.is_multicast(),
    }
}
