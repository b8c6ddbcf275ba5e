//! `scalebricks demo`.
//!
//! | module | content |
//! |---|---|
//! | [`args`], [`config`] | arguments and configuration |
//! | [`mix`], [`regions`], [`population`], [`traffic`], [`frame`] | flows and packets, as functions of a seed |
//! | [`architecture_run`], [`audit`], [`stopwatch`] | the run of one architecture, with every packet checked |
//! | [`synthetic`] | all architectures with the same packets |
//! | [`replayed`] | a capture in place of synthetic packets |
//! | [`router`] | `--app router`: the cluster router |
//! | [`useless`] | options that would have no effect are refused |
//! | [`report`] | the result as JSON, table and picture |

pub mod architecture_run;
pub mod args;
pub mod audit;
pub mod config;
pub mod frame;
pub mod mix;
pub mod population;
pub mod regions;
pub mod replayed;
pub mod report;
pub mod router;
pub mod stopwatch;
pub mod synthetic;
pub mod traffic;
pub mod useless;

use crate::demo::report::result::{ArchitectureResult, Report};
use crate::demo::report::{svg, table};
use crate::pages;
use crate::replay::ReplayError;
use args::{AppChoice, DemoArgs};
use router::RouterDemoError;
use scalebricks_console::{Console, Interrupt, OutputError, quantity, status};
use scalebricks_elements::gateway::DropReason;
use scalebricks_report::pages::PagesError;
use scalebricks_types::IdError;
use std::path::Path;
use synthetic::SyntheticError;

/// Where results go unless another file is named.
const JSON: &str = "out/demo.json";

/// Why a demonstration did not complete.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The arguments are impossible.
    #[error(transparent)]
    Usage(#[from] IdError),
    /// The threads could not be started.
    #[error("cannot start {threads} threads: {source}; try fewer with --threads")]
    Threads {
        /// The requested number.
        threads: usize,
        /// The error.
        source: rayon::ThreadPoolBuildError,
    },
    /// The synthetic run failed.
    #[error(transparent)]
    Synthetic(#[from] SyntheticError),
    /// The replay failed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The demonstration of the router failed.
    #[error(transparent)]
    Router(#[from] RouterDemoError),
    /// The results could not be printed or written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The results could not be kept for the pages.
    #[error(transparent)]
    Pages(#[from] PagesError),
}

impl DemoError {
    /// The exit status for this error.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::Pages(PagesError::Refused(_))
            | Self::Router(RouterDemoError::Usage(_)) => status::USAGE,
            Self::Synthetic(SyntheticError::Interrupted(_))
            | Self::Replay(ReplayError::Interrupted(_))
            | Self::Router(RouterDemoError::Interrupted(_)) => status::INTERRUPTED,
            _ => status::FAILURE,
        }
    }
}

/// Runs a demonstration; its exit status.
///
/// # Errors
/// [`DemoError`] if it did not complete.
pub fn run(args: &DemoArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, DemoError> {
    if args.app == AppChoice::Router {
        let is_clean = router::run(args, console, interrupt)?.is_clean();
        return Ok(if is_clean { status::SUCCESS } else { status::FAILURE });
    }
    let config = args.config()?;
    if args.page {
        pages::ensure_reproducible()?;
    }
    let threads = config.threads;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build_global().map_err(|source| DemoError::Threads { threads, source })?;
    let report = match &args.pcap {
        Some(pcap) => replayed::run(&config, pcap, args.out.as_deref(), console, interrupt)?,
        None => synthetic::run(&config, console, interrupt)?,
    };
    // Files first, because the table may go to a closed pipe.
    args.result.write(&report, Some(Path::new(JSON)), console)?;
    console.keep(&args.svg, &svg::render(&report).map_err(OutputError::from)?)?;
    args.result.print(&report, table::render, console)?;
    if let Some(hint) = checksum_hint(&report) {
        console.note(&hint);
    }
    if args.page {
        pages::keep(pages::DEMO, &report, console)?;
    }
    for result in report.architectures.iter().filter(|result| !result.is_clean()) {
        let (name, lost, misdelivered) = (result.name, result.lost, result.misdelivered);
        console.error(&format!("{name}: {lost} packets lost, {misdelivered} misdelivered"));
        result.problems.iter().for_each(|problem| console.error(&format!("{name}: {problem}")));
    }
    Ok(if report.is_clean() { status::SUCCESS } else { status::FAILURE })
}

/// What to do about packets that were dropped because of their checksum.
fn checksum_hint(report: &Report) -> Option<String> {
    let of = |result: &ArchitectureResult| {
        result.dropped.get(DropReason::BadIpv4Checksum.name()).copied().unwrap_or(0)
    };
    let most = report.architectures.iter().map(of).max().filter(|&most| most > 0)?;
    Some(format!(
        "{} packets have a wrong IPv4 checksum, as in captures taken with checksum offload: forward them with --ignore-checksums",
        quantity::count(most)
    ))
}
