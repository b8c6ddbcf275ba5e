//! What a slow path is told when it is made.

use crate::gateway::fabric::mac::OutputPort;
use crate::gateway::outside::adjacency::Net;
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One outside link as its node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The node's MAC address.
    pub mac: MacAddr,
    /// Its addresses, each with the length of the network on the link. The IPv6 link-local address, made of the MAC
    /// address, need not be among them.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Largest IP packet, octets.
    pub mtu: u16,
}

/// Where packets to a network go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The link.
    pub port: OutputPort,
    /// The network: 0.0.0.0/0 and `::/0` are default routes.
    pub to: (IpAddr, u8),
    /// Next hops on the link, of the same IP version: flows spread over those that are there.
    pub via: Vec<IpAddr>,
}

/// So many a second, and at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// A second; 0 means never.
    pub per_second: u32,
    /// At once, at least 1.
    pub burst: u32,
}

/// Bounds of memory and of what is sent unasked or to strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalLimits {
    /// Neighbours known beside base stations and next hops of routes: 1,024. A new one takes the place of the one
    /// longest unasked for.
    pub neighbours: usize,
    /// Frames held for one unresolved neighbour: 16; the newest stay (RFC 4861 §7.2.2).
    pub held_a_neighbour: usize,
    /// Frames held in all: 1,024.
    pub held_frames: usize,
    /// Their octets in all: 4 MiB.
    pub held_bytes: usize,
    /// ARP requests and neighbour solicitations for base stations and next hops: 1,000 a second, 100 at once.
    pub asks: Rate,
    /// Other addresses asked for because a packet goes there: 200 a second, 100 at once.
    pub demand_asks: Rate,
    /// ARP replies and neighbour advertisements: 2,000 a second, 500 at once.
    pub neighbour_answers: Rate,
    /// ICMP echo replies: 1,000 a second, 100 at once.
    pub echo_replies: Rate,
    /// GTP-U echo responses and notifications of extension headers: 10,000 a second, 2,000 at once. All base stations
    /// may ask in the same second, and take silence for a dead path.
    pub gtpu_answers: Rate,
    /// GTP-U error indications in all: 1,000 a second, 200 at once.
    pub error_indications: Rate,
    /// To one peer: 50 a second, 20 at once.
    pub error_indications_a_peer: Rate,
    /// ICMP destination unreachable in all: 500 a second, 100 at once.
    pub unreachables: Rate,
    /// To one peer: 10 a second, 6 at once (what Linux grants one).
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

/// All a slow path needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalConfig {
    /// The Internet link.
    pub internet: Interface,
    /// The base-station link.
    pub base_station: Interface,
    /// Routes beside the networks on the links. Of two to one network, the first counts.
    pub routes: Vec<Route>,
    /// Tunnel addresses of the base stations, by [`BaseStationId`](crate::gateway::BaseStationId).
    pub base_stations: Vec<Ipv4Addr>,
    /// The tunnel address of the gateway, the same at every node. It is answered for, but asked for by ARP only if
    /// it is also an address of the base-station link.
    pub gateway: Ipv4Addr,
    /// The source of ICMPv6 errors where the Internet link has no IPv6 address.
    pub gateway_v6: Ipv6Addr,
    /// Bounds; the default will do.
    pub limits: LocalLimits,
}

/// Why a configuration cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalConfigError {
    /// A multicast or zero address belongs to no interface.
    #[error("{0} is no interface's MAC address")]
    Mac(MacAddr),
    /// Every IPv4 host takes 576 octets (RFC 791 §3.1), every IPv6 link 1,280 (RFC 8200 §5).
    #[error("an MTU of {mtu} is below the {least} that its addresses need")]
    Mtu {
        /// The MTU given.
        mtu: u16,
        /// The least there may be.
        least: u16,
    },
    /// A network longer than its addresses.
    #[error("{0}/{1} is no network")]
    Network(IpAddr, u8),
    /// An address that no host has.
    #[error("{0} is no host's address")]
    Address(IpAddr),
    /// A route without next hops leads nowhere.
    #[error("the route to {0}/{1} has no next hop")]
    NoNextHop(IpAddr, u8),
    /// A next hop that is on no network of its link, or is the node itself.
    #[error("next hop {0} is on no network of its link")]
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

    /// Whether it can work. [`LocalStack::new`](super::Local::new) does not ask: to it, what leads nowhere is just that.
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
    /// Whether an address is in a network of the link: link-local ones of IPv6 always are.
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
fn holds((network, len): (IpAddr, u8), address: IpAddr) -> bool {
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

/// Whether one host can have this address: it may be answered (RFC 1122 §3.2.1.3, RFC 4291 §2.5).
pub(super) fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let first = v4.octets()[0];
            first != 0 && first != 127 && first < 224
        }
        IpAddr::V6(v6) => !v6.is_unspecified() && !v6.is_loopback() && !v6.is_multicast(),
    }
}
