//! Routes of a cluster router as text.

use super::mac::{ExternalPort, RouterMac};
use crate::routes::Family;
use scalebricks_graph::args::{ListItem, Param};
use scalebricks_graph::element::HandlerError;
use scalebricks_tables::lpm::{Lpm, NextHop, Prefix};
use scalebricks_types::NodeId;
use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A network of either family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// An IPv4 network.
    V4(Prefix<Ipv4Addr>),
    /// An IPv6 network.
    V6(Prefix<Ipv6Addr>),
}

impl Network {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if !text.contains('/') {
            return None;
        }
        if text.contains(':') {
            Ipv6Addr::network(text).map(Self::V6)
        } else {
            Ipv4Addr::network(text).map(Self::V4)
        }
    }
}

/// A route of a cluster router: a network, and where packets to it leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterRoute {
    /// The network.
    pub network: Network,
    /// Output node, port and next hop.
    pub target: RouterMac,
}

impl Param for ClusterRoute {
    const KIND: &'static str = "a route such as 10.0.0.0/8 3 0 17";

    fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[network, node, port, hop] = words.as_slice() else { return None };
        let target = RouterMac::new(
            NodeId::new(node.parse().ok()?),
            ExternalPort::new(port.parse().ok()?)?,
            hop.parse().ok()?,
        );
        Some(Self { network: Network::read(network)?, target })
    }
}

impl ListItem for ClusterRoute {
    const KINDS: &'static str = "ADDR/MASK NODE PORT NEXTHOP, …";
}

impl fmt::Display for ClusterRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouterMac { output_node, port, next_hop, .. } = self.target;
        match self.network {
            Network::V4(prefix) => write!(f, "{prefix}")?,
            Network::V6(prefix) => write!(f, "{prefix}")?,
        }
        write!(f, " {} {port} {next_hop}", output_node.get())
    }
}

impl ClusterRoute {
    /// A route of a table; `None` if the next hop is not one of [`RouterMac::hop`].
    pub(crate) fn of(network: Network, hop: NextHop) -> Option<Self> {
        RouterMac::of_hop(hop).map(|target| Self { network, target })
    }

    /// The route in a handler's text.
    pub(crate) fn parse(text: &str) -> Result<Self, HandlerError> {
        let wrong = || HandlerError::Value(format!("expected `{}`, not `{text}`", Self::KINDS));
        Self::read(text).ok_or_else(wrong)
    }

    /// Adds it to the table of its family, or replaces another.
    pub(crate) fn insert(self, table: &Lpm<Ipv4Addr>, table6: &Lpm<Ipv6Addr>) -> Result<(), String> {
        let hop = self.target.hop();
        let inserted = match self.network {
            Network::V4(prefix) => table.insert(prefix, hop),
            Network::V6(prefix) => table6.insert(prefix, hop),
        };
        inserted.map(|_| ()).map_err(|error| error.to_string())
    }

    /// All routes, one per line.
    pub(crate) fn list(table: &Lpm<Ipv4Addr>, table6: &Lpm<Ipv6Addr>) -> String {
        let mut lines = String::new();
        let mut line = |route: Option<Self>| {
            if let Some(route) = route {
                let _never_fails = writeln!(lines, "{route}");
            }
        };
        table.for_each(|prefix, hop| line(Self::of(Network::V4(prefix), hop)));
        table6.for_each(|prefix, hop| line(Self::of(Network::V6(prefix), hop)));
        lines
    }
}
