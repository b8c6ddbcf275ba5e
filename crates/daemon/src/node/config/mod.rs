//! The configuration of a node: a TOML file that is checked completely before anything starts.

use scalebricks_apps::gateway::{Architecture, Layout as TableLayout};
use scalebricks_elements::gateway::Oversize;
use scalebricks_elements::gateway::packet::policy::MIN_MTU;
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, HashSeed, KeyProfile, MAX_NODES, NodeId};
use scalebricks_wire::MacAddr;
use sections::File;
use serde::de::DeserializeOwned;
use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use toml::Spanned;

mod appliance;
mod control;
mod engine;
mod log;
mod ports;
mod runtime;
pub(crate) mod sections;
mod takeover;

pub use appliance::ApplianceFile;
pub use control::ControlFile;
pub use engine::{EngineAt, NatsAt, NatsAuth};
pub use log::LogFile;
pub(crate) use log::LogSection;
pub(crate) use ports::{Devices, is_host};
use runtime::probe_every;
pub use runtime::{AdminTcp, Dpdk, Idle, Layout, Workers};
pub(crate) use runtime::{dpdk, workers};
pub use scalebricks_admin::model::PortRole as Role;
pub use takeover::TakeoverFile;

/// The checked configuration of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFile {
    /// The cluster's size.
    pub size: ClusterSize,
    /// Its architecture.
    pub architecture: Architecture,
    /// The structure of the GPT.
    pub gpt: Structure,
    /// The secret of its key hash.
    pub seed: HashSeed,
    /// The key of downstream packets.
    pub profile: KeyProfile,
    /// What handles packets instead of tunnels.
    pub appliance: Option<ApplianceFile>,
    /// The treatment of packets that do not fit the base-station link.
    pub oversize: Oversize,
    /// Largest IP packet on that link, bytes.
    pub base_station_mtu: u16,
    /// Whether IPv4 header checksums are verified.
    pub verify_ipv4_checksum: bool,
    /// The gateway's tunnel address.
    pub gateway: Ipv4Addr,
    /// The source of its ICMPv6 errors.
    pub gateway_v6: Ipv6Addr,
    /// This node.
    pub id: NodeId,
    /// The flow file; empty if flows come from the control plane.
    pub flows: PathBuf,
    /// The control plane, if flows come from there.
    pub control: Option<ControlFile>,
    /// The admin socket.
    pub admin: PathBuf,
    /// The admin interface over TCP, if configured.
    pub admin_tcp: Option<AdminTcp>,
    /// Milliseconds for which the node still forwards after it was asked to stop.
    pub drain_ms: u32,
    /// The threads that move packets.
    pub workers: Workers,
    /// Packet memory.
    pub dpdk: Dpdk,
    /// Time between fabric probes; `None`: no probes are sent.
    pub probe_every: Option<Duration>,
    /// Tunnel addresses of the base stations.
    pub base_stations: Vec<Ipv4Addr>,
    /// The ports: Internet, base stations, fabric.
    pub ports: [Port; 3],
    /// Routes, including the default routes.
    pub routes: Vec<Route>,
}

impl NodeFile {
    /// The layout of all nodes' tables.
    pub const fn layout(&self) -> TableLayout {
        TableLayout { size: self.size, architecture: self.architecture, gpt: self.gpt, seed: self.seed }
    }
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its role.
    pub role: Role,
    /// The DPDK device: a PCI address, or a virtual device with its arguments.
    pub device: String,
    /// Its MAC address; `None`: the device's.
    pub mac: Option<MacAddr>,
    /// The VLAN tag of its frames on the wire.
    pub vlan: Option<u16>,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Its addresses, with the prefix lengths of their networks.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Next hops of the default route; several share the flows.
    pub gateways: Vec<IpAddr>,
}

/// A route to a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The port.
    pub port: Role,
    /// The network.
    pub to: (IpAddr, u8),
    /// Next hops; several share the flows.
    pub via: Vec<IpAddr>,
}

/// A problem in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// The key; empty if the file is not valid TOML with known keys.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub what: String,
}

impl Display for Problem {
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

/// Collects the problems of a file.
pub(crate) struct Problems<'a> {
    text: &'a str,
    found: Vec<Problem>,
}

impl<'a> Problems<'a> {
    /// Parses a file into sections, and makes a configuration of them.
    ///
    /// # Errors
    /// All problems, by line; or the first if the file is not TOML with known keys.
    pub(crate) fn parse_file<S: DeserializeOwned, T>(
        text: &'a str,
        make: impl FnOnce(S, &mut Self) -> Option<T>,
    ) -> Result<T, Vec<Problem>> {
        let mut problems = Self { text, found: Vec::new() };
        let sections = toml::from_str(text).map_err(|error| {
            let line = problems.line(error.span().map_or(0, |span| span.start));
            vec![Problem { line, key: String::new(), what: error.message().trim().replace('\n', ", ") }]
        })?;
        match make(sections, &mut problems) {
            Some(made) if problems.found.is_empty() => Ok(made),
            _ => {
                problems.found.sort_by_key(|problem| problem.line);
                Err(problems.found)
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

    /// The value of a key; `what` describes the problem of a wrong one.
    pub(crate) fn check<T: Copy>(
        &mut self,
        given: &Spanned<T>,
        key: &str,
        is_right: impl FnOnce(T) -> bool,
        what: impl FnOnce(T) -> String,
    ) -> T {
        let value = *given.get_ref();
        if !is_right(value) {
            self.add(given.span(), key, what(value));
        }
        value
    }

    /// The value of an optional key, which must be in a range.
    pub(crate) fn in_range<T: Copy + Display + PartialOrd>(
        &mut self,
        given: Option<&Spanned<T>>,
        key: &str,
        range: &RangeInclusive<T>,
    ) -> Option<T> {
        let what = |value| format!("{value} is not {} to {}", range.start(), range.end());
        given.map(|given| self.check(given, key, |value| range.contains(&value), what))
    }

    /// Parses the text of a key.
    pub(crate) fn parse<T: FromStr<Err: Display>>(&mut self, text: &Spanned<String>, key: &str) -> Option<T> {
        let parsed = text.get_ref().parse();
        parsed.map_err(|error: T::Err| self.add(text.span(), key, error.to_string())).ok()
    }
}

impl NodeFile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// All [`Problem`]s, or the first if the file cannot be understood as TOML with these keys.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        Problems::parse_file(text, File::make)
    }
}

impl File {
    fn make(self, problems: &mut Problems<'_>) -> Option<NodeFile> {
        let sections::Cluster { nodes, secret, base_station_mtu, .. } = &self.cluster;
        let size = problems.in_range(Some(nodes), "cluster.nodes", &(1..=usize::from(MAX_NODES)));
        let size = size.and_then(|size| ClusterSize::new(size).ok());
        let seed = seed(secret, "cluster.secret", problems);
        let mtu =
            problems.in_range(base_station_mtu.as_ref(), "cluster.base_station_mtu", &(MIN_MTU..=u16::MAX));
        let mtu = mtu.unwrap_or(BASE_STATION_MTU);
        let nodes = *nodes.get_ref();
        let id = problems.check(
            &self.node.id,
            "node.id",
            |id| id < nodes,
            |id| format!("{id} in a cluster of {nodes} (numbered from 0)"),
        );
        let mut base_stations: Vec<Ipv4Addr> = Vec::new();
        for station in &self.base_station {
            base_stations.push(problems.check(
                &station.address,
                "base_station.address",
                |address| !base_stations.contains(&address),
                |address| format!("{address} occurs twice"),
            ));
        }
        if self.node.flows.is_some() == self.control.is_some() {
            let what =
                "set one of node.flows (flows from a file) and [control] (flows from the control plane)";
            problems.add(self.node.id.span(), "node.flows", what);
        }
        let architecture = match &self.cluster.architecture {
            Some(name) => problems.parse(name, "cluster.architecture"),
            None => Some(Architecture::ScaleBricks),
        };
        let is_scalebricks = architecture == Some(Architecture::ScaleBricks);
        if self.control.is_some() && !is_scalebricks {
            let what = "the control plane supports only the architecture scalebricks";
            problems.add(self.cluster.nodes.span(), "cluster.architecture", what);
        }
        let profile = match &self.cluster.key {
            Some(name) => problems.parse(name, "cluster.key"),
            None => Some(KeyProfile::Flow5),
        };
        if let Some(key) = self.cluster.key.as_ref()
            && profile.is_some_and(KeyProfile::is_of_appliance)
        {
            problems.add(key.span(), "cluster.key", "not flow5 or ue; [appliance] has keys of its own");
        }
        let gpt = match &self.cluster.gpt {
            Some(name) => problems.parse(name, "cluster.gpt"),
            None => Some(Structure::default()),
        };
        if let Some(gpt) = self.cluster.gpt.as_ref().filter(|_| !is_scalebricks) {
            problems.add(gpt.span(), "cluster.gpt", "only the architecture scalebricks has a GPT");
        }
        let ports = ports::ports(self.port, mtu, problems);
        let control = match self.control {
            None => None,
            Some(section) => Some(control::control(section, id, size, ports.as_ref(), problems)?),
        };
        let default_socket = || PathBuf::from(format!("/run/scalebricks/node{id}.sock"));
        let admin = self.node.admin.unwrap_or_else(default_socket);
        if let Some(control) = &control {
            control.check_places(self.admin_tcp.as_ref(), &self.node.id, problems);
        }
        let routes = ports.as_ref().map(|ports| ports::routes(self.route, ports, problems));
        let workers = workers(self.worker, problems);
        let (section, key) = (self.appliance.as_ref(), self.cluster.key.as_ref());
        let appliance = appliance::appliance(section, key, &workers, problems);
        let profile = appliance.as_ref().map(|(_, profile)| *profile).or(profile);
        let appliance = appliance.map(|(appliance, _)| appliance);
        let dpdk = dpdk(self.dpdk, problems);
        let probe_every = probe_every(self.fabric.probe_ms.as_ref(), problems);
        let cluster = self.cluster;
        Some(NodeFile {
            size: size?,
            architecture: architecture?,
            gpt: gpt?,
            seed: seed?,
            profile: profile?,
            appliance,
            oversize: cluster.oversize,
            base_station_mtu: mtu,
            verify_ipv4_checksum: cluster.verify_ipv4_checksum,
            gateway: cluster.gateway,
            gateway_v6: cluster.gateway_v6,
            id: NodeId::new(u8::try_from(id).ok()?),
            flows: self.node.flows.unwrap_or_default(),
            control,
            admin,
            admin_tcp: self.admin_tcp,
            drain_ms: self.node.drain_ms,
            workers,
            dpdk,
            probe_every,
            base_stations,
            ports: ports?,
            routes: routes?,
        })
    }
}

/// Parses a secret of 32 hexadecimal digits.
pub(crate) fn seed(given: &Spanned<String>, key: &str, problems: &mut Problems<'_>) -> Option<HashSeed> {
    let text = given.get_ref();
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let seed = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
    if seed.is_none() {
        problems.add(given.span(), key, "not 32 hexadecimal digits");
    }
    seed.map(|seed| HashSeed::new((seed >> 64) as u64, seed as u64))
}

/// An address and the prefix length of its network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network(pub(crate) IpAddr, pub(crate) u8);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (address, length) = text.split_once('/')?;
            let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
            (length <= if address.is_ipv4() { 32 } else { 128 }).then_some(Self(address, length))
        };
        parse().ok_or_else(|| format!("'{text}' is not an address with a prefix length, like 192.0.2.1/24"))
    }
}

#[cfg(test)]
mod tests;
