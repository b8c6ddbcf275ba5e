//! A gateway node: its configuration and its process.
//!
//! | module | content |
//! |---|---|
//! | [`config`], [`load`] | the configuration, and reading it and the flow file |
//! | [`control_plane`] | the control plane on a thread of the node |
//! | [`worker`] | a worker thread |
//! | `preflight` | checks everything that a start would refuse |
//! | [`slow_path`] | ARP, neighbour discovery, echo and errors, shared by the workers |
//! | [`errors`] | decides whether the node may report that a flow does not exist |
//! | [`fabric`] | fabric probing |
//! | [`health`] | detects why the node is unfit |
//! | [`takeover`] | the addresses that the node answers for |
//! | [`source`] | the tables, and what fills them |
//! | [`running`] | the running node as the admin interface sees it |
//! | `links`, `run` | ports over DPDK, and the process: with the feature `dpdk` |

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

use crate::error::ProcessError;
use load::Configuration;
use scalebricks_console::{Console, quantity, status};
use scalebricks_elements::gateway::FabricMac;
use std::path::Path;

/// Refuses to run a node, because the program has no ports.
///
/// # Errors
/// Always: a wrong configuration, or [`ProcessError::NoDpdk`].
#[cfg(not(feature = "dpdk"))]
pub fn run(config: &Path, _console: &Console) -> Result<u8, ProcessError> {
    Configuration::read(config)?;
    Err(ProcessError::NoDpdk)
}

/// Prints the MAC addresses that lead to a node over the fabric, one per line, for static entries in a switch.
///
/// # Errors
/// [`ProcessError::File`], [`ProcessError::Config`], [`ProcessError::Output`].
pub fn macs(config: &Path, console: &Console) -> Result<u8, ProcessError> {
    let node = Configuration::read(config)?.file;
    let addresses = FabricMac::announced_by(node.id, node.size).map(|mac| mac.to_string());
    console.result(&addresses.collect::<Vec<_>>().join("\n"))?;
    Ok(status::SUCCESS)
}

/// Checks a configuration, the flows and all files it names, and prints a summary. Starts nothing. Properties of this
/// machine are checked only if the node `is_here`.
///
/// # Errors
/// [`ProcessError`]: what [`run`] would refuse, except devices.
pub fn check(config: &Path, is_here: bool, console: &Console) -> Result<u8, ProcessError> {
    let configuration = Configuration::read(config)?;
    let flows = configuration.flows(console)?;
    preflight::check(&configuration, &flows, is_here)?;
    let node = &configuration.file;
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
    console.result(&summary)?;
    Ok(status::SUCCESS)
}
