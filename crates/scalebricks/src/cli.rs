//! The command line.

use crate::admin::commands::{
    self, CaptureArgs, ClusterCommand, FlowCommand, StatsArgs, StatusArgs, TraceArgs,
};
use crate::demo::config::{DemoConfig, GATEWAY, MAX_FLOWS, NODES};
use crate::lab::args as lab;
use clap::{Args, Parser, Subcommand, ValueEnum};
use scalebricks::engine;
use scalebricks::switch::args as switch;
use scalebricks_bench::{BenchArgs, args};
use scalebricks_console::quantity;
use scalebricks_dataplane::policy::MIN_MTU;
use scalebricks_dataplane::{Architecture, Oversize, Policy};
use scalebricks_engine::remote::Endpoint;
use scalebricks_types::{ClusterSize, IdError, KeyProfile};
use std::path::PathBuf;
use std::time::Duration;

/// Fewest and most nodes of a demonstration.
const NODE_RANGE: std::ops::RangeInclusive<i64> = 2..=64;

/// Most packets of a synthetic run, an architecture.
const MAX_PACKETS: u64 = 1_000_000_000_000;

/// A cluster of ordinary servers that behaves as one stateful packet gateway.
#[derive(Debug, Parser)]
#[command(name = "scalebricks", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Forward packets through a cluster in this process, in four architectures, and check every packet
    #[command(long_about = DEMO_ABOUT, after_long_help = DEMO_EXAMPLES, after_help = "See --help for examples.")]
    Demo(DemoArgs),

    /// Measure the tables beside other structures, every answer checked
    #[command(long_about = args::ABOUT, after_long_help = args::EXAMPLES, after_help = "See --help for examples.")]
    Bench(Box<BenchArgs>),

    /// One gateway node
    #[command(long_about = NODE_ABOUT, after_long_help = NODE_EXAMPLES, after_help = "See --help for examples.")]
    Node(NodeCall),

    /// A cluster on this machine over real interfaces, checked from all sides
    #[command(subcommand, long_about = lab::ABOUT, after_long_help = lab::EXAMPLES, after_help = "See --help for examples.")]
    Lab(lab::LabCommand),

    /// The process that keeps the control plane's log on this machine
    #[command(long_about = engine::ABOUT, after_long_help = engine::EXAMPLES, after_help = "See --help for examples.")]
    Engine(EngineCall),

    /// A switch that forwards by flat names: MAC or IP addresses, tuples, bytes
    #[command(long_about = switch::ABOUT, after_long_help = switch::EXAMPLES, after_help = "See --help for examples.")]
    Switch(switch::SwitchCall),

    /// What a running node is, and how it is
    #[command(after_long_help = commands::STATUS_EXAMPLES, after_help = "See --help for examples.")]
    Status(StatusArgs),

    /// What a running node has counted, or counts a second
    #[command(after_long_help = commands::STATS_EXAMPLES, after_help = "See --help for examples.")]
    Stats(StatsArgs),

    /// Where a running node would send a packet, and why
    #[command(long_about = commands::TRACE_ABOUT, after_long_help = commands::TRACE_EXAMPLES, after_help = "See --help for examples.")]
    Trace(Box<TraceArgs>),

    /// Copy what passes a running node, and what it drops, into a pcapng file
    #[command(long_about = commands::CAPTURE_ABOUT, after_long_help = commands::CAPTURE_EXAMPLES, after_help = "See --help for examples.")]
    Capture(Box<CaptureArgs>),

    /// Pin flows to nodes of a running cluster
    #[command(subcommand, long_about = commands::FLOW_ABOUT, after_long_help = commands::FLOW_EXAMPLES, after_help = "See --help for examples.")]
    Flow(Box<FlowCommand>),

    /// Who is in a running cluster and owns what; empty a node, compare all tables
    #[command(subcommand, long_about = commands::CLUSTER_ABOUT, after_long_help = commands::CLUSTER_EXAMPLES, after_help = "See --help for examples.")]
    Cluster(Box<ClusterCommand>),
}

/// A node by its configuration alone, or what is to be done with one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct NodeCall {
    #[command(subcommand)]
    command: Option<NodeCommand>,

    /// Run the node of this configuration: the same as `run FILE`
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,

    #[command(flatten)]
    output: NodeOutput,
}

impl NodeCall {
    /// What is to be done.
    pub fn command(self) -> NodeCommand {
        let Self { command, config, output } = self;
        // Without a command there is a configuration, or the command line was refused.
        command.unwrap_or_else(|| NodeCommand::Run(NodeArgs { config: config.unwrap_or_default(), output }))
    }

    /// Whether no progress is to be shown.
    pub const fn is_quiet(&self) -> bool {
        match &self.command {
            Some(NodeCommand::Check(args) | NodeCommand::Macs(args) | NodeCommand::Run(args)) => {
                args.output.quiet
            }
            None => self.output.quiet,
        }
    }
}

/// What can be done with a node.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Check a configuration and the flows it names, and start nothing
    Check(NodeArgs),

    /// List the MAC addresses that lead to the node over the fabric: static entries for its switch
    Macs(NodeArgs),

    /// Run the node until SIGTERM; SIGHUP has it read its flows again
    Run(NodeArgs),
}

/// What is to be done with a log.
#[derive(Debug, Args)]
pub struct EngineCall {
    #[command(subcommand)]
    /// What.
    pub command: EngineCommand,
}

/// What can be done with a log.
#[derive(Debug, Subcommand)]
pub enum EngineCommand {
    /// Keep the log of a directory and serve it to the processes of this machine, until SIGTERM
    Run(EngineArgs),

    /// Read the log of a directory, say how it is and what to do, and change nothing
    Check {
        /// The directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// What an engine process is told.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// The directory of the log; made if there is none
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,

    /// Where to listen: unix:PATH, or tcp:127.0.0.1:PORT [default: unix:DIR/engine.sock]
    #[arg(long, value_name = "PLACE")]
    pub listen: Option<Endpoint>,

    /// Seconds between two lines of counts in the log; 0: none but the last
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub counts: u32,

    /// No counts in the log but the last
    #[arg(short, long)]
    pub quiet: bool,

    /// How it writes what happens
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log: LogFormat,
}

impl EngineArgs {
    /// What the process is told.
    pub fn config(&self) -> engine::RunConfig {
        let counts = Some(self.counts).filter(|&seconds| seconds > 0 && !self.quiet);
        engine::RunConfig {
            data: self.data.clone(),
            listen: self.listen.clone(),
            counts: counts.map(|seconds| Duration::from_secs(seconds.into())),
        }
    }
}

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line an event
    Text,
    /// A JSON object an event
    Json,
}

/// What a node is told.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The configuration
    #[arg(value_name = "FILE")]
    pub config: PathBuf,

    #[command(flatten)]
    pub output: NodeOutput,
}

/// What a node's commands show.
#[derive(Debug, Args)]
pub struct NodeOutput {
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,

    /// How a running node writes its log
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log: LogFormat,
}

const NODE_ABOUT: &str = "\
A node is told what it is by a TOML file, the same at all nodes of a cluster but for its number and its ports, and \
which flows there are by a CSV file. docs/node.md has all keys and columns.";

const NODE_EXAMPLES: &str = "\
Examples:
  scalebricks node check node.toml
      Says what the node would be, or every line that is wrong and what is allowed there.
  scalebricks node run node.toml
  scalebricks node --config node.toml
      Runs it; needs a program built with --features dpdk. SIGHUP has it read its flows again, SIGTERM ends it.

Exit status:
  0 nothing is wrong, or the node was asked to stop
  1 something is wrong, or a file cannot be read    2 wrong usage";

const DEMO_ABOUT: &str = "\
Forwards packets through a mobile gateway: a cluster of nodes in this process, joined by a switch in memory. The same \
packets go through four architectures, and every packet that leaves is compared with what it should be.

By default the packets are synthetic: flows pinned to nodes by the region of their UE, three in four packets \
downstream, the others upstream in GTP-U, sizes by the simple IMIX (7:4:1 of 64, 594 and 1518-byte frames). With \
--pcap they come from a capture. Needs no root, no network and no interface.";

const DEMO_EXAMPLES: &str = "\
Examples:
  scalebricks demo
      One million flows on four nodes, five million packets an architecture: about a minute.
  scalebricks demo --nodes 16 --flows 250k --packets 1M
      A larger cluster, a shorter run.
  scalebricks demo --arch scalebricks --arch full-duplication --key ue --skew
      Two architectures, UE addresses as keys, most regions on few nodes.
  scalebricks demo --base-station-mtu 1500 --oversize icmp
      Refuse what does not fit the tunnel, and tell the sender.
  scalebricks demo --pcap capture.pcap.gz --ignore-checksums --out out/replay
      Replay a capture taken with checksum offload; write what each node sent.
  scalebricks demo --json run.json --svg run.svg --quiet
      Results for scripts; the table still goes to standard output.

Exit status:
  0 all packets accounted for    1 packets lost or misdelivered, or the run failed
  2 wrong usage                  130 interrupted";

/// What a demonstration can be asked for.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Nodes in the cluster, 2 to 64
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = clap::value_parser!(u16).range(NODE_RANGE))]
    pub nodes: u16,

    /// Flows pinned to the nodes, up to 16M
    #[arg(long, value_name = "COUNT", default_value = "1M", value_parser = parse_flows, conflicts_with = "pcap")]
    pub flows: u32,

    /// Packets put in, an architecture
    #[arg(long, value_name = "COUNT", default_value = "5M", value_parser = parse_packets, conflicts_with = "pcap")]
    pub packets: u64,

    /// Architecture to run; repeat it for several
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',', default_value = "all")]
    pub arch: Vec<ArchChoice>,

    /// What of a downstream packet is its key: the five-tuple, or the UE's address
    #[arg(long, value_name = "PROFILE", value_enum, default_value_t = KeyChoice::Flow5)]
    pub key: KeyChoice,

    /// Threads the nodes run on [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    /// What everything random is drawn from: the same seed makes the same flows and packets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Pin half as many regions to the second node as to the first, a third to the third, and so on
    #[arg(long, conflicts_with = "pcap")]
    pub skew: bool,

    /// What happens to packets that do not fit the base-station link with their tunnel headers
    #[arg(long, value_name = "HOW", value_enum, default_value_t = OversizeChoice::Fragment)]
    pub oversize: OversizeChoice,

    /// Largest IP packet on the base-station link, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1600,
        value_parser = clap::value_parser!(u16).range(i64::from(MIN_MTU)..))]
    pub base_station_mtu: u16,

    /// Forward packets with a wrong IPv4 header checksum, as captures taken with offload have them
    #[arg(long)]
    pub ignore_checksums: bool,

    /// Replay this capture (pcap or pcapng, also .gz) in place of synthetic traffic
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,

    /// Directory for one capture a node of what it sent
    #[arg(long, value_name = "DIR", requires = "pcap")]
    pub out: Option<PathBuf>,

    /// Where the results go as JSON
    #[arg(long, value_name = "FILE", default_value = "out/demo.json")]
    pub json: PathBuf,

    /// Where the results go as a picture
    #[arg(long, value_name = "FILE", default_value = "out/demo.svg")]
    pub svg: PathBuf,

    /// Tell nothing but the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// An architecture, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArchChoice {
    /// All four
    All,
    /// Every node holds the whole FIB
    FullDuplication,
    /// A lookup node between ingress and handling node
    HashPartition,
    /// The whole FIB everywhere, and a detour over a random node
    Vlb,
    /// A compact table everywhere, the FIB entry at the handling node only
    Scalebricks,
}

/// A key profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyChoice {
    /// Addresses, protocol and ports
    Flow5,
    /// The UE's IPv4 address or IPv6 /64
    Ue,
}

/// What happens to packets that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OversizeChoice {
    /// The outer packet is fragmented
    Fragment,
    /// The packet is dropped and its sender told
    Icmp,
}

impl ArchChoice {
    /// Whether it is the architecture, or all of them.
    pub const fn includes(self, architecture: Architecture) -> bool {
        matches!(
            (self, architecture),
            (Self::All, _)
                | (Self::FullDuplication, Architecture::FullDuplication)
                | (Self::HashPartition, Architecture::HashPartition)
                | (Self::Vlb, Architecture::Vlb)
                | (Self::Scalebricks, Architecture::ScaleBricks)
        )
    }
}

impl DemoArgs {
    /// The run these arguments ask for.
    ///
    /// # Errors
    /// [`IdError`] for a cluster that cannot be.
    pub fn config(&self) -> Result<DemoConfig, IdError> {
        let wanted =
            |architecture: &Architecture| self.arch.iter().any(|choice| choice.includes(*architecture));
        let all_cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(DemoConfig {
            size: ClusterSize::new(usize::from(self.nodes))?,
            architectures: Architecture::ALL.into_iter().filter(wanted).collect(),
            policy: Policy {
                key_profile: match self.key {
                    KeyChoice::Flow5 => KeyProfile::Flow5,
                    KeyChoice::Ue => KeyProfile::Ue,
                },
                verify_ipv4_checksum: !self.ignore_checksums,
                oversize: match self.oversize {
                    OversizeChoice::Fragment => Oversize::FragmentOuter,
                    OversizeChoice::Icmp => Oversize::Icmp,
                },
                base_station_mtu: self.base_station_mtu,
                gateway_address: GATEWAY,
                ..Policy::default()
            },
            threads: self.threads.map_or_else(all_cores, usize::from),
            seed: self.seed,
            skew: self.skew,
            flows: self.flows,
            packets: self.packets,
        })
    }
}

fn parse_flows(text: &str) -> Result<u32, quantity::QuantityError> {
    quantity::parse(text, 1..=MAX_FLOWS).map(|flows| flows as u32) // at most MAX_FLOWS
}

fn parse_packets(text: &str) -> Result<u64, quantity::QuantityError> {
    quantity::parse(text, 1..=MAX_PACKETS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn demo(args: &[&str]) -> Result<DemoArgs, clap::Error> {
        match Cli::try_parse_from([&["scalebricks", "demo"], args].concat())?.command {
            Command::Demo(args) => Ok(args),
            _ => unreachable!("the word is demo"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let config = demo(&[]).unwrap().config().unwrap();
        assert_eq!((config.size.get(), config.flows, config.packets), (4, 1_000_000, 5_000_000));
        assert_eq!(config.architectures, Architecture::ALL);
    }

    #[test]
    fn architectures_come_once_and_in_order() {
        let args = demo(&["--arch", "scalebricks", "--arch", "vlb,scalebricks"]).unwrap();
        assert_eq!(args.config().unwrap().architectures, [Architecture::Vlb, Architecture::ScaleBricks]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for args in [
            &["--nodes", "1"][..],
            &["--nodes", "65"],
            &["--flows", "17M"],
            &["--flows", "0"],
            &["--arch", "clos"],
            &["--out", "x"],
            &["--pcap", "x", "--flows", "5"],
            &["--base-station-mtu", "575"],
            &["--threads", "0"],
        ] {
            assert!(demo(args).is_err(), "{args:?}");
        }
    }
}
