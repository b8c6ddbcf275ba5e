//! The sections of the file, as TOML represents them.

use crate::node::config::sections::{Dpdk, Worker};
use crate::node::config::{AdminTcp, LogSection};
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub switch: Switch,
    pub names: Names,
    pub storm: Option<Storm>,
    #[serde(default)]
    pub port: Vec<Spanned<Port>>,
    #[serde(default)]
    pub worker: Worker,
    #[serde(default)]
    pub dpdk: Dpdk,
    pub admin_tcp: Option<AdminTcp>,
    pub control: Option<LogSection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    pub secret: Spanned<String>,
    pub admin: Option<PathBuf>,
    #[serde(default = "yes")]
    pub verify_ipv4_checksum: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Names {
    pub kind: Spanned<Kind>,
    pub at: Option<Spanned<At>>,
    pub with_port: Option<Spanned<bool>>,
    pub file: Option<Spanned<PathBuf>>,
    pub expected: Option<Spanned<u64>>,
    pub unknown: Option<Spanned<UnknownName>>,
    pub check_bits: Option<Spanned<u8>>,
    pub filter_rate: Option<Spanned<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Mac,
    Ipv4,
    Ipv6,
    Tuple,
    Bytes,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct At {
    #[serde(default)]
    pub from: From,
    pub offset: u16,
    pub length: Option<u8>,
    pub length_bytes: Option<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum From {
    #[default]
    Frame,
    Payload,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum UnknownName {
    Drop,
    Flood,
    Answer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Storm {
    pub frames_per_s: Spanned<u32>,
    pub burst: Spanned<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub name: Spanned<String>,
    pub device: Option<Spanned<String>>,
    pub vlan: Option<Spanned<u16>>,
    pub group: Option<Spanned<String>>,
    pub mtu: Option<Spanned<u16>>,
}
