//! A node of a cluster router, as a daemon: `scalebricks router node`.
//!
//! | module | content |
//! |---|---|
//! | [`config`], [`load`] | the configuration |
//! | [`routes`] | the routes, computed from the log, and the tables of the worker |
//! | [`feeder`] | sources of routes |
//! | [`control`] | the log, the sources, and the nodes that are alive, together |
//! | [`running`] | a running node, and the state that it reports |
//! | [`admin`] | the admin interface of a running node |
//! | `run` | the process: with the feature `dpdk` |

pub mod admin;
pub mod config;
pub mod control;
pub mod feeder;
pub mod load;
pub mod routes;
#[cfg(feature = "dpdk")]
mod run;
pub mod running;
#[cfg(test)]
mod tests;

#[cfg(feature = "dpdk")]
pub use run::run;

use crate::error::ProcessError;
use feeder::table;
use load::Configuration;
use scalebricks_console::{Console, quantity, status};
use std::path::Path;

/// Checks a configuration and all files it names, and prints a summary. Starts nothing. `elsewhere`: addresses, ports in
/// use and directories of this machine are not checked.
///
/// # Errors
/// [`ProcessError`]: everything that [`run`] would refuse, except devices and the content of the log.
pub fn check(config: &Path, elsewhere: bool, console: &Console) -> Result<u8, ProcessError> {
    let configuration = Configuration::read(config)?;
    configuration.admin().check(!elsewhere)?;
    let control = configuration.control();
    drop(crate::replica::engine(&control.engine, &control.name)?);
    let file = &configuration.file;
    if let Some(at) = file.feeders.fpm.filter(|_| !elsewhere) {
        drop(feeder::fpm::listen(&at)?);
    }
    let statics = match &file.feeders.routes {
        None => String::new(),
        Some(path) => {
            let (_, prefixes) = table::statics(&configuration.beside(path))?;
            format!("; static routes to {} prefixes", quantity::count(prefixes as u64))
        }
    };
    let summary = format!(
        "{} of {}: {} external ports of {}b/s, links of {}b/s, {}{statics}{}",
        file.id,
        file.size.get(),
        file.ports.len(),
        quantity::count(8 * file.port_rate),
        quantity::count(8 * file.link_rate),
        file.steering.name(),
        if file.feeders.fpm.is_some() { "; a BGP speaker" } else { "" },
    );
    console.result(&summary)?;
    Ok(status::SUCCESS)
}

/// Refuses to run a node, because the program has no ports.
///
/// # Errors
/// Always: a wrong configuration, or [`ProcessError::NoDpdk`].
#[cfg(not(feature = "dpdk"))]
pub fn run(config: &Path) -> Result<u8, ProcessError> {
    Configuration::read(config)?;
    Err(ProcessError::NoDpdk)
}
