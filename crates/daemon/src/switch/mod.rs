//! `scalebricks switch`: a switch for flat names.
//!
//! | module | content |
//! |---|---|
//! | [`config`], [`load`] | the configuration, and reading it and the names |
//! | [`args`] | the command line |
//! | [`replay`] | sends captures through the switch, in this process |
//! | [`running`] | a running switch: its names, its counters, and the state that it reports |
//! | [`admin`] | the admin interface of a running switch |
//! | [`log`] | names in a log that several switches follow |
//! | `run` | the process: with the feature `dpdk` |

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

use crate::error::ProcessError;
use load::Configuration;
use scalebricks_console::{Console, quantity, status};
#[cfg(not(feature = "dpdk"))]
use std::path::Path;

/// Checks a configuration, the names and all files it names, and prints a summary. Starts nothing. Properties of this
/// machine are checked only if the switch is to run here. For a replay ports need no devices, and addresses are not
/// checked.
///
/// # Errors
/// [`ProcessError`]: everything that [`run`] would refuse, except devices.
pub fn check(args: &args::CheckArgs, console: &Console) -> Result<u8, ProcessError> {
    let configuration = Configuration::read(&args.config)?;
    let file = &configuration.file;
    if !args.replay {
        configuration.devices()?;
        configuration.admin().check(!args.elsewhere)?;
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

/// Refuses to run a switch, because the program has no ports.
///
/// # Errors
/// Always: a wrong configuration, or [`ProcessError::NoDpdk`].
#[cfg(not(feature = "dpdk"))]
pub fn run(config: &Path) -> Result<u8, ProcessError> {
    Configuration::read(config)?;
    Err(ProcessError::NoDpdk)
}
