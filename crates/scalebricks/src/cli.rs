//! The command line.

use crate::{manual, version};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use scalebricks_admin::commands::{
    self, AskArgs, CaptureArgs, ClusterCommand, Daemon, FlowCommand, StatsArgs, TraceArgs,
};
use scalebricks_admin::dashboard::args as dashboard;
use scalebricks_daemon::engine;
use scalebricks_daemon::flows::args as flows;
use scalebricks_daemon::graph::args as graph;
use scalebricks_daemon::router::args as router;
use scalebricks_daemon::switch::args as switch;
use scalebricks_lab::demo::args as demo;
use scalebricks_lab::testbed::args as lab;
use scalebricks_plan::args as plan;
use std::path::PathBuf;

/// A cluster of ordinary servers that behaves as one stateful packet gateway.
#[derive(Debug, Parser)]
#[command(name = "scalebricks", version = version::short(), long_version = version::long(), arg_required_else_help = true)]
#[command(after_help = "Tables wrap to the width of a terminal; in a file or a pipe, each row is one line.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands that ask a running process, and its kind.
const ASKING: [(&str, Daemon); 9] = [
    ("status", Daemon::Node),
    ("stats", Daemon::Node),
    ("trace", Daemon::Node),
    ("capture", Daemon::Node),
    ("flow", Daemon::Node),
    ("cluster", Daemon::Node),
    ("switch", Daemon::Switch),
    ("router", Daemon::Router),
    ("graph", Daemon::Graph),
];

impl Cli {
    /// The definition of the command line, for parsing, manual pages and completions.
    pub fn definition() -> clap::Command {
        ASKING.into_iter().fold(Self::command(), |command, (name, asked)| {
            command.mut_subcommand(name, |subcommand| commands::speak_of(subcommand, asked))
        })
    }

    /// The command line of this process. Prints the error and exits if it is wrong.
    pub fn read() -> Self {
        let mut command = Self::definition();
        let matches = command.get_matches_mut();
        if let Some(demo) = matches.subcommand_matches("demo") {
            scalebricks_lab::demo::useless::refuse(demo, &mut command).unwrap_or_else(|error| error.exit());
        }
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Forward packets through a cluster in this process, in four architectures, and check every packet
    #[command(long_about = demo::ABOUT, after_long_help = demo::EXAMPLES, after_help = "See --help for examples.")]
    Demo(demo::DemoArgs),

    /// One gateway node
    #[command(long_about = NODE_ABOUT, after_long_help = NODE_EXAMPLES, after_help = "See --help for examples.")]
    Node(NodeCall),

    /// A cluster on this machine over real interfaces, checked from all sides
    #[command(subcommand, long_about = lab::ABOUT, after_long_help = lab::EXAMPLES, after_help = "See --help for examples.")]
    Lab(lab::LabCommand),

    /// The control plane's log in a directory: check it
    #[command(long_about = engine::ABOUT, after_long_help = engine::EXAMPLES, after_help = "See --help for examples.")]
    Engine(EngineCall),

    /// A switch that forwards by flat names: MAC or IP addresses, tuples, bytes
    #[command(long_about = switch::ABOUT, after_long_help = switch::EXAMPLES, after_help = "See --help for examples.")]
    Switch(switch::SwitchCall),

    /// Packet processing by a configuration in the Click language, over devices or captures
    #[command(subcommand, long_about = graph::ABOUT, after_long_help = graph::EXAMPLES, after_help = "See --help for examples.")]
    Graph(Box<graph::GraphCommand>),

    /// A router of one server: minimal forwarding, or IP routing
    #[command(subcommand, long_about = router::ABOUT, after_long_help = router::EXAMPLES, after_help = "See --help for examples.")]
    Router(router::RouterCommand),

    /// The elements that configurations in the Click language are made of
    #[command(after_long_help = graph::ELEMENTS_EXAMPLES, after_help = "See --help for examples.")]
    Elements(graph::ElementsArgs),

    /// The flows of a capture or of ports: TCP states and streams, totals, a log, a table on the terminal
    #[command(long_about = flows::ABOUT, after_long_help = flows::EXAMPLES, after_help = "See --help for examples.")]
    Flows(Box<flows::FlowsArgs>),

    /// What a cluster needs before it is bought: topology, servers, cables, cost
    #[command(subcommand, long_about = plan::ABOUT, after_long_help = plan::EXAMPLES, after_help = "See --help for examples.")]
    Plan(plan::PlanCommand),

    /// What a running node is, and how it is
    #[command(after_long_help = commands::STATUS_EXAMPLES, after_help = "See --help for examples.")]
    Status(AskArgs),

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

    /// A page for the browser that shows a running cluster
    #[command(long_about = dashboard::ABOUT, after_long_help = dashboard::EXAMPLES, after_help = "See --help for examples.")]
    Dashboard(Box<dashboard::DashboardArgs>),

    /// Print the completions of the command line for a shell
    #[command(after_long_help = manual::COMPLETIONS_EXAMPLES, after_help = "See --help for examples.")]
    Completions(manual::CompletionsArgs),

    /// Write the manual pages of all subcommands into a directory
    #[command(after_long_help = manual::MAN_EXAMPLES, after_help = "See --help for examples.")]
    Man(manual::ManArgs),
}

impl Command {
    /// Whether no progress is to be shown.
    pub fn is_quiet(&self) -> bool {
        match self {
            Self::Demo(args) => args.quiet,
            Self::Node(node) => node.is_quiet(),
            Self::Lab(command) => command.is_quiet(),
            Self::Capture(args) => args.quiet,
            Self::Flow(command) => command.is_quiet(),
            Self::Flows(args) => args.quiet,
            Self::Switch(call) => call.is_quiet(),
            Self::Graph(command) => command.is_quiet(),
            Self::Router(command) => command.is_quiet(),
            Self::Engine(_)
            | Self::Elements(_)
            | Self::Plan(_)
            | Self::Status(_)
            | Self::Stats(_)
            | Self::Trace(_)
            | Self::Cluster(_)
            | Self::Dashboard(_)
            | Self::Completions(_)
            | Self::Man(_) => false,
        }
    }
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
            Some(NodeCommand::Check(args)) => args.node.output.quiet,
            Some(NodeCommand::Macs(args) | NodeCommand::Run(args)) => args.output.quiet,
            None => self.output.quiet,
        }
    }
}

/// What can be done with a node.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Check a configuration, its flows and all files it names: refuse what `run` would refuse, except devices
    Check(CheckArgs),

    /// List the MAC addresses that lead to the node over the fabric: static entries for its switch
    Macs(NodeArgs),

    /// Run the node until SIGTERM; SIGHUP has it read its flows again
    Run(NodeArgs),
}

/// `scalebricks engine`.
#[derive(Debug, Args)]
pub struct EngineCall {
    #[command(subcommand)]
    /// The subcommand.
    pub command: EngineCommand,
}

/// Subcommands of `scalebricks engine`.
#[derive(Debug, Subcommand)]
pub enum EngineCommand {
    /// Read the log of a directory, report its state and damage, and change nothing
    Check {
        /// The directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
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

/// What a check is told.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The node is to run on another machine: do not ask this one for its addresses, ports in use and directories
    #[arg(long)]
    pub elsewhere: bool,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
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
      Says what the node would be, or everything that `run` would refuse. Only devices are not looked at.
  scalebricks node check --elsewhere node.toml
      The same for the configuration of another machine.
  scalebricks node run node.toml
  scalebricks node --config node.toml
      Runs it; needs a program built with --features dpdk. SIGHUP has it read its flows again, SIGTERM ends it.

Exit status:
  0 nothing is wrong, or the node was asked to stop
  1 something is wrong, or a file cannot be read    2 wrong usage";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::definition().debug_assert();
    }

    #[test]
    fn help_names_the_process_that_is_asked() {
        for (words, heading, socket) in [
            (&["status"][..], "The node:", "the only node*.sock"),
            (&["switch", "status"], "The switch:", "the only switch*.sock"),
            (&["switch", "names", "lookup"], "The switch:", "the only switch*.sock"),
            (&["graph", "show"], "The process with the graph:", "the only graph*.sock or node*.sock"),
        ] {
            let line = [&["scalebricks"], words, &["--help"]].concat();
            let help = Cli::definition().try_get_matches_from(line).unwrap_err().to_string();
            assert!(help.contains(heading) && help.contains(socket), "{help}");
            assert!(!help.contains("The process:"), "{help}");
        }
    }
}
