//! `scalebricks node`: one gateway node. So far, checking what it is told.

pub mod config;
pub mod flows;

use crate::cli::CheckArgs;
use config::{NodeFile, Problem};
use flows::{FlowFileError, Reading};
use scalebricks_console::output::OutputError;
use scalebricks_console::{Console, quantity, status};
use std::fs::File;
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
    /// Standard output.
    #[error(transparent)]
    Output(OutputError),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Checks a configuration and the flows it names, and says what the node would be. Starts nothing.
///
/// # Errors
/// [`NodeError`].
pub fn check(args: &CheckArgs, console: &Console) -> Result<u8, NodeError> {
    let path = &args.config;
    let read = |error| NodeError::Read { path: path.clone(), error };
    let text = std::fs::read_to_string(path).map_err(read)?;
    let node =
        NodeFile::parse(&text).map_err(|problems| NodeError::Config { path: path.clone(), problems })?;
    let flows_path = path.parent().unwrap_or_else(|| Path::new("")).join(&node.flows);
    let read = |error| NodeError::Read { path: flows_path.clone(), error };
    let file = File::open(&flows_path).map_err(read)?;
    let bytes = file.metadata().map_err(read)?.len();
    let stations: Vec<_> = node.base_stations.iter().map(|station| station.address).collect();
    let reading = Reading { profile: node.profile, size: node.size, base_stations: &stations };
    let progress = console.progress("flows", bytes);
    let flows = reading
        .read(file, &progress)
        .map_err(|error| NodeError::Flows { path: flows_path.clone(), error })?;
    progress.finish();
    let here = flows.iter().filter(|flow| flow.node == node.id).count();
    let summary = format!(
        "node {} of {}, {}: {} flows, {} of them here; {} base stations; ports {}",
        node.id.get(),
        node.size.get(),
        node.architecture,
        quantity::count(flows.len() as u64),
        quantity::count(here as u64),
        stations.len(),
        node.ports.iter().map(|port| port.role.name()).collect::<Vec<_>>().join(", "),
    );
    console.result(&summary).map_err(NodeError::Output)?;
    Ok(status::SUCCESS)
}
