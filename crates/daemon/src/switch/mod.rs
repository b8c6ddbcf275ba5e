//! `scalebricks switch`: a switch for flat names.
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`], [`load`] | the configuration, and reading it and the names |
//! | [`args`] | the command line |
//! | [`replay`] | captures through the switch, in this process |
//! | [`running`], [`view`] | a switch that runs: its names and counters, and what it says of itself |
//! | [`admin`] | the window into a running switch |
//! | [`log`] | names by a log that several switches follow |
//! | `run` | the daemon: with the feature `dpdk` |

pub mod admin;
pub mod args;
pub mod config;
pub mod load;
pub mod log;
mod ports_table;
pub mod replay;
#[cfg(feature = "dpdk")]
mod run;
pub mod running;

#[cfg(feature = "dpdk")]
pub use run::run;

use crate::node::config::Problem;
use load::Configuration;
use scalebricks_apps::switch::file::FileErrors;
use scalebricks_console::output::OutputError;
use scalebricks_console::{Console, Interrupted, quantity, status};
use scalebricks_elements::flat::NameError;
use scalebricks_io::CaptureError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a switch cannot do what it is told.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// A file that cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A configuration with problems.
    #[error("{}:\n{}", path.display(), lines(problems))]
    Config {
        /// The file.
        path: PathBuf,
        /// All of them.
        problems: Vec<Problem>,
    },
    /// A file of names with bad lines.
    #[error("{}", name_lines(path, errors))]
    Names {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        errors: FileErrors,
    },
    /// Names that the table refuses.
    #[error("names: {0}")]
    Table(#[from] NameError),
    /// A capture that cannot be read.
    #[error("{}: {error}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: CaptureError,
    },
    /// A file that cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A port without a device, which is opened only where frames come from captures.
    #[error("port '{0}' has no device, which only a replay can do without (`switch check --replay`)")]
    NoDevice(String),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Elements and connections that cannot be: too many.
    #[error("{0}")]
    Graph(#[from] scalebricks_graph::BuildErrors),
    /// Memory for frames.
    #[error("buffers: {0}")]
    Pool(#[from] scalebricks_io::PoolError),
    /// A switch whose names are in a log, where there is none to be followed.
    #[error("names come from the log of [control]: name a file of them in a configuration of its own")]
    NamesInLog,
    /// Signals that cannot be listened to.
    #[error("listening to signals: {0}")]
    Signals(io::Error),
    /// A thread that cannot be started.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
    /// The log of names.
    #[error("names: {0}")]
    Log(#[from] log::LogError),
    /// The admin interface.
    #[error("admin interface: {0}")]
    Admin(#[from] scalebricks_admin::server::ServerError),
    /// DPDK, or a port.
    #[error("ports: {0}")]
    Ports(String),
    /// A program without DPDK.
    #[error(
        "this program was built without DPDK, which a switch's ports need: build it with --features dpdk"
    )]
    NoDpdk,
    /// A command that asks a running switch.
    #[error(transparent)]
    Command(#[from] scalebricks_admin::commands::CommandError),
    /// The user did not want to wait.
    #[error("interrupted")]
    Interrupted(#[from] Interrupted),
    /// Standard output.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl SwitchError {
    /// The exit status.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => status::USAGE,
            Self::Command(error) => error.exit_code(),
            Self::Interrupted(_) => status::INTERRUPTED,
            _ => status::FAILURE,
        }
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// As compilers write it, so that editors find the place.
fn name_lines(path: &Path, errors: &FileErrors) -> String {
    let mut lines: Vec<String> =
        errors.lines.iter().map(|error| format!("{}:{error}", path.display())).collect();
    if errors.more > 0 {
        lines.push(format!("and {} lines more", errors.more));
    }
    lines.join("\n")
}

/// Checks a configuration, the names and all files it leads to, and says what the switch would be. Starts nothing. What depends on
/// this machine is checked only if the switch is to run here. For a replay ports need no devices, and nothing is listened to.
///
/// # Errors
/// [`SwitchError`]: what [`run`] would refuse, except devices that do not work.
pub fn check(args: &args::CheckArgs, console: &Console) -> Result<u8, SwitchError> {
    let configuration = Configuration::read(&args.config)?;
    let file = &configuration.file;
    if !args.replay {
        configuration.devices()?;
        admin::listen(&configuration).check(!args.elsewhere)?;
    }
    if let Some(control) = configuration.control() {
        crate::node::control_plane::check(&control.engine, &control.name)
            .map_err(|error| log::LogError::Engine(error.to_string()))?;
    }
    let mut table = configuration.table()?;
    let names = if file.control.is_some() {
        "names from the log".to_owned()
    } else {
        table.change_to(&configuration.names()?)?;
        let stats = table.stats();
        format!(
            "{} names, {} different actions, {} for lookups",
            quantity::count(stats.names as u64),
            quantity::count(stats.actions as u64),
            quantity::bytes(stats.table_bytes as u64),
        )
    };
    let summary =
        format!("switch by {}: {names}; ports {}", file.names.kind.word(), file.port_names.all().join(", "));
    console.result(&summary)?;
    Ok(status::SUCCESS)
}

/// Runs a switch, in a program that has no ports for it.
///
/// # Errors
/// [`SwitchError::NoDpdk`], always; before, what is wrong with the configuration.
#[cfg(not(feature = "dpdk"))]
pub fn run(config: &Path) -> Result<u8, SwitchError> {
    Configuration::read(config)?;
    Err(SwitchError::NoDpdk)
}
