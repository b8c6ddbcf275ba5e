//! Where frames go on the outside links: what the fast path reads, in one piece that is never changed.
//!
//! Whoever learns more makes a new one; a node looks at the newest once a turn ([`Node::set_adjacencies`]).
//!
//! [`Node::set_adjacencies`]: crate::Node::set_adjacencies

use crate::flow::{BaseStation, BaseStationId};
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr};

/// The station on the link that a packet goes to next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// Known, with its address on the link.
    Via(MacAddr),
    /// Known by its IP address only: somebody has to ask for the other.
    Ask(IpAddr),
    /// No route leads there.
    NoRoute,
}

impl NextHop {
    /// Its address on the link, or zeros until it is known.
    #[inline]
    pub const fn mac(self) -> MacAddr {
        match self {
            Self::Via(mac) => mac,
            Self::Ask(_) | Self::NoRoute => MacAddr([0; 6]),
        }
    }
}

/// The next hops of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjacencies {
    router: MacAddr,
    base_stations: Box<[BaseStation]>,
}

impl Adjacencies {
    /// All resolved: one router towards all of the Internet, and each base station on the link itself.
    pub fn fixed(router: MacAddr, base_stations: &[BaseStation]) -> Self {
        Self { router, base_stations: base_stations.into() }
    }

    /// The next hop of an IP packet on the Internet link; `hash`, of its flow, picks among equal ones.
    #[inline]
    pub fn internet(&self, _dst: IpAddr, _hash: u64) -> NextHop {
        NextHop::Via(self.router)
    }

    /// A base station's tunnel address and the next hop towards it; `None` if there is no such base station.
    #[inline]
    pub fn base_station(&self, id: BaseStationId, _hash: u64) -> Option<(Ipv4Addr, NextHop)> {
        let station = self.base_stations.get(usize::from(id.0))?;
        Some((station.address, NextHop::Via(station.mac)))
    }
}
