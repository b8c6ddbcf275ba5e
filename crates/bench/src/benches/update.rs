//! `setsep-update`: value changes, inserts and deletes, from the owner to a live table with a concurrent
//! reader.

use super::live_table::{LiveTable, Pace, Scope};
use super::{reshape, turnover};
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::pin;
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric};
use crate::session::Session;
use crate::structures::{BuildConfig, Structure};
use scalebricks_report::stats::Summary;
use scalebricks_tables::setsep::{SetSep, SetSepReader};
use scalebricks_types::KeyHash;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes per key for keys, queries, the reader's copy, building and control structure.
const KEY_BYTES: u64 = 18 + 8 + 40 + 16;

/// One key in this many is changed per run.
const SHARE: usize = 16;

/// Default operations per batch.
const BATCH: usize = 1 << 16;

/// Operations per batch for wholesale changes of a large table.
const LARGE_BATCH: usize = 1 << 20;

/// Keys per call of the reader.
const READER_BATCH: usize = 64;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    if options.structures(&[Structure::SetSep]).is_empty() {
        return Ok(());
    }
    for keys in options.keys(&[1_000_000], &[1_000_000, 16_000_000]) {
        if !session.fits(keys, KEY_BYTES)? {
            continue;
        }
        for value_bits in options.value_bits(&[2], &[2]) {
            for format in options.formats() {
                for isa in options.isas() {
                    let make = BuildConfig { format, isa, threads: pin::cores(), ..BuildConfig::table() };
                    one(session, keys, value_bits, make)?;
                    turnover::run(session, keys, value_bits, make)?;
                    reshape::run(session, keys, value_bits, make)?;
                    reshape::grow(session, keys, value_bits, make)?;
                }
            }
        }
    }
    Ok(())
}

/// Measures one table.
fn one(session: &mut Session<'_>, keys: u64, value_bits: u8, make: BuildConfig) -> Result<(), BenchError> {
    let busy = session.busy("building");
    let set = KeySet::new(keys, value_bits);
    let asked = set.queries.clone();
    let mut live = LiveTable::new(set, make)?;
    drop(busy);
    let case = session
        .case(super::live_table::NAME, keys)
        .format(make.format.name())
        .variant(make.isa.to_string())
        .value_bits(value_bits)
        .threads(1)
        .table_bytes(live.table().stats().table_bytes as u64);
    let turns = turns(session, &case, live.set().len());
    let stop = AtomicBool::new(false);
    let table = Arc::clone(live.table());
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(table, &asked, &stop));
        let done = interleave(session, &mut live, turns);
        stop.store(true, Ordering::Relaxed);
        let read = reader
            .join()
            .map_err(|_| BenchError::check(super::live_table::NAME, "the reader thread panicked"));
        done.and(read)
    })?;
    live.check()?;
    let variant = Some(format!("{}, beside updates", make.isa));
    let case = case.variant(variant).batch(READER_BATCH);
    session.add(case, Metric::LookupRate, Summary::of(&read));
    Ok(())
}

/// All measurements of one table.
fn turns<'a>(session: &Session<'_>, case: &Case, keys: usize) -> Vec<Measurement<'a, LiveTable>> {
    let options = session.options();
    let at_most = |limit: usize| (keys / SHARE).clamp(1, limit);
    let mut paces = vec![Pace::Single];
    paces.extend(
        options
            .batches(options.pick(&[BATCH][..], &[BATCH, LARGE_BATCH]))
            .into_iter()
            .filter(|&batch| batch > 1)
            .map(Pace::Batched),
    );
    let mut turns = Vec::new();
    for pace in paces {
        for scope in [Scope::All, Scope::Own, Scope::Owner] {
            if (pace, scope) == (Pace::Single, Scope::Own) {
                continue; // single operations have no such call
            }
            let (name, count) = match pace {
                Pace::Single => ("single", at_most(options.pick(BATCH / 8, BATCH))),
                Pace::Batched(batch) => ("batched", at_most(batch.max(options.pick(BATCH, 2 * BATCH)))),
            };
            let batch = match pace {
                Pace::Single => 1,
                Pace::Batched(batch) => batch.min(count),
            };
            let isa = case.variant_text();
            let alone = match scope {
                Scope::All => "",
                Scope::Own => ", own table",
                Scope::Owner => ", owner alone",
            };
            let variant = format!("{isa}, {name}{alone}");
            let case = case.clone().variant(variant).batch(batch);
            turns.push(Measurement::new(case.clone(), Metric::UpdateRate, move |live: &mut LiveTable| {
                let places = live.window(count);
                let ops = live.changes(places);
                Ok(live.perform(&ops, pace, scope)?.into())
            }));
            let rows = vec![(case.clone(), Metric::DeleteRate), (case, Metric::InsertRate)];
            turns.push(Measurement::several(rows, move |live: &mut LiveTable| {
                let places = live.window(count);
                let ops = live.removals(places.clone());
                let deleting = live.perform(&ops, pace, scope)?;
                let ops = live.insertions(places);
                let inserting = live.perform(&ops, pace, scope)?;
                Ok(vec![deleting, inserting].into())
            }));
        }
    }
    turns
}

/// Looks up keys until stopped; returns keys per second for each complete pass.
fn read(table: Arc<SetSep>, asked: &[KeyHash], stop: &AtomicBool) -> Vec<f64> {
    pin::to_core(1);
    let mut reader = SetSepReader::new(table);
    let (mut answers, mut rates) = ([0; READER_BATCH], Vec::new());
    loop {
        let start = Instant::now();
        for hashes in asked.chunks(READER_BATCH) {
            reader.lookup_batch(hashes, &mut answers[..hashes.len()]);
            black_box(&answers);
            if stop.load(Ordering::Relaxed) {
                return rates;
            }
        }
        rates.push(asked.len() as f64 / start.elapsed().as_secs_f64());
    }
}
