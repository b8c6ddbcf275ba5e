//! The configuration of a node: a TOML file, checked whole before anything starts.

use scalebricks_apps::gateway::{Architecture, Layout as TableLayout};
use scalebricks_elements::gateway::Oversize;
use scalebricks_elements::gateway::packet::policy::MIN_MTU;
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, HashSeed, KeyProfile, MAX_NODES, NodeId};
use scalebricks_wire::MacAddr;
use sections::{ArchitectureName, File, KeyName, OversizeName};
use serde::Deserialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

mod control;
mod engine;
mod ports;
mod runtime;
pub(crate) mod sections;
mod takeover;

pub use control::ControlFile;
pub use engine::{EngineAt, NatsAt, NatsAuth, NatsTls};
pub(crate) use engine::{EngineSection, engine};
pub(crate) use ports::Devices;
use runtime::probe_every;
pub use runtime::{AdminTcp, Dpdk, Idle, Layout, Workers};
pub(crate) use runtime::{dpdk, workers};
pub use takeover::TakeoverFile;

/// Everything a node is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFile {
    /// The cluster's size.
    pub size: ClusterSize,
    /// Its architecture.
    pub architecture: Architecture,
    /// What the GPT is made of.
    pub gpt: Structure,
    /// The secret of its key hash.
    pub seed: HashSeed,
    /// What of a downstream packet is its key.
    pub profile: KeyProfile,
    /// What happens to what does not fit the base-station link.
    pub oversize: Oversize,
    /// Largest IP packet there.
    pub base_station_mtu: u16,
    /// Whether IPv4 header checksums are verified.
    pub verify_ipv4_checksum: bool,
    /// The gateway's tunnel address.
    pub gateway: Ipv4Addr,
    /// The source of its ICMPv6 errors.
    pub gateway_v6: Ipv6Addr,
    /// This node.
    pub id: NodeId,
    /// The file of flows, where they do not come from the control plane.
    pub flows: PathBuf,
    /// The control plane, if flows come from there.
    pub control: Option<ControlFile>,
    /// The admin socket.
    pub admin: PathBuf,
    /// The admin interface over TCP, if it is wanted.
    pub admin_tcp: Option<AdminTcp>,
    /// How long the node goes on once it is asked to stop, milliseconds.
    pub drain_ms: u32,
    /// The threads that move packets.
    pub workers: Workers,
    /// Where packets lie.
    pub dpdk: Dpdk,
    /// Time between probes of the other nodes over the fabric; `None`: none are sent.
    pub probe_every: Option<Duration>,
    /// Tunnel addresses of the base stations, with their next hop.
    pub base_stations: Vec<Station>,
    /// The ports: Internet, base stations, fabric.
    pub ports: [Port; 3],
    /// Routes, default ones included.
    pub routes: Vec<Route>,
}

impl NodeFile {
    /// What the tables of all nodes are made of.
    pub const fn layout(&self) -> TableLayout {
        TableLayout { size: self.size, architecture: self.architecture, gpt: self.gpt, seed: self.seed }
    }
}

/// A base station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// Its tunnel address.
    pub address: Ipv4Addr,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// What it leads to.
    pub role: Role,
    /// The DPDK device: a PCI address, or a virtual device with its arguments.
    pub device: String,
    /// Its MAC address, if not the device's.
    pub mac: Option<MacAddr>,
    /// Its VLAN: frames carry this tag on the wire.
    pub vlan: Option<u16>,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Addresses it answers for, with their networks' lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Next hops of everything else; several share the flows.
    pub gateways: Vec<IpAddr>,
}

/// A way to a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The port.
    pub port: Role,
    /// The network.
    pub to: (IpAddr, u8),
    /// Next hops; several share the flows.
    pub via: Vec<IpAddr>,
}

/// What a port leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The Internet.
    Internet,
    /// The base stations.
    BaseStation,
    /// The other nodes.
    Fabric,
}

impl Role {
    const ALL: [Self; 3] = [Self::Internet, Self::BaseStation, Self::Fabric];

    /// As in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Internet => "internet",
            Self::BaseStation => "base-station",
            Self::Fabric => "fabric",
        }
    }
}

/// Something wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, counted from 1.
    pub line: usize,
    /// The key it is about.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "line {}: {}", self.line, self.what)
        } else {
            write!(f, "line {}: {}: {}", self.line, self.key, self.what)
        }
    }
}

/// Default of `base_station_mtu`.
const BASE_STATION_MTU: u16 = 1_600;

/// Default of `node.drain_ms`.
const DRAIN_MS: u32 = 500;

/// What was wrong so far.
pub(crate) struct Problems<'a> {
    text: &'a str,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    /// Nothing was, so far.
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, found: Vec::new() }
    }

    /// Why a text is not TOML with the keys that are known.
    pub(crate) fn of_toml(text: &'a str, error: &toml::de::Error) -> Vec<Problem> {
        let line = Self::new(text).line(error.span().map_or(0, |span| span.start));
        vec![Problem { line, key: String::new(), what: error.message().trim().replace('\n', ", ") }]
    }

    /// What was made, if nothing was wrong; else all that was, by line.
    pub(crate) fn settle<T>(mut self, made: Option<T>) -> Result<T, Vec<Problem>> {
        match made {
            Some(made) if self.found.is_empty() => Ok(made),
            _ => {
                self.found.sort_by_key(|problem| problem.line);
                Err(self.found)
            }
        }
    }

    /// The end of the text.
    pub(crate) const fn end(&self) -> Range<usize> {
        self.text.len()..self.text.len()
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).fold(1, |line, byte| line + usize::from(byte == b'\n'))
    }

    pub(crate) fn add(&mut self, span: Range<usize>, key: &str, what: impl Into<String>) {
        let line = self.line(span.start);
        self.found.push(Problem { line, key: key.to_owned(), what: what.into() });
    }
}

impl NodeFile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// All [`Problem`]s, or the first if the file cannot be understood as TOML with these keys.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let file: File = toml::from_str(text).map_err(|error| Problems::of_toml(text, &error))?;
        let mut problems = Problems::new(text);
        let made = file.make(&mut problems);
        problems.settle(made)
    }
}

impl File {
    fn make(self, problems: &mut Problems<'_>) -> Option<NodeFile> {
        let sections::Cluster { nodes, secret, base_station_mtu, .. } = &self.cluster;
        let size = ClusterSize::new(*nodes.get_ref()).ok();
        if size.is_none() {
            problems.add(
                nodes.span(),
                "cluster.nodes",
                format!("{} is not 1 to {MAX_NODES}", nodes.get_ref()),
            );
        }
        let seed = seed(secret.get_ref());
        if seed.is_none() {
            problems.add(secret.span(), "cluster.secret", "not 32 hexadecimal digits, the same at all nodes");
        }
        let mtu = base_station_mtu.as_ref().map_or(BASE_STATION_MTU, |mtu| *mtu.get_ref());
        if let Some(given) = base_station_mtu.as_ref().filter(|_| mtu < MIN_MTU) {
            problems.add(
                given.span(),
                "cluster.base_station_mtu",
                format!("{mtu} is not {MIN_MTU} to 65535"),
            );
        }
        let (id, nodes) = (self.node.id.get_ref(), nodes.get_ref());
        if id >= nodes {
            let what = format!("{id} in a cluster of {nodes} (numbered from 0)");
            problems.add(self.node.id.span(), "node.id", what);
        }
        let mut base_stations: Vec<Station> = Vec::new();
        for station in &self.base_station {
            let address = *station.address.get_ref();
            if base_stations.iter().any(|other| other.address == address) {
                problems.add(
                    station.address.span(),
                    "base_station.address",
                    format!("{address} is there twice"),
                );
            }
            base_stations.push(Station { address });
        }
        if self.node.flows.is_some() == self.control.is_some() {
            let what =
                "flows come from a file (node.flows) or from the control plane ([control]): say one of them";
            problems.add(self.node.id.span(), "node.flows", what);
        }
        let is_scalebricks = matches!(self.cluster.architecture, ArchitectureName::Scalebricks);
        if self.control.is_some() && !is_scalebricks {
            let what = "the control plane feeds the architecture scalebricks only";
            problems.add(self.cluster.nodes.span(), "cluster.architecture", what);
        }
        let gpt = gpt(self.cluster.gpt.as_ref(), is_scalebricks, problems);
        let ports = ports::ports(self.port, mtu, problems);
        let control = match self.control {
            None => None,
            Some(section) => Some(control::control(section, *id, size, ports.as_ref(), problems)?),
        };
        let default_socket = || PathBuf::from(format!("/run/scalebricks/node{id}.sock"));
        let admin = self.node.admin.unwrap_or_else(default_socket);
        if let Some(control) = &control {
            control.check_places(self.admin_tcp.as_ref(), &self.node.id, problems);
        }
        let routes = ports.as_ref().map(|ports| ports::routes(self.route, ports, problems));
        let workers = workers(self.worker, problems);
        let dpdk = dpdk(self.dpdk, problems);
        let probe_every = probe_every(self.fabric.probe_ms.as_ref(), problems);
        let cluster = self.cluster;
        Some(NodeFile {
            size: size?,
            architecture: match cluster.architecture {
                ArchitectureName::Scalebricks => Architecture::ScaleBricks,
                ArchitectureName::HashPartition => Architecture::HashPartition,
                ArchitectureName::FullDuplication => Architecture::FullDuplication,
                ArchitectureName::Vlb => Architecture::Vlb,
            },
            gpt: gpt?,
            seed: seed?,
            profile: match cluster.key {
                KeyName::Flow5 => KeyProfile::Flow5,
                KeyName::Ue => KeyProfile::Ue,
            },
            oversize: match cluster.oversize {
                OversizeName::FragmentOuter => Oversize::FragmentOuter,
                OversizeName::Icmp => Oversize::Icmp,
            },
            base_station_mtu: mtu,
            verify_ipv4_checksum: cluster.verify_ipv4_checksum,
            gateway: cluster.gateway,
            gateway_v6: cluster.gateway_v6,
            id: NodeId::new(u8::try_from(*self.node.id.get_ref()).ok()?),
            flows: self.node.flows.unwrap_or_default(),
            control,
            admin,
            admin_tcp: self.admin_tcp,
            drain_ms: self.node.drain_ms.unwrap_or(DRAIN_MS),
            workers,
            dpdk,
            probe_every,
            base_stations,
            ports: ports?,
            routes: routes?,
        })
    }
}

/// What the GPT is to be made of.
fn gpt(
    given: Option<&toml::Spanned<String>>,
    is_scalebricks: bool,
    problems: &mut Problems<'_>,
) -> Option<Structure> {
    let Some(given) = given else { return Some(Structure::default()) };
    if !is_scalebricks {
        problems.add(given.span(), "cluster.gpt", "only the architecture scalebricks has a GPT".to_owned());
    }
    let parsed = given.get_ref().parse::<Structure>();
    parsed.map_err(|error| problems.add(given.span(), "cluster.gpt", error.to_string())).ok()
}

/// The seed of a secret: 32 hexadecimal digits.
pub(crate) fn seed(text: &str) -> Option<HashSeed> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let word = |at: usize| u64::from_str_radix(text.get(at..at + 16)?, 16).ok();
    is_hex.then(|| Some(HashSeed::new(word(0)?, word(16)?)))?
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
}

#[cfg(test)]
mod tests;
