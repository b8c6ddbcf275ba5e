//! The machine's own limit: only the memory loads of lookups.
//!
//! A [`Replay`] holds the cache lines that the lookups of some queries read, in order, as 4-byte numbers,
//! separately for each region of memory. For each call it prefetches the lines of the call's keys, then reads
//! one word of each. No load waits for another, no hash is computed and no answer is stored. So the replay
//! takes the time of the memory alone, for the same addresses, pages and threads. It reads its numbers
//! sequentially, as a lookup reads its queries, which it does not read in addition.
//!
//! [`Limits`] measures this limit in the same rounds as the lookups, and adds the share of the limit to each
//! lookup rate.

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

/// Maximum number of replayed queries. Their lines take about sixteen bytes per query.
pub const MAX_QUERIES: usize = 1 << 23;

/// Approximate bytes per replayed query.
const QUERY_BYTES: u64 = 17;

/// Variant of the rows with limits.
pub const LIMIT: &str = "machine limit";

/// Text of page tables for structures whose lookups are not replayed.
pub const NO_REPLAY: &str = "no replay";

/// Bytes per key that the replays of `tables` tables of `keys` keys take.
pub fn bytes_per_key(keys: u64, tables: usize) -> u64 {
    QUERY_BYTES * tables as u64 * keys.min(MAX_QUERIES as u64) / keys.max(1)
}

/// Whether a case is a limit and not a lookup.
pub fn is_limit(case: &Case) -> bool {
    case.variant_text().ends_with(LIMIT)
}

/// The row with the share of the limit for a row of lookups, if the structure is replayed.
pub fn share_of<'r>(rows: &'r [Row], lookups: &Row) -> Option<&'r Row> {
    rows.iter().find(|row| row.metric == Metric::ShareOfLimit && row.case == lookups.case)
}

/// A share of the limit, with minimum and maximum for several runs, as page tables show it.
pub fn share_text(share: Option<&Row>) -> String {
    match share {
        None => NO_REPLAY.to_owned(),
        Some(Row { median, runs: ..2, .. }) => format!("{median:.2}"),
        Some(row) => row.spread(1.0, 2),
    }
}

/// The limits of lookups in one table, measured in the current round.
pub struct Limits<'a> {
    replay: Option<Replay<'a>>,
    /// Replays of all queries per run.
    passes: usize,
    /// By keys per call and threads.
    rates: RefCell<Vec<((usize, usize), f64)>>,
}

impl<'a> Limits<'a> {
    /// Limits of a replay repeated `passes` times per run. `None` stands for a table that does not report
    /// what it reads.
    pub const fn new(replay: Option<Replay<'a>>, passes: usize) -> Self {
        Self { replay, passes, rates: RefCell::new(Vec::new()) }
    }

    /// Measurements of lookups. With a replay, they include the share of the limit, and a measurement of the
    /// limit comes first unless one for as many keys per call and threads exists. `case` describes the
    /// lookups, `limit` is the variant of the limit's row, and `measure` returns lookups per second.
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

    /// The limit in the current round by keys per call and threads, if measured.
    fn rate(&self, way: (usize, usize)) -> Option<f64> {
        self.rates.borrow().iter().find(|of| of.0 == way).map(|of| of.1)
    }
}

/// A table with its queries and their limits.
pub struct Lookups<'a> {
    table: &'a dyn Table,
    set: &'a KeySet,
    forms: &'a KeyForms,
    limits: Limits<'a>,
}

impl<'a> Lookups<'a> {
    /// Lookups of these queries in a table.
    pub fn of(table: &'a dyn Table, set: &'a KeySet, forms: &'a KeyForms) -> Self {
        let limits = Limits::new(Replay::of(table, forms.queries(set)), 1);
        Self { table, set, forms, limits }
    }

    /// Measurements of lookups in one mode, as in [`Limits::turns`]. `variant` replaces the mode's name.
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

    /// The limit in the current round for this mode on one thread, if measured.
    pub fn of_one(&self, mode: LookupMode) -> Option<f64> {
        self.limits.rate((mode.batch()?, 1))
    }
}
