//! `scalebricks status`, `stats`, `trace`, `capture`, `flow` and `cluster`: what a running node is asked from the command line.

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

pub use args::{
    CAPTURE_ABOUT, CAPTURE_EXAMPLES, STATS_EXAMPLES, STATUS_EXAMPLES, TRACE_ABOUT, TRACE_EXAMPLES,
};
pub use args::{CaptureArgs, NodeArgs, RemoteArgs, StatsArgs, StatusArgs, TraceArgs};
pub use cluster::cluster;
pub use cluster_args::{CLUSTER_ABOUT, CLUSTER_EXAMPLES, ClusterCommand};
pub use flow::flow;
pub use flow_args::{FLOW_ABOUT, FLOW_EXAMPLES, FlowCommand};
pub use stats::Samples;

use super::client::sockets::Daemon;
use super::client::{Client, ClientError};
use super::model::{Status, Trace};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use scalebricks_console::output::{self, OutputError};
use scalebricks_console::{Console, Interrupt, status as exit};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a wait looks whether the user wants to stop.
const TICK: Duration = Duration::from_millis(50);

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The node did not answer as wanted.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The answer did not reach the user.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// It was asked for what cannot be.
    #[error("{0}")]
    Usage(String),
    /// A file.
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
            Self::Client(_) | Self::Output(_) | Self::File { .. } => exit::FAILURE,
        }
    }
}

impl NodeArgs {
    /// A client of the node that is named.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn client(&self) -> Result<Client, CommandError> {
        Ok(self.remote.client(self.socket.as_deref(), Daemon::Node)?)
    }
}

/// `scalebricks status`.
///
/// # Errors
/// [`CommandError`].
pub fn status(args: &StatusArgs, console: &Console) -> Result<u8, CommandError> {
    let answer: Status = args.node.client()?.status()?;
    tell(console, args.json, &answer, status::render)?;
    Ok(exit::SUCCESS)
}

/// `scalebricks stats`.
///
/// # Errors
/// [`CommandError`].
pub fn stats(args: &StatsArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, CommandError> {
    let client = args.node.client()?;
    let how = Watch { json: args.json, seconds: args.watch };
    watch(how, || client.stats(), stats::render, console, interrupt)
}

/// How counters are shown.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// As JSON.
    pub json: bool,
    /// Again every so many seconds.
    pub seconds: Option<u32>,
}

/// Asks once and shows what it hears; or again and again until Ctrl-C, with what it heard before.
pub fn watch<T: Serialize>(
    how: Watch,
    ask: impl Fn() -> Result<T, ClientError>,
    render: impl Fn(&T, Option<&T>) -> String,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<u8, CommandError> {
    let mut before = ask()?;
    let Some(seconds) = how.seconds else {
        tell(console, how.json, &before, |now| render(now, None))?;
        return Ok(exit::SUCCESS);
    };
    if how.json {
        console.result(&line(&before)?)?;
    }
    while wait(Duration::from_secs(u64::from(seconds)), interrupt) {
        let now = ask()?;
        let text = if how.json { line(&now)? } else { render(&now, Some(&before)) };
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
    let answer: Trace = args.node.client()?.trace(&request)?;
    tell(console, args.json, &answer, trace::render)?;
    Ok(exit::SUCCESS)
}

/// `scalebricks capture`.
///
/// # Errors
/// [`CommandError`].
pub fn capture(args: &CaptureArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, CommandError> {
    capture::run(args, &args.node.client()?, console, interrupt)
}

/// Prints an answer, as JSON or in words.
pub fn tell<T: Serialize>(
    console: &Console,
    json: bool,
    answer: &T,
    render: impl FnOnce(&T) -> String,
) -> Result<(), CommandError> {
    let text = if json { output::json(answer)? } else { render(answer) };
    Ok(console.result(text.trim_end())?)
}

/// An answer as one line of JSON.
fn line(answer: &impl Serialize) -> Result<String, CommandError> {
    Ok(serde_json::to_string(answer).map_err(OutputError::from)?)
}

/// Waits; whether the user lets it go on.
fn wait(time: Duration, interrupt: &Interrupt) -> bool {
    let end = Instant::now() + time;
    loop {
        if interrupt.check().is_err() {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(TICK));
    }
}

/// A table as all commands draw it.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    // Cells wrap where the terminal is narrow; into a file they go as wide as they are.
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.to_vec());
    table
}

/// Names and what they are, without lines.
pub fn list(rows: &[(&str, String)]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    for (name, what) in rows {
        table.add_row(vec![*name, what]);
    }
    trimmed(&table)
}

/// Without the spaces that fill the last column.
fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
