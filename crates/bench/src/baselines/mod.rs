//! What the Concise paper compares Othello with (ICNP'16), as real implementations that answer names.
//!
//! All of them take a name's 64-bit hash, computed once by [`NameHasher`](crate::names::NameHasher), and derive from it whatever else they hash;
//! actions are numbers below 65,536. All count the cache lines that a query reads by doing the query: the same code, which
//! tells [`Touch`] of each line.
//!
//! | structure | how | an unknown name | what may go wrong |
//! |---|---|---|---|
//! | [`buffalo`] | a Bloom filter an action, all asked: one after the other, or side by side | unknown, or an action at the rate it was sized for | several actions fit: one is picked, and it is told |
//! | [`orthogonal`] | two filters a bit of the value, side by side | unknown, unless one of every pair fits | both of a pair fit: likewise |
//! | [`sorted`] | binary search | unknown | two names of one hash are refused |
//! | [`cuckoo`] | our own (2,4)-cuckoo table | unknown | the same |
//! | [`tuple_space`] | a hash table for each mask of OpenFlow-like rules | no rule | nothing |
//!
//! The sizes of Table II (5 M MAC addresses, 256 actions) say which parameters the paper had, where its text leaves a choice:
//! BUFFALO's 28 MiB are what eight hashes need for false positives of 10^-4 in all 256 filters together, and the 112 MiB of
//! orthogonal filters are what any number of hashes needs for 10^-4 in the eight wrong ones together. Its lines a query say that
//! filters lie side by side: [`sliced`].

pub mod buffalo;
pub mod cuckoo;
pub mod orthogonal;
pub mod sliced;
pub mod sorted;
pub mod tuple_space;

#[cfg(test)]
mod tests;

use scalebricks_tables::filter::FilterParamsError;
use scalebricks_types::KeyHash;

/// False positives in all that the paper allows filters.
pub const RATE: f64 = 1e-4;

/// What a structure says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It does not know the name.
    Unknown,
    /// The name's action.
    Action(u16),
    /// Several actions fit. This one was picked, by the name's hash: always the same for a name, so that a flow keeps its way.
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

/// Why a structure could not be made or changed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum BaselineError {
    /// A filter that cannot be.
    #[error(transparent)]
    Filter(#[from] FilterParamsError),
    /// An action that the structure was not made for.
    #[error("action {action} of {actions}")]
    Action {
        /// The action.
        action: u16,
        /// Actions there are.
        actions: usize,
    },
    /// Two names with one hash, or one that is added twice.
    #[error("name {0:?} is there twice")]
    Twice(KeyHash),
    /// Too little memory for one line a filter.
    #[error("{0} bits are too few")]
    Memory(u64),
    /// A table that refuses a name.
    #[error("no room for name {0:?}")]
    Full(KeyHash),
}

/// Is told which lines a query reads.
pub trait Touch {
    /// A line of one of the structure's arrays.
    fn line(&mut self, array: usize, line: usize);
}

/// Nobody asks.
impl Touch for () {
    #[inline(always)]
    fn line(&mut self, _: usize, _: usize) {}
}

/// Which lines a query has read, each once.
#[derive(Debug, Clone, Default)]
pub struct Lines(Vec<(usize, usize)>);

impl Lines {
    /// How many, and begins anew.
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
pub trait Baseline {
    /// Its name in results.
    fn name(&self) -> &'static str;

    /// Bytes of memory of what answers queries.
    fn table_bytes(&self) -> u64;

    /// The action of a name.
    fn look_up(&self, name: KeyHash) -> Answer;

    /// Asks for the lines that are known before the first is read; nothing where each step follows from the one before.
    fn prefetch(&self, name: KeyHash) {
        let _ = name;
    }

    /// Cache lines that [`Self::look_up`] reads for a name.
    fn lines(&self, name: KeyHash) -> usize;
}
