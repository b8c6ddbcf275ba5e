//! Figure 8: updates per second by number of names: alterations, additions from half to full load including
//! all reconstructions, and deletions.

use super::{add_point, conclusions, millions, paper};
use crate::error::BenchError;
use crate::names::population::{Kind, Population};
use crate::row::{Metric, Row};
use crate::session::Session;
use crate::structures::{BuildConfig, othello_params};
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, PageTable, Scale};
use scalebricks_report::stats::Summary;
use scalebricks_tables::othello::{Op, Othello, OthelloBuilder, OthelloControl, OthelloReader, Sizing};
use std::hint::black_box;
use std::sync::Arc;

/// Operations per batch.
const BATCH: usize = 1 << 16;
/// Operations per run, except additions, which are half of all names.
const OPS: usize = 1 << 18;
/// Bytes per name.
const NAME_BYTES: u64 = 110;
/// Up to this many names, single-graph sizings are measured, where a cycle rebuilds everything.
const FEW: u64 = 1_000_000;
/// Maximum runs, because each one builds a new table.
const RUNS: usize = 3;
const NAME: &str = "othello";

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let value_bits = options.first_value_bits(8);
    for names in options.keys(&[65_536, 262_144], &[262_144, 1_000_000, 4_000_000, 16_000_000]) {
        if !session.fits(names, NAME_BYTES)? {
            continue;
        }
        for sizing in Sizing::ALL {
            if sizing == Sizing::Sharded || names <= options.pick(FEW / 4, FEW) {
                one(session, names, value_bits, sizing)?;
            }
        }
    }
    show(session);
    Ok(())
}

/// A table with its owner. The owner updates its own table and makes the deltas for others. A table with a
/// single range would be copied for every change, so for those sizings only the work on names is measured.
struct LiveTable {
    control: OthelloControl,
    table: Option<Arc<Othello>>,
}

impl LiveTable {
    /// Builds a table with the first half of the names and room for all.
    fn half(names: &Population, sizing: Sizing) -> Result<Self, BenchError> {
        let make = BuildConfig { sizing, threads: pin::cores(), ..BuildConfig::table() };
        let params = othello_params(names.len() as u64, names.value_bits, make)?;
        let mut pairs = names.pairs();
        pairs.truncate(names.len() / 2);
        let control = OthelloBuilder::new(params).threads(make.threads).build(&pairs);
        let control = control.map_err(|error| BenchError::of(NAME, error))?;
        let table = (sizing == Sizing::Sharded).then(|| Arc::new(control.export()));
        Ok(Self { control, table })
    }

    /// Performs `count` operations of `ops` on a pinned thread in batches; returns operations per second.
    fn perform(
        &mut self,
        count: usize,
        batch: usize,
        ops: impl Fn(usize) -> Op + Sync,
    ) -> Result<f64, BenchError> {
        let (mut seconds, mut memory) = (0.0, Vec::with_capacity(BATCH));
        for first in (0..count).step_by(BATCH) {
            memory.clear();
            memory.extend((first..count.min(first + BATCH)).map(&ops));
            let (done, passed) = timing::pinned(|| {
                memory.chunks(batch).try_for_each(|ops| {
                    let done = match (&self.table, ops) {
                        (Some(table), [op]) => {
                            self.control.change_with(table, *op).map(|delta| drop(black_box(delta)))
                        }
                        (Some(table), ops) => {
                            self.control.batch_with(table, ops).map(|deltas| drop(black_box(deltas)))
                        }
                        (None, ops) => self.control.batch(ops).map(|deltas| drop(black_box(deltas))),
                    };
                    done.map_err(|error| BenchError::of(NAME, error))
                })
            })?;
            done?;
            seconds += passed;
        }
        timing::rate(NAME, count, seconds)
    }

    /// Looks up all names, whose actions `change` has modified.
    fn check(&self, names: &Population, change: impl Fn(u16, usize) -> u16) -> Result<(), BenchError> {
        let table = self.table.clone().unwrap_or_else(|| Arc::new(self.control.export()));
        let mut answers = vec![0; names.len()];
        OthelloReader::new(table).lookup_batch(&names.hashes, &mut answers);
        let wrong = answers.iter().enumerate().find(|&(at, &got)| got != change(names.actions[at], at));
        let problem = |(at, got)| BenchError::check(NAME, format!("{got} for name {at} after updates"));
        wrong.map_or(Ok(()), |wrong| Err(problem(wrong)))
    }
}

/// Performs one run; returns its figures in the order of the rows.
fn one_run(names: &Population, sizing: Sizing, batch: usize) -> Result<[f64; 4], BenchError> {
    let mut live = LiveTable::half(names, sizing)?;
    let half = names.len() / 2;
    let before = live.control.stats().reseeded;
    let adds = live.perform(names.len() - half, batch, |at| {
        Op::Insert(names.hashes[half + at], names.actions[half + at])
    })?;
    let reseeded = live.control.stats().reseeded - before;
    live.check(names, |action, _| action)?;
    let count = OPS.min(half);
    let alters = live.perform(count, batch, |at| Op::Update(names.hashes[at], names.actions[at] ^ 1))?;
    live.check(names, |action, at| action ^ u16::from(at < count))?;
    let deletes = live.perform(count, batch, |at| Op::Remove(names.hashes[at]))?;
    if live.control.len() != (names.len() - count) as u64 || live.control.get(names.hashes[0]).is_some() {
        return Err(BenchError::check(NAME, "the table still holds deleted names"));
    }
    Ok([alters, adds, deletes, reseeded as f64])
}

fn one(session: &mut Session<'_>, names: u64, value_bits: u8, sizing: Sizing) -> Result<(), BenchError> {
    let set = Population::of(Kind::Mac, names, value_bits);
    let runs = session.options().runs().min(RUNS);
    let bar = session.progress(2 * runs);
    let mut found = [(1, Vec::new()), (BATCH, Vec::new())];
    for _ in 0..runs {
        for (batch, found) in &mut found {
            session.check()?;
            found.push(one_run(&set, sizing, *batch)?);
            bar.add(1);
        }
    }
    bar.finish();
    for (batch, found) in found {
        let pace = if batch == 1 { "single" } else { "batched" };
        let whose = if sizing == Sizing::Sharded { "" } else { ", owner alone" };
        let case = session
            .case(NAME, names)
            .format(sizing.name())
            .variant(format!("{pace}{whose}"))
            .value_bits(value_bits)
            .threads(1)
            .batch(batch);
        let to_full = case.clone().variant(format!("{pace}, half to full{whose}"));
        let rows = [
            (case.clone(), Metric::UpdateRate),
            (to_full.clone(), Metric::InsertRate),
            (case, Metric::DeleteRate),
            (to_full, Metric::Reseeded),
        ];
        for (at, (case, metric)) in rows.into_iter().enumerate() {
            session.add(case, metric, Summary::of(&found.iter().map(|run| run[at]).collect::<Vec<_>>()));
        }
    }
    Ok(())
}

fn show(session: &mut Session<'_>) {
    let heads = [
        "names",
        "sizing",
        "at a time",
        "alter, M/s",
        "paper, additions, M/s",
        "add, half to full, M/s",
        "ranges made anew",
        "delete, M/s",
    ];
    let mut sheet = PageTable::new("concise-figure-8", &heads);
    let across = ("names", Scale::Doublings);
    let mut chart = Chart::new(
        "concise-figure-8",
        "Updates a second, one core",
        across,
        ("million a second", Scale::Decades),
    );
    let rows: Vec<Row> = session.rows().to_vec();
    for four in rows.windows(4) {
        let [alter, add, delete, reseeded] = four else { continue };
        if reseeded.metric != Metric::Reseeded {
            continue;
        }
        let of = &alter.case;
        let (sizing, batch) = (of.format.unwrap_or_default(), of.batch.unwrap_or(1));
        sheet.rows.push(vec![
            short_count(of.keys),
            sizing.to_owned(),
            batch.to_string(),
            millions(&alter.summary()),
            format!("at least {}", paper::UPDATES),
            millions(&add.summary()),
            reseeded.spread(1.0, 0),
            millions(&delete.summary()),
        ]);
        if sizing == Sizing::Sharded.name() {
            let pace = if batch == 1 { "single" } else { "batched" };
            for (what, row) in [("alter", alter), ("add", add), ("delete", delete)] {
                add_point(&mut chart, &format!("{what}, {pace}"), of.keys as f64, row, 1e6);
            }
        }
    }
    session.add_table(sheet);
    session.add_chart(chart);
    conclusions::updates(session, &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_of_all_sizings_arrive() {
        let names = Population::of(Kind::Mac, 4000, 3);
        for sizing in Sizing::ALL {
            for batch in [1, 100] {
                let found = one_run(&names, sizing, batch).unwrap();
                assert!(found[..3].iter().all(|&rate| rate > 0.0), "{found:?}");
            }
        }
        let [_, _, _, reseeded] = one_run(&names, Sizing::Sharded, 1).unwrap();
        assert!(reseeded > 3.0, "half of all ranges meet a cycle on the way, about: {reseeded}");
    }
}
