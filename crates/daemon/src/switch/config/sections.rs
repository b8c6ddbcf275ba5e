//! The sections of the file, as TOML represents them, and the description of every key: [`crate::config`].

use super::DEFAULT_SOCKET;
use super::names::{EXPECTED, FILTER_RATES, MAX_EXPECTED};
use super::ports::{MIN_MTU, MTU};
use crate::config::Spanned;
use crate::config::forms::{Device, HashSecret};
use crate::node::config::sections::{Dpdk, Worker};
use crate::node::config::{AdminTcp, LogSection, MAX_VLAN};
use scalebricks_elements::flat::names::MAX_CHECK_BITS;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// The configuration of a switch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// The switch.
    pub switch: Switch,
    /// The names that frames are forwarded by.
    pub names: Names,
    /// The limit on flooding, per port.
    pub storm: Option<Storm>,
    /// A port: 2 to 256 of them.
    #[serde(default)]
    pub port: Vec<Spanned<Port>>,
    /// The threads that move frames.
    #[serde(default)]
    pub worker: Worker,
    /// Packet memory.
    #[serde(default)]
    pub dpdk: Dpdk,
    /// The admin interface over TCP as well, with TLS and a token in every request.
    pub admin_tcp: Option<Spanned<AdminTcp>>,
    /// The log of names, which several switches share. Without it names come from `names.file`.
    pub control: Option<LogSection>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switch {
    /// The secret of the hash of names.
    #[schemars(with = "HashSecret")]
    pub secret: Spanned<String>,
    /// The admin socket.
    #[schemars(extend("format" = "path", "default" = DEFAULT_SOCKET))]
    pub admin: Option<PathBuf>,
    /// Whether the IPv4 header checksums of routed packets are verified.
    #[serde(default = "yes")]
    pub verify_ipv4_checksum: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Names {
    /// The part of a frame that is its name.
    pub kind: Spanned<Kind>,
    /// The position of names of the kind `bytes`, which need it.
    pub at: Option<Spanned<At>>,
    /// Whether names of the kind `tuple` contain the destination port.
    #[schemars(extend("default" = false))]
    pub with_port: Option<Spanned<bool>>,
    /// The file of names. Set it or `[control]`.
    #[schemars(extend("format" = "path"))]
    pub file: Option<Spanned<PathBuf>>,
    /// Number of names that the table is made for.
    #[schemars(range(min = 1, max = MAX_EXPECTED), extend("default" = EXPECTED))]
    pub expected: Option<Spanned<u64>>,
    /// The treatment of frames with unknown names. By default `flood` for names of the kind `mac`, `drop` for others,
    /// which cannot be flooded.
    pub unknown: Option<Spanned<UnknownName>>,
    /// Bits of checksums per name, by which unknown names are detected. By default 8, or 0 if another key detects them
    /// or `unknown = "answer"`.
    #[schemars(range(max = MAX_CHECK_BITS))]
    pub check_bits: Option<Spanned<u8>>,
    /// The false-positive rate of a filter of unknown names. By default there is no filter.
    #[schemars(range(min = *FILTER_RATES.start(), max = *FILTER_RATES.end()))]
    pub filter_rate: Option<Spanned<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Mac,
    Ipv4,
    Ipv6,
    Tuple,
    Bytes,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct At {
    /// What the offset counts from.
    #[serde(default)]
    #[schemars(extend("default" = "frame"))]
    pub from: Origin,
    /// Bytes before the name.
    pub offset: u16,
    /// Bytes of the name. Set this key or `length_bytes`.
    #[schemars(range(min = 1))]
    pub length: Option<u8>,
    /// Bytes of a length that precedes the name.
    #[schemars(range(min = 1, max = 2))]
    pub length_bytes: Option<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Origin {
    #[default]
    Frame,
    Payload,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UnknownName {
    Drop,
    Flood,
    Answer,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Storm {
    /// Flooded frames per second. Without the section, the limit is 10000, and 1000 at once.
    pub frames_per_s: Spanned<u32>,
    /// Flooded frames at once.
    pub burst: Spanned<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    /// The name, by which actions name the port: 1 to 32 letters, digits, `-` and `_`.
    pub name: Spanned<String>,
    /// The DPDK device. Only a replay of captures needs none.
    #[schemars(with = "Option<Device>")]
    pub device: Option<Spanned<String>>,
    /// The VLAN tag of its frames. Ports that share a device need one each.
    #[schemars(range(min = 1, max = MAX_VLAN))]
    pub vlan: Option<Spanned<u16>>,
    /// The group. Frames are not flooded between ports of a group.
    pub group: Option<Spanned<String>>,
    /// Largest packet behind the Ethernet header, bytes.
    #[schemars(range(min = MIN_MTU), extend("default" = MTU))]
    pub mtu: Option<Spanned<u16>>,
}
