//! `scalebricks demo`: runs what was asked for, then tells and keeps what was found.
//!
//! | module | what it holds |
//! |---|---|
//! | [`args`], [`config`] | what was asked for, checked |
//! | [`mix`], [`regions`], [`population`], [`traffic`], [`frame`] | flows and packets, as functions of a seed |
//! | [`contestant`], [`audit`], [`stopwatch`] | one architecture at work, every packet checked, time taken |
//! | [`synthetic`] | all architectures on the same packets |
//! | [`replayed`] | a capture in their place |

pub mod args;
pub mod audit;
mod capacity;
pub mod config;
pub mod contestant;
pub mod frame;
pub mod mix;
pub mod population;
pub mod regions;
pub mod replayed;
pub mod report;
pub mod stopwatch;
pub mod synthetic;
pub mod traffic;

use crate::demo::report::result::Report;
use crate::demo::report::{svg, table};
use crate::pages;
use args::DemoArgs;
use replayed::ReplayedError;
use scalebricks_console::{Console, Interrupt, OutputError, output, status};
use scalebricks_report::pages::PagesError;
use scalebricks_types::IdError;
use synthetic::SyntheticError;

/// Why a demonstration ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Impossible wishes.
    #[error(transparent)]
    Usage(#[from] IdError),
    /// The threads could not be started.
    #[error("cannot start {threads} threads: {source}; try fewer with --threads")]
    Threads {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        source: rayon::ThreadPoolBuildError,
    },
    /// The synthetic run.
    #[error(transparent)]
    Synthetic(#[from] SyntheticError),
    /// The replay.
    #[error(transparent)]
    Replayed(#[from] ReplayedError),
    /// There are results, and they could not be told or kept.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The pages that show them.
    #[error(transparent)]
    Pages(#[from] PagesError),
}

impl DemoError {
    /// The exit status that says so.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Pages(PagesError::Refused(_)) => status::USAGE,
            Self::Synthetic(SyntheticError::Interrupted(_))
            | Self::Replayed(ReplayedError::Interrupted(_)) => status::INTERRUPTED,
            _ => status::FAILURE,
        }
    }
}

/// Runs a demonstration; the exit status if it came to its end.
///
/// # Errors
/// [`DemoError`] if it did not.
pub fn run(args: &DemoArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, DemoError> {
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
    tell(args, &report, console)?;
    if args.page {
        pages::keep(pages::DEMO, &report, console)?;
    }
    tell_problems(&report, console);
    Ok(if report.is_clean() { status::SUCCESS } else { status::FAILURE })
}

/// Files first: if nobody reads the table, they are there all the same.
fn tell(args: &DemoArgs, report: &Report, console: &Console) -> Result<(), OutputError> {
    console.keep(&args.json, &output::json(report)?)?;
    console.keep(&args.svg, &svg::render(report)?)?;
    console.result(&table::render(report))
}

fn tell_problems(report: &Report, console: &Console) {
    for result in report.architectures.iter().filter(|result| !result.is_clean()) {
        let (lost, misdelivered) = (result.lost, result.misdelivered);
        console.error(&format!("{}: {lost} packets lost, {misdelivered} misdelivered", result.name));
        result.problems.iter().for_each(|problem| console.error(&format!("{}: {problem}", result.name)));
    }
}
