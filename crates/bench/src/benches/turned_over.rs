//! `turned-over`: looks up every key in tables all of whose values were changed, so that their blocks and ranges lie in
//! any order. Beside them an Othello of as many bytes as SetSep, and one with checksums beside one of as many bytes
//! without.

use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::limit::{self, Lookups};
use crate::pin;
use crate::rounds::interleave;
use crate::row::Case;
use crate::structures::{
    BuildConfig, Checked, Compact, CompactTable, KeyForms, LookupMode, Othello, SetSep, Structure, Table,
    turned_over, without_checks,
};

/// Its name.
pub const TURNED_OVER: &str = "turned-over";

/// Bits of the checksums.
pub const CHECK_BITS: u8 = 8;

/// How lookups are named that compare checksums.
pub const CHECKED: &str = "checked";

/// Bytes per key for two sets of keys, queries and answers, and for the tables.
const KEY_BYTES: u64 = 2 * 18 + 6;

/// Bytes per key while a table is changed: its owner's structure, and the keys that it is built from.
const CHANGED_BYTES: u64 = 80 + 16;

/// Number of tables.
const TABLES: usize = 5;

/// Default keys per call.
const BATCHES: [usize; 2] = [64, 1024];

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let wanted = options.structures(&[Structure::SetSep, Structure::Othello]);
    for keys in options.keys(&[1_000_000], &[1_000_000, 16_000_000, 64_000_000]) {
        let bytes = KEY_BYTES + CHANGED_BYTES + limit::bytes_per_key(keys, TABLES);
        if wanted.len() == 2 && bench.fits(keys, bytes)? {
            for value_bits in options.value_bits(&[2], &[2]) {
                one(bench, keys, value_bits)?;
            }
        }
    }
    Ok(())
}

/// A table that is measured.
struct Asked<'k> {
    case: Case,
    table: Box<dyn Table>,
    /// Its keys.
    set: &'k KeySet,
    /// How its batched lookups are named, if not by their kernel alone.
    name: Option<&'static str>,
}

/// Measures one table size.
fn one(bench: &mut BenchRun<'_>, keys: u64, value_bits: u8) -> Result<(), BenchError> {
    let options = bench.options;
    let busy = bench.busy("making keys and tables, and changing every value");
    let make = BuildConfig { threads: pin::cores(), ..BuildConfig::table() };
    let set = KeySet::new(keys, value_bits);
    let setsep = changed::<SetSep>(bench, &set, make)?;
    let othello = changed::<Othello>(bench, &set, make)?;
    // Othello's bytes are proportional to its keys.
    let as_many_bytes =
        u128::from(keys) * u128::from(setsep.table_bytes()) / u128::from(othello.table_bytes().max(1));
    let fewer = KeySet::new((as_many_bytes as u64).clamp(1, keys), value_bits); // a small SetSep is mostly spare blocks
    let small = changed::<Othello>(bench, &fewer, make)?;
    let plain = without_checks(&set, value_bits + CHECK_BITS, make)?;
    let checked = Checked::build(&set, value_bits, CHECK_BITS, make)?;
    let [linear, sharded] =
        [(Structure::SetSep, make.format.name()), (Structure::Othello, make.sizing.name())];
    let asked =
        |(structure, format): (Structure, &'static str), set, bits: u8, table: Box<dyn Table>| Asked {
            case: bench
                .case(structure.name(), KeySet::len(set) as u64)
                .format(format)
                .value_bits(bits)
                .threads(1)
                .variant(make.isa.to_string())
                .table_bytes(table.table_bytes()),
            table,
            set,
            name: None,
        };
    let tables: [Asked<'_>; TABLES] = [
        asked(linear, &set, value_bits, Box::new(setsep)),
        asked(sharded, &set, value_bits, Box::new(othello)),
        asked(sharded, &fewer, value_bits, Box::new(small)),
        asked(sharded, &set, value_bits + CHECK_BITS, Box::new(plain)),
        Asked { name: Some(CHECKED), ..asked(sharded, &set, value_bits, Box::new(checked)) },
    ];
    drop(busy);
    let forms = KeyForms::default();
    let limits: Vec<Lookups<'_>> =
        tables.iter().map(|asked| Lookups::of(asked.table.as_ref(), asked.set, &forms)).collect();
    let mut batches = options.batches(&BATCHES);
    batches.retain(|&batch| batch > 1);
    let turns = tables.iter().zip(&limits).flat_map(|(asked, limits)| {
        let turns = |&batch| limits.turns(&asked.case, asked.name, LookupMode::Batch(batch));
        batches.iter().flat_map(turns)
    });
    let turns = turns.collect();
    interleave(bench, &mut vec![0; set.len()], turns)
}

fn changed<C: Compact>(
    bench: &BenchRun<'_>,
    set: &KeySet,
    make: BuildConfig,
) -> Result<CompactTable<C>, BenchError> {
    turned_over(set, make, || bench.check())
}
