//! The configuration of a switch: a TOML file that is checked completely before anything starts.

mod names;
mod ports;
pub(crate) mod sections;

use crate::config::Spanned;
use crate::node::config::{self, AdminTcp, Dpdk, Layout, LogFile, LogSection, Problem, Problems, Workers};
use scalebricks_apps::switch::PortGroup;
use scalebricks_apps::switch::text::PortNames;
use scalebricks_elements::flat::{CheckBits, NameKind, StormRate, UnknownNamePolicy};
use scalebricks_types::HashSeed;
use std::path::PathBuf;

/// The default admin socket.
pub const DEFAULT_SOCKET: &str = "/run/scalebricks/switch.sock";

/// Default of `storm.frames_per_s` and `storm.burst`.
const STORM: (u32, u32) = (10_000, 1_000);

/// The checked configuration of a switch.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchFile {
    /// The secret of the hash of names.
    pub seed: HashSeed,
    /// The admin socket.
    pub admin: PathBuf,
    /// The admin interface over TCP, if configured.
    pub admin_tcp: Option<AdminTcp>,
    /// Whether the IPv4 header checksums of routed packets are verified.
    pub verify_ipv4_checksum: bool,
    /// The names, and the treatment of unknown ones.
    pub names: NamesFile,
    /// The limit on flooding, per port.
    pub storm: StormRate,
    /// The ports, by number.
    pub ports: Vec<Port>,
    /// Their names.
    pub port_names: PortNames,
    /// The threads that move frames.
    pub workers: Workers,
    /// Packet memory.
    pub dpdk: Dpdk,
    /// The log of names; `None` if they come from a file.
    pub control: Option<LogFile>,
}

/// The checked section `[names]`.
#[derive(Debug, Clone, PartialEq)]
pub struct NamesFile {
    /// The part of a frame that is its name.
    pub kind: NameKind,
    /// The file of names; `None` if they come from a log.
    pub file: Option<PathBuf>,
    /// Number of names that the table is made for.
    pub expected: u64,
    /// The treatment of frames with unknown names.
    pub unknown: UnknownNamePolicy,
    /// Bits of checksums.
    pub check_bits: CheckBits,
    /// The false-positive rate of the filter, if there is one.
    pub filter_rate: Option<f64>,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The DPDK device. A replay needs none.
    pub device: Option<String>,
    /// The VLAN of a port that shares its device.
    pub vlan: Option<u16>,
    /// Its group, if it is in one.
    pub group: Option<PortGroup>,
    /// Largest packet behind the Ethernet header, bytes.
    pub mtu: u16,
}

impl SwitchFile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// All [`Problem`]s; only those of the syntax if the text is not TOML.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        Problems::parse_file(text, sections::File::make)
    }
}

impl sections::File {
    fn make(self, problems: &mut Problems<'_>) -> Option<SwitchFile> {
        let seed = config::seed(&self.switch.secret);
        if self.names.file.is_some() == self.control.is_some() {
            let what = "set one of names.file (names from a file) and [control] (names from a log)";
            problems.add(self.names.kind.span(), "names.file", what);
        }
        let names = names::names(self.names, problems);
        let storm = storm(self.storm.as_ref(), problems);
        let ports = ports::ports(self.port, problems);
        if let Some(mode) = &self.worker.mode {
            let what = |_| "a switch has no fabric: all its workers do the same work".to_owned();
            problems.check(mode, "worker.mode", |mode| mode != Layout::Split, what);
        }
        let workers = config::workers(self.worker, problems);
        let dpdk = config::dpdk(self.dpdk, problems);
        let control = self.control.map(|section| control(&section, problems));
        let (ports, port_names) = ports?;
        Some(SwitchFile {
            seed: seed?,
            admin: self.switch.admin.unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET)),
            admin_tcp: self.admin_tcp.map(Spanned::into_inner),
            verify_ipv4_checksum: self.switch.verify_ipv4_checksum,
            names: names?,
            storm: storm?,
            ports,
            port_names,
            workers,
            dpdk,
            control: match control {
                None => None,
                Some(control) => Some(control?),
            },
        })
    }
}

fn storm(given: Option<&sections::Storm>, problems: &mut Problems<'_>) -> Option<StormRate> {
    let (frames_per_s, burst) =
        given.map_or(STORM, |storm| (*storm.frames_per_s.get_ref(), *storm.burst.get_ref()));
    let rate = StormRate::new(frames_per_s, burst);
    if let (Err(error), Some(given)) = (&rate, given) {
        problems.add(given.frames_per_s.span(), "storm", error.to_string());
    }
    rate.ok()
}

fn control(section: &LogSection, problems: &mut Problems<'_>) -> Option<LogFile> {
    let name = section.name.get_ref();
    if !name.is_empty() && !PortNames::is_name(name) {
        let what = format!("'{name}' is not a name of 1 to 32 letters, digits, '-' and '_'");
        problems.add(section.name.span(), "control.name", what);
    }
    section.check(problems)
}
