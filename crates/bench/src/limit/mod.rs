//! The machine's own limit: the loads of a lookup and nothing else.
//!
//! A [`Replay`] holds the cache lines that the lookups of some queries read, in their order, as numbers of four bytes;
//! those of small and of large arrays apart, as these lie far apart in memory. It asks for the lines of as many keys
//! as a call has, reads a word of each, and adds them up. No line waits for
//! another, no hash is computed and no answer stored: what that takes is the memory's time, of the very addresses, on the
//! same pages and as many threads. The numbers are read one after the other, as the queries are by a lookup; those
//! are not read besides.
//!
//! [`Limits`] puts such a limit into the rounds of a benchmark, and beside each rate of lookups its share of it.

mod replay;
#[cfg(test)]
mod tests;

pub use replay::Replay;

use crate::error::BenchError;
use crate::keys::KeySet;
use crate::rounds::{Measurement, RunResult};
use crate::row::{Case, Metric, Row};
use crate::structures::{KeyForms, LookupMode, Table};
use crate::timing;
use std::cell::RefCell;

/// Most queries that are replayed, the first of all: their lines take some sixteen bytes a query.
pub const MAX_QUERIES: usize = 1 << 23;

/// Bytes that the replay of a query takes, about.
const QUESTION_BYTES: u64 = 17;

/// What the rows of limits are called.
pub const LIMIT: &str = "machine limit";

/// What tables of a page say in place of a share where the lookups of a structure are not replayed.
pub const NO_REPLAY: &str = "no replay";

/// Bytes that replays of so many tables of `keys` keys take, for each key.
pub fn bytes_per_key(keys: u64, tables: usize) -> u64 {
    QUESTION_BYTES * tables as u64 * keys.min(MAX_QUERIES as u64) / keys.max(1)
}

/// Whether a case is a limit, not a lookup.
pub fn is_limit(case: &Case) -> bool {
    case.variant_text().ends_with(LIMIT)
}

/// The row with the share of the limit that a row of lookups has, if its structure is replayed.
pub fn share_of<'r>(rows: &'r [Row], lookups: &Row) -> Option<&'r Row> {
    rows.iter().find(|row| row.metric == Metric::ShareOfLimit && row.case == lookups.case)
}

/// A share of the limit with the least and the most of several runs, as tables of a page say it.
pub fn share_text(share: Option<&Row>) -> String {
    match share {
        None => NO_REPLAY.to_owned(),
        Some(Row { median, runs: ..2, .. }) => format!("{median:.2}"),
        Some(row) => row.spread(1.0, 2),
    }
}

/// The limits of the lookups of some queries in a table, in the round under way.
pub struct Limits<'a> {
    replay: Option<Replay<'a>>,
    /// Times that all queries are replayed in a run.
    passes: usize,
    /// By keys a call and threads.
    rates: RefCell<Vec<((usize, usize), f64)>>,
}

impl<'a> Limits<'a> {
    /// Of queries that are replayed so many times in a run, or of a table that does not tell what it reads.
    pub const fn new(replay: Option<Replay<'a>>, passes: usize) -> Self {
        Self { replay, passes, rates: RefCell::new(Vec::new()) }
    }

    /// A turn of lookups, with their share of the limit if there is one, and before it a turn of that limit where none has
    /// measured it yet for as many keys a call and threads. The case is of the lookups, `limit` is the variant of the limit's
    /// row, and `measure` finds lookups a second.
    pub fn turns<S>(
        &'a self,
        case: Case,
        limit: String,
        mut measure: impl FnMut(&mut S) -> Result<f64, BenchError> + 'a,
    ) -> Vec<Measurement<'a, S>> {
        let Some(replay) = &self.replay else {
            return vec![Measurement::new(case, Metric::LookupRate, move |state| Ok(measure(state)?.into()))];
        };
        let way = (case.batch.unwrap_or(1), case.threads.unwrap_or(1));
        let mut turns: Vec<Measurement<'a, S>> = Vec::new();
        if self.rate(way).is_none() {
            self.rates.borrow_mut().push((way, f64::NAN));
            let case = case.clone().variant(limit);
            turns.push(Measurement::new(case, Metric::LookupRate, move |_: &mut S| {
                let rate = replay.rate(self.passes, way.0, way.1)?;
                self.rates.borrow_mut().iter_mut().filter(|of| of.0 == way).for_each(|of| of.1 = rate);
                Ok(rate.into())
            }));
        }
        let rows = vec![(case.clone(), Metric::LookupRate), (case, Metric::ShareOfLimit)];
        turns.push(Measurement::several(rows, move |state: &mut S| {
            let rate = measure(state)?;
            let share = self.rate(way).map(|limit| rate / limit);
            Ok(RunResult { figures: [Some(rate), share].into_iter().flatten().collect(), table_bytes: None })
        }));
        turns
    }

    /// The limit of the round under way, by keys a call and threads, if it is measured.
    fn rate(&self, way: (usize, usize)) -> Option<f64> {
        self.rates.borrow().iter().find(|of| of.0 == way).map(|of| of.1)
    }
}

/// A table, the queries it is asked, and their limits.
pub struct Lookups<'a> {
    table: &'a dyn Table,
    set: &'a KeySet,
    forms: &'a KeyForms,
    limits: Limits<'a>,
}

impl<'a> Lookups<'a> {
    /// Of a table that is asked these queries.
    pub fn of(table: &'a dyn Table, set: &'a KeySet, forms: &'a KeyForms) -> Self {
        let limits = Limits::new(Replay::of(table, forms.queries(set)), 1);
        Self { table, set, forms, limits }
    }

    /// The turns of lookups in a mode, as of [`Limits::turns`]. `variant` stands in place of the mode's name.
    pub fn turns(
        &'a self,
        case: &Case,
        variant: Option<&str>,
        mode: LookupMode,
    ) -> Vec<Measurement<'a, Vec<u8>>> {
        let named = |name: &str| {
            case.variant.as_ref().map_or_else(|| name.to_owned(), |variant| format!("{variant}, {name}"))
        };
        let limit = variant.map_or_else(|| LIMIT.to_owned(), |variant| format!("{variant}, {LIMIT}"));
        let threads = case.threads.unwrap_or(1);
        let structure = case.structure.clone();
        let lookups = case.clone().variant(named(variant.unwrap_or(mode.name()))).batch(mode.batch());
        self.limits.turns(lookups, named(&limit), move |answers: &mut Vec<u8>| {
            let rate = timing::lookup(self.table, mode, self.set, self.forms, threads, answers)?;
            timing::check(&structure, self.set, answers)?;
            Ok(rate)
        })
    }

    /// The limit of the round under way, of lookups in this mode on one thread, if it is measured.
    pub fn of_one(&self, mode: LookupMode) -> Option<f64> {
        self.limits.rate((mode.batch()?, 1))
    }
}
