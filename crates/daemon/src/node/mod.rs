//! One gateway node: what it is told, and the daemon that does it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`], [`load`] | the configuration, and how it and the flow file are read |
//! | [`control_plane`] | the control plane on a thread of the node |
//! | [`worker`] | a thread that turns a node |
//! | `preflight` | what a start would refuse |
//! | [`slow_path`] | between workers and what the node says for itself: ARP, echo, errors |
//! | [`errors`] | whether it may tell peers that a flow does not exist |
//! | [`fabric`] | probing the fabric |
//! | [`health`] | what the node knows about its own fitness |
//! | [`takeover`] | whose addresses it answers for, by who is alive |
//! | [`source`] | its tables, and who feeds them |
//! | [`running`] | the running node as the admin interface sees it |
//! | `links`, `run` | ports over DPDK, and the daemon: with the feature `dpdk` |

pub mod config;
pub mod control_plane;
pub mod errors;
pub mod fabric;
pub mod health;
#[cfg(feature = "dpdk")]
mod links;
pub mod load;
mod preflight;
#[cfg(feature = "dpdk")]
mod run;
pub mod running;
pub mod slow_path;
pub mod source;
pub mod takeover;
pub mod worker;

#[cfg(feature = "dpdk")]
pub use run::run;

use config::Problem;
use load::Configuration;
use scalebricks_admin::flow_list::FlowFileError;
use scalebricks_apps::gateway::FlowTablesError;
use scalebricks_console::output::OutputError;
use scalebricks_console::{Console, quantity, status};
use scalebricks_elements::gateway::FabricMac;
use std::io;
use std::path::{Path, PathBuf};

/// Why a node cannot be what it is told to be.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
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
    /// A flow file with bad lines.
    #[error("{}:\n{error}", path.display())]
    Flows {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: FlowFileError,
    },
    /// Tables that cannot be made.
    #[error("tables: {0}")]
    Tables(FlowTablesError),
    /// Tables that refuse the flows.
    #[error("loading the flows: {0}")]
    Load(FlowTablesError),
    /// Signals that cannot be listened to.
    #[error("listening to signals: {0}")]
    Signals(io::Error),
    /// A thread that cannot be started.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
    /// The slow path.
    #[error("addresses and routes: {0}")]
    Local(String),
    /// The control plane.
    #[error("control plane: {0}")]
    Control(#[from] control_plane::DaemonError),
    /// The admin interface.
    #[error("admin interface: {0}")]
    Admin(String),
    /// DPDK, or a port.
    #[error("ports: {0}")]
    Ports(String),
    /// A program without DPDK.
    #[error("this program was built without DPDK, which a node's ports need: build it with --features dpdk")]
    NoDpdk,
    /// All that a start would refuse.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Refused(Vec<NodeError>),
    /// Standard output.
    #[error(transparent)]
    Output(OutputError),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Runs a node, in a program that has no ports for it.
///
/// # Errors
/// [`NodeError::NoDpdk`], always; before, what is wrong with the configuration.
#[cfg(not(feature = "dpdk"))]
pub fn run(config: &Path, _console: &Console) -> Result<u8, NodeError> {
    Configuration::read(config)?;
    Err(NodeError::NoDpdk)
}

/// Says which MAC addresses lead to a node over the fabric, one a line: its switch's static entries.
///
/// # Errors
/// [`NodeError::Read`], [`NodeError::Config`], [`NodeError::Output`].
pub fn macs(config: &Path, console: &Console) -> Result<u8, NodeError> {
    let node = Configuration::read(config)?.node;
    let addresses = FabricMac::announced_by(node.id, node.size).map(|mac| mac.to_string());
    console.result(&addresses.collect::<Vec<_>>().join("\n")).map_err(NodeError::Output)?;
    Ok(status::SUCCESS)
}

/// Checks a configuration, the flows and all files it names, and says what the node would be. Starts nothing. What depends on this
/// machine is checked only if the node `is_here`.
///
/// # Errors
/// [`NodeError`]: what [`run`] would refuse, except devices.
pub fn check(config: &Path, is_here: bool, console: &Console) -> Result<u8, NodeError> {
    let configuration = Configuration::read(config)?;
    let flows = configuration.flows(console)?;
    preflight::check(&configuration, &flows, is_here)?;
    let node = &configuration.node;
    let here = flows.iter().filter(|flow| flow.node == node.id).count();
    let summary = format!(
        "node {} of {}, {}: {} flows, {} of them here; {} base stations; ports {}",
        node.id.get(),
        node.size.get(),
        node.architecture,
        quantity::count(flows.len() as u64),
        quantity::count(here as u64),
        node.base_stations.len(),
        node.ports.iter().map(|port| port.role.name()).collect::<Vec<_>>().join(", "),
    );
    console.result(&summary).map_err(NodeError::Output)?;
    Ok(status::SUCCESS)
}
