//! The errors of the processes.

use crate::node::config::Problem;
use crate::node::control_plane::DaemonError;
use crate::replica::LogError;
use scalebricks_admin::client::ClientError;
use scalebricks_admin::commands::CommandError;
use scalebricks_admin::flow_list::FlowFileError;
use scalebricks_admin::server::ServerError;
use scalebricks_apps::click::devices::DevicesError;
use scalebricks_apps::click::live::ReplaceError;
use scalebricks_apps::gateway::{ApplianceError, FlowTablesError};
use scalebricks_apps::router::feed::FeedError;
use scalebricks_apps::switch::file::FileErrors;
use scalebricks_console::output::OutputError;
use scalebricks_console::{Interrupted, status};
use scalebricks_elements::flat::NameError;
use scalebricks_graph::BuildErrors;
use scalebricks_io::{CaptureError, PacketSocketError, PoolError};
use std::io;
use std::path::{Path, PathBuf};

/// Why a node, a switch or a graph does not start, or a command fails.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A configuration has problems.
    #[error("{}:\n{}", path.display(), lines(problems))]
    Config {
        /// The file.
        path: PathBuf,
        /// All problems.
        problems: Vec<Problem>,
    },
    /// A flow file has bad lines.
    #[error("{}:\n{error}", path.display())]
    Flows {
        /// The file.
        path: PathBuf,
        /// The bad lines.
        error: FlowFileError,
    },
    /// A file of names has bad lines.
    #[error("{}", name_lines(path, errors))]
    Names {
        /// The file.
        path: PathBuf,
        /// The bad lines.
        errors: FileErrors,
    },
    /// A file of routes has a wrong line.
    #[error("{}: {error}", path.display())]
    Routes {
        /// The file.
        path: PathBuf,
        /// The problem.
        error: FeedError,
    },
    /// A capture cannot be read or written.
    #[error("{}: {error}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// The problem.
        error: CaptureError,
    },
    /// A capture cannot be opened.
    #[error(transparent)]
    CaptureFile(CaptureError),
    /// A table of flows cannot be created.
    #[error("flow table: {0}; lower --flows")]
    FlowTable(#[from] scalebricks_tables::dhash::ConfigError),
    /// The tables of a node cannot be created.
    #[error("tables: {0}")]
    Tables(FlowTablesError),
    /// The tables of a node refuse the flows.
    #[error("loading the flows: {0}")]
    Load(FlowTablesError),
    /// The table of a switch refuses names.
    #[error("names: {0}")]
    Table(#[from] NameError),
    /// The configuration of a graph is wrong, or an element cannot open what it uses.
    #[error("in the configuration\n{0}")]
    Click(#[from] scalebricks_click::Errors),
    /// A graph has too many elements or connections.
    #[error("{0}")]
    Graph(#[from] BuildErrors),
    /// The appliance of a node is wrong.
    #[error("appliance: {0}")]
    Appliance(#[from] ApplianceError),
    /// The addresses or routes of a node are wrong.
    #[error("addresses and routes: {0}")]
    Local(String),
    /// The control plane of a node.
    #[error("control plane: {0}")]
    Control(#[from] DaemonError),
    /// The log of names or routes.
    #[error("log: {0}")]
    Log(#[from] LogError),
    /// An address at which nothing can listen.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        error: io::Error,
    },
    /// The admin server.
    #[error("admin interface: {0}")]
    Admin(#[from] ServerError),
    /// DPDK, or a port.
    #[error("ports: {0}")]
    Ports(String),
    /// An interface cannot be opened, or fails.
    #[error("ports: {0}")]
    Interface(#[from] PacketSocketError),
    /// The program was built without DPDK.
    #[error("this program was built without DPDK, which ports need: build it with --features dpdk")]
    NoDpdk,
    /// A port has no device, and the switch does not replay captures.
    #[error("port '{0}' has no device; only `switch replay` and `switch check --replay` need none")]
    NoDevice(String),
    /// The names of a switch are in a log, where none can be followed.
    #[error("names come from the log of [control]: use a configuration that sets names.file")]
    NamesInLog,
    /// No memory for packets.
    #[error("buffers: {0}")]
    Pool(#[from] PoolError),
    /// Captures of a graph could not be completed.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// The run of a graph could not start.
    #[error(transparent)]
    Start(#[from] ReplaceError),
    /// No element class has this name.
    #[error("there is no element {name}{hint}")]
    NoElement {
        /// The name.
        name: String,
        /// A hint about the right name.
        hint: String,
    },
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// All that a start would refuse.
    #[error("{}", lines(.0))]
    Refused(Vec<ProcessError>),
    /// The arguments are wrong.
    #[error("{0}")]
    Usage(String),
    /// A process did not answer, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A command that asks a running process failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted(#[from] Interrupted),
    /// The result cannot be printed.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl ProcessError {
    /// The exit status.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => status::USAGE,
            Self::Command(error) => error.exit_code(),
            Self::Interrupted(_) => status::INTERRUPTED,
            _ => status::FAILURE,
        }
    }

    /// An error about a file.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::File { path, error }
    }
}

fn lines(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The bad lines in the format of compilers, so that editors find the place.
fn name_lines(path: &Path, errors: &FileErrors) -> String {
    let mut lines: Vec<String> =
        errors.lines.iter().map(|error| format!("{}:{error}", path.display())).collect();
    if errors.more > 0 {
        lines.push(format!("and {} more lines", errors.more));
    }
    lines.join("\n")
}
