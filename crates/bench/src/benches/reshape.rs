//! Reshapes a table in use: twice the blocks, another seed, one more value bit. Also grows a table from
//! nothing, key by key, which doubles as it grows.

use super::live_table::LiveTable;
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::row::{Case, Metric};
use crate::structures::{BuildConfig, Compact, SetSep};
use scalebricks_report::stats::Summary;
use scalebricks_tables::setsep::{Format, Params};

/// Blocks converted by one delta.
const STEP: u32 = 16;

/// Keys a growing table is made for.
const FIRST: u64 = 1000;

/// Maximum keys of a growing table in other than the default format.
const MOST: u64 = 1_000_000;

/// The parameters after a change, if valid.
type Change = fn(Params, u64, BuildConfig) -> Option<Params>;

/// The changes of shape.
const CHANGES: [(&str, Change); 3] = [
    ("twice the blocks", |from, _, _| from.with_blocks(from.blocks() * 2).ok()),
    ("another seed", |from, _, _| Some(from.with_seed(from.seed() + 1))),
    ("one value bit more", |from, keys, make| {
        SetSep::params(keys, from.value_bits() + 1, make).ok()?.with_blocks(from.blocks()).ok()
    }),
];

/// Reshapes a table; the rate in keys per second covers the owner's and the table's work. Each run uses a new
/// table and looks up every key at the end.
///
/// # Errors
/// [`BenchError::Wrong`] for any wrong answer.
pub fn run(bench: &mut BenchRun<'_>, keys: u64, value_bits: u8, make: BuildConfig) -> Result<(), BenchError> {
    let runs = bench.options.pick(1, 3);
    let mut found = [const { (Vec::new(), None) }; CHANGES.len()];
    let bar = bench.progress(runs * CHANGES.len());
    for _ in 0..runs {
        for ((_, change), (figures, bytes)) in CHANGES.into_iter().zip(&mut found) {
            bench.check()?;
            let mut live = LiveTable::<SetSep>::new(KeySet::new(keys, value_bits), make)?;
            if let Some(to) = change(live.params(), keys, make) {
                figures.push(live.reshape(to, STEP)?);
                live.check()?;
                *bytes = Some(live.table_bytes());
            }
            bar.add(1);
        }
    }
    bar.finish();
    for ((name, _), (figures, bytes)) in CHANGES.into_iter().zip(found) {
        let variant = format!("{}, reshaped: {name}", make.isa);
        let case = case(bench, keys, value_bits, make).variant(variant).table_bytes(bytes);
        bench.add(case, Metric::BuildRate, Summary::of(&figures));
    }
    Ok(())
}

/// Grows a table to `keys` keys one by one with maintenance after each; measures inserts per second.
///
/// # Errors
/// [`BenchError::Wrong`] for any wrong answer.
pub fn grow(
    bench: &mut BenchRun<'_>,
    keys: u64,
    value_bits: u8,
    make: BuildConfig,
) -> Result<(), BenchError> {
    let most = if make.format == Format::default() { keys } else { MOST };
    let keys = keys.min(bench.options.pick(MOST / 4, most));
    let busy = bench.busy("growing");
    let (mut rates, mut bytes) = (Vec::new(), 0);
    for _ in 0..bench.options.pick(1, 3) {
        let mut live = LiveTable::empty(value_bits, BuildConfig { threads: 1, ..make }, FIRST)?;
        rates.push(live.grow(keys, || bench.check())?);
        live.check()?;
        bytes = live.table_bytes();
    }
    drop(busy);
    let variant = format!("{}, single, growing from nothing", make.isa);
    let case = case(bench, keys, value_bits, make).variant(variant).batch(1).table_bytes(bytes);
    bench.add(case, Metric::InsertRate, Summary::of(&rates));
    Ok(())
}

/// A case of SetSep with one thread.
pub fn case(bench: &BenchRun<'_>, keys: u64, value_bits: u8, make: BuildConfig) -> Case {
    bench.case(SetSep::NAME, keys).format(make.format.name()).value_bits(value_bits).threads(1)
}
