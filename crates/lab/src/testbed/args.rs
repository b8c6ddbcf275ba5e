//! The command line of `scalebricks lab`.

use super::plan::{Driver, MAX_FLOWS, MAX_LOG_SERVERS, Plan};
use super::streams::StreamEnd;
use crate::demo::args::ArchChoice;
use clap::{Args, Subcommand};
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::quantity;
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, IdError};
use std::path::PathBuf;

/// Largest file, octets.
const MAX_FILE: u64 = 1 << 30;

/// Phones a node: their addresses leave room for 250, and there are 16 nodes at most.
const MAX_UES: i64 = 250 / 16;

/// The command, in a few sentences.
pub const ABOUT: &str = "\
A cluster of four gateway nodes on this machine, over real interfaces: network namespaces for an Internet host, a base \
station with phones and each node, virtual cables and bridges between them. Ordinary programs (ping, curl, iperf3) send \
through it, in at every node, to phones pinned to every node, and what they see, what the nodes count and what tshark \
reads on the wires is compared with what must be. Needs root, Linux, and a build with the feature `dpdk`. docs/lab.md \
has a picture and tells how to look around.";

/// Examples and exit statuses.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks lab run
      Builds the lab, checks everything, removes it: a few minutes.
  scalebricks lab run --arch all --json out/lab.json
      The four architectures in turn.
  scalebricks lab run --quick --driver af-packet
      Short runs, over packet sockets only.
  scalebricks lab run --faults
      Then takes links down and up, kills a node, throws damaged frames.
  scalebricks lab outages --page
      Nodes, links, workers and the log fail one after the other, under three loads; how long that is felt.
  scalebricks lab outages control-pair,node-killed
      Two of these outages.
  scalebricks lab up
      Leaves it standing: ip netns exec sb-ue ping -I 10.45.0.1 192.0.2.1
  scalebricks lab test
      Checks the lab that stands.
  scalebricks lab down
      Removes it, with whatever an earlier run left.

Exit status:
  0 all checks passed    1 a check failed, or the lab could not be built
  2 wrong usage: programs are missing, or another lab is up    130 interrupted";

/// What can be done with a lab.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Build it, check everything, remove it
    Run(RunArgs),
    /// Build it with a control plane, break things under load, and tell how long that was felt
    Outages(OutagesArgs),
    /// Build it and leave it standing
    Up(UpArgs),
    /// Check the one that stands
    Test(TestArgs),
    /// Remove it, with whatever an earlier run left
    Down(NameArgs),
    /// A base station: GTP-U on one side, a TUN with phones on the other
    #[command(hide = true)]
    BaseStation(BaseStationArgs),
    /// A file server whose files are known octet by octet
    #[command(hide = true)]
    FileServer,
    /// Throws damaged frames
    #[command(hide = true)]
    Frames(FramesArgs),
    /// One end of the paced streams
    #[command(hide = true)]
    Streams(StreamsArgs),
    /// Holds the threads of a process still that have a name
    #[command(hide = true)]
    Halt(HaltArgs),
    /// Removes a lab whose owner is gone
    #[command(hide = true)]
    Reaper(NameArgs),
}

impl LabCommand {
    /// Whether only results and errors are told.
    pub const fn is_quiet(&self) -> bool {
        match self {
            Self::Run(args) => args.shape.quiet,
            Self::Outages(args) => args.shape.quiet,
            Self::Up(args) => args.shape.quiet,
            Self::Test(args) => args.quiet,
            Self::Down(_) => false,
            Self::BaseStation(_)
            | Self::FileServer
            | Self::Frames(_)
            | Self::Streams(_)
            | Self::Halt(_)
            | Self::Reaper(_) => true,
        }
    }
}

/// Which lab.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// What its namespaces' names begin with: labs of two names stand side by side
    #[arg(long, default_value = "sb", value_parser = parse_name)]
    pub name: String,
}

/// What a lab consists of.
#[derive(Debug, Args)]
pub struct ShapeArgs {
    /// Which lab
    #[command(flatten)]
    pub lab: NameArgs,

    /// Nodes in the cluster, 2 to 16
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=16))]
    pub nodes: u16,

    /// Phones pinned to each node, each with an IPv4 address and an IPv6 /64
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=MAX_UES))]
    pub phones: u16,

    /// How nodes meet their interfaces
    #[arg(long, value_enum, default_value_t = Driver::Mixed)]
    pub driver: Driver,

    /// Flows come from the control plane: a NATS server stores the log, and the flows of a node that dies go to others
    #[arg(long)]
    pub control: bool,

    /// What the GPT of ScaleBricks is made of: setsep or othello
    #[arg(long, value_name = "NAME", default_value_t)]
    pub gpt: Structure,

    /// Program of the NATS server that stores the log: nats-server 2.15 or newer (`scripts/nats.sh path` names one)
    #[arg(long, value_name = "PROGRAM", default_value = "nats-server", conflicts_with = "nats")]
    pub nats_server: PathBuf,

    /// Three NATS servers of this program store the log instead of one. Flows come from the control plane then
    #[arg(long, value_name = "PROGRAM")]
    pub nats: Option<PathBuf>,

    /// Flows beside those of the phones, which no phone uses; flows come from the control plane then
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_flows)]
    pub flows: u32,

    /// Install programs that are missing, with apt-get
    #[arg(long)]
    pub install: bool,

    /// Tell nothing but the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}

impl ShapeArgs {
    /// The lab these arguments ask for.
    ///
    /// # Errors
    /// [`IdError`] for a cluster that cannot be.
    pub fn plan(&self, architecture: Architecture) -> Result<Plan, IdError> {
        Ok(Plan {
            name: self.lab.name.clone(),
            size: ClusterSize::new(usize::from(self.nodes))?,
            ues_per_node: self.phones,
            driver: self.driver,
            architecture,
            is_controlled: self.control || self.nats.is_some() || self.flows > 0,
            gpt: self.gpt,
            nats: self.nats.as_ref().unwrap_or(&self.nats_server).clone(),
            log_servers: if self.nats.is_some() { MAX_LOG_SERVERS } else { 1 },
            flows: self.flows,
        })
    }
}

/// What is checked, and what becomes of the results.
#[derive(Debug, Args)]
pub struct ChecksArgs {
    /// Size of the file that is sent through all nodes together; a tenth of it goes through each
    #[arg(long, value_name = "BYTES", default_value = "100M", value_parser = parse_file)]
    pub file: u64,

    /// Smaller files and no iperf3, for a first look
    #[arg(long)]
    pub quick: bool,

    /// Where the results go as JSON
    #[arg(long, value_name = "FILE", default_value = "out/lab.json")]
    pub json: PathBuf,

    /// Keep the results in docs/data if all checks passed, and write the pages that show them anew. Refused with changed sources
    #[arg(long, conflicts_with = "quick")]
    pub page: bool,

    /// Where logs and captures are kept if a check fails
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
}

/// A lab from beginning to end.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What it consists of
    #[command(flatten)]
    pub shape: ShapeArgs,

    /// What is checked
    #[command(flatten)]
    pub checks: ChecksArgs,

    /// Architecture of the nodes; repeat it for several, one after the other
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',', default_value = "scalebricks")]
    pub arch: Vec<ArchChoice>,

    /// Break things afterwards: links, a node unless flows come from the control plane, frames; and see whether all is well again
    #[arg(long)]
    pub faults: bool,

    /// Leave the lab standing at the first architecture with a failed check, to look around
    #[arg(long)]
    pub leave: bool,
}

impl RunArgs {
    /// The architectures asked for, each once.
    pub fn architectures(&self) -> Vec<Architecture> {
        let wanted =
            |architecture: &Architecture| self.arch.iter().any(|choice| choice.includes(*architecture));
        Architecture::ALL.into_iter().filter(wanted).collect()
    }
}

/// Outages, one after the other.
#[derive(Debug, Args)]
pub struct OutagesArgs {
    /// What it consists of; flows come from the control plane
    #[command(flatten)]
    pub shape: ShapeArgs,

    /// Those with these names, in the order of docs/outages.md; all if none is named. `isolation` is a node's death beside the same
    /// with hash partition
    #[arg(value_name = "NAME", value_delimiter = ',')]
    pub names: Vec<String>,

    /// Where the results go as JSON
    #[arg(long, value_name = "FILE", default_value = "out/outages.json")]
    pub json: PathBuf,

    /// Keep the results of all outages in docs/data, and write the pages that show them anew. Refused with changed sources
    #[arg(long, conflicts_with = "names")]
    pub page: bool,

    /// Where logs are kept if an outage is felt more than it may be
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
}

/// A lab that stands afterwards.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// What it consists of
    #[command(flatten)]
    pub shape: ShapeArgs,

    /// Architecture of the nodes
    #[arg(long, value_name = "NAME", value_enum, default_value = "scalebricks")]
    pub arch: ArchChoice,
}

/// Checks of a lab that stands.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Which lab
    #[command(flatten)]
    pub lab: NameArgs,

    /// What is checked
    #[command(flatten)]
    pub checks: ChecksArgs,

    /// Tell nothing but the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// A base station.
#[derive(Debug, Args)]
pub struct BaseStationArgs {
    /// The flows, with the key `ue`
    #[arg(long)]
    pub flows: PathBuf,

    /// Nodes in the cluster
    #[arg(long)]
    pub nodes: usize,

    /// Socket that answers questions
    #[arg(long)]
    pub control: PathBuf,
}

/// Damaged frames.
#[derive(Debug, Args)]
pub struct FramesArgs {
    /// A capture of sound ones
    #[arg(long)]
    pub corpus: PathBuf,

    /// How many
    #[arg(long)]
    pub count: u64,

    /// What everything random is drawn from
    #[arg(long)]
    pub seed: u64,
}

/// One end of the paced streams.
#[derive(Debug, Args)]
pub struct StreamsArgs {
    /// Which end
    #[arg(long, value_enum)]
    pub end: StreamEnd,

    /// Nodes in the cluster
    #[arg(long)]
    pub nodes: usize,

    /// Phones
    #[arg(long)]
    pub phones: u16,
}

/// Threads that are held still.
#[derive(Debug, Args)]
pub struct HaltArgs {
    /// The process
    #[arg(long)]
    pub process: i32,

    /// The threads' name
    #[arg(long)]
    pub thread: String,
}

fn parse_file(text: &str) -> Result<u64, quantity::QuantityError> {
    quantity::parse(text, 1..=MAX_FILE)
}

fn parse_flows(text: &str) -> Result<u32, quantity::QuantityError> {
    quantity::parse(text, 0..=u64::from(MAX_FLOWS)).map(|flows| flows as u32) // 2^22 at most
}

/// Namespaces of a lab are found by their names, so a name cannot be another's beginning up to a dash.
fn parse_name(text: &str) -> Result<String, String> {
    let is_short = (1..=20).contains(&text.len());
    if is_short && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        Ok(text.to_owned())
    } else {
        Err("not 1 to 20 small letters and digits".to_owned())
    }
}
