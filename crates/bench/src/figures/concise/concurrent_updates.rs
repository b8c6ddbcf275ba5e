//! Figure 5: lookups on one core, with and without updates on another core at a given rate. Updates alter
//! actions, or add and delete names.

use super::fibs::BATCH;
use super::{millions, names, paper};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure, joined};
use crate::limit::{self, LIMIT, Replay};
use crate::names::population::{Kind, Population};
use crate::pin;
use crate::rounds::{Measurement, interleave};
use crate::row::{Metric, Row, SelectRows};
use crate::sheet::{Sheet, chart};
use crate::structures::{self, BuildConfig, Compact};
use crate::timing::{self, Clock};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::Scale;
use scalebricks_tables::othello::{Op, Othello, OthelloControl, OthelloReader, UpdateError};
use scalebricks_types::KeyHash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Updates per second; `None` for as many as possible.
const RATES: [Option<u32>; 4] = [Some(100_000), Some(250_000), Some(500_000), None];
/// Maximum updates per batch when several are due.
const AT_ONCE: usize = 256;
/// How long the updater sleeps when no update is due; the system adds about 50 µs.
const PAUSE: Duration = Duration::from_micros(20);
/// One name in this many is changed, spread over the whole table.
const ALTERED: usize = 16;
/// Minimum lookups in a run of the machine's limit.
const LEAST_REPLAYED: usize = 1 << 22;
/// Lookups between two checks of the clock and the answers.
const PASS: usize = 1 << 15;
/// Bytes per name: names, actions, table, control structure.
const NAME_BYTES: u64 = 80;
const NAME: &str = "othello";
/// Variant of lookups without updates.
const ALONE: &str = "alone, in turn with updates";
/// Prefix of the variants with updates.
const VARIANT: &str = "beside ";

/// Kinds of updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Changes the action of a name.
    Alter,
    /// Deletes a name and adds another in its place, or the reverse: two updates.
    Replace,
}

impl Change {
    const ALL: [Self; 2] = [Self::Alter, Self::Replace];

    /// Its name in rows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alter => "alterations",
            Self::Replace => "additions and deletions",
        }
    }
}

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let time = options.pick(Duration::from_millis(60), Duration::from_millis(700));
    let time = options.seconds.map_or(time, Duration::from_secs);
    for names in options.keys(&[262_144], &[1_000_000, 4_000_000]) {
        if bench.fits(names, NAME_BYTES + limit::bytes_per_key(names, 1))? {
            for value_bits in options.value_bits(&[8], &[8]) {
                for change in Change::ALL {
                    one(bench, (names, value_bits), change, time)?;
                }
            }
        }
    }
    let rows = bench.rows().to_vec();
    show(bench, &rows);
    conclude(bench, &rows);
    Ok(())
}

/// A table under updates.
struct LiveTable {
    control: OthelloControl,
    table: Arc<Othello>,
    change: Change,
    /// Names with their initial actions. An altered name has one of two actions.
    names: Arc<Population>,
    /// A replacement for each name that is replaced.
    others: Vec<KeyHash>,
    /// Whether each changed name has been changed an odd number of times.
    flipped: Vec<bool>,
    cursor: usize,
}

impl LiveTable {
    /// Builds the table. `others` are the replacement names.
    fn new(names: Population, change: Change, others: Vec<KeyHash>) -> Result<Self, BenchError> {
        let make = BuildConfig { threads: pin::cores(), ..BuildConfig::table() };
        let params = structures::Othello::params(names.len() as u64, names.value_bits, make)?;
        let builder = structures::Othello::builder(params, make);
        let control = structures::Othello::build_control(&builder, &names.pairs())?;
        let table = Arc::new(control.export());
        let flipped = vec![false; names.len().div_ceil(ALTERED)];
        Ok(Self { control, table, change, names: Arc::new(names), others, flipped, cursor: 0 })
    }

    /// Looks up names for `time` while `rate` updates per second run; returns lookups and updates per second.
    fn measure(&mut self, rate: f64, time: Duration) -> Result<(f64, f64), BenchError> {
        let (stop, change) = (&AtomicBool::new(false), self.change);
        let (table, names) = (&Arc::clone(&self.table), &Arc::clone(&self.names));
        let (asked, updated) = std::thread::scope(|scope| {
            let updater = (rate > 0.0).then(|| {
                scope.spawn(move || {
                    pin::to_core(1);
                    // Otherwise the reader would wait forever for a failed updater.
                    self.update(rate, stop).inspect_err(|_| stop.store(true, Ordering::Relaxed))
                })
            });
            let reader = scope.spawn(move || {
                pin::to_core(0);
                let asked = ask(table, (names, change), time, stop);
                stop.store(true, Ordering::Relaxed);
                asked
            });
            let asked = joined(reader.join());
            (asked, updater.map_or(Ok(Ok(0.0)), |thread| joined(thread.join())))
        });
        Ok((asked??, updated??))
    }

    /// Lookups per second that the memory allows. Replays the first names anew, because updates have changed
    /// what lookups read.
    fn limit(&self) -> Result<f64, BenchError> {
        let names = &self.names.hashes[..self.names.len().min(limit::MAX_QUERIES)];
        let replay = Replay::record(&self.table, names.len(), |table, visit| {
            structures::Othello::touched(table, names, visit);
        });
        let unknown = || BenchError::check(NAME, "it does not report which memory it reads");
        replay.ok_or_else(unknown)?.rate(LEAST_REPLAYED.div_ceil(names.len()), BATCH, 1)
    }

    /// Looks up all current names, whose actions are known while nothing changes.
    fn check(&self) -> Result<(), BenchError> {
        let is_flipped = |place: usize| place.is_multiple_of(ALTERED) && self.flipped[place / ALTERED];
        let (replaces, count) = (self.change == Change::Replace, self.names.len());
        let held = (0..count).map(|place| {
            if is_flipped(place) && replaces {
                self.others[place / ALTERED]
            } else {
                self.names.hashes[place]
            }
        });
        let mut answers = vec![0; count];
        let mut reader = OthelloReader::new(Arc::clone(&self.table));
        reader.lookup_batch(&held.collect::<Vec<_>>(), &mut answers);
        let action = |place| self.names.actions[place] ^ u16::from(!replaces && is_flipped(place));
        let wrong = (0..count).find(|&place| answers[place] != action(place));
        wrong.map_or(Ok(()), |place| {
            let problem = format!("{} for name {place} after all updates", answers[place]);
            Err(BenchError::check(NAME, problem))
        })
    }

    /// Appends the updates of the next position.
    fn push_ops(&mut self, ops: &mut Vec<Op>) {
        let place = self.cursor;
        self.cursor = if place + 1 < self.flipped.len() { place + 1 } else { 0 };
        self.flipped[place] = !self.flipped[place];
        let (name, action) = (self.names.hashes[place * ALTERED], self.names.actions[place * ALTERED]);
        match self.change {
            Change::Alter => ops.push(Op::Update(name, action ^ u16::from(self.flipped[place]))),
            Change::Replace => {
                let other = self.others[place];
                let (old, new) = if self.flipped[place] { (name, other) } else { (other, name) };
                ops.extend([Op::Remove(old), Op::Insert(new, action)]);
            }
        }
    }

    /// Reverts the updates pushed last, because the whole batch was refused.
    fn undo_ops(&mut self, ops: usize) {
        let places = if self.change == Change::Alter { ops } else { ops / 2 };
        for back in 1..=places {
            let place = (self.cursor + self.flipped.len() - back) % self.flipped.len();
            self.flipped[place] = !self.flipped[place];
        }
    }

    /// Applies updates at no more than `rate` per second until stopped; returns updates per second.
    fn update(&mut self, rate: f64, stop: &AtomicBool) -> Result<f64, BenchError> {
        let start = Instant::now();
        let (mut done, mut ops) = (0_usize, Vec::with_capacity(AT_ONCE));
        while !stop.load(Ordering::Relaxed) {
            let due = (start.elapsed().as_secs_f64() * rate - done as f64)
                .min(AT_ONCE.min(self.flipped.len()) as f64);
            ops.clear();
            while (ops.len() as f64) < due {
                self.push_ops(&mut ops);
            }
            if ops.is_empty() {
                // A thread that waits for messages sleeps too. A spinning thread would slow the other thread of
                // the same physical core.
                std::thread::sleep(PAUSE);
                continue;
            }
            match self.control.batch(&ops) {
                Ok(deltas) => {
                    for delta in deltas {
                        let _ = self.table.apply(&delta).of(NAME)?;
                    }
                    done += ops.len();
                }
                // A range is overfull, so the whole batch was refused and nothing changed.
                Err(UpdateError::Full(_)) => self.undo_ops(ops.len()),
                Err(error) => return Err(BenchError::of(NAME, error)),
            }
        }
        Ok(done as f64 / start.elapsed().as_secs_f64())
    }
}

/// Looks up all names repeatedly for `time`; returns lookups per second. Checks the answers between passes:
/// an altered name has one of two actions, a replaced one any, every other name its own.
fn ask(
    table: &Arc<Othello>,
    (names, change): (&Population, Change),
    time: Duration,
    stop: &AtomicBool,
) -> Result<f64, BenchError> {
    let (mut reader, clock) = (OthelloReader::new(Arc::clone(table)), Clock::chosen());
    let pass = names.len().min(PASS);
    let (mut answers, mut first, mut asked) = (vec![0; pass], 0, 0);
    let (start, mut spent) = (Instant::now(), Duration::ZERO);
    let may_differ = if change == Change::Alter { 1 } else { u16::MAX };
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        let places = first..first + pass;
        let hashes: &[KeyHash] = &names.hashes[places.clone()];
        let begin = clock.now();
        for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            reader.lookup_batch(hashes, answers);
        }
        spent += clock.now().saturating_sub(begin);
        asked += pass;
        for ((&answer, &action), place) in answers.iter().zip(&names.actions[places]).zip(first..) {
            let is_right = (answer ^ action) & !(may_differ * u16::from(place.is_multiple_of(ALTERED))) == 0;
            ensure(is_right, NAME, || format!("{answer} for name {place} beside updates"))?;
        }
        first = if first + 2 * pass <= names.len() { first + pass } else { 0 };
    }
    timing::rate(NAME, asked, spent.as_secs_f64())
}

fn one(
    bench: &mut BenchRun<'_>,
    (names, value_bits): (u64, u8),
    change: Change,
    time: Duration,
) -> Result<(), BenchError> {
    let busy = bench.busy("building");
    let set = Population::of(Kind::Mac, names, value_bits);
    let others = Kind::Mac.hashes(set.len(), set.len().div_ceil(ALTERED));
    let mut live = LiveTable::new(set, change, others)?;
    drop(busy);
    let what = change.name();
    let turns = RATES.map(|rate| {
        let beside = match rate {
            Some(rate) => format!("{VARIANT}{} {what} a second", short_count(rate.into())),
            None => format!("{VARIANT}as many {what} as can be"),
        };
        let rate = rate.map_or(f64::INFINITY, f64::from);
        let case = bench
            .case(NAME, names)
            .format("sharded")
            .variant(beside)
            .value_bits(value_bits)
            .threads(1)
            .batch(BATCH)
            .table_bytes(live.table.stats().table_bytes as u64);
        let limit = case.clone().variant(format!("in turn with updates, {LIMIT}"));
        let alone = case.clone().variant(ALONE.to_owned());
        let rows = vec![
            (limit, Metric::LookupRate),
            (alone.clone(), Metric::LookupRate),
            (alone, Metric::ShareOfLimit),
            (case.clone(), Metric::LookupRate),
            (case.clone(), Metric::ShareOfLimit),
            (case.clone(), Metric::UpdateRate),
            (case, Metric::Loss),
        ];
        Measurement::several(rows, move |live: &mut LiveTable| {
            let limit = live.limit()?;
            let (alone, _) = live.measure(0.0, time)?;
            let (beside, updates) = live.measure(rate, time)?;
            live.check()?;
            let lost = 100.0 * (1.0 - beside / alone);
            Ok(vec![limit, alone, alone / limit, beside, beside / limit, updates, lost].into())
        })
    });
    interleave(bench, &mut live, turns.into())
}

fn show(bench: &mut BenchRun<'_>, rows: &[Row]) {
    // Alone and its share of the limit, beside updates and its share, updates, loss.
    let groups = || {
        rows.windows(6)
            .filter(|of| of[5].metric == Metric::Loss && of[2].case.variant_text().starts_with(VARIANT))
    };
    let sheet = Sheet::new("concise-figure-5", groups())
        .column("names", |of| names(&&of[2]))
        .column("updates", |of| of[2].case.variant_text().trim_start_matches(VARIANT).to_owned())
        .column("paper", |of| paper::beside(of[2].case.keys))
        .column("updates, M/s", |of| millions(&of[4]))
        .column("lookups alone, M/s", |of| millions(&of[0]))
        .column("alone, of the limit", |of| limit::share_text(Some(&of[1])))
        .column("beside them, M/s", |of| millions(&of[2]))
        .column("beside them, of the limit", |of| limit::share_text(Some(&of[3])))
        .column("lost, %", |of| format!("{:.1} ({:.1} to {:.1})", of[5].median, of[5].min, of[5].max));
    bench.add_table(sheet);
    for (name, change) in
        [("concise-figure-5", Change::Alter), ("concise-figure-5-replacing", Change::Replace)]
    {
        let ours = groups().filter(|of| of[2].case.variant_text().contains(change.name()));
        let points = ours.flat_map(|of| {
            [("beside", &of[2]), ("alone", &of[0])].map(|(how, row)| {
                (format!("{} names, {how}", names(&row)), row.point(of[4].median / 1e6, 1e6))
            })
        });
        let (x, y) =
            (("million updates a second", Scale::Linear), ("million lookups a second", Scale::Linear));
        let title = format!("Lookups on one core beside {} on another", change.name());
        bench.add_chart(chart(name, &title, x, y, points));
    }
}

/// States the losses at half a million updates per second.
fn conclude(bench: &mut BenchRun<'_>, rows: &[Row]) {
    let rows = rows.iter().metric(Metric::Loss).filter(|row| row.case.variant_text().contains("500 k"));
    let losses: Vec<String> = rows
        .map(|row| format!("{:.1} % at {} names {}", row.median, names(&row), row.case.variant_text()))
        .collect();
    if !losses.is_empty() {
        let sentence = format!(
            "Lookups lose {}. The paper speaks of a very small drop, and of a negligible one at 4 M names.",
            losses.join(", ")
        );
        bench.add_conclusion("concise-figure-5-conclusion", sentence);
    }
}

#[cfg(test)]
mod tests;
