//! `setsep-update` and `othello-update`: value changes, inserts and deletes, from the owner to a live table;
//! of SetSep with a concurrent reader, and also full turnovers.

use super::live_table::{LiveTable, Scope};
use super::reshape;
use crate::bench_run::BenchRun;
use crate::error::{BenchError, joined};
use crate::keys::KeySet;
use crate::pin;
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric};
use crate::structures::{BuildConfig, Compact, Othello, SetSep, Structure};
use scalebricks_report::stats::Summary;
use scalebricks_tables::othello::Sizing;
use scalebricks_tables::setsep::SetSepReader;
use scalebricks_types::KeyHash;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes per key for keys, queries, the reader's copy, building and control structure: SetSep, Othello.
const KEY_BYTES: [u64; 2] = [18 + 8 + 40 + 16, 18 + 16 + 90];

/// One key in this many is changed per run.
const SHARE: usize = 16;

/// Default operations per batch.
const BATCH: usize = 1 << 16;

/// Operations per batch for wholesale changes of a large table.
const LARGE_BATCH: usize = 1 << 20;

/// Keys per call of the reader.
const READER_BATCH: usize = 64;

/// Number of turnovers, and the keys removed and inserted at once.
const TURNOVERS: usize = 10;
const TURNOVER_BATCH: usize = 4096;

/// Runs `setsep-update`.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn setsep(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    for (keys, value_bits) in sizes(bench, Structure::SetSep, KEY_BYTES[0])? {
        for format in options.formats() {
            for isa in options.isas() {
                let make = BuildConfig { format, isa, threads: pin::cores(), ..BuildConfig::table() };
                one_setsep(bench, keys, value_bits, make)?;
                turnovers(bench, keys, value_bits, make)?;
                reshape::run(bench, keys, value_bits, make)?;
                reshape::grow(bench, keys, value_bits, make)?;
            }
        }
    }
    Ok(())
}

/// Runs `othello-update`.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn othello(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    for (keys, value_bits) in sizes(bench, Structure::Othello, KEY_BYTES[1])? {
        for sizing in Sizing::ALL {
            one_othello(bench, keys, value_bits, sizing)?;
        }
    }
    Ok(())
}

/// The numbers of keys and value bits to measure, if the structure is wanted.
fn sizes(bench: &BenchRun<'_>, structure: Structure, key_bytes: u64) -> Result<Vec<(u64, u8)>, BenchError> {
    if bench.options.structures(&[structure]).is_empty() {
        return Ok(Vec::new());
    }
    let bits = bench.options.value_bits(&[2], &[2]);
    let keys = bench.sizes(&[1_000_000], &[1_000_000, 16_000_000], key_bytes)?;
    Ok(keys.into_iter().flat_map(|keys| bits.iter().map(move |&bits| (keys, bits))).collect())
}

fn one_setsep(
    bench: &mut BenchRun<'_>,
    keys: u64,
    value_bits: u8,
    make: BuildConfig,
) -> Result<(), BenchError> {
    let busy = bench.busy("building");
    let set = KeySet::new(keys, value_bits);
    let queries = set.queries.clone();
    let mut live = LiveTable::<SetSep>::new(set, make)?;
    drop(busy);
    let case = reshape::case(bench, keys, value_bits, make)
        .variant(make.isa.to_string())
        .table_bytes(live.table_bytes());
    let turns = turns(bench, &case, live.set().len());
    let (stop, reader) = (AtomicBool::new(false), SetSepReader::new(live.table()));
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(reader, &queries, &stop));
        let done = interleave(bench, &mut live, turns);
        stop.store(true, Ordering::Relaxed);
        done.and(joined(reader.join()))
    })?;
    live.check()?;
    let case = case.variant(format!("{}, beside updates", make.isa)).batch(READER_BATCH);
    bench.add(case, Metric::LookupRate, Summary::of(&read));
    Ok(())
}

/// All measurements of one SetSep table.
fn turns<'a>(bench: &BenchRun<'_>, case: &Case, keys: usize) -> Vec<Measurement<'a, LiveTable<SetSep>>> {
    let options = bench.options;
    let at_most = |limit: usize| (keys / SHARE).clamp(1, limit);
    let mut batches = options.batches(options.pick(&[BATCH][..], &[BATCH, LARGE_BATCH]));
    batches.retain(|&batch| batch > 1);
    let mut turns = Vec::new();
    for batch in std::iter::once(1).chain(batches) {
        let (name, count) = match batch {
            1 => ("single", at_most(options.pick(BATCH / 8, BATCH))),
            _ => ("batched", at_most(batch.max(options.pick(BATCH, 2 * BATCH)))),
        };
        for scope in [Scope::All, Scope::Own, Scope::Owner] {
            let variant = format!("{}, {name}{}", case.variant_text(), scope.suffix());
            let case = case.clone().variant(variant).batch(batch.min(count));
            turns.extend(LiveTable::turns(case, count, batch, scope));
        }
    }
    turns
}

/// Looks up keys until stopped; returns keys per second for each complete pass.
fn read(mut reader: SetSepReader, queries: &[KeyHash], stop: &AtomicBool) -> Vec<f64> {
    pin::to_core(1);
    let (mut answers, mut rates) = ([0; READER_BATCH], Vec::new());
    loop {
        let start = Instant::now();
        for hashes in queries.chunks(READER_BATCH) {
            reader.lookup_batch(hashes, &mut answers[..hashes.len()]);
            black_box(&answers);
            if stop.load(Ordering::Relaxed) {
                return rates;
            }
        }
        rates.push(queries.len() as f64 / start.elapsed().as_secs_f64());
    }
}

/// Replaces all keys of a table of at most `keys` keys ten times, and checks every answer each time. The rate of
/// deletes and inserts of each turnover is one run.
fn turnovers(
    bench: &mut BenchRun<'_>,
    keys: u64,
    value_bits: u8,
    make: BuildConfig,
) -> Result<(), BenchError> {
    let keys = keys.min(bench.options.pick(50_000, 1_000_000));
    let mut live = LiveTable::<SetSep>::new(KeySet::new(keys, value_bits), make)?;
    let bar = bench.progress(TURNOVERS);
    let mut figures = Vec::new();
    for _ in 0..TURNOVERS {
        bench.check()?;
        figures.push(live.replace_all(TURNOVER_BATCH)?);
        live.check()?;
        bar.add(1);
    }
    bar.finish();
    let case = reshape::case(bench, keys, value_bits, make)
        .variant(format!("{}, turnover", make.isa))
        .batch(TURNOVER_BATCH)
        .table_bytes(live.table_bytes());
    bench.add(case, Metric::UpdateRate, Summary::of(&figures));
    Ok(())
}

fn one_othello(
    bench: &mut BenchRun<'_>,
    keys: u64,
    value_bits: u8,
    sizing: Sizing,
) -> Result<(), BenchError> {
    let make = BuildConfig { sizing, threads: pin::cores(), ..BuildConfig::table() };
    let busy = bench.busy("building");
    let mut live = LiveTable::<Othello>::new(KeySet::new(keys, value_bits), make)?;
    drop(busy);
    let stats = live.table().stats();
    let case = bench
        .case(Othello::NAME, keys)
        .format(sizing.name())
        .value_bits(value_bits)
        .threads(1)
        .table_bytes(stats.table_bytes as u64);
    bench.add_exact(case.clone(), Metric::BitsPerKey, stats.bits_per_key(keys));
    let count = (live.set().len() / SHARE).clamp(1, BATCH);
    let scopes = if sizing == Sizing::Sharded { &[Scope::All, Scope::Own][..] } else { &[Scope::Owner] };
    let mut turns = Vec::new();
    for (name, batch) in [("single", 1), ("batched", BATCH)] {
        for &scope in scopes {
            let case = case.clone().variant(format!("{name}{}", scope.suffix())).batch(batch);
            turns.extend(LiveTable::turns(case, count, batch, scope));
        }
    }
    interleave(bench, &mut live, turns)?;
    live.check()
}
