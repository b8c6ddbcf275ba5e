//! Figure 7: lookups per second by keys per call and table size.

use super::paper;
use crate::bench_run::BenchRun;
use crate::benches::build;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::limit::{self, LIMIT, Limits, Replay};
use crate::rounds::interleave;
use crate::row::{Case, Metric, Row};
use crate::structures::{BuildConfig, KeyForms, LookupMode, Queries, Structure, Table};
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};
use scalebricks_tables::setsep::Format;

/// Bytes per key for keys, queries, answers, and building one table while the others exist.
const KEY_BYTES: u64 = 24 + 40 + 2;

/// Keys per call. The paper's rate is at 17.
const BATCHES: [usize; 5] = [1, 8, 17, 32, 64];

const QUICK: [u64; 4] = [500_000, 1_000_000, 2_000_000, 4_000_000];
const FULL: [u64; 6] = [500_000, 1_000_000, 4_000_000, 16_000_000, 32_000_000, 64_000_000];

/// Minimum lookups per run; a small table is queried several times.
const LEAST_ASKED: usize = 8_000_000;
/// The same, for quick runs.
const LEAST_ASKED_QUICK: usize = 500_000;

/// The paper's format and the default one, unless others are requested.
fn formats(bench: &BenchRun<'_>) -> Vec<Format> {
    bench.options.formats.clone().unwrap_or_else(|| vec![Format::Paper16x8, Format::default()])
}

/// Measures and draws the figure.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let first = bench.rows().len();
    for keys in options.keys(&QUICK, &FULL) {
        let replays = limit::bytes_per_key(keys, formats(bench).len());
        if !bench.fits(keys, KEY_BYTES + replays)? {
            continue;
        }
        for value_bits in options.value_bits(&[2], &[2]) {
            one(bench, keys, value_bits)?;
        }
    }
    show(bench, first);
    Ok(())
}

/// The lookup mode for this many keys per call: single keys share one pin.
const fn mode(batch: usize) -> LookupMode {
    if batch == 1 { LookupMode::OnePin } else { LookupMode::Batch(batch) }
}

fn one(bench: &mut BenchRun<'_>, keys: u64, value_bits: u8) -> Result<(), BenchError> {
    let options = bench.options;
    let busy = bench.busy("making keys and tables");
    let set = KeySet::new(keys, value_bits);
    let mut tables = Vec::new();
    for format in formats(bench) {
        let make = BuildConfig { format, threads: pin::cores(), ..BuildConfig::table() };
        let mut prepared = Structure::SetSep.prepare(&set, make)?;
        tables.push((format, build::build(&mut prepared, make.threads)?.0));
    }
    let forms = KeyForms::default();
    let times = options.pick(LEAST_ASKED_QUICK, LEAST_ASKED).div_ceil(keys.max(1) as usize);
    let replays = tables.iter().map(|(_, table)| Replay::of(table.as_ref(), forms.queries(&set)));
    let limits: Vec<Limits<'_>> = replays.map(|replay| Limits::new(replay, times)).collect();
    drop(busy);
    let mut threads = options.threads(&[1], &[1, pin::cores()]);
    threads.dedup();
    let mut turns = Vec::new();
    for ((format, table), limits) in tables.iter().zip(&limits) {
        for &threads in &threads {
            for batch in options.batches(&BATCHES) {
                let case = bench
                    .case(Structure::SetSep.name(), keys)
                    .format(format.name())
                    .value_bits(value_bits)
                    .threads(threads)
                    .batch(batch)
                    .variant(mode(batch).name().to_owned())
                    .table_bytes(table.table_bytes());
                let (set, forms, table) = (&set, &forms, Repeated { table: table.as_ref(), times });
                turns.extend(limits.turns(case, LIMIT.to_owned(), move |answers: &mut Vec<u8>| {
                    let rate = timing::lookup(&table, mode(batch), set, forms, threads, answers)?;
                    timing::check(Structure::SetSep.name(), set, answers)?;
                    Ok(rate * table.times as f64)
                }));
            }
        }
    }
    interleave(bench, &mut vec![0; set.len()], turns)
}

/// A table that answers all queries several times, so that a run on a small table is long enough to be timed.
struct Repeated<'a> {
    table: &'a dyn Table,
    times: usize,
}

impl Table for Repeated<'_> {
    fn table_bytes(&self) -> u64 {
        self.table.table_bytes()
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        for _ in 0..self.times {
            self.table.lookup(mode, queries, answers);
        }
    }
}

/// Rows of this figure: lookup rates and limits.
struct Measured {
    rows: Vec<Row>,
}

impl Measured {
    /// Rates by table size for one format, number of threads and keys per call: of lookups, or of their loads
    /// alone.
    fn rates(&self, format: &str, threads: usize, batch: usize, is_limit: bool) -> Vec<&Row> {
        let is = |row: &&Row| {
            let of = &row.case;
            row.metric == Metric::LookupRate
                && limit::is_limit(of) == is_limit
                && (of.format, of.batch, of.threads) == (Some(format), Some(batch), Some(threads))
        };
        self.rows.iter().filter(is).collect()
    }

    /// All values of a field of the cases, ascending.
    fn distinct(&self, of: fn(&Case) -> Option<usize>) -> Vec<usize> {
        let mut found: Vec<usize> = self.rows.iter().filter_map(|row| of(&row.case)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Shows the rows from `first` on as charts and a table.
fn show(bench: &mut BenchRun<'_>, first: usize) {
    let measured = Measured { rows: bench.rows()[first..].to_vec() };
    let batches = measured.distinct(|case| case.batch);
    let threads = measured.distinct(|case| case.threads);
    let formats = formats(bench);
    let mut heads = vec!["format".to_owned(), "threads".to_owned(), "keys".to_owned()];
    heads.extend(
        batches.iter().flat_map(|n| [format!("{n} a call, M/s"), format!("{n} a call, of the limit")]),
    );
    heads.push("best over single keys".to_owned());
    heads.push(format!("paper, {} threads, {} a call, M/s", paper::LOOKUP_THREADS, paper::LOOKUP_BATCH));
    let mut sheet = PageTable { heads, ..PageTable::new("figure-7", &[]) };
    for (place, &threads) in threads.iter().enumerate() {
        let name = if place == 0 { "figure-7" } else { "figure-7-threads" };
        bench.add_chart(chart(name, &measured, &formats, &batches, threads));
        for &format in &formats {
            sheet.rows.extend(lines(&measured, format, &batches, threads));
        }
    }
    bench.add_table(sheet);
    conclude(bench, &measured);
}

/// Draws three batch sizes per format, and the limit of the last. The table has all of them.
fn chart(name: &str, measured: &Measured, formats: &[Format], batches: &[usize], threads: usize) -> Chart {
    let title = match threads {
        1 => "Lookups by keys a call, 2-bit values, one thread".to_owned(),
        _ => format!("Lookups by keys a call, 2-bit values, {threads} threads"),
    };
    let across = ("keys in the table", Scale::Doublings);
    let mut chart = Chart::new(name, &title, across, ("million keys a second", Scale::Linear));
    let drawn = [0, batches.len() / 2, batches.len().saturating_sub(1)];
    for (number, format) in formats.iter().enumerate() {
        let mark = if number == 0 { Mark::Dashes } else { Mark::Dotted };
        for (colour, batch) in batches.iter().enumerate().filter(|(place, _)| drawn.contains(place)) {
            let rates = measured.rates(format.name(), threads, *batch, false);
            let points = rates.into_iter().map(point).collect();
            chart.series.push(Series::new(format!("{format}, {batch} a call"), mark, colour, points));
        }
        if let Some(batch) = batches.last() {
            let limits =
                measured.rates(format.name(), threads, *batch, true).into_iter().map(point).collect();
            let name = format!("{format}, {batch} a call, {LIMIT}");
            chart.series.push(Series::new(name, mark, batches.len(), limits));
        }
    }
    chart
}

/// A rate in millions by table size.
fn point(row: &Row) -> Point {
    Point::measured(row.case.keys as f64, row.summary(), 1e6)
}

/// The table's lines for one format and number of threads, one per size.
fn lines(measured: &Measured, format: Format, batches: &[usize], threads: usize) -> Vec<Vec<String>> {
    let columns: Vec<Vec<&Row>> =
        batches.iter().map(|&batch| measured.rates(format.name(), threads, batch, false)).collect();
    let singles = columns.first().into_iter().flatten();
    let lines = singles.map(|single| {
        let keys = single.case.keys;
        let mut cells = vec![format.name().to_owned(), threads.to_string(), short_count(keys)];
        let mut best = 0.0_f64;
        for rates in &columns {
            match rates
                .iter()
                .find(|row| (row.case.keys, row.case.value_bits) == (keys, single.case.value_bits))
            {
                Some(row) => {
                    best = best.max(row.median);
                    cells.extend([
                        row.spread(1e6, 0),
                        limit::share_text(limit::share_of(&measured.rows, row)),
                    ]);
                }
                None => cells.extend([String::new(), String::new()]),
            }
        }
        cells.push(format!("{:.2}×", best / single.median));
        let is_told = format == Format::Paper16x8 && keys == paper::KEYS;
        cells.push(if is_told {
            format!("about {}", paper::MLOOKUPS_PER_SECOND)
        } else {
            "plotted only".to_owned()
        });
        cells
    });
    lines.collect()
}

/// States the rate of the paper's format on all threads in the largest table, and the largest gain of
/// batches.
fn conclude(bench: &mut BenchRun<'_>, Measured { rows }: &Measured) {
    let format = Format::Paper16x8.name();
    let ours = || {
        let rates = rows.iter().filter(|row| row.metric == Metric::LookupRate);
        rates.filter(|row| row.case.format == Some(format) && !limit::is_limit(&row.case))
    };
    let (Some(keys), Some(threads)) =
        (ours().map(|row| row.case.keys).max(), ours().filter_map(|row| row.case.threads).max())
    else {
        return;
    };
    let of = |keys: u64, threads: usize, batch: usize| {
        let is = |row: &&Row| {
            let of = &row.case;
            (of.keys, of.threads, of.batch) == (keys, Some(threads), Some(batch))
        };
        ours().find(is)
    };
    let gain = |row: &Row| Some(row.median / of(row.case.keys, row.case.threads?, 1)?.median);
    let gain = ours().filter_map(gain).fold(1.0, f64::max);
    let Some(largest) = of(keys, threads, paper::LOOKUP_BATCH) else { return };
    let share = limit::share_of(rows, largest)
        .map_or_else(String::new, |share| format!(", {:.2} of the machine's limit", share.median));
    let sentence = format!(
        "In the paper's format, {} keys a call, {threads} thread{} look{} up {:.0} M keys a second{share} in a table of {} keys (paper: {} at 64 M with \
         {}); batches gain up to {gain:.1} times over single keys (paper: {}).",
        paper::LOOKUP_BATCH,
        if threads == 1 { "" } else { "s" },
        if threads == 1 { "s" } else { "" },
        largest.median / 1e6,
        short_count(keys),
        paper::MLOOKUPS_PER_SECOND,
        paper::LOOKUP_THREADS,
        paper::BATCH_GAIN,
    );
    bench.add_conclusion("figure-7-conclusion", sentence);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn every_rate_stands_beside_its_share_of_the_limit() {
        let options = Options {
            keys: Some(vec![3000, 20_000]),
            batches: Some(vec![1, 17]),
            threads: Some(vec![1, 2]),
            quick: true,
            runs: Some(2),
            ..Options::default()
        };
        let mut bench = BenchRun::for_test("figures", options);
        run(&mut bench).unwrap();
        let rows = bench.rows();
        let of = |metric: Metric| rows.iter().filter(move |row| row.metric == metric);
        let limits: Vec<&Row> = of(Metric::LookupRate).filter(|row| limit::is_limit(&row.case)).collect();
        // Two sizes and formats, one thread and two, two batch sizes.
        assert_eq!(
            (limits.len(), of(Metric::LookupRate).count(), of(Metric::ShareOfLimit).count()),
            (16, 32, 16)
        );
        assert!(of(Metric::ShareOfLimit).all(|row| row.min > 0.0 && row.max.is_finite()));
        let (_, exhibits) = bench.finish();
        let sheet = &exhibits.sheets[0];
        assert_eq!(
            sheet.heads[3..7],
            ["1 a call, M/s", "1 a call, of the limit", "17 a call, M/s", "17 a call, of the limit"]
        );
        assert!(sheet.rows.len() == 8 && sheet.rows.iter().all(|row| row.len() == sheet.heads.len()));
        assert!(sheet.rows.iter().flatten().all(|cell| !cell.is_empty() && cell != limit::NO_REPLAY));
        let lines = exhibits.charts.iter().flat_map(|chart| &chart.series);
        assert_eq!(lines.filter(|line| line.name.ends_with(LIMIT) && line.points.len() == 2).count(), 4);
        assert!(exhibits.conclusions[0].sentence.contains(" of the machine's limit"));
    }
}
