//! Replays a capture through the cluster: pins its conversations to nodes, puts every packet in at a random node, and follows each
//! until it has left or was dropped.
//!
//! The capture is read at least twice. The first pass groups its packets into conversations and finds the mobile of each
//! (`conversation`). Then each architecture gets each frame: a packet to a mobile unchanged from the Internet, a packet from a mobile
//! in GTP-U from its base station, and a packet without conversation from the Internet, to be dropped with a reason. The expected
//! result of each packet follows from the conversations alone (`plan`); the ledger compares.
//!
//! With [`Policy::verify_ipv4_checksum`] packets with a wrong IPv4 header checksum are dropped as `bad_ipv4_checksum`, as a router
//! must. For captures from a host whose network card computes checksums it must be off.
//!
//! Problems name packets by their frame numbers in the capture file, from 1, as Wireshark does.
//!
//! [`Policy::verify_ipv4_checksum`]: scalebricks_elements::gateway::Policy::verify_ipv4_checksum

mod captures;
mod conversation;
mod drive;
mod frames;
mod packet;
mod pinning;
mod plan;
#[cfg(test)]
mod tests;

use crate::demo::config::DemoConfig;
use crate::demo::report::result::Footprint;
use crate::ledger::Totals;
use captures::NodeCaptures;
use conversation::{Conversations, MAX_CONVERSATIONS};
use drive::Drive;
use frames::Frames;
use pinning::Pinning;
use plan::{Entrance, Plan, Planner};
use scalebricks_apps::gateway::{Architecture, ClusterError, FlowTablesError};
use scalebricks_console::{Interrupt, Interrupted};
use scalebricks_io::capture::CaptureError;
use scalebricks_io::{CapturedFrame, PoolError};
use std::io;
use std::path::{Path, PathBuf};

/// Progress of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The conversations are pinned.
    Pinned {
        /// Frames of the capture, all of which go through each architecture.
        frames: u64,
        /// Conversations of the capture.
        conversations: u64,
    },
    /// Frames went through an architecture.
    Forwarded {
        /// Which architecture.
        architecture: Architecture,
        /// Frames so far.
        frames: u64,
    },
}

/// The result of a replay.
#[derive(Debug, Clone)]
pub struct ReplayOutcome {
    /// The content of the capture.
    pub counts: Counts,
    /// Its conversations.
    pub conversations: u64,
    /// Its flows: one per conversation, or with the key profile `ue` one per mobile.
    pub flows: u64,
    /// Flows pinned to each node.
    pub flows_per_node: Vec<u64>,
    /// The results of the architectures.
    pub runs: Vec<ReplayRun>,
}

/// The frames of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames in the file.
    pub frames: u64,
    /// Of these: packets to a mobile.
    pub downstream: u64,
    /// Of these: packets from a mobile, put in as GTP-U.
    pub upstream: u64,
    /// Of these: frames without conversation (not IP, multicast, malformed, truncated, fragments without a first fragment).
    pub unclaimed: u64,
    /// Of these: not put in, because they are too large for an IP packet with GTP-U, or for a packet buffer.
    pub not_put_in: u64,
    /// Fragments of IP packets, in both directions.
    pub fragments: u64,
    /// Frames of which the file has only a part.
    pub cut_frames: u64,
    /// Frames of link types that cannot be converted to Ethernet; not part of `frames`.
    pub unsupported: u64,
    /// Whether the file ends within a record.
    pub is_file_cut: bool,
}

/// The result of one architecture.
#[derive(Debug, Clone)]
pub struct ReplayRun {
    /// Which architecture.
    pub architecture: Architecture,
    /// The totals of its ledger.
    pub totals: Totals,
    /// Million packets per second of all nodes together; none if less than 50 ms were timed. Rounds of a replay are
    /// short, so synthetic traffic measures better.
    pub mpps: Option<f64>,
    /// Table sizes and fabric bytes.
    pub footprint: Footprint,
    /// The captures that were written.
    pub captures: Vec<PathBuf>,
}

/// Prefixes an error with its file, unless it names the file itself.
fn in_file(path: &Path, error: &CaptureError) -> String {
    if error.names_its_file() { error.to_string() } else { format!("{}: {error}", path.display()) }
}

/// Why a capture was not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A capture cannot be read or written.
    #[error("{}", in_file(path, source))]
    Capture {
        /// The file.
        path: PathBuf,
        /// The error.
        source: CaptureError,
    },
    /// The capture has too many conversations.
    #[error("more than {MAX_CONVERSATIONS} conversations: replay a part of the capture")]
    TooManyConversations,
    /// The capture is empty.
    #[error("{}: holds no frames; choose a capture with traffic in it", .0.display())]
    Empty(PathBuf),
    /// The cluster could not be created.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Packet buffers could not be created.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The capacity could not be measured.
    #[error("measuring how many flows fit: {0}")]
    Capacity(#[from] FlowTablesError),
    /// The directory for captures cannot be used.
    #[error("{}: {source}; choose another directory to write captures to", path.display())]
    Out {
        /// The directory or file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A capture of an earlier run with more nodes would look like one of this run.
    #[error("{}: left by a run with more nodes; remove it or choose another directory", .0.display())]
    Stale(PathBuf),
    /// The buffers or links have no room for a round, which is a bug.
    #[error("a packet found no room in {0}; please report this capture")]
    NoRoom(&'static str),
    /// The user interrupted the replay.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Frames between two checks for an interrupt while conversations are found.
const CHECK_EVERY: u64 = 8_192;

/// Replays a capture through each architecture. The same file, configuration and seed give the same counts for any number of
/// threads. Files are written completely or not at all.
///
/// `out` is a directory for one capture per node of the frames that it sent. With several architectures these are the frames of
/// ScaleBricks, or of the last architecture if ScaleBricks is not among them: all architectures send the same frames, except for the
/// identification of outer packets.
///
/// # Errors
/// [`ReplayError`].
pub fn run(
    config: &DemoConfig,
    file: &Path,
    out: Option<&Path>,
    progress: &mut dyn FnMut(Step),
    interrupt: &Interrupt,
) -> Result<ReplayOutcome, ReplayError> {
    let sorted = sort(file, interrupt)?;
    let conversations = &sorted.conversations;
    let pinning = Pinning::new(conversations, config);
    let count = conversations.list().len() as u64;
    progress(Step::Pinned { frames: sorted.frames, conversations: count });
    // First, to report an unusable directory at once.
    let mut out = out.map(|directory| NodeCaptures::create(directory, config.size)).transpose()?;
    let is_scalebricks = |architecture: &&Architecture| **architecture == Architecture::ScaleBricks;
    let captured = config.architectures.iter().find(is_scalebricks).or(config.architectures.last());
    let mut counts = Counts::default();
    let mut runs = Vec::with_capacity(config.architectures.len());
    for &architecture in &config.architectures {
        let captures = out.take_if(|_| captured == Some(&architecture));
        let drive = Drive::new(config, architecture, &pinning, sorted.longest, captures)?;
        let planner = Planner::new(conversations, &pinning, config.policy);
        let (run, seen) = drive.run(Frames::open(file)?, planner, progress, interrupt)?;
        counts = Counts { unsupported: sorted.unsupported, is_file_cut: sorted.is_file_cut, ..seen };
        runs.push(run);
    }
    let mut flows_per_node = vec![0; config.size.get()];
    for flow in &pinning.flows {
        flows_per_node[flow.node.index()] += 1;
    }
    let flows = pinning.flows.len() as u64;
    Ok(ReplayOutcome { counts, conversations: count, flows, flows_per_node, runs })
}

/// The result of the first pass.
struct Sorted {
    conversations: Conversations,
    frames: u64,
    longest: usize,
    unsupported: u64,
    is_file_cut: bool,
}

fn sort(file: &Path, interrupt: &Interrupt) -> Result<Sorted, ReplayError> {
    let mut conversations = Conversations::default();
    let mut frames = Frames::open(file)?;
    let (mut count, mut longest) = (0, 0);
    for frame in frames.by_ref() {
        let frame = frame?;
        count += 1;
        longest = longest.max(frame.captured.data.len());
        if let Ok(packet) = packet::read(&frame.captured.data) {
            conversations.observe(&packet)?;
        }
        if count % CHECK_EVERY == 0 {
            interrupt.check()?;
        }
    }
    if count == 0 {
        return Err(ReplayError::Empty(file.to_owned()));
    }
    let Frames { unsupported, is_cut, .. } = frames;
    Ok(Sorted { conversations, frames: count, longest, unsupported, is_file_cut: is_cut })
}

impl Counts {
    fn frame(&mut self, frame: &CapturedFrame, plan: &Plan) {
        self.frames += 1;
        match (plan.entrance, plan.is_claimed) {
            (Entrance::BaseStation(_), _) => self.upstream += 1,
            (Entrance::Internet, true) => self.downstream += 1,
            (Entrance::Internet, false) => self.unclaimed += 1,
        }
        self.fragments += u64::from(plan.datagram.is_some());
        self.cut_frames += u64::from((frame.data.len() as u64) < u64::from(frame.original_len));
    }
}
