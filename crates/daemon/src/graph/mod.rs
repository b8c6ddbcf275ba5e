//! `scalebricks graph` and `scalebricks elements`: configurations in the Click language.
//!
//! | module | content |
//! |---|---|
//! | [`args`] | the command line |
//! | `run` | a run over devices, or over captures in place of devices |
//! | `report` | the report at the end of a run |
//! | `serve`, `ask` | a run as the admin server sees it, and the commands that ask it |
//! | `elements` | lists the element classes |
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

use crate::error::ProcessError;
use args::{FileArgs, GraphCommand};
use scalebricks_apps::click::Router;
use scalebricks_console::{Console, Interrupt, status};
use scalebricks_graph::{Ledger, Registry};
use scalebricks_io::{Packet, PacketBuf};

/// Runs a `scalebricks graph` command.
///
/// # Errors
/// [`ProcessError`].
pub fn graph(command: &GraphCommand, console: &Console, interrupt: &Interrupt) -> Result<u8, ProcessError> {
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

fn read<P: PacketBuf + 'static>(args: &FileArgs, registry: &Registry<P>) -> Result<Router, ProcessError> {
    let path = &args.file;
    let text = args.read().map_err(ProcessError::file(path))?;
    Ok(Router::read(&path.display().to_string(), &text, &args.variables, registry)?)
}

fn check(args: &FileArgs, console: &Console) -> Result<u8, ProcessError> {
    let registry = registry::<Packet>();
    let router = read(args, &registry)?;
    let graph = router.graph(&registry, &mut Ledger::new())?;
    router.notes().iter().for_each(|note| console.note(note));
    let (elements, connections) = (graph.elements().count(), router.configuration().connections.len());
    let pulls = connections.saturating_sub(graph.edges().len());
    console.result(&format!(
        "{}: {elements} elements, {connections} connections, {pulls} of them pull",
        args.file.display()
    ))?;
    Ok(status::SUCCESS)
}
