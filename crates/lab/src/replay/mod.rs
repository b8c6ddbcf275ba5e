//! Replays a capture through the cluster: pins its conversations to nodes, puts every packet in at a random node, and
//! follows each until it has left or was dropped.
//!
//! The capture is read twice or more. First its packets are grouped into conversations and the mobile of each is
//! found ([`conversation`]); then, once an architecture, each frame is put in: what is for a mobile as it is, from the
//! Internet; what comes from one in GTP-U, from its base station; what belongs to no conversation from the Internet
//! too, to be dropped by name. What must become of each packet follows from the conversations alone ([`plan`]); the
//! ledger compares.
//!
//! With [`Policy::verify_ipv4_checksum`] packets with a wrong IPv4 header checksum are dropped as `bad_ipv4_checksum`,
//! as a router must; captures taken on a host whose network card computes checksums want it off.
//!
//! Problems name packets by their frame numbers in the capture file, from 1, as Wireshark does.

mod captures;
mod conversation;
mod drive;
mod frames;
mod packet;
mod pinning;
mod plan;
#[cfg(test)]
mod tests;
mod tunnel;

use crate::ledger::Totals;
use captures::NodeCaptures;
use conversation::{Conversations, MAX_CONVERSATIONS};
use drive::Drive;
use frames::Frames;
use pinning::Pinning;
use plan::{Entrance, Plan, Planner};
use scalebricks_apps::gateway::{Architecture, ClusterError};
use scalebricks_elements::gateway::Policy;
use scalebricks_io::capture::CaptureError;
use scalebricks_io::{CapturedFrame, PoolError};
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, HashSeed};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to replay, and through what.
#[derive(Debug, Clone)]
pub struct ReplayOptions {
    /// The capture: pcap or pcapng, gzipped or not.
    pub file: PathBuf,
    /// Where to leave one capture a node of what it sent. With several architectures it shows `ScaleBricks`, or the
    /// last one if that is not among them: they send the same, but for the identification of outer packets.
    pub out: Option<PathBuf>,
    /// Nodes.
    pub size: ClusterSize,
    /// The architectures to replay through, one after the other.
    pub architectures: Vec<Architecture>,
    /// What the GPT is made of.
    pub gpt: Structure,
    /// What nodes decide about packets.
    pub policy: Policy,
    /// Threads the nodes run on.
    pub threads: usize,
    /// What everything random is drawn from: places of flows, ways in, forms of GTP-U headers.
    pub seed: u64,
}

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many frames were sorted into conversations.
    Sorted {
        /// Frames so far.
        frames: u64,
    },
    /// The conversations are pinned; as many frames will go through each architecture.
    Pinned {
        /// Frames of the capture.
        frames: u64,
        /// Its conversations.
        conversations: u64,
    },
    /// So many frames went through an architecture.
    Forwarded {
        /// Which.
        architecture: Architecture,
        /// Frames so far.
        frames: u64,
    },
}

/// What a replay found.
#[derive(Debug, Clone)]
pub struct ReplayOutcome {
    /// What the capture holds.
    pub counts: Counts,
    /// Its conversations.
    pub conversations: u64,
    /// Flows they were pinned as: as many, or with the key profile `ue` one a mobile.
    pub flows: u64,
    /// Flows pinned to each node.
    pub flows_per_node: Vec<u64>,
    /// What came of it, by architecture.
    pub runs: Vec<ArchitectureRun>,
}

/// What the frames of a capture are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames in the file.
    pub frames: u64,
    /// Of these: packets to a mobile.
    pub downstream: u64,
    /// Of these: packets from a mobile, put in as GTP-U.
    pub upstream: u64,
    /// Of these: frames no conversation claims (not IP, multicast, malformed, cut short, fragments without a first).
    pub unclaimed: u64,
    /// Of these: too large for an IP packet, with GTP-U in front, or for any packet buffer, and so not put in.
    pub not_put_in: u64,
    /// Fragments of IP packets, of whatever direction.
    pub fragments: u64,
    /// Frames of which the file holds only a part.
    pub cut_frames: u64,
    /// Frames of link types that cannot be made Ethernet; not among the `frames`.
    pub unsupported: u64,
    /// The file ends in the middle of a record.
    pub is_file_cut: bool,
}

/// What became of a capture in one architecture.
#[derive(Debug, Clone)]
pub struct ArchitectureRun {
    /// Which.
    pub architecture: Architecture,
    /// Every packet's account.
    pub totals: Totals,
    /// Time the nodes worked; putting in and taking out apart.
    pub forwarding: Duration,
    /// Bytes the fabric carried, Ethernet headers included.
    pub fabric_bytes: u64,
    /// The lookup table, bytes at the node where it is largest.
    pub gpt_bytes_per_node: usize,
    /// The FIB, bytes at the node where it is largest.
    pub fib_bytes_per_node: usize,
    /// The captures that were written of it.
    pub captures: Vec<PathBuf>,
}

impl ArchitectureRun {
    /// Million packets a second through all nodes. Rounds of a replay are short: the demo's own traffic measures
    /// better.
    #[expect(clippy::cast_precision_loss, reason = "packet counts are far below 2^52")]
    pub fn mpps(&self) -> f64 {
        let seconds = self.forwarding.as_secs_f64();
        if seconds > 0.0 { self.totals.packets_in as f64 / seconds / 1e6 } else { 0.0 }
    }
}

/// What is wrong, with the file it is wrong in, once.
fn in_file(path: &Path, error: &CaptureError) -> String {
    if error.names_its_file() { error.to_string() } else { format!("{}: {error}", path.display()) }
}

/// Why a capture was not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The capture cannot be read.
    #[error("{}", in_file(path, source))]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CaptureError,
    },
    /// It holds too many conversations.
    #[error("more than {MAX_CONVERSATIONS} conversations: replay a part of the capture")]
    TooManyConversations,
    /// There is nothing in it.
    #[error("{}: holds no frames; choose a capture with traffic in it", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The cluster could not be made.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Packet buffers could not be made.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The directory for captures cannot be used.
    #[error("{}: {source}; choose another directory to write captures to", path.display())]
    Out {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A capture of an earlier run with more nodes would be taken for one of this run.
    #[error("{}: left by a run with more nodes; remove it or choose another directory", path.display())]
    Stale {
        /// The file.
        path: PathBuf,
    },
    /// A node's capture cannot be written.
    #[error("{}", in_file(path, source))]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CaptureError,
    },
    /// The buffers or links that were made for a round of packets do not hold it: an error of this program.
    #[error("a packet found no room in {0}; please report this capture")]
    NoRoom(&'static str),
    /// It was asked to stop.
    #[error("stopped before the end of the capture")]
    Stopped,
}

/// Frames between two reports of progress while conversations are found.
const REPORT_EVERY: u64 = 8_192;

/// Replays a capture through each architecture. The same file, options and seed give the same counts, whatever the
/// number of threads.
///
/// # Errors
/// [`ReplayError`] says what to change; [`ReplayError::Stopped`] if `stop` said so. Files are written whole or not at
/// all.
pub fn run(
    options: &ReplayOptions,
    progress: &mut dyn FnMut(Step),
    stop: &dyn Fn() -> bool,
) -> Result<ReplayOutcome, ReplayError> {
    let sorted = sort(options, progress, stop)?;
    let conversations = &sorted.conversations;
    let profile = options.policy.key_profile;
    let pinning = Pinning::new(conversations, profile, options.size, HashSeed::from_u64(options.seed));
    progress(Step::Pinned { frames: sorted.frames, conversations: conversations.list().len() as u64 });
    // First of all, so that a directory of no use is heard of at once.
    let mut out = match &options.out {
        Some(directory) => Some(NodeCaptures::create(directory, options.size)?),
        None => None,
    };
    let mut counts = Counts::default();
    let mut runs = Vec::with_capacity(options.architectures.len());
    for &architecture in &options.architectures {
        let captures = if shown(&options.architectures) == Some(architecture) { out.take() } else { None };
        let drive = Drive::new(options, architecture, &pinning, sorted.longest, captures)?;
        let planner = Planner::new(conversations, &pinning, options.policy);
        let frames = Frames::open(&options.file)?;
        let (run, seen) = drive.run(frames, planner, progress, stop)?;
        counts = Counts { unsupported: sorted.unsupported, is_file_cut: sorted.is_file_cut, ..seen };
        runs.push(run);
    }
    let mut flows_per_node = vec![0; options.size.get()];
    for flow in &pinning.flows {
        flows_per_node[flow.node.index()] += 1;
    }
    Ok(ReplayOutcome {
        counts,
        conversations: conversations.list().len() as u64,
        flows: pinning.flows.len() as u64,
        flows_per_node,
        runs,
    })
}

/// The architecture whose captures are written.
fn shown(architectures: &[Architecture]) -> Option<Architecture> {
    let scalebricks = architectures.iter().find(|&&a| a == Architecture::ScaleBricks);
    scalebricks.or(architectures.last()).copied()
}

/// What the first reading found.
struct Sorted {
    conversations: Conversations,
    frames: u64,
    longest: usize,
    unsupported: u64,
    is_file_cut: bool,
}

fn sort(
    options: &ReplayOptions,
    progress: &mut dyn FnMut(Step),
    stop: &dyn Fn() -> bool,
) -> Result<Sorted, ReplayError> {
    let mut conversations = Conversations::default();
    let mut frames = Frames::open(&options.file)?;
    let (mut count, mut longest) = (0, 0);
    for frame in frames.by_ref() {
        let frame = frame?;
        count += 1;
        longest = longest.max(frame.captured.data.len());
        if let Ok(packet) = packet::read(&frame.captured.data) {
            conversations.observe(&packet).map_err(|_| ReplayError::TooManyConversations)?;
        }
        if count % REPORT_EVERY == 0 {
            progress(Step::Sorted { frames: count });
            if stop() {
                return Err(ReplayError::Stopped);
            }
        }
    }
    if count == 0 {
        return Err(ReplayError::Empty { path: options.file.clone() });
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
