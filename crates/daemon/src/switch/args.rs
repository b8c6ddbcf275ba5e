//! The command line of a switch.

use super::admin::args::{NAMES_EXAMPLES, NamesCommand};
use clap::{Args, Subcommand};
use scalebricks_admin::commands::StatsArgs;
use scalebricks_console::ResultArgs;
use std::path::PathBuf;

/// Description of `scalebricks switch`.
pub const ABOUT: &str = "\
A switch that forwards by flat names: destination MAC or IP addresses, tuples, or bytes of the frame. It looks names up in a \
Concise FIB, an Othello table that holds no names and takes a few bits per name. docs/switch.md describes the configuration, \
the file of names, and the treatment of unknown names.";

/// Examples of `scalebricks switch`.
pub const EXAMPLES: &str = "\
Examples:
  scalebricks switch check --config switch.toml
      Summarises the switch, or lists what `run` would refuse. Devices are not opened.
  scalebricks switch replay --config switch.toml --in left=a.pcap --in right=b.pcap --out out/
      Sends captures through the switch, in this process, and writes one capture per port.
  scalebricks switch --config switch.toml
      Runs the switch; needs a program built with --features dpdk. SIGHUP reloads the names, SIGTERM stops it.

Exit status:
  0 success, or the switch was asked to stop
  1 an error, or a file cannot be read    2 wrong usage    130 interrupted";

/// Examples of `scalebricks switch replay`.
pub const REPLAY_EXAMPLES: &str = "\
Examples:
  scalebricks switch replay --config switch.toml --in left=a.pcap --in right=b.pcapng.gz --out out/
  scalebricks switch replay --config switch.toml --in left=a.pcap --out out/ --json --quiet

The clock is that of the captures. Ports without a capture only send. Ctrl-C leaves no incomplete files.";

/// Arguments of `scalebricks switch`: a command, or a configuration to run.
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
    /// Whether only results and errors are printed.
    pub const fn is_quiet(&self) -> bool {
        matches!(&self.command, Some(SwitchCommand::Replay(ReplayArgs { quiet: true, .. })))
    }

    /// The command.
    pub fn command(self) -> SwitchCommand {
        // Without a command there is a configuration, because clap requires one.
        self.command
            .unwrap_or_else(|| SwitchCommand::Run(ConfigArgs { config: self.config.unwrap_or_default() }))
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum SwitchCommand {
    /// Check a configuration, the names and all files it names: refuse what `run` would refuse, except devices
    Check(CheckArgs),

    /// Run the switch until SIGTERM; SIGHUP reloads the names
    Run(ConfigArgs),

    /// Send captures through the switch, and write one capture per port
    #[command(after_long_help = REPLAY_EXAMPLES, after_help = "See --help for examples.")]
    Replay(ReplayArgs),

    /// Show the status of a running switch
    Status(StatsArgs),

    /// Show and change the names of a running switch
    #[command(subcommand, after_long_help = NAMES_EXAMPLES, after_help = "See --help for examples.")]
    Names(NamesCommand),
}

/// Arguments of `switch run`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

/// Arguments of `switch check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// The switch will run on another machine: do not check addresses, ports in use and directories of this one
    #[arg(long)]
    pub elsewhere: bool,

    /// The configuration is for a replay: ports need no devices
    #[arg(long)]
    pub replay: bool,
}

/// Arguments of `switch replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// The input of a port: its name and a capture (pcap or pcapng, also .gz); repeat it for several
    #[arg(long = "in", value_name = "PORT=FILE", required = true, value_parser = parse_input)]
    pub inputs: Vec<Input>,

    /// Directory for the captures of sent frames, PORT.pcap each
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// What is printed, and a file for it.
    #[command(flatten)]
    pub result: ResultArgs,

    /// Print only the result and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// The input of a port.
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
