//! Figure 7: lookups a second by the keys of a call and the size of the table.

use super::exhibit::{Chart, Mark, Point, Scale, Series, Sheet};
use super::paper;
use crate::benches::build;
use crate::contestants::{Forms, Make, Mode, Questions, Structure, Table};
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::rounds::{Turn, alternate};
use crate::row::{Metric, Row, Subject};
use crate::session::Session;
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_tables::setsep::Format;

/// Bytes a key of keys, questions, answers, and the building of one table beside the others.
const KEY_BYTES: u64 = 24 + 40 + 2;

/// Keys a call. The paper's rate is at 17.
const BATCHES: [usize; 5] = [1, 8, 17, 32, 64];

const QUICK: [u64; 4] = [500_000, 1_000_000, 2_000_000, 4_000_000];
const FULL: [u64; 6] = [500_000, 1_000_000, 4_000_000, 16_000_000, 32_000_000, 64_000_000];

/// A run asks at least so many keys: a small table several times.
const LEAST_ASKED: usize = 8_000_000;

/// The paper's format and the default one, unless others were asked for.
fn formats(session: &Session<'_>) -> Vec<Format> {
    session.options().formats.clone().unwrap_or_else(|| vec![Format::Paper16x8, Format::default()])
}

/// Measures and draws.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let first = session.rows().len();
    for keys in options.keys(&QUICK, &FULL) {
        if !session.fits(keys, KEY_BYTES)? {
            continue;
        }
        for value_bits in options.value_bits(&[2], &[2]) {
            one(session, keys, value_bits)?;
        }
    }
    show(session, first);
    Ok(())
}

/// Keys a call as a way to ask: single keys share one pin.
const fn mode(batch: usize) -> Mode {
    if batch == 1 { Mode::OnePin } else { Mode::Batch(batch) }
}

fn one(session: &mut Session<'_>, keys: u64, value_bits: u8) -> Result<(), BenchError> {
    let options = session.options();
    let busy = session.busy("making keys and tables");
    let set = KeySet::new(keys, value_bits);
    let mut tables = Vec::new();
    for format in formats(session) {
        let make = Make { format, threads: pin::cores(), ..Make::table() };
        let mut prepared = Structure::SetSep.prepare(&set, make)?;
        tables.push((format, build::build(prepared.as_mut(), make.threads)?.0));
    }
    drop(busy);
    let mut threads = options.threads(&[1], &[1, pin::cores()]);
    threads.dedup();
    let mut turns = Vec::new();
    for (format, table) in &tables {
        for &threads in &threads {
            for batch in options.batches(&BATCHES) {
                let subject = Subject {
                    format: Some(format.name()),
                    value_bits: Some(value_bits),
                    threads: Some(threads),
                    batch: Some(batch),
                    variant: Some(mode(batch).name().to_owned()),
                    table_bytes: Some(table.table_bytes()),
                    ..session.subject(Structure::SetSep.name(), keys)
                };
                let (set, table) = (&set, Repeated::of(table.as_ref(), keys));
                turns.push(Turn::new(subject, Metric::LookupRate, move |answers: &mut Vec<u8>| {
                    let forms = Forms::default();
                    let rate = timing::lookup(&table, mode(batch), set, &forms, threads, answers)?;
                    timing::check(Structure::SetSep.name(), set, answers)?;
                    Ok((rate * table.times as f64).into())
                }));
            }
        }
    }
    alternate(session, &mut vec![0; set.len()], turns)
}

/// A table that is asked everything several times, so that a run of a small one is long enough to be timed.
struct Repeated<'a> {
    table: &'a dyn Table,
    times: usize,
}

impl<'a> Repeated<'a> {
    fn of(table: &'a dyn Table, keys: u64) -> Self {
        Self { table, times: LEAST_ASKED.div_ceil(keys.max(1) as usize) }
    }
}

impl Table for Repeated<'_> {
    fn table_bytes(&self) -> u64 {
        self.table.table_bytes()
    }

    fn lookup(&self, mode: Mode, questions: Questions<'_>, answers: &mut [u8]) {
        for _ in 0..self.times {
            self.table.lookup(mode, questions, answers);
        }
    }
}

/// The rows from `first` on, as charts and a table.
#[expect(clippy::cast_sign_loss, reason = "a number of keys is not negative")]
fn show(session: &mut Session<'_>, first: usize) {
    let rows = session.rows()[first..].to_vec();
    let distinct = |of: fn(&Subject) -> usize| {
        let mut found: Vec<usize> = rows.iter().map(|row| of(&row.subject)).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let batches = distinct(|subject| subject.batch.unwrap_or(0));
    let threads = distinct(|subject| subject.threads.unwrap_or(0));
    let mut heads = vec!["format".to_owned(), "threads".to_owned(), "keys".to_owned()];
    heads.extend(batches.iter().map(|batch| format!("{batch} a call, M/s")));
    heads.push("best over single keys".to_owned());
    heads.push(format!("paper, {} threads, {} a call, M/s", paper::LOOKUP_THREADS, paper::LOOKUP_BATCH));
    let mut sheet = Sheet { heads, ..Sheet::new("figure-7", &[]) };
    for (place, &threads) in threads.iter().enumerate() {
        let name = if place == 0 { "figure-7" } else { "figure-7-threads" };
        let title = match threads {
            1 => "Lookups by keys a call, 2-bit values, one thread".to_owned(),
            _ => format!("Lookups by keys a call, 2-bit values, {threads} threads"),
        };
        let mut chart = Chart::new(
            name,
            &title,
            ("keys in the table", Scale::Doublings),
            ("million keys a second", Scale::Linear),
        );
        for (number, format) in formats(session).into_iter().enumerate() {
            let of = |batch: usize| {
                let rows = rows.iter().filter(move |row| {
                    let subject = &row.subject;
                    (subject.format, subject.batch, subject.threads)
                        == (Some(format.name()), Some(batch), Some(threads))
                });
                rows.map(|row| Point {
                    x: row.subject.keys as f64,
                    y: row.median / 1e6,
                    spread: Some((row.min / 1e6, row.max / 1e6)),
                })
                .collect::<Vec<_>>()
            };
            let columns: Vec<Vec<Point>> = batches.iter().map(|&batch| of(batch)).collect();
            let mark = if number == 0 { Mark::Dashes } else { Mark::Dotted };
            // Three lines a format can be told apart; the table has them all.
            let drawn = [0, batches.len() / 2, batches.len().saturating_sub(1)];
            let all = batches.iter().zip(&columns).enumerate();
            for (colour, (batch, points)) in all.filter(|(place, _)| drawn.contains(place)) {
                let name = format!("{format}, {batch} a call");
                chart.series.push(Series::new(name, mark, colour, points.clone()));
            }
            for (place, single) in columns.first().into_iter().flatten().enumerate() {
                let mut cells =
                    vec![format.name().to_owned(), threads.to_string(), short_count(single.x as u64)];
                let rates: Vec<Point> =
                    columns.iter().filter_map(|points| points.get(place).copied()).collect();
                cells.extend(rates.iter().map(with_spread));
                let best = rates.iter().map(|point| point.y).fold(0.0, f64::max);
                cells.push(format!("{:.2}×", best / single.y));
                let is_told = number == 0 && single.x as u64 == paper::KEYS;
                cells.push(if is_told {
                    format!("about {}", paper::MLOOKUPS_PER_SECOND)
                } else {
                    "plotted only".to_owned()
                });
                sheet.rows.push(cells);
            }
        }
        session.show(chart);
    }
    session.tabulate(sheet);
    conclude(session, &rows);
}

/// The paper's format on all threads, in its largest table, and what batches gain at the most.
fn conclude(session: &mut Session<'_>, rows: &[Row]) {
    let format = Format::Paper16x8.name();
    let ours = || rows.iter().filter(|row| row.subject.format == Some(format));
    let (Some(keys), Some(threads)) =
        (ours().map(|row| row.subject.keys).max(), ours().filter_map(|row| row.subject.threads).max())
    else {
        return;
    };
    let rate = |keys: u64, threads: usize, batch: usize| {
        let is = |row: &&Row| {
            let of = &row.subject;
            (of.keys, of.threads, of.batch) == (keys, Some(threads), Some(batch))
        };
        ours().find(is).map(|row| row.median)
    };
    let gain = |row: &Row| Some(row.median / rate(row.subject.keys, row.subject.threads?, 1)?);
    let gain = ours().filter_map(gain).fold(1.0, f64::max);
    let Some(largest) = rate(keys, threads, paper::LOOKUP_BATCH) else { return };
    let sentence = format!(
        "In the paper's format, {} keys a call, {threads} thread{} look{} up {:.0} M keys a second in a table of {} keys (paper: {} at 64 M with \
         {}); batches gain up to {gain:.1} times over single keys (paper: {}).",
        paper::LOOKUP_BATCH,
        if threads == 1 { "" } else { "s" },
        if threads == 1 { "s" } else { "" },
        largest / 1e6,
        short_count(keys),
        paper::MLOOKUPS_PER_SECOND,
        paper::LOOKUP_THREADS,
        paper::BATCH_GAIN,
    );
    session.conclude("figure-7-conclusion", sentence);
}

/// A rate with the least and the most.
fn with_spread(point: &Point) -> String {
    let (least, most) = point.spread.unwrap_or((point.y, point.y));
    format!("{:.0} ({least:.0}–{most:.0})", point.y)
}
