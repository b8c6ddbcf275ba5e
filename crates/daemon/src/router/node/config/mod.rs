//! The configuration of a node of a cluster router: a TOML file that is checked completely before anything starts.

mod ports;
pub(crate) mod sections;
#[cfg(test)]
mod tests;

use crate::config::Spanned;
use crate::node::config::{self, AdminTcp, Dpdk, Layout, LogFile, Problem, Problems, Workers};
use scalebricks_apps::router::cluster::Steering;
use scalebricks_console::quantity;
use scalebricks_types::{ClusterSize, HashSeed, NodeId};
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Rates in bits per second: a packet a second to more than any port has.
const RATES: RangeInclusive<u64> = 1_000..=100_000_000_000_000;

/// Default of `router.queue`.
const QUEUE: usize = 1_024;

/// Most packets in a queue.
const MAX_QUEUE: usize = 1 << 20;

/// Smallest MTU of a port: that of IPv6 (RFC 8200 §5).
const MIN_MTU: u16 = 1_280;

/// Largest MTU of a port.
const MAX_MTU: u16 = 9_600;

/// Default MTU of a port.
const MTU: u16 = 1_500;

/// Default of `feeder.fpm.preference`: that of external BGP at other routers.
const FPM_PREFERENCE: u32 = 20;

/// Default of `feeder.fpm.quiet_ms`.
const QUIET_MS: u64 = 10_000;

/// Default of `feeder.fpm.keep_s`: the restart time of FRR's BGP (RFC 4724).
const KEEP_S: u64 = 120;

/// The checked configuration of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterFile {
    /// Number of nodes.
    pub size: ClusterSize,
    /// This node.
    pub id: NodeId,
    /// The secret that the nodes share: hellos of other routers do not count.
    pub secret: HashSeed,
    /// The admin socket.
    pub admin: PathBuf,
    /// The admin interface over TCP, if configured.
    pub admin_tcp: Option<AdminTcp>,
    /// How packets are spread over the nodes.
    pub steering: Steering,
    /// Rate of an external port, bytes per second.
    pub port_rate: u64,
    /// Rate of a link between two nodes, bytes per second; 0 for a cluster of one node.
    pub link_rate: u64,
    /// Packets that a queue before a device holds.
    pub queue: usize,
    /// Longest IP packet at every external port of the router, bytes.
    pub mtu: u16,
    /// The external ports, by number.
    pub ports: Vec<Port>,
    /// The links, by the number of the other node.
    pub links: Vec<Link>,
    /// The log of routes.
    pub control: LogFile,
    /// Sources of routes of this node.
    pub feeders: Feeders,
    /// The threads that move packets.
    pub workers: Workers,
    /// Packet memory.
    pub dpdk: Dpdk,
}

/// An external port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The DPDK device.
    pub device: String,
    /// Its MAC address; `None`: the device's.
    pub mac: Option<MacAddr>,
    /// The VLAN of a port that shares its device.
    pub vlan: Option<u16>,
    /// Its addresses, with the prefix lengths of their networks: one of IPv4, and at most one of IPv6.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// A link to another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The other node.
    pub node: NodeId,
    /// The DPDK device.
    pub device: String,
    /// The VLAN of a link that shares its device.
    pub vlan: Option<u16>,
}

/// Sources of routes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Feeders {
    /// A file of static routes.
    pub routes: Option<PathBuf>,
    /// A BGP speaker that connects to a forwarding plane manager.
    pub fpm: Option<Fpm>,
}

/// Where and how a forwarding plane manager listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fpm {
    /// The address.
    pub listen: SocketAddr,
    /// The preference of its routes.
    pub preference: u32,
    /// After this time without a message, all routes have been sent after a start.
    pub quiet: Duration,
    /// For this time routes stay without a connection.
    pub keep: Duration,
}

impl RouterFile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// All [`Problem`]s; only those of the syntax if the text is not TOML.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        Problems::parse_file(text, sections::File::make)
    }
}

impl sections::File {
    fn make(self, problems: &mut Problems<'_>) -> Option<RouterFile> {
        let sections::Router { node, nodes, secret, admin, steering, port_rate, link_rate, queue, mtu } =
            self.router;
        let count = *nodes.get_ref();
        let size = ClusterSize::new(count).ok();
        let what = |id| format!("{id} in a router of {count} nodes (numbered from 0)");
        let id = problems.check(&node, "router.node", |id| id < count, what);
        let bytes_per_s = |text: &Spanned<String>, key: &str, problems: &mut Problems<'_>| {
            quantity::parse(text.get_ref(), RATES)
                .map(|bits| bits / 8)
                .map_err(|error| problems.add(text.span(), key, format!("bits per second: {error}")))
                .ok()
        };
        let secret = config::seed(&secret);
        let port_rate = bytes_per_s(&port_rate, "router.port_rate", problems);
        let link_rate = link_rate.map(|text| bytes_per_s(&text, "router.link_rate", problems).unwrap_or(0));
        let queue = queue.map_or(QUEUE, Spanned::into_inner);
        let mtu = mtu.map_or(MTU, Spanned::into_inner);
        let (ports, links) = ports::ports(self.port, self.link, id, count, problems);
        if let Some(mode) = &self.worker.mode {
            let what = |_| "all workers of a router do the same work".to_owned();
            problems.check(mode, "worker.mode", |mode| mode != Layout::Split, what);
        }
        if let Some(cores) = self.worker.cores.as_ref().filter(|cores| cores.get_ref().len() > 1) {
            problems.add(cores.span(), "worker.cores", "a node of a router has one worker: name one core");
        }
        let workers = config::workers(self.worker, problems);
        let dpdk = config::dpdk(self.dpdk, problems);
        let control = self.control.check(problems);
        if let (Some(fpm), Some(tcp)) = (&self.feeder.fpm, &self.admin_tcp) {
            let what = |listen| format!("{listen} is also admin_tcp.listen");
            let is_other = |listen| listen != tcp.get_ref().listen;
            problems.check(&fpm.listen, "feeder.fpm.listen", is_other, what);
        }
        let fpm = self.feeder.fpm.map(|fpm| self::fpm(&fpm, problems));
        let port_rate = port_rate?;
        // 3R/N, where R is the rate of all ports of a node: docs/router.md.
        let safe = (3 * port_rate * ports.len() as u64).div_ceil(count.max(1) as u64);
        let default_socket = || PathBuf::from(format!("/run/scalebricks/router{id}.sock"));
        Some(RouterFile {
            size: size?,
            id: NodeId::new(u8::try_from(id).ok()?),
            secret: secret?,
            admin: admin.unwrap_or_else(default_socket),
            admin_tcp: self.admin_tcp.map(Spanned::into_inner),
            steering: match steering.map(Spanned::into_inner) {
                Some(sections::Steering::Valiant) => Steering::Valiant,
                Some(sections::Steering::DirectVlb) => Steering::Direct,
                Some(sections::Steering::Flowlets) | None => Steering::Flowlets,
            },
            port_rate,
            link_rate: link_rate.unwrap_or(if count > 1 { safe } else { 0 }),
            queue,
            mtu,
            ports,
            links,
            control: control?,
            feeders: Feeders { routes: self.feeder.routes, fpm },
            workers,
            dpdk,
        })
    }
}

fn fpm(section: &sections::Fpm, problems: &mut Problems<'_>) -> Fpm {
    let what = |_| "port 0: zebra must know the port (FRR's default is 2620)".to_owned();
    let listen = problems.check(&section.listen, "feeder.fpm.listen", |listen| listen.port() != 0, what);
    let (quiet, keep) = (section.quiet_ms.as_ref(), section.keep_s.as_ref());
    Fpm {
        listen,
        preference: section.preference.unwrap_or(FPM_PREFERENCE),
        quiet: Duration::from_millis(quiet.map_or(QUIET_MS, |ms| *ms.get_ref())),
        keep: Duration::from_secs(keep.map_or(KEEP_S, |s| *s.get_ref())),
    }
}
