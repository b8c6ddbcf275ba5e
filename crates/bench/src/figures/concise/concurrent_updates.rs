//! Figure 5: lookups on one core, with and without updates on another core at a given rate. Updates alter
//! actions, or add and delete names.

use super::fibs::BATCH;
use super::{add_point, conclusions, millions, paper};
use crate::error::BenchError;
use crate::limit::{self, LIMIT, Replay};
use crate::names::population::{Kind, Population};
use crate::pin;
use crate::rounds::{Measurement, interleave};
use crate::row::{Metric, Row};
use crate::session::Session;
use crate::structures::{BuildConfig, othello_params};
use crate::timing::{self, Clock};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, PageTable, Scale};
use scalebricks_tables::othello::{Op, Othello, OthelloBuilder, OthelloControl, OthelloReader, UpdateError};
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
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let time = options.pick(Duration::from_millis(60), Duration::from_millis(700));
    let time = options.seconds.map_or(time, Duration::from_secs);
    let bits = options.value_bits(&[8], &[8]);
    for names in options.keys(&[262_144], &[1_000_000, 4_000_000]) {
        if session.fits(names, NAME_BYTES + limit::bytes_per_key(names, 1))? {
            for &value_bits in &bits {
                for change in Change::ALL {
                    one(session, (names, value_bits), change, time)?;
                }
            }
        }
    }
    show(session);
    Ok(())
}

/// A table under updates.
struct LiveTable {
    control: OthelloControl,
    table: Arc<Othello>,
    change: Change,
    /// Names with their initial actions. An altered name has one of two actions.
    names: Population,
    /// A replacement for each name that is replaced.
    others: Vec<KeyHash>,
    /// The number of changes of each changed name, modulo 2.
    flipped: Vec<bool>,
    cursor: usize,
}

impl LiveTable {
    /// Builds the table. `others` are the replacement names.
    fn new(names: Population, change: Change, others: Vec<KeyHash>) -> Result<Self, BenchError> {
        let make = BuildConfig { threads: pin::cores(), ..BuildConfig::table() };
        let params = othello_params(names.len() as u64, names.value_bits, make)?;
        let builder = OthelloBuilder::new(params).threads(make.threads);
        let control = builder.build(&names.pairs()).map_err(|error| BenchError::of(NAME, error))?;
        let table = Arc::new(control.export());
        let flipped = vec![false; names.len().div_ceil(ALTERED)];
        Ok(Self { control, table, change, names, others, flipped, cursor: 0 })
    }

    /// Looks up names for `time` while `rate` updates per second run; returns lookups and updates per second.
    fn measure(&mut self, rate: f64, time: Duration) -> Result<(f64, f64), BenchError> {
        let Self { control, table, change, names, others, flipped, cursor } = self;
        let (change, others) = (*change, &*others);
        let stop = AtomicBool::new(false);
        let panicked = |_| BenchError::Threads("a measuring thread panicked".to_owned());
        let (asked, updated) = std::thread::scope(|scope| {
            let (stop, names, table) = (&stop, &*names, &*table);
            let updater = (rate > 0.0).then(|| {
                scope.spawn(move || {
                    pin::to_core(1);
                    let mut ops = Ops { change, names, others, flipped, cursor };
                    let done = update(control, table, &mut ops, rate, stop);
                    // Otherwise the reader would wait forever for a failed updater.
                    done.inspect_err(|_| stop.store(true, Ordering::Relaxed))
                })
            });
            let reader = scope.spawn(move || {
                pin::to_core(0);
                let asked = ask(table, (names, change), time, stop);
                stop.store(true, Ordering::Relaxed);
                asked
            });
            let asked = reader.join().map_err(panicked);
            let updated = updater.map_or(Ok(Ok(0.0)), |thread| thread.join().map_err(panicked));
            (asked, updated)
        });
        Ok((asked??, updated??))
    }

    /// Lookups per second that the memory allows. Replays the first names anew, because updates have changed
    /// what lookups read.
    fn limit(&self) -> Result<f64, BenchError> {
        let names = &self.names.hashes[..self.names.len().min(limit::MAX_QUERIES)];
        let replay = Replay::record(&self.table, names.len(), |table, visit| {
            let mut reader = OthelloReader::new(Arc::clone(table));
            let pin = reader.pin();
            names.iter().enumerate().for_each(|(place, &name)| pin.touched(name, &mut |at| visit(place, at)));
        });
        let replay =
            replay.ok_or_else(|| BenchError::check(NAME, "it does not report which memory it reads"))?;
        replay.rate(LEAST_REPLAYED.div_ceil(names.len()), BATCH, 1)
    }

    /// Looks up all current names, whose actions are known while nothing changes.
    fn check(&self) -> Result<(), BenchError> {
        let mut held = self.names.hashes.clone();
        let is_flipped = |place: usize| place.is_multiple_of(ALTERED) && self.flipped[place / ALTERED];
        if self.change == Change::Replace {
            for place in (0..held.len()).filter(|&place| is_flipped(place)) {
                held[place] = self.others[place / ALTERED];
            }
        }
        let mut answers = vec![0; held.len()];
        OthelloReader::new(Arc::clone(&self.table)).lookup_batch(&held, &mut answers);
        for (place, (&answer, &action)) in answers.iter().zip(&self.names.actions).enumerate() {
            let is_altered = self.change == Change::Alter && is_flipped(place);
            if answer != action ^ u16::from(is_altered) {
                return Err(BenchError::check(NAME, format!("{answer} for name {place} after all updates")));
            }
        }
        Ok(())
    }
}

/// Generates updates, one position after the other.
struct Ops<'a> {
    change: Change,
    names: &'a Population,
    others: &'a [KeyHash],
    flipped: &'a mut [bool],
    cursor: &'a mut usize,
}

impl Ops<'_> {
    /// Appends the updates of the next position.
    fn push(&mut self, ops: &mut Vec<Op>) {
        let place = *self.cursor;
        *self.cursor = if place + 1 < self.flipped.len() { place + 1 } else { 0 };
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
    fn undo(&mut self, ops: usize) {
        let places = if self.change == Change::Alter { ops } else { ops / 2 };
        for back in 1..=places {
            let place = (*self.cursor + self.flipped.len() - back) % self.flipped.len();
            self.flipped[place] = !self.flipped[place];
        }
    }
}

/// Applies updates at no more than `rate` per second until stopped; returns updates per second.
fn update(
    control: &mut OthelloControl,
    table: &Othello,
    changes: &mut Ops<'_>,
    rate: f64,
    stop: &AtomicBool,
) -> Result<f64, BenchError> {
    let start = Instant::now();
    let (mut done, mut ops) = (0_usize, Vec::with_capacity(AT_ONCE));
    while !stop.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * rate - done as f64)
            .min(AT_ONCE.min(changes.flipped.len()) as f64);
        ops.clear();
        while (ops.len() as f64) < due {
            changes.push(&mut ops);
        }
        if ops.is_empty() {
            // A thread that waits for messages sleeps too. A spinning thread would slow the other thread of
            // the same physical core.
            std::thread::sleep(PAUSE);
            continue;
        }
        match control.batch(&ops) {
            Ok(deltas) => {
                for delta in deltas {
                    let _ = table.apply(&delta).map_err(|error| BenchError::of(NAME, error))?;
                }
                done += ops.len();
            }
            // A range is overfull, so the whole batch was refused and nothing changed.
            Err(UpdateError::Full(_)) => changes.undo(ops.len()),
            Err(error) => return Err(BenchError::of(NAME, error)),
        }
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
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
            let may_differ = match change {
                Change::Alter => 1,
                Change::Replace => u16::MAX,
            };
            if (answer ^ action) & !(may_differ * u16::from(place.is_multiple_of(ALTERED))) != 0 {
                return Err(BenchError::check(NAME, format!("{answer} for name {place} beside updates")));
            }
        }
        first = if first + 2 * pass <= names.len() { first + pass } else { 0 };
    }
    timing::rate(NAME, asked, spent.as_secs_f64())
}

fn one(
    session: &mut Session<'_>,
    (names, value_bits): (u64, u8),
    change: Change,
    time: Duration,
) -> Result<(), BenchError> {
    let busy = session.busy("building");
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
        let case = session
            .case(NAME, names)
            .format("sharded")
            .variant(beside)
            .value_bits(value_bits)
            .threads(1)
            .batch(BATCH)
            .table_bytes(live.table.stats().table_bytes as u64);
        let named = |variant: String| case.clone().variant(variant);
        let (limit, alone) = (named(format!("in turn with updates, {LIMIT}")), named(ALONE.to_owned()));
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
            let figures = vec![limit, alone, alone / limit, beside, beside / limit, updates, lost];
            Ok(figures.into())
        })
    });
    interleave(session, &mut live, turns.into())
}

fn show(session: &mut Session<'_>) {
    let heads = [
        "names",
        "updates",
        "paper",
        "updates, M/s",
        "lookups alone, M/s",
        "alone, of the limit",
        "beside them, M/s",
        "beside them, of the limit",
        "lost, %",
    ];
    let mut sheet = PageTable::new("concise-figure-5", &heads);
    let chart = |name, change: Change| {
        let across = ("million updates a second", Scale::Linear);
        let title = format!("Lookups on one core beside {} on another", change.name());
        Chart::new(name, &title, across, ("million lookups a second", Scale::Linear))
    };
    let mut charts =
        [chart("concise-figure-5", Change::Alter), chart("concise-figure-5-replacing", Change::Replace)];
    let rows: Vec<Row> = session.rows().to_vec();
    for turn in rows.windows(6) {
        let [alone, alone_share, beside, share, updates, loss] = turn else { continue };
        let variant = beside.case.variant_text();
        let Some(variant) = variant.strip_prefix(VARIANT) else { continue };
        if loss.metric != Metric::Loss || beside.metric != Metric::LookupRate {
            continue;
        }
        sheet.rows.push(vec![
            short_count(beside.case.keys),
            variant.to_owned(),
            paper::beside(beside.case.keys).to_owned(),
            millions(&updates.summary()),
            millions(&alone.summary()),
            limit::share_text(Some(alone_share)),
            millions(&beside.summary()),
            limit::share_text(Some(share)),
            format!("{:.1} ({:.1} to {:.1})", loss.median, loss.min, loss.max),
        ]);
        let names = short_count(beside.case.keys);
        let chart = &mut charts[usize::from(variant.contains(Change::Replace.name()))];
        add_point(chart, &format!("{names} names, beside"), updates.median / 1e6, beside, 1e6);
        add_point(chart, &format!("{names} names, alone"), updates.median / 1e6, alone, 1e6);
    }
    session.add_table(sheet);
    for chart in charts {
        session.add_chart(chart);
    }
    conclusions::concurrent_updates(session, &rows);
}

#[cfg(test)]
mod tests;
