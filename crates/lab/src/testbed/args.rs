//! The command line of `scalebricks lab`.

use super::LabError;
use super::plan::{Driver, MAX_FLOWS, MAX_LOG_SERVERS, Plan};
use super::router_lab::args::RouterArgs;
use super::streams::StreamEnd;
use crate::demo::args::ArchChoice;
use clap::{Args, Subcommand};
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::{ResultArgs, quantity};
use scalebricks_tables::compact::Structure;
use scalebricks_types::ClusterSize;
use std::net::IpAddr;
use std::path::PathBuf;

/// Size of the largest file, octets.
const MAX_FILE: u64 = 1 << 30;

/// Most phones per node: there are addresses for 250 phones, and at most 16 nodes.
const MAX_UES: i64 = 250 / 16;

/// Describes the command.
pub const ABOUT: &str = "\
A cluster of four gateway nodes on this machine, over real interfaces: network namespaces for an Internet host, a base \
station with phones and each node, virtual cables and bridges between them. Ordinary programs (ping, curl, iperf3) send \
through it, with every node as ingress and every node as handling node. The lab checks what the programs report, what the \
nodes count and what tshark reads on the wires. Needs root, Linux, and a build with the feature `dpdk`. docs/lab.md has a \
picture and explains how to look around.";

/// Examples and exit statuses.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks lab run
      Builds the lab, checks everything, removes it: a few minutes.
  scalebricks lab run --arch all --json-file out/all.json
      The four architectures in turn.
  scalebricks lab run --quick --driver af-packet
      Short runs, over packet sockets only.
  scalebricks lab run --faults
      Then takes links down and up, kills a node, sends damaged frames.
  scalebricks lab outages --page
      Nodes, links, workers and the log fail one after the other, under three loads; how long users notice it.
  scalebricks lab outages control-pair,node-killed
      Two of these outages.
  scalebricks lab router
      Routers between the kernels' own network stacks: docs/lab.md#the-lab-of-the-router.
  scalebricks lab router tunnel --quick
      An ESP tunnel, with small files.
  scalebricks lab up
      Builds it and leaves it up: ip netns exec sb-ue ping -I 10.45.0.1 192.0.2.1
  scalebricks lab test
      Checks the lab that is up.
  scalebricks lab down
      Removes it, and what an earlier run left.

Exit status:
  0 all checks passed    1 a check failed, or the lab could not be built
  2 wrong usage: programs are missing, or another lab is up    130 interrupted";

/// The commands of `scalebricks lab`.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Build it, check everything, remove it
    Run(RunArgs),
    /// Build it with a control plane, let parts fail under load, and report how long users notice it
    Outages(OutagesArgs),
    /// Build it and leave it up
    Up(UpArgs),
    /// Check the one that is up
    Test(TestArgs),
    /// Remove it, and what an earlier run left
    Down(NameArgs),
    /// Routers between the kernels' own network stacks: forwarding, an ESP tunnel
    Router(RouterArgs),
    /// A base station: GTP-U on one side, a TUN with phones on the other
    #[command(hide = true)]
    BaseStation(BaseStationArgs),
    /// A file server whose files are a function of the offset
    #[command(hide = true)]
    FileServer,
    /// Sends damaged frames
    #[command(hide = true)]
    DamagedFrames(DamagedFramesArgs),
    /// Sends captured frames once more
    #[command(hide = true)]
    ReplayedFrames(ReplayedFramesArgs),
    /// One end of the paced streams
    #[command(hide = true)]
    Streams(StreamsArgs),
    /// Paced streams from a host to several others
    #[command(hide = true)]
    MeshStreams(MeshStreamsArgs),
    /// Suspends the threads of a process that have a name
    #[command(hide = true)]
    Suspend(SuspendArgs),
    /// Removes a lab whose owner has ended
    #[command(hide = true)]
    Reaper(NameArgs),
}

impl LabCommand {
    /// Whether only results and errors are printed.
    pub const fn is_quiet(&self) -> bool {
        match self {
            Self::Run(args) => args.shape.quiet,
            Self::Outages(args) => args.shape.quiet,
            Self::Up(args) => args.shape.quiet,
            Self::Test(args) => args.quiet,
            Self::Router(args) => args.quiet,
            Self::Down(_) => false,
            // Helper processes of a lab.
            _ => true,
        }
    }
}

/// Which lab.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// The start of its namespaces' names: labs with different names can be up at the same time
    #[arg(long, default_value = "sb", value_parser = parse_name)]
    pub name: String,
}

/// The parts of a lab.
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

    /// The sockets over which nodes use their interfaces
    #[arg(long, value_enum, default_value_t = Driver::Mixed)]
    pub driver: Driver,

    /// Flows come from the control plane: a NATS server stores the log, and other nodes take over the flows of a node that fails
    #[arg(long)]
    pub control: bool,

    /// Structure of the GPT of ScaleBricks: setsep or othello [default: setsep]
    #[arg(long, value_name = "NAME")]
    pub gpt: Option<Structure>,

    /// Program of the NATS server that stores the log: nats-server 2.15 or newer (`scripts/nats.sh path` prints one)
    /// [default: nats-server]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "nats")]
    pub nats_server: Option<PathBuf>,

    /// Three NATS servers of this program store the log instead of one. Implies --control
    #[arg(long, value_name = "PROGRAM")]
    pub nats: Option<PathBuf>,

    /// Additional flows that no phone uses. Implies --control
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_flows)]
    pub flows: u32,

    /// Install programs that are missing, with apt-get
    #[arg(long)]
    pub install: bool,

    /// Print only the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}

impl ShapeArgs {
    /// Whether flows come from the control plane.
    const fn is_controlled(&self) -> bool {
        self.control || self.nats.is_some() || self.flows > 0
    }

    /// Refuses options that would have no effect in a lab with these architectures.
    ///
    /// # Errors
    /// [`LabError::Usage`] names the option and what it needs.
    pub fn refuse_useless(&self, architectures: &[Architecture]) -> Result<(), LabError> {
        let refuse = |what: &str| Err(LabError::Usage(what.to_owned()));
        if self.gpt.is_some() && !architectures.contains(&Architecture::ScaleBricks) {
            return refuse("--gpt has no effect: only the architecture scalebricks has a GPT");
        }
        if self.nats_server.is_some() && !self.is_controlled() {
            return refuse("--nats-server has no effect without a control plane: add --control");
        }
        Ok(())
    }

    /// The plan of the lab.
    ///
    /// # Errors
    /// [`LabError::Usage`] for an impossible number of nodes.
    pub fn plan(&self, architecture: Architecture) -> Result<Plan, LabError> {
        let size = ClusterSize::new(usize::from(self.nodes));
        Ok(Plan {
            name: self.lab.name.clone(),
            size: size.map_err(|error| LabError::Usage(error.to_string()))?,
            ues_per_node: self.phones,
            driver: self.driver,
            architecture,
            is_controlled: self.is_controlled(),
            gpt: self.gpt.unwrap_or_default(),
            nats: self
                .nats
                .as_ref()
                .or(self.nats_server.as_ref())
                .cloned()
                .unwrap_or_else(|| "nats-server".into()),
            log_servers: if self.nats.is_some() { MAX_LOG_SERVERS } else { 1 },
            flows: self.flows,
        })
    }
}

/// What is checked, and where the results go.
#[derive(Debug, Args)]
pub struct ChecksArgs {
    /// Size of the file that is sent through all nodes together; a tenth of it goes through each
    #[arg(long, value_name = "BYTES", default_value = "100M", value_parser = parse_file)]
    pub file: u64,

    /// Smaller files and no iperf3
    #[arg(long)]
    pub quick: bool,

    /// What is printed, and a file for it.
    #[command(flatten)]
    pub result: ResultArgs,

    /// Keep the results in docs/data if all checks passed, for the documentation. Refused if sources have uncommitted changes
    #[arg(long, conflicts_with = "quick")]
    pub page: bool,

    /// Directory for logs and captures if a check fails
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
}

/// Arguments of `lab run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What the lab consists of
    #[command(flatten)]
    pub shape: ShapeArgs,

    /// What is checked
    #[command(flatten)]
    pub checks: ChecksArgs,

    /// Architecture of the nodes; repeat it for several, one after the other
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',', default_value = "scalebricks")]
    pub arch: Vec<ArchChoice>,

    /// Test faults afterwards: links down, a killed node (without --control), damaged frames; and check that traffic recovers
    #[arg(long)]
    pub faults: bool,

    /// Leave the lab up at the first architecture with a failed check
    #[arg(long)]
    pub leave: bool,
}

impl RunArgs {
    /// The requested architectures, each once.
    pub fn architectures(&self) -> Vec<Architecture> {
        ArchChoice::architectures(&self.arch)
    }
}

/// Arguments of `lab outages`.
#[derive(Debug, Args)]
pub struct OutagesArgs {
    /// What the lab consists of; --control is implied
    #[command(flatten)]
    pub shape: ShapeArgs,

    /// The outages to test, in the order of docs/outages.md; all if none is named. `isolation` compares a node's failure with the
    /// same under hash partition
    #[arg(value_name = "NAME", value_delimiter = ',')]
    pub names: Vec<String>,

    /// What is printed, and a file for it.
    #[command(flatten)]
    pub result: ResultArgs,

    /// Keep the results of all outages in docs/data, for the documentation. Refused if sources have uncommitted changes
    #[arg(long, conflicts_with = "names")]
    pub page: bool,

    /// Directory for logs if an outage fails
    #[arg(long, value_name = "DIR", default_value = "out/lab")]
    pub out: PathBuf,
}

/// Arguments of `lab up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// What the lab consists of
    #[command(flatten)]
    pub shape: ShapeArgs,

    /// Architecture of the nodes
    #[arg(long, value_name = "NAME", value_enum, default_value = "scalebricks")]
    pub arch: ArchChoice,
}

/// Arguments of `lab test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Which lab
    #[command(flatten)]
    pub lab: NameArgs,

    /// What is checked
    #[command(flatten)]
    pub checks: ChecksArgs,

    /// Print only the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Arguments of the base station.
#[derive(Debug, Args)]
pub struct BaseStationArgs {
    /// The flows, with the key `ue`
    #[arg(long)]
    pub flows: PathBuf,

    /// Nodes in the cluster
    #[arg(long)]
    pub nodes: usize,

    /// Socket that answers requests
    #[arg(long)]
    pub control: PathBuf,
}

/// Arguments of the sender of damaged frames.
#[derive(Debug, Args)]
pub struct DamagedFramesArgs {
    /// A capture of correct frames
    #[arg(long)]
    pub corpus: PathBuf,

    /// Number of frames
    #[arg(long)]
    pub count: u64,

    /// Seed of all random choices
    #[arg(long)]
    pub seed: u64,
}

/// Arguments of the sender of captured frames.
#[derive(Debug, Args)]
pub struct ReplayedFramesArgs {
    /// The capture
    #[arg(long)]
    pub capture: PathBuf,

    /// The interface that is created
    #[arg(long)]
    pub interface: String,
}

/// Arguments of one end of the paced streams.
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

/// Arguments of paced streams between several hosts.
#[derive(Debug, Args)]
pub struct MeshStreamsArgs {
    /// The number of this host
    #[arg(long)]
    pub host: u8,

    /// The addresses of all hosts in their order; those of IPv4 and those of IPv6
    #[arg(long, value_delimiter = ',', num_args = 1..=256)]
    pub address: Vec<IpAddr>,
}

/// Arguments for suspending threads.
#[derive(Debug, Args)]
pub struct SuspendArgs {
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

/// Namespaces of a lab are found by their names, so a name must not be the part of another before a dash.
fn parse_name(text: &str) -> Result<String, String> {
    let is_short = (1..=20).contains(&text.len());
    if is_short && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()) {
        Ok(text.to_owned())
    } else {
        Err("must be 1 to 20 lower-case letters and digits".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        run: RunArgs,
    }

    fn refusal(options: &str) -> Option<String> {
        let args = Program::parse_from(format!("run {options}").split_whitespace()).run;
        args.shape.refuse_useless(&args.architectures()).err().map(|error| error.to_string())
    }

    #[test]
    fn options_without_effect_are_refused() {
        let no_gpt = refusal("--gpt othello --arch vlb,full-duplication").unwrap();
        assert!(no_gpt.starts_with("--gpt has no effect"), "{no_gpt}");
        assert_eq!(refusal("--gpt othello --arch vlb,scalebricks"), None);
        assert_eq!(refusal("--gpt othello --arch all"), None);
        let no_log = refusal("--nats-server nats-server").unwrap();
        assert!(no_log.contains("add --control"), "{no_log}");
        for controlled in ["--control", "--flows 10"] {
            assert_eq!(refusal(&format!("--nats-server nats-server {controlled}")), None);
        }
    }
}
