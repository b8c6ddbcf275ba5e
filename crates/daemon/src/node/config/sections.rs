//! The sections of the file, as TOML represents them.

use super::Role;
use super::runtime::{AdminTcp, IdleKind, Layout, PageKind};
use scalebricks_cluster::secret::SecretAt;
use scalebricks_elements::gateway::Oversize;
use serde::Deserialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub cluster: Cluster,
    pub node: Node,
    #[serde(default)]
    pub worker: Worker,
    #[serde(default)]
    pub dpdk: Dpdk,
    #[serde(default)]
    pub fabric: Fabric,
    pub admin_tcp: Option<AdminTcp>,
    pub control: Option<Control>,
    pub appliance: Option<Spanned<Appliance>>,
    #[serde(default)]
    pub base_station: Vec<Station>,
    #[serde(default)]
    pub port: Vec<Spanned<Port>>,
    #[serde(default)]
    pub route: Vec<Route>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cluster {
    pub nodes: Spanned<usize>,
    pub architecture: Option<Spanned<String>>,
    pub gpt: Option<Spanned<String>>,
    pub secret: Spanned<String>,
    pub gateway: Ipv4Addr,
    pub gateway_v6: Ipv6Addr,
    pub key: Option<Spanned<String>>,
    #[serde(default = "fragment_outer", with = "OversizeName")]
    pub oversize: Oversize,
    pub base_station_mtu: Option<Spanned<u16>>,
    #[serde(default = "yes")]
    pub verify_ipv4_checksum: bool,
}

const fn yes() -> bool {
    true
}

const fn fragment_outer() -> Oversize {
    Oversize::FragmentOuter
}

/// The names of [`Oversize`].
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", remote = "Oversize")]
enum OversizeName {
    FragmentOuter,
    Icmp,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub id: Spanned<usize>,
    pub flows: Option<PathBuf>,
    pub admin: Option<PathBuf>,
    #[serde(default = "drain_ms")]
    pub drain_ms: u32,
}

const fn drain_ms() -> u32 {
    500
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Worker {
    #[serde(default)]
    pub cores: Option<Spanned<Vec<u16>>>,
    #[serde(default)]
    pub mode: Option<Spanned<Layout>>,
    #[serde(default)]
    pub idle: IdleKind,
    pub sleep_us: Option<Spanned<u32>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dpdk {
    #[serde(default)]
    pub memory: PageKind,
    pub memory_mib: Option<Spanned<u32>>,
    pub packets: Option<Spanned<u32>>,
    #[serde(default)]
    pub arguments: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fabric {
    pub probe_ms: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Appliance {
    pub kind: Spanned<String>,
    pub file: Option<PathBuf>,
    pub options: Option<String>,
    pub inside: Option<Spanned<String>>,
    pub public: Option<Spanned<String>>,
    pub first_port: Option<u16>,
    pub block: Option<Spanned<u16>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Station {
    pub address: Spanned<Ipv4Addr>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub role: Spanned<Role>,
    pub device: Spanned<String>,
    pub mac: Option<Spanned<String>>,
    pub vlan: Option<Spanned<u16>>,
    pub mtu: Option<Spanned<u16>>,
    #[serde(default)]
    pub addresses: Vec<Spanned<String>>,
    #[serde(default)]
    pub gateways: Vec<Spanned<IpAddr>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    pub port: Spanned<Role>,
    pub to: Spanned<String>,
    pub via: Spanned<Vec<IpAddr>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Control {
    pub engine: Spanned<String>,
    pub name: Spanned<String>,
    pub listen: Spanned<SocketAddr>,
    pub key: PathBuf,
    pub flows: Spanned<u64>,
    pub replicas: Option<u8>,
    pub user: Option<String>,
    pub password: Option<SecretAt>,
    pub token: Option<SecretAt>,
    pub credentials: Option<PathBuf>,
    pub tls: Option<NatsTls>,
    pub partitions: Option<Spanned<u32>>,
    pub version: Option<Spanned<u16>>,
    pub fib_keys: Option<Spanned<u64>>,
    pub takeover: Option<Spanned<bool>>,
    pub lease: Option<Lease>,
    #[serde(default)]
    pub peer: Vec<Peer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lease {
    pub claim_ms: Option<Spanned<u64>>,
    pub forward_ms: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peer {
    pub node: Spanned<usize>,
    pub address: Spanned<SocketAddr>,
    #[serde(default)]
    pub internet: Vec<Spanned<IpAddr>>,
    #[serde(default)]
    pub base_station: Vec<Spanned<IpAddr>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NatsTls {
    pub authorities: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}
