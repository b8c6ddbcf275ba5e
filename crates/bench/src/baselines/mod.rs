//! Structures that the Concise paper (ICNP'16) compares Othello with, as real implementations.
//!
//! All take a name's 64-bit hash, computed once by [`NameHasher`](crate::names::NameHasher), and derive all
//! other hashes from it. Actions are numbers below 65,536. The cache lines of a query are counted by running
//! the query: the same code reports each line to [`Touch`].
//!
//! | structure | method | unknown name | errors |
//! |---|---|---|---|
//! | [`buffalo`] | a Bloom filter per action, queried in turn or interleaved | unknown, or an action at the target rate | several actions fit: one is picked and marked |
//! | [`orthogonal`] | two interleaved filters per value bit | unknown, unless one of every pair fits | both of a pair fit: same |
//! | [`sorted`] | binary search | unknown | two names with one hash are refused |
//! | [`tuple_space`] | the hash table of one mask of OpenFlow-like rules | no rule | none |
//!
//! The sizes in Table II (5 M MAC addresses, 256 actions) reveal the parameters that the paper's text leaves
//! open. BUFFALO's 28 MiB match eight hashes and a total false-positive rate of 10^-4 over all 256 filters.
//! The 112 MiB of orthogonal filters match any number of hashes and 10^-4 over the eight wrong ones. The
//! lines per query show that the filters are interleaved: [`sliced`].

pub mod bloom;
pub mod buffalo;
pub mod orthogonal;
pub mod sliced;
pub mod sorted;
pub mod tuple_space;

#[cfg(test)]
mod tests;

use crate::keys::mix;
use scalebricks_tables::filter::FilterParamsError;
use scalebricks_types::KeyHash;

/// Total false-positive rate that the paper allows filters.
pub const RATE: f64 = 1e-4;

/// The answer for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The name is unknown.
    Unknown,
    /// The name's action.
    Action(u16),
    /// Several actions fit. This one was picked by the name's hash, so it is always the same for a name and a
    /// flow keeps its path.
    Picked(u16),
}

impl Answer {
    /// The action, picked or not.
    pub const fn action(self) -> Option<u16> {
        match self {
            Self::Unknown => None,
            Self::Action(action) | Self::Picked(action) => Some(action),
        }
    }
}

/// Why a structure could not be built.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BaselineError {
    /// Impossible filter parameters.
    #[error(transparent)]
    Filter(#[from] FilterParamsError),
    /// An action out of range.
    #[error("action {action} is not below {actions}")]
    Action {
        /// The action.
        action: u16,
        /// Number of actions.
        actions: usize,
    },
    /// Two names with one hash.
    #[error("duplicate name {0:?}")]
    Twice(KeyHash),
}

/// Receives the lines that a query reads.
pub trait Touch {
    /// Reports a line of one of the structure's arrays.
    fn line(&mut self, array: usize, line: usize);
}

/// Ignores the lines.
impl Touch for () {
    #[inline(always)]
    fn line(&mut self, _: usize, _: usize) {}
}

/// The distinct lines that a query read.
#[derive(Debug, Clone, Default)]
pub struct Lines(Vec<(usize, usize)>);

impl Lines {
    /// Returns their number and resets it.
    pub fn take(&mut self) -> usize {
        self.0.sort_unstable();
        self.0.dedup();
        let lines = self.0.len();
        self.0.clear();
        lines
    }
}

impl Touch for Lines {
    fn line(&mut self, array: usize, line: usize) {
        self.0.push((array, line));
    }
}

/// A structure that maps names to actions.
pub trait Baseline: Send + Sync {
    /// Bytes of memory for queries.
    fn table_bytes(&self) -> u64;

    /// The action of a name. Reports the lines that the query reads.
    fn find(&self, name: KeyHash, touch: &mut impl Touch) -> Answer;

    /// Prefetches the lines known before the first read; nothing for structures where each step depends on
    /// the previous one.
    fn prefetch(&self, name: KeyHash) {
        let _ = name;
    }

    /// The action of a name.
    #[inline(always)]
    fn look_up(&self, name: KeyHash) -> Answer {
        self.find(name, &mut ())
    }

    /// Cache lines that a query reads.
    fn lines(&self, name: KeyHash) -> usize {
        let mut lines = Lines::default();
        self.find(name, &mut lines);
        lines.take()
    }
}

/// Picks one of the actions that fit a name, each with equal probability.
struct Pick {
    name: KeyHash,
    fitting: u64,
    action: u16,
}

impl Pick {
    #[inline(always)]
    const fn new(name: KeyHash) -> Self {
        Self { name, fitting: 0, action: 0 }
    }

    /// Adds a fitting action, which is picked with probability 1/`fitting`.
    #[inline(always)]
    fn add(&mut self, action: u16) {
        self.fitting += 1;
        if mix(self.name.get() ^ self.fitting).is_multiple_of(self.fitting) {
            self.action = action;
        }
    }

    #[inline(always)]
    const fn answer(&self) -> Answer {
        match self.fitting {
            0 => Answer::Unknown,
            1 => Answer::Action(self.action),
            _ => Answer::Picked(self.action),
        }
    }
}
