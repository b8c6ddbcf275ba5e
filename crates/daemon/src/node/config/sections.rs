//! The sections of the file, as TOML represents them, and the description of every key: [`crate::config`].

use super::control::{LEAST_CLAIM_MS, MOST_FORWARD_MS, PARTITIONS};
use super::ports::MAX_VLAN;
use super::runtime::{
    AdminTcp, IdleKind, LEAST_PACKETS, Layout, MAX_SLEEP_US, MEMORY_MIB, PACKETS, PageKind, SLEEP_US,
};
use super::{BASE_STATION_MTU, Role};
use crate::config::Spanned;
use crate::config::forms::{
    ArchitectureName, Device, HashSecret, Mac, Prefix, RoleName, Secret, Socket, StructureName,
};
use scalebricks_apps::gateway::Architecture;
use scalebricks_cluster::secret::SecretAt;
use scalebricks_control::lease::LeaseTimes;
use scalebricks_elements::gateway::Oversize;
use scalebricks_elements::gateway::fabric::health::PROBE_EVERY;
use scalebricks_elements::gateway::packet::policy::MIN_MTU;
use scalebricks_tables::compact::Structure;
use scalebricks_types::MAX_NODES;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// The configuration of a gateway node.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// The cluster: the same at all nodes.
    pub cluster: Cluster,
    /// This node.
    pub node: Node,
    /// The threads that move packets.
    #[serde(default)]
    pub worker: Worker,
    /// Packet memory.
    #[serde(default)]
    pub dpdk: Dpdk,
    /// Probes of the other nodes over the fabric.
    #[serde(default)]
    pub fabric: Fabric,
    /// The admin interface over TCP as well, with TLS and a token in every request.
    pub admin_tcp: Option<Spanned<AdminTcp>>,
    /// The control plane, which adds, moves and deletes flows while the cluster runs. Without it flows come from
    /// `node.flows`.
    pub control: Option<Control>,
    /// What handles packets instead of tunnels: a firewall or a NAT.
    pub appliance: Option<Spanned<Appliance>>,
    /// A base station.
    #[serde(default)]
    pub base_station: Vec<Station>,
    /// A port. There is one of each role.
    #[serde(default)]
    pub port: Vec<Spanned<Port>>,
    /// A more specific route.
    #[serde(default)]
    pub route: Vec<Route>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cluster {
    /// Number of nodes.
    #[schemars(range(min = 1, max = MAX_NODES))]
    pub nodes: Spanned<usize>,
    /// How the tables are divided among the nodes.
    #[schemars(with = "Option<ArchitectureName>", extend("default" = Architecture::ScaleBricks.name()))]
    pub architecture: Option<Spanned<String>>,
    /// The structure of the GPT. `othello` takes more bits, and its changes are cheaper. It cannot be changed with
    /// `[control]`.
    #[schemars(with = "Option<StructureName>", extend("default" = Structure::default().name()))]
    pub gpt: Option<Spanned<String>>,
    /// The secret of the hash of keys.
    #[schemars(with = "HashSecret")]
    pub secret: Spanned<String>,
    /// The tunnel address; GTP-U for it may arrive anywhere.
    pub gateway: Ipv4Addr,
    /// The source of the gateway's `ICMPv6` errors.
    pub gateway_v6: Ipv6Addr,
    /// The key of a downstream packet: `flow5`, its five-tuple, or `ue`, the user's address. An appliance has its own.
    #[schemars(extend("enum" = ["flow5", "ue"], "default" = "flow5"))]
    pub key: Option<Spanned<String>>,
    /// The treatment of packets that are too big for the base-station link: `fragment-outer` or `icmp`.
    #[serde(default)]
    #[schemars(extend("default" = "fragment-outer"))]
    pub oversize: OversizeName,
    /// Largest IP packet on the whole path to the base stations, bytes.
    #[schemars(range(min = MIN_MTU, max = u16::MAX), extend("default" = BASE_STATION_MTU))]
    pub base_station_mtu: Option<Spanned<u16>>,
    /// Whether IPv4 header checksums are verified.
    #[serde(default = "yes")]
    pub verify_ipv4_checksum: bool,
}

const fn yes() -> bool {
    true
}

/// The names of [`Oversize`].
#[derive(Debug, Default, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OversizeName {
    #[default]
    FragmentOuter,
    Icmp,
}

impl From<OversizeName> for Oversize {
    fn from(name: OversizeName) -> Self {
        match name {
            OversizeName::FragmentOuter => Self::FragmentOuter,
            OversizeName::Icmp => Self::Icmp,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    /// The number of this node, from 0.
    #[schemars(range(max = MAX_NODES - 1))]
    pub id: Spanned<usize>,
    /// The flow file, beside this file unless absolute. Set it or `[control]`.
    #[schemars(extend("format" = "path"))]
    pub flows: Option<PathBuf>,
    /// The admin socket. The default, which commands use, is `/run/scalebricks/nodeID.sock`.
    #[schemars(extend("format" = "path"))]
    pub admin: Option<PathBuf>,
    /// Milliseconds for which the node still forwards after it was asked to stop.
    #[serde(default = "drain_ms")]
    pub drain_ms: u32,
}

const fn drain_ms() -> u32 {
    500
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Worker {
    /// Processor cores, each with one worker; without it, as many workers as the mode needs, not bound to a core.
    #[serde(default)]
    pub cores: Option<Spanned<Vec<u16>>>,
    /// The tasks of each worker. `split`, only for a node: one worker for packets from outside, one for those from the
    /// fabric.
    #[serde(default)]
    #[schemars(extend("default" = "run-to-completion"))]
    pub mode: Option<Spanned<Layout>>,
    /// What an idle worker does.
    #[serde(default)]
    #[schemars(extend("default" = "sleep"))]
    pub idle: IdleKind,
    /// Microseconds that an idle worker sleeps between two polls.
    #[schemars(range(min = 1, max = MAX_SLEEP_US), extend("default" = SLEEP_US))]
    pub sleep_us: Option<Spanned<u32>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dpdk {
    /// The pages of packet memory. Physical devices need `huge-pages`.
    #[serde(default)]
    #[schemars(extend("default" = "ordinary"))]
    pub memory: PageKind,
    /// Memory on ordinary pages, MiB.
    #[schemars(extend("default" = MEMORY_MIB))]
    pub memory_mib: Option<Spanned<u32>>,
    /// Packets in the pool of all ports.
    #[schemars(range(min = LEAST_PACKETS), extend("default" = PACKETS))]
    pub packets: Option<Spanned<u32>>,
    /// Further EAL arguments, as for DPDK's own programs.
    #[serde(default)]
    pub arguments: Vec<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fabric {
    /// Milliseconds between probes, 20 to 150; 0: no probes.
    #[schemars(extend("default" = PROBE_EVERY.as_millis() as u64))]
    pub probe_ms: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Appliance {
    /// What handles packets. `gtp`: tunnels, as without this section.
    #[schemars(extend("enum" = ["gtp", "firewall", "nat44"]))]
    pub kind: Spanned<String>,
    /// Another configuration in the Click language instead of the built-in one.
    #[schemars(extend("format" = "path"))]
    pub file: Option<PathBuf>,
    /// Further arguments of the element.
    pub options: Option<String>,
    /// Inside addresses of a NAT, which needs it: an IPv4 prefix.
    #[schemars(with = "Option<Prefix>")]
    pub inside: Option<Spanned<String>>,
    /// Public addresses of a NAT, which needs it: an IPv4 prefix.
    #[schemars(with = "Option<Prefix>")]
    pub public: Option<Spanned<String>>,
    /// A NAT does not use ports below this one.
    #[schemars(extend("default" = super::appliance::FIRST_PORT))]
    pub first_port: Option<u16>,
    /// Ports of a NAT per inside address, a power of two.
    #[schemars(extend("default" = super::appliance::BLOCK))]
    pub block: Option<Spanned<u16>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Station {
    /// The tunnel address of the base station.
    pub address: Spanned<Ipv4Addr>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    /// The role of the port.
    #[schemars(with = "RoleName")]
    pub role: Spanned<Role>,
    /// The DPDK device.
    #[schemars(with = "Device")]
    pub device: Spanned<String>,
    /// The MAC address; by default the device's.
    #[schemars(with = "Option<Mac>")]
    pub mac: Option<Spanned<String>>,
    /// The VLAN tag of its frames. Ports that share a device need one each.
    #[schemars(range(min = 1, max = MAX_VLAN))]
    pub vlan: Option<Spanned<u16>>,
    /// Largest IP packet, bytes. By default 1500 (internet), `cluster.base_station_mtu` (base-station), the larger of
    /// both (fabric), which are also the least at these ports; at the port internet the least is 1280.
    #[schemars(range(min = MIN_MTU))]
    pub mtu: Option<Spanned<u16>>,
    /// Own addresses. The fabric has none.
    #[serde(default)]
    #[schemars(with = "Vec<Prefix>")]
    pub addresses: Vec<Spanned<String>>,
    /// Next hops of the default route, in the networks of `addresses`. Several share the flows.
    #[serde(default)]
    pub gateways: Vec<Spanned<IpAddr>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    /// The port: `internet` or `base-station`.
    #[schemars(with = "RoleName")]
    pub port: Spanned<Role>,
    /// The network.
    #[schemars(with = "Prefix")]
    pub to: Spanned<String>,
    /// Next hops. Several share the flows.
    pub via: Spanned<Vec<IpAddr>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Control {
    /// The log: addresses of NATS servers, separated by commas, or `directory:PATH` for a single node.
    #[schemars(extend("examples" = ["nats://127.0.0.1:4222", "directory:log"]))]
    pub engine: Spanned<String>,
    /// The cluster's name: 1 to 32 of a-z 0-9 - _.
    #[schemars(extend("examples" = ["berlin"]))]
    pub name: Spanned<String>,
    /// Where this node listens for the others, TCP and UDP.
    #[schemars(with = "Socket")]
    pub listen: Spanned<SocketAddr>,
    /// The file with the key that all nodes share: 32 to 4096 bytes.
    #[schemars(extend("format" = "path"))]
    pub key: PathBuf,
    /// Expected number of flows of the cluster. The table grows if there are more.
    #[schemars(range(min = 1))]
    pub flows: Spanned<u64>,
    /// NATS servers that store each log: 1, 3 or 5.
    #[schemars(extend("default" = super::engine::REPLICAS))]
    pub replicas: Option<Spanned<u8>>,
    /// The user at NATS servers.
    pub user: Option<Spanned<String>>,
    /// Place of the user's password.
    #[schemars(with = "Option<Secret>")]
    pub password: Option<Spanned<SecretAt>>,
    /// Place of a token, instead of user and password.
    #[schemars(with = "Option<Secret>")]
    pub token: Option<Spanned<SecretAt>>,
    /// A credentials file of `nsc`, instead of user and password.
    #[schemars(extend("format" = "path"))]
    pub credentials: Option<Spanned<PathBuf>>,
    /// TLS to NATS servers; without it, TLS is used for addresses with `tls://`.
    pub tls: Option<Spanned<NatsTls>>,
    /// Partitions of the key space, a power of two up to 65536: the same at all nodes. It cannot be changed.
    #[schemars(extend("default" = PARTITIONS))]
    pub partitions: Option<Spanned<u32>>,
    /// The newest version of the protocol to use. By default the newest that the program knows.
    pub version: Option<Spanned<u16>>,
    /// Most keys that this node holds, two per flow.
    #[schemars(range(min = 1))]
    pub fib_keys: Option<Spanned<u64>>,
    /// Whether the node takes over the addresses of nodes that die. By default true if peers have addresses.
    pub takeover: Option<Spanned<bool>>,
    /// How long the node acts without contact with the log or half of the other members: the same at all nodes.
    pub lease: Option<Lease>,
    /// Another node. There is a section for every other node of the cluster.
    #[serde(default)]
    pub peer: Vec<Peer>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lease {
    /// After so many milliseconds the node claims no address and sends no error messages.
    #[schemars(range(min = LEAST_CLAIM_MS), extend("default" = LeaseTimes::default().claim.as_millis() as u64))]
    pub claim_ms: Option<Spanned<u64>>,
    /// After so many milliseconds the node forwards nothing: at least `claim_ms`.
    #[schemars(range(max = MOST_FORWARD_MS), extend("default" = LeaseTimes::default().forward.as_millis() as u64))]
    pub forward_ms: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    /// Its number.
    #[schemars(range(max = MAX_NODES - 1))]
    pub node: Spanned<usize>,
    /// Where it listens.
    #[schemars(with = "Socket")]
    pub address: Spanned<SocketAddr>,
    /// Its addresses on the Internet link, in the networks of this node's port.
    #[serde(default)]
    pub internet: Vec<Spanned<IpAddr>>,
    /// Its addresses on the base-station link, in the networks of this node's port.
    #[serde(default)]
    pub base_station: Vec<Spanned<IpAddr>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NatsTls {
    /// CA certificates, PEM. By default those that the system trusts.
    #[schemars(extend("format" = "path"))]
    pub authorities: Option<PathBuf>,
    /// The client certificate, PEM, if the servers require one.
    #[schemars(extend("format" = "path"))]
    pub certificate: Option<PathBuf>,
    /// Its key, PEM.
    #[schemars(extend("format" = "path"))]
    pub key: Option<PathBuf>,
}
