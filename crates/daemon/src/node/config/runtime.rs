//! Threads, memory, and who may look inside.

use super::{Problems, sections};
use scalebricks_admin::server::TcpListen;
use scalebricks_elements::gateway::fabric::health::PROBE_EVERY;
use serde::Deserialize;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default of `worker.sleep_us`.
const SLEEP_US: u32 = 50;

/// Longest sleep: a packet may wait as long.
const MAX_SLEEP_US: u32 = 100_000;

/// Default of `dpdk.memory_mib`.
const MEMORY_MIB: u32 = 128;

/// Default of `dpdk.packets`.
const PACKETS: u32 = 16_383;

/// Bytes that a packet takes in a pool, about.
const PACKET_BYTES: u64 = 2_500;

/// What `fabric.probe_ms` may be, if not 0: four probes at least fit into the time for which a node counts as reached.
const PROBE_MS: RangeInclusive<u64> = 20..=150;

/// Most workers.
const MAX_WORKERS: usize = 64;

/// The admin interface over TCP: TLS, and a token that every request carries. As a section of a configuration, or as options of a
/// command with the option `admin`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct AdminTcp {
    /// Answer at this address too, over TLS, to requests that carry the token
    #[arg(long = "admin-tcp", value_name = "ADDRESS:PORT", required = false, requires_all = ["admin", "certificate", "key", "token"])]
    pub listen: SocketAddr,
    /// The certificate chain, PEM
    #[arg(long = "admin-certificate", value_name = "FILE", required = false, requires = "listen")]
    pub certificate: PathBuf,
    /// Its key, PEM
    #[arg(long = "admin-key", value_name = "FILE", required = false, requires = "listen")]
    pub key: PathBuf,
    /// The file with the token, which nobody but its owner and group may read
    #[arg(long = "admin-token", value_name = "FILE", required = false, requires = "listen")]
    pub token: PathBuf,
}

impl AdminTcp {
    /// The same for the server, with files found by `beside`.
    pub fn at(&self, beside: impl Fn(&Path) -> PathBuf) -> TcpListen {
        TcpListen {
            address: self.listen,
            certificate: beside(&self.certificate),
            key: beside(&self.key),
            token: beside(&self.token),
        }
    }
}

/// The threads that move packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// A worker each; empty: as many as the layout needs, on any core.
    pub cores: Vec<u16>,
    /// Who does what.
    pub layout: Layout,
    /// What a worker does that finds nothing to do.
    pub idle: Idle,
}

impl Workers {
    /// How many there are.
    pub fn count(&self) -> usize {
        match self.layout {
            Layout::RunToCompletion => self.cores.len().max(1),
            Layout::Split => 2,
        }
    }
}

/// Which worker does what.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Every worker has a queue of every port, and does everything for the packets in it.
    #[default]
    RunToCompletion,
    /// The paper's: one worker for what comes from outside, one for what comes over the fabric.
    Split,
}

/// What a worker does that finds nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Samples again at once.
    Spin,
    /// Samples a few times, then sleeps so long between two looks.
    Sleep {
        /// Microseconds.
        us: u32,
    },
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IdleKind {
    #[default]
    Sleep,
    Spin,
}

/// Where packets lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dpdk {
    /// On huge pages, which physical devices need.
    pub huge_pages: bool,
    /// Memory of ordinary pages, MiB.
    pub memory_mib: u32,
    /// Packets in the pool.
    pub packets: u32,
    /// Further arguments, as DPDK's own programs take them.
    pub arguments: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PageKind {
    #[default]
    Ordinary,
    HugePages,
}

/// The workers of a section.
pub(crate) fn workers(given: sections::Worker, problems: &mut Problems<'_>) -> Workers {
    let sleep_us = given.sleep_us.as_ref().map_or(SLEEP_US, |us| *us.get_ref());
    if let Some(given) = given.sleep_us.as_ref().filter(|us| !(1..=MAX_SLEEP_US).contains(us.get_ref())) {
        let what = format!("{sleep_us} is not 1 to {MAX_SLEEP_US}");
        problems.add(given.span(), "worker.sleep_us", what);
    }
    let layout = given.mode.as_ref().map(|mode| *mode.get_ref()).unwrap_or_default();
    let mut cores = Vec::new();
    if let Some(given) = given.cores {
        let span = given.span();
        cores = given.into_inner();
        let mut distinct = cores.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < cores.len() {
            problems.add(span.clone(), "worker.cores", "a core is there twice; a worker each");
        }
        if cores.len() > MAX_WORKERS {
            problems.add(span.clone(), "worker.cores", format!("more than {MAX_WORKERS}"));
        }
        if layout == Layout::Split && !cores.is_empty() && cores.len() != 2 {
            let what = "the mode 'split' has two workers: the external core, then the internal";
            problems.add(span, "worker.cores", what);
        }
    }
    let idle = match given.idle {
        IdleKind::Sleep => Idle::Sleep { us: sleep_us },
        IdleKind::Spin => Idle::Spin,
    };
    Workers { cores, layout, idle }
}

/// Time between probes of the fabric; `None`: none are sent.
pub(crate) fn probe_every(
    given: Option<&toml::Spanned<u64>>,
    problems: &mut Problems<'_>,
) -> Option<Duration> {
    let Some(given) = given else { return Some(PROBE_EVERY) };
    let ms = *given.get_ref();
    if ms != 0 && !PROBE_MS.contains(&ms) {
        let what = format!("{ms} is not 0, or {} to {}", PROBE_MS.start(), PROBE_MS.end());
        problems.add(given.span(), "fabric.probe_ms", what);
    }
    (ms != 0).then(|| Duration::from_millis(ms))
}

/// What a section says of DPDK.
pub(crate) fn dpdk(given: sections::Dpdk, problems: &mut Problems<'_>) -> Dpdk {
    let huge_pages = given.memory == PageKind::HugePages;
    let packets = given.packets.as_ref().map_or(PACKETS, |packets| *packets.get_ref());
    if let Some(given) = given.packets.as_ref().filter(|packets| *packets.get_ref() < 2_048) {
        problems.add(
            given.span(),
            "dpdk.packets",
            format!("{packets} is less than 2048: ports hold that many"),
        );
    }
    let needed = u64::from(packets) * PACKET_BYTES / (1 << 20) + 16;
    let memory_mib = given.memory_mib.as_ref().map_or(MEMORY_MIB, |mib| *mib.get_ref());
    if !huge_pages && u64::from(memory_mib) < needed {
        let span = given.memory_mib.as_ref().map_or(0..0, toml::Spanned::span);
        let what = format!("{memory_mib} is too little for {packets} packets: at least {needed}");
        problems.add(span, "dpdk.memory_mib", what);
    }
    Dpdk { huge_pages, memory_mib, packets, arguments: given.arguments }
}
