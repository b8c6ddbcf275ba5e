//! Errors of benchmarks.

use scalebricks_console::quantity::bytes;
use scalebricks_console::{Interrupted, OutputError, status};
use scalebricks_report::pages::PagesError;

/// Errors of benchmarks.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The user interrupted the run.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// Invalid arguments.
    #[error("{0}")]
    Usage(String),
    /// A structure gave a wrong answer, so its rate is meaningless.
    #[error("{structure} answered {got} for key {key} of {keys}; the right answer is {want}")]
    Wrong {
        /// The structure.
        structure: String,
        /// Index of the query.
        key: usize,
        /// Number of queries.
        keys: usize,
        /// The answer it gave.
        got: u8,
        /// The right answer.
        want: u8,
    },
    /// Another check failed.
    #[error("{structure}: {problem}")]
    Check {
        /// The structure.
        structure: String,
        /// What is wrong.
        problem: String,
    },
    /// A run gave an impossible result, such as a time of zero, in every try.
    #[error("{what}: rejected {tries} times: {why}")]
    Rejected {
        /// What was measured.
        what: String,
        /// Why the result is impossible.
        why: String,
        /// Number of tries.
        tries: usize,
    },
    /// A structure could not be built or changed.
    #[error("{structure}: {source}")]
    Structure {
        /// The structure.
        structure: String,
        /// The error it returned.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tables do not fit in memory.
    #[error(
        "{keys} keys need about {} of memory and {} are available: use fewer --keys or --structure",
        bytes(*needed),
        bytes(*available)
    )]
    Memory {
        /// Keys asked for.
        keys: u64,
        /// Approximate bytes they need.
        needed: u64,
        /// Available bytes.
        available: u64,
    },
    /// Threads could not be started.
    #[error("cannot start threads: {0}; try fewer with --threads")]
    Threads(String),
    /// The results could not be printed or stored.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The pages and their data disagree.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// A benchmark from outside this crate failed.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl BenchError {
    /// The error of a structure that could not be built or changed.
    pub fn of(structure: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Structure { structure: structure.to_owned(), source: source.into() }
    }

    /// The error of a failed check.
    pub fn check(structure: &str, problem: impl Into<String>) -> Self {
        Self::Check { structure: structure.to_owned(), problem: problem.into() }
    }

    /// The error of one run with an impossible result.
    pub fn rejected(what: &str, why: impl Into<String>) -> Self {
        Self::Rejected { what: what.to_owned(), why: why.into(), tries: 1 }
    }

    /// The exit status of the process.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted(_) => status::INTERRUPTED,
            Self::Usage(_) | Self::Memory { .. } | Self::Pages(PagesError::Refused(_)) => status::USAGE,
            _ => status::FAILURE,
        }
    }
}

/// Fails with [`BenchError::Check`] unless the condition holds.
///
/// # Errors
/// [`BenchError::Check`] with the problem.
pub fn ensure<P: Into<String>>(
    holds: bool,
    structure: &str,
    problem: impl FnOnce() -> P,
) -> Result<(), BenchError> {
    if holds { Ok(()) } else { Err(BenchError::check(structure, problem())) }
}

/// Converts errors of other crates.
pub trait OrFail<T> {
    /// As the error of a structure.
    ///
    /// # Errors
    /// [`BenchError::Structure`].
    fn of(self, structure: &str) -> Result<T, BenchError>;

    /// As an error of the arguments.
    ///
    /// # Errors
    /// [`BenchError::Usage`].
    fn usage(self) -> Result<T, BenchError>;
}

impl<T, E: std::error::Error + Send + Sync + 'static> OrFail<T> for Result<T, E> {
    fn of(self, structure: &str) -> Result<T, BenchError> {
        self.map_err(|error| BenchError::of(structure, error))
    }

    fn usage(self) -> Result<T, BenchError> {
        self.map_err(|error| BenchError::Usage(error.to_string()))
    }
}

/// The result of a measuring thread.
///
/// # Errors
/// [`BenchError::Threads`] if it panicked.
pub fn joined<T>(thread: std::thread::Result<T>) -> Result<T, BenchError> {
    thread.map_err(|_| BenchError::Threads("a measuring thread panicked".to_owned()))
}
