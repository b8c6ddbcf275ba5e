//! The configuration of a switch: a TOML file, checked whole before anything starts.

mod names;
mod ports;
mod sections;

use crate::node::config::{
    self, AdminTcp, Dpdk, EngineAt, EngineSection, Layout, Problem, Problems, Workers,
};
use scalebricks_apps::switch::PortGroup;
use scalebricks_apps::switch::text::PortNames;
use scalebricks_elements::flat::{CheckBits, NameKind, StormRate, UnknownNamePolicy};
use scalebricks_types::HashSeed;
use std::path::PathBuf;

/// The admin socket, unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/scalebricks/switch.sock";

/// Default of `storm.frames_per_s` and `storm.burst`.
const STORM: (u32, u32) = (10_000, 1_000);

/// Everything a switch is told.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchFile {
    /// The secret of the hash of names.
    pub seed: HashSeed,
    /// The admin socket.
    pub admin: PathBuf,
    /// The admin interface over TCP, if there is to be one.
    pub admin_tcp: Option<AdminTcp>,
    /// Whether packets to be routed have their IPv4 header checksum verified.
    pub verify_ipv4_checksum: bool,
    /// What names are, and what becomes of those that are not known.
    pub names: NamesFile,
    /// How much may be flooded, a port.
    pub storm: StormRate,
    /// The ports, by number.
    pub ports: Vec<Port>,
    /// Their names.
    pub port_names: PortNames,
    /// The threads that move frames.
    pub workers: Workers,
    /// Where frames lie.
    pub dpdk: Dpdk,
    /// Where names come from, if not from a file.
    pub control: Option<ControlFile>,
}

/// What a switch is told of names.
#[derive(Debug, Clone, PartialEq)]
pub struct NamesFile {
    /// What of a frame is its name.
    pub kind: NameKind,
    /// The file of names, if they come from one.
    pub file: Option<PathBuf>,
    /// Names that the table is made for.
    pub expected: u64,
    /// What becomes of frames whose name is not known.
    pub unknown: UnknownNamePolicy,
    /// Bits of checksums.
    pub check_bits: CheckBits,
    /// What a filter may let through, if there is one.
    pub filter_rate: Option<f64>,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The DPDK device. A replay needs none.
    pub device: Option<String>,
    /// Its VLAN, if it is a sub-port of the device.
    pub vlan: Option<u16>,
    /// Its group, if it is in one.
    pub group: Option<PortGroup>,
    /// Largest packet behind the Ethernet header, bytes.
    pub mtu: u16,
}

/// Where names come from, if not from a file: a log that several switches follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlFile {
    /// Who keeps it.
    pub engine: EngineAt,
    /// Its name: switches that share names have the same.
    pub name: String,
}

impl SwitchFile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// All [`Problem`]s, or the first if the file cannot be understood as TOML with these keys.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let file: sections::File = toml::from_str(text).map_err(|error| Problems::of_toml(text, &error))?;
        let mut problems = Problems::new(text);
        let made = file.make(&mut problems);
        problems.settle(made)
    }
}

impl sections::File {
    fn make(self, problems: &mut Problems<'_>) -> Option<SwitchFile> {
        let secret = &self.switch.secret;
        let seed = config::seed(secret.get_ref());
        if seed.is_none() {
            let what = "not 32 hexadecimal digits, which senders must not know";
            problems.add(secret.span(), "switch.secret", what);
        }
        if self.names.file.is_some() == self.control.is_some() {
            let what = "names come from a file (names.file) or from a log ([control]): say one of them";
            problems.add(self.names.kind.span(), "names.file", what);
        }
        let names = names::names(self.names, problems);
        let storm = storm(self.storm.as_ref(), problems);
        let ports = ports::ports(self.port, problems);
        if let Some(mode) = &self.worker.mode
            && *mode.get_ref() == Layout::Split
        {
            problems.add(mode.span(), "worker.mode", "a switch has no fabric: its workers all do the same");
        }
        let workers = config::workers(self.worker, problems);
        let dpdk = config::dpdk(self.dpdk, problems);
        let control = match self.control {
            None => None,
            Some(section) => Some(control(&section, problems)?),
        };
        let (ports, port_names) = ports?;
        Some(SwitchFile {
            seed: seed?,
            admin: self.switch.admin.unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET)),
            admin_tcp: self.admin_tcp,
            verify_ipv4_checksum: self.switch.verify_ipv4_checksum,
            names: names?,
            storm: storm?,
            ports,
            port_names,
            workers,
            dpdk,
            control,
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

fn control(section: &sections::Control, problems: &mut Problems<'_>) -> Option<ControlFile> {
    let asked = EngineSection {
        engine: &section.engine,
        name: &section.name,
        replicas: section.replicas,
        user: section.user.as_ref(),
        password: section.password.as_ref(),
        token: section.token.as_ref(),
        credentials: section.credentials.as_ref(),
        tls: section.tls.as_ref(),
    };
    let name = section.name.get_ref();
    if !name.is_empty() && !PortNames::is_name(name) {
        let what = format!("'{name}' is not a name of 1 to 32 letters, digits, '-' and '_'");
        problems.add(section.name.span(), "control.name", what);
    }
    Some(ControlFile { engine: config::engine(&asked, problems)?, name: name.clone() })
}
