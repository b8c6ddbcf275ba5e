//! `scalebricks graph` and `scalebricks elements`: configurations in the Click language.
//!
//! | module | what it holds |
//! |---|---|
//! | [`args`] | the command line |
//! | `run` | a run over devices, or over captures in their place |
//! | `report` | what a run tells at its end |
//! | `serve`, `ask` | what the admin server asks of a run; what users ask through it |
//! | `elements` | what there is to build graphs of |
//! | `ports` | devices over DPDK: with the feature `dpdk` |

pub mod args;
mod ask;
mod elements;
#[cfg(feature = "dpdk")]
mod ports;
mod report;
mod run;
mod serve;

pub use elements::elements;
pub use run::run;

use args::{FileArgs, GraphCommand};
use scalebricks_admin::client::ClientError;
use scalebricks_admin::commands::CommandError;
use scalebricks_admin::server::ServerError;
use scalebricks_apps::click::Router;
use scalebricks_apps::click::devices::DevicesError;
use scalebricks_apps::click::live::ReplaceError;
use scalebricks_console::output::OutputError;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_graph::{Ledger, Registry};
use scalebricks_io::{Packet, PacketBuf, PoolError};
use std::io;
use std::path::PathBuf;

/// Why a configuration is not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// A configuration that cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A configuration with something wrong in it, or an element of it that cannot open what it works with.
    #[error("in the configuration\n{0}")]
    Wrong(#[from] scalebricks_click::Errors),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Memory for packets.
    #[error("buffers: {0}")]
    Pool(#[from] PoolError),
    /// A capture that could not be completed.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// The run could not begin.
    #[error(transparent)]
    Start(#[from] ReplaceError),
    /// The admin server.
    #[error("admin server: {0}")]
    Admin(#[from] ServerError),
    /// Signals cannot be heard.
    #[error("signals: {0}")]
    Signals(io::Error),
    /// A run did not answer as wanted.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The same, or its answer did not reach the user.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A program without DPDK.
    #[error("this program was built without DPDK, which --port needs: build it with --features dpdk")]
    NoDpdk,
    /// DPDK, or a device.
    #[error("ports: {0}")]
    Ports(String),
    /// There is no such element class.
    #[error("there is no element {name}{hint}")]
    NoElement {
        /// What was asked for.
        name: String,
        /// What may have been meant, in words.
        hint: String,
    },
    /// Standard output.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl GraphError {
    /// The exit status.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => status::USAGE,
            _ => status::FAILURE,
        }
    }
}

/// Does what is to be done with a configuration.
///
/// # Errors
/// [`GraphError`].
pub fn graph(command: &GraphCommand, console: &Console, interrupt: &Interrupt) -> Result<u8, GraphError> {
    match command {
        GraphCommand::Check(args) => check(args, console),
        GraphCommand::Run(args) => run(args, console, interrupt),
        GraphCommand::Show(args) => ask::show(args, console),
        GraphCommand::Read(args) => ask::read(args, console),
        GraphCommand::Write(args) => ask::write(args),
        GraphCommand::Reload(args) => ask::reload(args, console),
    }
}

/// The classes that configurations may name.
fn registry<P: PacketBuf + 'static>() -> Registry<P> {
    scalebricks_elements::registry()
}

fn read<P: PacketBuf + 'static>(args: &FileArgs, registry: &Registry<P>) -> Result<Router, GraphError> {
    let path = &args.file;
    let text = std::fs::read(path).map_err(|error| GraphError::Read { path: path.clone(), error })?;
    Ok(Router::read(&path.display().to_string(), &text, &args.variables, registry)?)
}

fn check(args: &FileArgs, console: &Console) -> Result<u8, GraphError> {
    let registry = registry::<Packet>();
    let router = read(args, &registry)?;
    let graph = router.graph(&registry, &mut Ledger::new())?;
    router.notes().iter().for_each(|note| console.note(note));
    let (elements, pushes) = (graph.elements().count(), graph.edges().len());
    let pulls =
        router.configuration().connections.len() - pushes.min(router.configuration().connections.len());
    console.result(&format!(
        "{}: {elements} elements, {} connections, {pulls} of them pull",
        args.file.display(),
        router.configuration().connections.len()
    ))?;
    Ok(status::SUCCESS)
}
