//! The sections of the file, as TOML represents them.

use crate::node::config::sections::{Dpdk, Worker};
use crate::node::config::{AdminTcp, LogSection};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub router: Router,
    #[serde(default)]
    pub port: Vec<Spanned<Port>>,
    #[serde(default)]
    pub link: Vec<Spanned<Link>>,
    pub control: LogSection,
    #[serde(default)]
    pub feeder: Feeder,
    #[serde(default)]
    pub worker: Worker,
    #[serde(default)]
    pub dpdk: Dpdk,
    pub admin_tcp: Option<AdminTcp>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Router {
    pub node: Spanned<usize>,
    pub nodes: Spanned<usize>,
    pub secret: Spanned<String>,
    pub admin: Option<PathBuf>,
    pub steering: Option<Spanned<Steering>>,
    pub port_rate: Spanned<String>,
    pub link_rate: Option<Spanned<String>>,
    pub queue: Option<Spanned<usize>>,
    pub mtu: Option<Spanned<u16>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Steering {
    Valiant,
    DirectVlb,
    Flowlets,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub device: Spanned<String>,
    pub mac: Option<Spanned<String>>,
    pub vlan: Option<Spanned<u16>>,
    #[serde(default)]
    pub addresses: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub node: Spanned<usize>,
    pub device: Spanned<String>,
    pub vlan: Option<Spanned<u16>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Feeder {
    pub routes: Option<PathBuf>,
    pub fpm: Option<Fpm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fpm {
    pub listen: Spanned<SocketAddr>,
    pub preference: Option<u32>,
    pub quiet_ms: Option<Spanned<u64>>,
    pub keep_s: Option<Spanned<u64>>,
}
