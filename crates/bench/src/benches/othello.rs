//! `othello-update`: value changes, deletes and inserts of an Othello table, from the owner to a live table,
//! and bits per name. Checks every answer at the end.

use crate::error::BenchError;
use crate::keys::{self, KeySet};
use crate::rounds::{Measurement, interleave};
use crate::row::Metric;
use crate::session::Session;
use crate::structures::{BuildConfig, Structure, othello_params as params};
use crate::{pin, timing};
use scalebricks_report::stats::Summary;
use scalebricks_tables::othello::{Op, Othello, OthelloBuilder, OthelloControl, OthelloReader, Sizing};
use scalebricks_types::Delta;
use std::sync::Arc;

/// Bytes per key for keys, queries, building and control structure.
const KEY_BYTES: u64 = 18 + 16 + 90;
/// One key in this many is changed per run.
const SHARE: usize = 16;
/// Default operations per batch.
const BATCH: usize = 1 << 16;
/// Its name in errors.
const NAME: &str = "othello";

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    if options.structures(&[Structure::Othello]).is_empty() {
        return Ok(());
    }
    for keys in options.keys(&[1_000_000], &[1_000_000, 16_000_000]) {
        if !session.fits(keys, KEY_BYTES)? {
            continue;
        }
        for value_bits in options.value_bits(&[2], &[2]) {
            // A table with a single range is copied for every change, so only the owner's work is measured
            // for those sizings.
            for sizing in Sizing::ALL {
                one(
                    session,
                    keys,
                    value_bits,
                    BuildConfig { sizing, threads: pin::cores(), ..BuildConfig::table() },
                )?;
            }
        }
    }
    Ok(())
}

/// A table under changes, and its expected answers.
struct LiveTable {
    control: OthelloControl,
    table: Option<Arc<Othello>>,
    set: KeySet,
    cursor: usize,
    fresh: u64,
}

impl LiveTable {
    fn new(set: KeySet, make: BuildConfig) -> Result<Self, BenchError> {
        let builder =
            OthelloBuilder::new(params(set.len() as u64, set.value_bits, make)?).threads(make.threads);
        let entries: Vec<_> =
            set.hashes.iter().copied().zip(set.values.iter().map(|&value| value.into())).collect();
        let control = builder.build(&entries).map_err(|error| BenchError::of(NAME, error))?;
        let table = (make.sizing == Sizing::Sharded).then(|| Arc::new(control.export()));
        let fresh = set.len() as u64;
        Ok(Self { control, table, set, cursor: 0, fresh })
    }

    /// The next `count` positions, wrapping around.
    fn window(&mut self, count: usize) -> std::ops::Range<usize> {
        if self.cursor + count > self.set.len() {
            self.cursor = 0;
        }
        self.cursor += count;
        self.cursor - count..self.cursor
    }

    /// Performs operations on a pinned thread in batches; returns operations per second.
    fn perform(&mut self, ops: &[Op], batch: usize) -> Result<f64, BenchError> {
        let (done, seconds) = timing::pinned(|| {
            ops.chunks(batch).try_for_each(|ops| {
                let deltas = self.control.batch(ops).map_err(|error| BenchError::of(NAME, error))?;
                self.table.iter().try_for_each(|table| apply(table, &deltas))
            })
        })?;
        done?;
        Ok(ops.len() as f64 / seconds)
    }

    fn changes(&mut self, places: std::ops::Range<usize>) -> Vec<Op> {
        let mask = u8::MAX >> (8 - self.set.value_bits);
        let change = |place: usize| {
            let value = self.set.answers[place].wrapping_add(1) & mask;
            self.set.answers[place] = value;
            Op::Update(self.set.queries[place], value.into())
        };
        places.map(change).collect()
    }

    fn insertions(&mut self, places: std::ops::Range<usize>) -> Vec<Op> {
        let insert = |place: usize| {
            let (hash, value) = (keys::hash(self.fresh), keys::value(self.fresh, self.set.value_bits));
            self.fresh += 1;
            (self.set.queries[place], self.set.answers[place]) = (hash, value);
            Op::Insert(hash, value.into())
        };
        places.map(insert).collect()
    }

    /// Looks up every key.
    fn check(&self) -> Result<(), BenchError> {
        let table = self.table.clone().unwrap_or_else(|| Arc::new(self.control.export()));
        let mut values = vec![u16::MAX; self.set.len()];
        OthelloReader::new(table).lookup_batch(&self.set.queries, &mut values);
        let answers: Vec<u8> = values.iter().map(|&value| value as u8).collect(); // at most 8 bits, as all here
        timing::check(NAME, &self.set, &answers)
    }
}

fn apply(table: &Othello, deltas: &[Delta]) -> Result<(), BenchError> {
    deltas.iter().try_for_each(|delta| match table.apply(delta) {
        Ok(_) => Ok(()),
        Err(error) => Err(BenchError::of(NAME, error)),
    })
}

/// Measures one table.
fn one(session: &mut Session<'_>, keys: u64, value_bits: u8, make: BuildConfig) -> Result<(), BenchError> {
    let busy = session.busy("building");
    let mut live = LiveTable::new(KeySet::new(keys, value_bits), make)?;
    drop(busy);
    let stats = live.table.clone().unwrap_or_else(|| Arc::new(live.control.export())).stats();
    let case = session
        .case(NAME, keys)
        .format(make.sizing.name())
        .value_bits(value_bits)
        .threads(1)
        .table_bytes(stats.table_bytes as u64);
    session.add(case.clone(), Metric::BitsPerKey, Summary::exact(stats.bits_per_key(keys)));
    let set = live.set.len();
    let mut turns = Vec::new();
    for (name, batch) in [("single", 1), ("batched", BATCH)] {
        let count = (set / SHARE).clamp(1, BATCH);
        let scope = if make.sizing == Sizing::Sharded { "" } else { ", owner alone" };
        let case = case.clone().variant(format!("{name}{scope}")).batch(batch);
        turns.push(Measurement::new(case.clone(), Metric::UpdateRate, move |live: &mut LiveTable| {
            let places = live.window(count);
            let ops = live.changes(places);
            Ok(live.perform(&ops, batch)?.into())
        }));
        let rows = vec![(case.clone(), Metric::DeleteRate), (case, Metric::InsertRate)];
        turns.push(Measurement::several(rows, move |live: &mut LiveTable| {
            let places = live.window(count);
            let ops: Vec<Op> =
                live.set.queries[places.clone()].iter().map(|&hash| Op::Remove(hash)).collect();
            let deleting = live.perform(&ops, batch)?;
            let ops = live.insertions(places);
            let inserting = live.perform(&ops, batch)?;
            Ok(vec![deleting, inserting].into())
        }));
    }
    interleave(session, &mut live, turns)?;
    live.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_arrive() {
        for sizing in Sizing::ALL {
            let mut live =
                LiveTable::new(KeySet::new(3000, 2), BuildConfig { sizing, ..BuildConfig::table() }).unwrap();
            live.check().unwrap();
            for batch in [1, 7, 50] {
                let places = live.window(100);
                let ops = live.changes(places.clone());
                live.perform(&ops, batch).unwrap();
                let ops: Vec<Op> =
                    live.set.queries[places.clone()].iter().map(|&hash| Op::Remove(hash)).collect();
                live.perform(&ops, batch).unwrap();
                let ops = live.insertions(places);
                live.perform(&ops, batch).unwrap();
                live.check().unwrap();
            }
        }
    }
}
