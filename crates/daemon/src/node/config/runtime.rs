//! Threads, memory and the admin interface over TCP.

use super::{Problems, sections};
use crate::config::Spanned;
use crate::config::forms::Socket;
use scalebricks_admin::server::TcpListen;
use scalebricks_elements::gateway::fabric::health::PROBE_EVERY;
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default of `worker.sleep_us`.
pub(super) const SLEEP_US: u32 = 50;

/// Longest sleep: a packet may wait for that time.
pub(super) const MAX_SLEEP_US: u32 = 100_000;

/// Default of `dpdk.memory_mib`.
pub(super) const MEMORY_MIB: u32 = 128;

/// Default of `dpdk.packets`.
pub(super) const PACKETS: u32 = 16_383;

/// Least `dpdk.packets`: the queues of ports hold as many.
pub(super) const LEAST_PACKETS: u32 = 2_048;

/// Approximate bytes of a packet in a pool.
const PACKET_BYTES: u64 = 2_500;

/// Allowed values of `fabric.probe_ms` other than 0: at least four probes fit into the time for which a node counts as
/// reached.
const PROBE_MS: RangeInclusive<u64> = 20..=150;

/// Most workers.
const MAX_WORKERS: usize = 64;

/// The admin interface over TCP, with TLS and a token in every request: a section of a configuration, or options of a
/// command that has the option `admin`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct AdminTcp {
    /// Also serve this address, over TLS, to requests with the token
    #[arg(long = "admin-tcp", value_name = "ADDRESS:PORT", required = false, requires_all = ["admin", "certificate", "key", "token"])]
    #[schemars(with = "Socket")]
    pub listen: SocketAddr,
    /// The certificate chain, PEM
    #[arg(long = "admin-certificate", value_name = "FILE", required = false, requires = "listen")]
    #[schemars(extend("format" = "path"))]
    pub certificate: PathBuf,
    /// Its key, PEM
    #[arg(long = "admin-key", value_name = "FILE", required = false, requires = "listen")]
    #[schemars(extend("format" = "path"))]
    pub key: PathBuf,
    /// The file with the token, readable only by its owner and group
    #[arg(long = "admin-token", value_name = "FILE", required = false, requires = "listen")]
    #[schemars(extend("format" = "path"))]
    pub token: PathBuf,
}

impl AdminTcp {
    /// The options of the server, with paths resolved by `beside`.
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
    /// One worker runs on each core; empty: as many workers as the layout needs, on any core.
    pub cores: Vec<u16>,
    /// The tasks of each worker.
    pub layout: Layout,
    /// What an idle worker does.
    pub idle: Idle,
}

impl Workers {
    /// The number of workers.
    pub fn count(&self) -> usize {
        match self.layout {
            Layout::RunToCompletion => self.cores.len().max(1),
            Layout::Split => 2,
        }
    }
}

/// The tasks of each worker.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Every worker has a queue of every port, and does all the work for the packets in it.
    #[default]
    RunToCompletion,
    /// The paper's layout: one worker for packets from outside, one for packets from the fabric.
    Split,
}

/// What an idle worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// Polls again at once.
    Spin,
    /// Polls a few times, then sleeps between polls.
    Sleep {
        /// Microseconds.
        us: u32,
    },
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IdleKind {
    #[default]
    Sleep,
    Spin,
}

/// Packet memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dpdk {
    /// Whether it is on huge pages, which physical devices need.
    pub huge_pages: bool,
    /// Memory on ordinary pages, MiB.
    pub memory_mib: u32,
    /// Packets in the pool.
    pub packets: u32,
    /// Further EAL arguments.
    pub arguments: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PageKind {
    #[default]
    Ordinary,
    HugePages,
}

/// Checks the section `[worker]`.
pub(crate) fn workers(given: sections::Worker, problems: &mut Problems<'_>) -> Workers {
    let sleep_us = given.sleep_us.as_ref().map_or(SLEEP_US, |us| *us.get_ref());
    let layout = given.mode.as_ref().map(|mode| *mode.get_ref()).unwrap_or_default();
    let mut cores = Vec::new();
    if let Some(given) = given.cores {
        let span = given.span();
        cores = given.into_inner();
        let mut distinct = cores.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < cores.len() {
            problems.add(span.clone(), "worker.cores", "a core occurs twice; each core has one worker");
        }
        if cores.len() > MAX_WORKERS {
            problems.add(span.clone(), "worker.cores", format!("more than {MAX_WORKERS} workers"));
        }
        if layout == Layout::Split && !cores.is_empty() && cores.len() != 2 {
            let what = "the mode 'split' needs two cores: the external one, then the internal one";
            problems.add(span, "worker.cores", what);
        }
    }
    let idle = match given.idle {
        IdleKind::Sleep => Idle::Sleep { us: sleep_us },
        IdleKind::Spin => Idle::Spin,
    };
    Workers { cores, layout, idle }
}

/// The time between fabric probes; `None`: no probes are sent.
pub(crate) fn probe_every(given: Option<&Spanned<u64>>, problems: &mut Problems<'_>) -> Option<Duration> {
    let Some(given) = given else { return Some(PROBE_EVERY) };
    let what = |ms| format!("{ms} is not 0, or {} to {}", PROBE_MS.start(), PROBE_MS.end());
    let ms = problems.check(given, "fabric.probe_ms", |ms| ms == 0 || PROBE_MS.contains(&ms), what);
    (ms != 0).then(|| Duration::from_millis(ms))
}

/// Checks the section `[dpdk]`.
pub(crate) fn dpdk(given: sections::Dpdk, problems: &mut Problems<'_>) -> Dpdk {
    let huge_pages = given.memory == PageKind::HugePages;
    let packets = given.packets.as_ref().map_or(PACKETS, |packets| *packets.get_ref());
    let needed = u64::from(packets) * PACKET_BYTES / (1 << 20) + 16;
    let memory_mib = given.memory_mib.as_ref().map_or(MEMORY_MIB, |mib| *mib.get_ref());
    if !huge_pages && u64::from(memory_mib) < needed {
        let span = given.memory_mib.as_ref().map_or(0..0, Spanned::span);
        let what = format!("{memory_mib} is too little for {packets} packets, which need {needed}");
        problems.add(span, "dpdk.memory_mib", what);
    }
    Dpdk { huge_pages, memory_mib, packets, arguments: given.arguments }
}
