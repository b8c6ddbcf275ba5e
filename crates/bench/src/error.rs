//! Why a benchmark gave no result.

use crate::pages::PagesError;
use scalebricks_console::quantity::bytes;
use scalebricks_console::{Interrupted, OutputError, status};

/// Why a benchmark gave no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The user wants to stop.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// What was asked for cannot be.
    #[error("{0}")]
    Usage(String),
    /// A structure gave a wrong answer: its rate means nothing.
    #[error("{structure} answered {got} for key {key} of {keys}, which is {want}")]
    Wrong {
        /// The structure.
        structure: String,
        /// Number of the key in the order of the queries.
        key: usize,
        /// Queries in all.
        keys: usize,
        /// The answer.
        got: u8,
        /// The right one.
        want: u8,
    },
    /// Another check that failed.
    #[error("{structure}: {problem}")]
    Check {
        /// The structure.
        structure: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A run that cannot be, such as one of no time, each time it was made.
    #[error("{what}: rejected {tries} times: {why}")]
    Rejected {
        /// What was measured.
        what: String,
        /// Why it cannot be.
        why: String,
        /// Runs that were made.
        tries: usize,
    },
    /// A structure could not be made or changed.
    #[error("{structure}: {source}")]
    Structure {
        /// The structure.
        structure: String,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tables do not fit the memory.
    #[error(
        "{keys} keys need about {} of memory and {} are available: use fewer --keys or --structure",
        bytes(*needed),
        bytes(*available)
    )]
    Memory {
        /// Keys asked for.
        keys: u64,
        /// What they would take, about.
        needed: u64,
        /// What there is.
        available: u64,
    },
    /// Threads could not be started.
    #[error("cannot start threads: {0}; try fewer with --threads")]
    Threads(String),
    /// There are results, and they could not be told or kept.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Pages, and the data that they show, do not agree.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// A benchmark brought from outside this crate failed in its own way.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl BenchError {
    /// A structure that could not be made or changed.
    pub fn of(structure: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Structure { structure: structure.to_owned(), source: source.into() }
    }

    /// A check that failed.
    pub fn check(structure: &str, problem: impl Into<String>) -> Self {
        Self::Check { structure: structure.to_owned(), problem: problem.into() }
    }

    /// A run that cannot be, made once.
    pub fn rejected(what: &str, why: impl Into<String>) -> Self {
        Self::Rejected { what: what.to_owned(), why: why.into(), tries: 1 }
    }

    /// The exit status that says so.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(_) => status::INTERRUPTED,
            Self::Usage(_) | Self::Memory { .. } | Self::Pages(PagesError::Refused(_)) => status::USAGE,
            _ => status::FAILURE,
        }
    }
}
