//! Reshapes a table in use: twice the blocks, another seed, one more value bit. Also grows a table from
//! nothing, key by key, which doubles as it grows.

use super::live_table::{LiveTable, NAME};
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::row::{Case, Metric};
use crate::session::Session;
use crate::structures::{BuildConfig, params};
use scalebricks_report::stats::Summary;
use scalebricks_tables::setsep::{Format, Params};

/// Blocks converted by one delta.
const STEP: u32 = 16;

/// Keys a growing table is made for.
const FIRST: u64 = 1000;

/// Maximum keys of a growing table in other than the default format.
const MOST: u64 = 1_000_000;

/// What changes.
#[derive(Debug, Clone, Copy)]
enum Change {
    Blocks,
    Seed,
    ValueBits,
}

impl Change {
    const ALL: [Self; 3] = [Self::Blocks, Self::Seed, Self::ValueBits];

    const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "twice the blocks",
            Self::Seed => "another seed",
            Self::ValueBits => "one value bit more",
        }
    }

    /// The parameters after the change, if valid.
    fn of(self, from: Params, keys: u64, make: BuildConfig) -> Option<Params> {
        match self {
            Self::Blocks => from.with_blocks(from.blocks() * 2).ok(),
            Self::Seed => Some(from.with_seed(from.seed() + 1)),
            Self::ValueBits => {
                let more = params(keys, from.value_bits() + 1, make).ok()?;
                more.with_blocks(from.blocks()).ok()
            }
        }
    }
}

/// Reshapes a table; the rate in keys per second covers the owner's and the table's work. Each run uses a new
/// table and looks up every key at the end.
///
/// # Errors
/// [`BenchError::Wrong`] for any wrong answer.
pub fn run(
    session: &mut Session<'_>,
    keys: u64,
    value_bits: u8,
    make: BuildConfig,
) -> Result<(), BenchError> {
    let runs = session.options().pick(1, 3);
    let mut figures = [const { Vec::new() }; Change::ALL.len()];
    let mut bytes = [None; Change::ALL.len()];
    let bar = session.progress(runs * Change::ALL.len());
    for _ in 0..runs {
        for (change, (figures, bytes)) in Change::ALL.into_iter().zip(figures.iter_mut().zip(&mut bytes)) {
            session.check()?;
            let mut live = LiveTable::new(KeySet::new(keys, value_bits), make)?;
            if let Some(to) = change.of(live.table().params(), keys, make) {
                figures.push(live.reshape(to, STEP)?);
                live.check()?;
                *bytes = Some(live.table().stats().table_bytes as u64);
            }
            bar.add(1);
        }
    }
    bar.finish();
    for (change, (figures, bytes)) in Change::ALL.into_iter().zip(figures.iter().zip(bytes)) {
        let variant = Some(format!("{}, reshaped: {}", make.isa, change.name()));
        let case = case(session, keys, value_bits, make).variant(variant).table_bytes(bytes);
        session.add(case, Metric::BuildRate, Summary::of(figures));
    }
    Ok(())
}

/// Grows a table to `keys` keys one by one with maintenance after each; measures inserts per second.
///
/// # Errors
/// [`BenchError::Wrong`] for any wrong answer.
pub fn grow(
    session: &mut Session<'_>,
    keys: u64,
    value_bits: u8,
    make: BuildConfig,
) -> Result<(), BenchError> {
    let most = if make.format == Format::default() { keys } else { MOST };
    let keys = keys.min(session.options().pick(MOST / 4, most));
    let busy = session.busy("growing");
    let (mut rates, mut bytes) = (Vec::new(), 0);
    for _ in 0..session.options().pick(1, 3) {
        let mut live = LiveTable::empty(value_bits, BuildConfig { threads: 1, ..make }, FIRST)?;
        rates.push(live.grow(keys, || session.check())?);
        live.check()?;
        bytes = live.table().stats().table_bytes as u64;
    }
    drop(busy);
    let variant = Some(format!("{}, single, growing from nothing", make.isa));
    let case = case(session, keys, value_bits, make).variant(variant).batch(1).table_bytes(bytes);
    session.add(case, Metric::InsertRate, Summary::of(&rates));
    Ok(())
}

fn case(session: &Session<'_>, keys: u64, value_bits: u8, make: BuildConfig) -> Case {
    session.case(NAME, keys).format(make.format.name()).value_bits(value_bits).threads(1)
}
