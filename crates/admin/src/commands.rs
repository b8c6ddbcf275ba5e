//! The commands `status`, `stats`, `trace`, `capture`, `flow` and `cluster`, which ask a running node.

mod args;
mod blocks;
mod capture;
mod cluster;
mod cluster_args;
mod export;
mod flow;
mod flow_args;
mod import;
mod stats;
mod status;
mod trace;
mod verify;

pub use args::{AskArgs, CaptureArgs, ReachArgs, StatsArgs, TraceArgs, speak_of};
pub use args::{
    CAPTURE_ABOUT, CAPTURE_EXAMPLES, STATS_EXAMPLES, STATUS_EXAMPLES, TRACE_ABOUT, TRACE_EXAMPLES,
};
pub use cluster::cluster;
pub use cluster_args::{CLUSTER_ABOUT, CLUSTER_EXAMPLES, ClusterCommand};
pub use flow::flow;
pub use flow_args::{FLOW_ABOUT, FLOW_EXAMPLES, FlowCommand};
pub use stats::Samples;

use super::client::ClientError;
pub use super::client::sockets::Daemon;
use super::server::ServerError;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use scalebricks_console::output::{self, OutputError};
use scalebricks_console::{Console, Interrupt, status as exit};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The node did not answer, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The answer could not be printed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A server could not be started.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The arguments are wrong.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be used.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl CommandError {
    /// The exit status.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Client(_) | Self::Output(_) | Self::Server(_) | Self::File { .. } => exit::FAILURE,
        }
    }
}

/// `scalebricks status`.
///
/// # Errors
/// [`CommandError`].
pub fn status(args: &AskArgs, console: &Console) -> Result<u8, CommandError> {
    show(console, args.json, &args.node()?.status()?, status::render)
}

/// `scalebricks stats`.
///
/// # Errors
/// [`CommandError`].
pub fn stats(args: &StatsArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, CommandError> {
    let client = args.ask.node()?;
    watch(args, || client.stats(), stats::render, console, interrupt)
}

/// Asks once and shows the answer; with `--watch` again and again until Ctrl-C, together with the answer before.
///
/// # Errors
/// [`CommandError`].
pub fn watch<T: Serialize>(
    args: &StatsArgs,
    ask: impl Fn() -> Result<T, ClientError>,
    render: impl Fn(&T, Option<&T>) -> String,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u8, CommandError> {
    let mut before = ask()?;
    let Some(seconds) = args.watch else {
        return show(console, args.ask.json, &before, |now| render(now, None));
    };
    if args.ask.json {
        console.result(&line(&before)?)?;
    }
    while interrupt.wait(Duration::from_secs(u64::from(seconds))).is_ok() {
        let now = ask()?;
        let text = if args.ask.json { line(&now)? } else { render(&now, Some(&before)) };
        console.result(&text)?;
        before = now;
    }
    Ok(exit::INTERRUPTED)
}

/// `scalebricks trace`.
///
/// # Errors
/// [`CommandError`].
pub fn trace(args: &TraceArgs, console: &Console) -> Result<u8, CommandError> {
    let request = trace::request(args)?;
    show(console, args.ask.json, &args.ask.node()?.trace(&request)?, trace::render)
}

/// `scalebricks capture`.
///
/// # Errors
/// [`CommandError`].
pub fn capture(args: &CaptureArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, CommandError> {
    capture::run(args, &args.reach.client(Daemon::Node)?, console, interrupt)
}

/// Prints an answer, as JSON or as text. Returns the exit status.
///
/// # Errors
/// [`CommandError`].
pub fn show<T: Serialize>(
    console: &Console,
    json: bool,
    answer: &T,
    render: impl FnOnce(&T) -> String,
) -> Result<u8, CommandError> {
    let text = if json { output::json(answer)? } else { render(answer) };
    console.result(text.trim_end())?;
    Ok(exit::SUCCESS)
}

/// An answer as one line of JSON.
fn line(answer: &impl Serialize) -> Result<String, CommandError> {
    Ok(serde_json::to_string(answer).map_err(OutputError::from)?)
}

/// An empty table with a header.
pub fn table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    // Cells wrap in a narrow terminal, but not in a file.
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.into_iter().collect::<Vec<_>>());
    table
}

/// A table of names and values, without lines.
pub fn list(rows: &[(&str, String)]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    for (name, value) in rows {
        table.add_row(vec![*name, value]);
    }
    trimmed(&table)
}

/// A table as text, without the spaces that fill the last column.
pub fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// A cell that is aligned to the right.
pub fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
