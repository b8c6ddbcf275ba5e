//! Replaces all keys of a table ten times and checks every answer each time.

use super::live_table::{LiveTable, NAME, Pace, Scope};
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::row::Metric;
use crate::session::Session;
use crate::structures::BuildConfig;
use scalebricks_report::stats::Summary;

/// Number of turnovers.
const TURNOVERS: usize = 10;

/// Keys removed and inserted at once.
const BATCH: usize = 4096;

/// Replaces all keys of a table of at most `keys` keys ten times. The rate of deletes and inserts of each
/// turnover is one run.
///
/// # Errors
/// [`BenchError::Wrong`] for any wrong answer.
pub fn run(
    session: &mut Session<'_>,
    keys: u64,
    value_bits: u8,
    make: BuildConfig,
) -> Result<(), BenchError> {
    let keys = keys.min(session.options().pick(50_000, 1_000_000));
    let mut live = LiveTable::new(KeySet::new(keys, value_bits), make)?;
    let bar = session.progress(TURNOVERS);
    let mut figures = Vec::new();
    for _ in 0..TURNOVERS {
        session.check()?;
        figures.push(turn(&mut live)?);
        live.check()?;
        bar.add(1);
    }
    bar.finish();
    let case = session
        .case(NAME, keys)
        .format(make.format.name())
        .variant(format!("{}, turnover", make.isa))
        .value_bits(value_bits)
        .threads(1)
        .batch(BATCH)
        .table_bytes(live.table().stats().table_bytes as u64);
    session.add(case, Metric::UpdateRate, Summary::of(&figures));
    Ok(())
}

/// Replaces all keys once; returns operations per second.
fn turn(live: &mut LiveTable) -> Result<f64, BenchError> {
    let keys = live.set().len();
    let mut seconds = 0.0;
    for from in (0..keys).step_by(BATCH) {
        let places = from..(from + BATCH).min(keys);
        let count = places.len() as f64;
        let ops = live.removals(places.clone());
        seconds += count / live.perform(&ops, Pace::Batched(BATCH), Scope::All)?;
        let ops = live.insertions(places);
        seconds += count / live.perform(&ops, Pace::Batched(BATCH), Scope::All)?;
    }
    Ok(2.0 * keys as f64 / seconds)
}
