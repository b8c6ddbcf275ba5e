//! The dashboard: one page for the browser that shows a cluster, and the server that passes on the nodes' answers.
//!
//! ```text
//! browser ─HTTP, token─▶ server ─▶ assets: the page, part of the program
//!                          └─────▶ api ─▶ nodes: the last answers ◀─ polls ─ admin interfaces of all nodes
//! ```
//!
//! The page knows no other origin. It gets the nodes' own JSON ([`model`](crate::model)); the server neither interprets
//! counters nor changes anything at the nodes.

mod api;
pub mod args;
mod assets;
mod nodes;
mod server;

pub use nodes::{Nodes, Source};
pub use server::{Access, DashboardServer, Place};

use crate::commands::CommandError;
use args::DashboardArgs;
use scalebricks_console::{Console, Interrupt, status as exit};
use std::time::Duration;

/// How often the command checks whether the user wants to stop.
const TICK: Duration = Duration::from_millis(50);

/// `scalebricks dashboard`: serves the page until Ctrl-C.
///
/// # Errors
/// [`CommandError`].
pub fn run(args: &DashboardArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, CommandError> {
    let (place, nodes) = (args.place()?, args.nodes());
    let server = DashboardServer::start(&place, nodes)?;
    console.result(&server.invitation())?;
    while interrupt.check().is_ok() {
        std::thread::sleep(TICK);
    }
    Ok(exit::SUCCESS)
}
