//! The sections of the file, as TOML represents them, and the description of every key: [`crate::config`].

use super::{FPM_PREFERENCE, KEEP_S, MAX_MTU, MAX_QUEUE, MIN_MTU, MTU, QUEUE, QUIET_MS};
use crate::config::Spanned;
use crate::config::forms::{Device, HashSecret, Mac, Prefix, Socket};
use crate::node::config::sections::{Dpdk, Worker};
use crate::node::config::{AdminTcp, LogSection, MAX_VLAN};
use scalebricks_types::MAX_NODES;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The configuration of a node of a cluster router.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// The router, and this node of it.
    pub router: Router,
    /// An external port: 1 to 64 of them.
    #[serde(default)]
    pub port: Vec<Spanned<Port>>,
    /// A link to another node. There is one to every other node.
    #[serde(default)]
    pub link: Vec<Spanned<Link>>,
    /// The log of routes, which the nodes share.
    pub control: LogSection,
    /// Sources of routes of this node.
    #[serde(default)]
    pub feeder: Feeder,
    /// The thread that moves packets: a node of a router has one.
    #[serde(default)]
    pub worker: Worker,
    /// Packet memory.
    #[serde(default)]
    pub dpdk: Dpdk,
    /// The admin interface over TCP as well, with TLS and a token in every request.
    pub admin_tcp: Option<Spanned<AdminTcp>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Router {
    /// The number of this node, from 0.
    #[schemars(range(max = MAX_NODES - 1))]
    pub node: Spanned<usize>,
    /// Number of nodes.
    #[schemars(range(min = 1, max = MAX_NODES))]
    pub nodes: Spanned<usize>,
    /// The secret that the nodes share: hellos of other routers do not count.
    #[schemars(with = "HashSecret")]
    pub secret: Spanned<String>,
    /// The admin socket. By default `/run/scalebricks/routerNODE.sock`.
    #[schemars(extend("format" = "path"))]
    pub admin: Option<PathBuf>,
    /// How packets are spread over the nodes.
    #[schemars(extend("default" = "flowlets"))]
    pub steering: Option<Spanned<Steering>>,
    /// The rate of an external port, bits per second.
    #[schemars(extend("examples" = ["10G", "1M"]))]
    pub port_rate: Spanned<String>,
    /// The rate of a link between two nodes, bits per second. By default 3R/N for ports of the rate R of a node and N
    /// nodes.
    #[schemars(extend("examples" = ["10G", "1M"]))]
    pub link_rate: Option<Spanned<String>>,
    /// Packets that a queue before a device holds.
    #[schemars(range(min = 1, max = MAX_QUEUE), extend("default" = QUEUE))]
    pub queue: Option<Spanned<usize>>,
    /// Longest IP packet at every external port of the router, bytes.
    #[schemars(range(min = MIN_MTU, max = MAX_MTU), extend("default" = MTU))]
    pub mtu: Option<Spanned<u16>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Steering {
    Valiant,
    DirectVlb,
    Flowlets,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    /// The DPDK device.
    #[schemars(with = "Device")]
    pub device: Spanned<String>,
    /// The MAC address; by default the device's.
    #[schemars(with = "Option<Mac>")]
    pub mac: Option<Spanned<String>>,
    /// The VLAN tag of its frames. Ports and links that share a device need one each.
    #[schemars(range(min = 1, max = MAX_VLAN))]
    pub vlan: Option<Spanned<u16>>,
    /// Own addresses: one of IPv4, and at most one of IPv6.
    #[serde(default)]
    #[schemars(with = "Vec<Prefix>")]
    pub addresses: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// The other node.
    #[schemars(range(max = MAX_NODES - 1))]
    pub node: Spanned<usize>,
    /// The DPDK device.
    #[schemars(with = "Device")]
    pub device: Spanned<String>,
    /// The VLAN tag of its frames. Ports and links that share a device need one each.
    #[schemars(range(min = 1, max = MAX_VLAN))]
    pub vlan: Option<Spanned<u16>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Feeder {
    /// A file of static routes.
    #[schemars(extend("format" = "path"))]
    pub routes: Option<PathBuf>,
    /// A BGP speaker that connects to a forwarding plane manager (FPM).
    pub fpm: Option<Fpm>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fpm {
    /// Where the manager listens.
    #[schemars(with = "Socket")]
    pub listen: Spanned<SocketAddr>,
    /// The preference of its routes.
    #[schemars(extend("default" = FPM_PREFERENCE))]
    pub preference: Option<u32>,
    /// After so many milliseconds without a message, all routes have been sent after a start.
    #[schemars(range(min = 100, max = 600_000), extend("default" = QUIET_MS))]
    pub quiet_ms: Option<Spanned<u64>>,
    /// Seconds for which routes stay without a connection.
    #[schemars(range(min = 1, max = 86_400), extend("default" = KEEP_S))]
    pub keep_s: Option<Spanned<u64>>,
}
