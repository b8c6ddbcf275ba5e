//! Figure 8: updates per second by number of names: alterations, additions from half to full load including
//! all reconstructions, and deletions.

use super::{has_default_sizing, met, millions, names, paper};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, ensure};
use crate::names::population::{Kind, Population};
use crate::rounds::{Measurement, interleave_up_to};
use crate::row::{Metric, Row, SelectRows};
use crate::sheet::{Sheet, chart};
use crate::structures::{self, BuildConfig, Compact};
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::Scale;
use scalebricks_tables::othello::{Op, Othello, OthelloControl, OthelloReader, Sizing};
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
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    for names in bench.sizes(&[65_536, 262_144], &[262_144, 1_000_000, 4_000_000, 16_000_000], NAME_BYTES)? {
        for sizing in Sizing::ALL {
            if sizing == Sizing::Sharded || names <= options.pick(FEW / 4, FEW) {
                one(bench, names, options.first_value_bits(8), sizing)?;
            }
        }
    }
    let rows = bench.rows().to_vec();
    show(bench, &rows);
    conclude(bench, &rows);
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
        let params = structures::Othello::params(names.len() as u64, names.value_bits, make)?;
        let builder = structures::Othello::builder(params, make);
        let control = structures::Othello::build_control(&builder, &names.pairs()[..names.len() / 2])?;
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
        let Self { control, table } = self;
        for first in (0..count).step_by(BATCH) {
            memory.clear();
            memory.extend((first..count.min(first + BATCH)).map(&ops));
            let (done, passed) = timing::pinned(|| {
                memory.chunks(batch).try_for_each(|ops| {
                    structures::Othello::change(control, table.as_deref(), ops)
                        .map(|deltas| drop(black_box(deltas)))
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
        let wrong = (0..names.len()).find(|&at| answers[at] != change(names.actions[at], at));
        wrong.map_or(Ok(()), |at| {
            Err(BenchError::check(NAME, format!("{} for name {at} after updates", answers[at])))
        })
    }
}

/// Performs one run; returns its figures in the order of the rows.
fn one_run(names: &Population, sizing: Sizing, batch: usize) -> Result<[f64; 4], BenchError> {
    let mut live = LiveTable::half(names, sizing)?;
    let half = names.len() / 2;
    let before = live.control.reseeded();
    let adds = live.perform(names.len() - half, batch, |at| {
        Op::Insert(names.hashes[half + at], names.actions[half + at])
    })?;
    let reseeded = live.control.reseeded() - before;
    live.check(names, |action, _| action)?;
    let count = OPS.min(half);
    let alters = live.perform(count, batch, |at| Op::Update(names.hashes[at], names.actions[at] ^ 1))?;
    live.check(names, |action, at| action ^ u16::from(at < count))?;
    let deletes = live.perform(count, batch, |at| Op::Remove(names.hashes[at]))?;
    let left = (live.control.len(), live.control.get(names.hashes[0]));
    ensure(left == ((names.len() - count) as u64, None), NAME, || "the table still holds deleted names")?;
    Ok([alters, adds, deletes, reseeded as f64])
}

fn one(bench: &mut BenchRun<'_>, names: u64, value_bits: u8, sizing: Sizing) -> Result<(), BenchError> {
    let set = &Population::of(Kind::Mac, names, value_bits);
    let turns = [("single", 1), ("batched", BATCH)].map(|(pace, batch)| {
        let whose = if sizing == Sizing::Sharded { "" } else { ", owner alone" };
        let case = bench
            .case(NAME, names)
            .format(sizing.name())
            .variant(format!("{pace}{whose}"))
            .value_bits(value_bits)
            .threads(1)
            .batch(batch);
        let to_full = case.clone().variant(format!("{pace}, half to full{whose}"));
        let rows = vec![
            (case.clone(), Metric::UpdateRate),
            (to_full.clone(), Metric::InsertRate),
            (case, Metric::DeleteRate),
            (to_full, Metric::Reseeded),
        ];
        Measurement::several(rows, move |(): &mut ()| Ok(one_run(set, sizing, batch)?.to_vec().into()))
    });
    interleave_up_to(RUNS, bench, &mut (), turns.into())
}

fn show(bench: &mut BenchRun<'_>, rows: &[Row]) {
    let groups = || rows.windows(4).filter(|rows| rows[3].metric == Metric::Reseeded);
    let case = |rows: &&[Row]| rows[0].case.clone();
    let sheet = Sheet::new("concise-figure-8", groups())
        .column("names", |rows| names(&&rows[0]))
        .column("sizing", |rows| case(rows).format.unwrap_or_default())
        .column("at a time", |rows| case(rows).batch.unwrap_or(1))
        .column("alter, M/s", |rows| millions(&rows[0]))
        .column("paper, additions, M/s", |_| format!("at least {}", paper::UPDATES))
        .column("add, half to full, M/s", |rows| millions(&rows[1]))
        .column("ranges made anew", |rows| rows[3].spread(1.0, 0))
        .column("delete, M/s", |rows| millions(&rows[2]));
    bench.add_table(sheet);
    let points = groups().filter(|rows| has_default_sizing(&&rows[0])).flat_map(|rows| {
        let pace = if rows[0].case.batch == Some(1) { "single" } else { "batched" };
        ["alter", "add", "delete"]
            .iter()
            .zip(rows)
            .map(move |(what, row)| (format!("{what}, {pace}"), row.point(row.case.keys as f64, 1e6)))
    });
    let (x, y) = (("names", Scale::Doublings), ("million a second", Scale::Decades));
    bench.add_chart(chart("concise-figure-8", "Updates a second, one core", x, y, points));
}

/// States the slowest updates of the default sizing.
fn conclude(bench: &mut BenchRun<'_>, rows: &[Row]) {
    let of = |metric: Metric| {
        let paced =
            |row: &&Row| ["single", "batched"].iter().any(|pace| row.case.variant_text().starts_with(pace));
        let rows = rows.iter().metric(metric).structure(NAME).format("sharded").filter(paced);
        rows.min_by(|a, b| a.median.total_cmp(&b.median))
    };
    let (Some(add), Some(alter), Some(delete)) =
        (of(Metric::InsertRate), of(Metric::UpdateRate), of(Metric::DeleteRate))
    else {
        return;
    };
    let sentence = format!(
        "The slowest of all sizes and paces in our default sizing on one core: {:.2} M additions a second (at {} names), {:.2} M alterations, \
         {:.2} M deletions; the paper has at least {} M additions in most cases: {}.",
        add.median / 1e6,
        short_count(add.case.keys),
        alter.median / 1e6,
        delete.median / 1e6,
        paper::UPDATES,
        met(add.median / 1e6 >= paper::UPDATES),
    );
    bench.add_conclusion("concise-figure-8-conclusion", sentence);
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
