//! The configuration of a node: a TOML file that is checked completely before anything starts.

use crate::config::Spanned;
use scalebricks_apps::gateway::{Architecture, Layout as TableLayout};
use scalebricks_elements::gateway::Oversize;
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, HashSeed, KeyProfile, NodeId};
use scalebricks_wire::MacAddr;
use sections::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

mod appliance;
mod control;
mod engine;
mod log;
mod ports;
mod runtime;
pub(crate) mod sections;
mod takeover;

pub use crate::config::Problem;
pub(crate) use crate::config::Problems;
pub use appliance::ApplianceFile;
pub use control::ControlFile;
pub use engine::{EngineAt, NatsAt, NatsAuth};
pub use log::LogFile;
pub(crate) use log::LogSection;
pub(crate) use ports::{Devices, MAX_VLAN, is_host};
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

/// Default of `base_station_mtu`.
const BASE_STATION_MTU: u16 = 1_600;

impl NodeFile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// All [`Problem`]s; only those of the syntax if the text is not TOML.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        Problems::parse_file(text, File::make)
    }
}

impl File {
    fn make(self, problems: &mut Problems<'_>) -> Option<NodeFile> {
        let sections::Cluster { nodes, secret, base_station_mtu, .. } = &self.cluster;
        let size = ClusterSize::new(*nodes.get_ref()).ok();
        let seed = seed(secret);
        let mtu = base_station_mtu.as_ref().map_or(BASE_STATION_MTU, |mtu| *mtu.get_ref());
        let nodes = *nodes.get_ref();
        let id = problems.check(
            &self.node.id,
            "node.id",
            |id| id < nodes,
            |id| format!("{id} in a cluster of {nodes} (numbered from 0)"),
        );
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
        let gpt = match &self.cluster.gpt {
            Some(name) => problems.parse(name, "cluster.gpt"),
            None => Some(Structure::default()),
        };
        if let Some(gpt) = self.cluster.gpt.as_ref().filter(|_| !is_scalebricks) {
            problems.add(gpt.span(), "cluster.gpt", "only the architecture scalebricks has a GPT");
        }
        let ports = ports::ports(self.port, mtu, problems);
        let control =
            self.control.map(|section| control::control(section, id, size, ports.as_ref(), problems));
        let default_socket = || PathBuf::from(format!("/run/scalebricks/node{id}.sock"));
        let admin = self.node.admin.unwrap_or_else(default_socket);
        if let Some(Some(control)) = &control {
            control.check_places(self.admin_tcp.as_ref(), problems);
        }
        let base_stations = ports::base_stations(&self.base_station, ports.as_ref(), problems);
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
            oversize: cluster.oversize.into(),
            base_station_mtu: mtu,
            verify_ipv4_checksum: cluster.verify_ipv4_checksum,
            gateway: cluster.gateway,
            gateway_v6: cluster.gateway_v6,
            id: NodeId::new(u8::try_from(id).ok()?),
            flows: self.node.flows.unwrap_or_default(),
            control: match control {
                None => None,
                Some(control) => Some(control?),
            },
            admin,
            admin_tcp: self.admin_tcp.map(Spanned::into_inner),
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
pub(crate) fn seed(given: &Spanned<String>) -> Option<HashSeed> {
    let seed = u128::from_str_radix(given.get_ref(), 16).ok()?;
    Some(HashSeed::new((seed >> 64) as u64, seed as u64))
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
