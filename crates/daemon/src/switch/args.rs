//! The command line of a switch.

use super::admin::args::{NAMES_EXAMPLES, NamesCommand};
use clap::{Args, Subcommand};
use scalebricks_admin::commands::StatsArgs;
use std::path::PathBuf;

/// What `scalebricks switch` is.
pub const ABOUT: &str = "\
A switch that forwards by flat names: destination MAC or IP addresses, tuples, or bytes of the frame. It looks names up in a \
Concise FIB, an Othello table that holds no names and takes a few bits for each. docs/switch.md has all keys of its \
configuration, the file of names, and what becomes of names that are not known.";

/// Examples of `scalebricks switch`.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks switch check --config switch.toml
      Says what the switch would be, or what `run` would refuse. Of devices only their names are looked at.
  scalebricks switch replay --config switch.toml --in left=a.pcap --in right=b.pcap --out out/
      Captures through the switch, in this process: one capture a port of what would have left by it.
  scalebricks switch --config switch.toml
      Runs it; needs a program built with --features dpdk. SIGHUP has it read its names again, SIGTERM ends it.

Exit status:
  0 nothing is wrong, or the switch was asked to stop
  1 something is wrong, or a file cannot be read    2 wrong usage    130 interrupted";

/// Examples of `scalebricks switch replay`.
pub const REPLAY_EXAMPLES: &str = "\
Examples:
  scalebricks switch replay --config switch.toml --in left=a.pcap --in right=b.pcapng.gz --out out/
  scalebricks switch replay --config switch.toml --in left=a.pcap --out out/ --json out/summary.json --quiet

The clock is that of the captures. Ports without a capture only send. Ctrl-C leaves no half files.";

/// A switch by its configuration alone, or what is to be done with one.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct SwitchCall {
    #[command(subcommand)]
    command: Option<SwitchCommand>,

    /// Run the switch of this configuration: the same as `run --config FILE`
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
}

impl SwitchCall {
    /// Whether nothing but results and errors is to be told.
    pub const fn is_quiet(&self) -> bool {
        matches!(&self.command, Some(SwitchCommand::Replay(ReplayArgs { quiet: true, .. })))
    }

    /// What is to be done.
    pub fn command(self) -> SwitchCommand {
        // Without a command there is a configuration, or the command line was refused.
        self.command
            .unwrap_or_else(|| SwitchCommand::Run(ConfigArgs { config: self.config.unwrap_or_default() }))
    }
}

/// What can be done with a switch.
#[derive(Debug, Subcommand)]
pub enum SwitchCommand {
    /// Check a configuration, the names and all files it leads to: refuse what `run` would refuse, except devices
    Check(CheckArgs),

    /// Run the switch until SIGTERM; SIGHUP has it read its names again
    Run(ConfigArgs),

    /// Push captures through the switch, and write one a port of what leaves
    #[command(after_long_help = REPLAY_EXAMPLES, after_help = "See --help for examples.")]
    Replay(ReplayArgs),

    /// What a running switch is, and how it is
    Status(StatsArgs),

    /// The names of a running switch
    #[command(subcommand, after_long_help = NAMES_EXAMPLES, after_help = "See --help for examples.")]
    Names(NamesCommand),
}

/// What a switch is told.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

/// What a check is told.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// The switch is to run on another machine: do not ask this one for its addresses, ports in use and directories
    #[arg(long)]
    pub elsewhere: bool,

    /// The configuration is for a replay: ports need no devices
    #[arg(long)]
    pub replay: bool,
}

/// What a replay is told.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// What comes by a port: its name and a capture (pcap or pcapng, also .gz); repeat it for several
    #[arg(long = "in", value_name = "PORT=FILE", required = true, value_parser = parse_input)]
    pub inputs: Vec<Input>,

    /// Directory for the captures of what leaves, PORT.pcap each
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Where the summary goes as JSON, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Tell nothing but the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// What comes by a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// The port's name.
    pub port: String,
    /// The capture.
    pub path: PathBuf,
}

fn parse_input(text: &str) -> Result<Input, String> {
    match text.split_once('=') {
        Some((port, path)) if !port.is_empty() && !path.is_empty() => {
            Ok(Input { port: port.to_owned(), path: path.into() })
        }
        _ => Err("not PORT=FILE".to_owned()),
    }
}
