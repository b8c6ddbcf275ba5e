//! `setsep-lookup`: looks up every key once.

use super::build::{built, formats};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::limit::{self, Lookups};
use crate::pin;
use crate::rounds::interleave;
use crate::row::{Case, Metric};
use crate::structures::{BATCHES, BuildConfig, KeyForms, Structure, Table, noted, with_pages};

/// Bytes per key for keys, queries, answers and flows.
const KEY_BYTES: u64 = 24 + 48;

/// Bytes per key of the retained tables together.
const TABLE_BYTES: u64 = 36 + 28 + 36;

/// Approximate number of our tables: six formats, four sizings, and two exact ones.
const TABLES: usize = 12;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let structures = options.structures(&Structure::built_in());
    let most = structures.iter().map(|s| s.building_bytes_per_key()).max().unwrap_or(0);
    let mut sizes = Vec::new();
    for keys in options.keys(&[1_000_000, 4_000_000], &[1_000_000, 16_000_000, 64_000_000]) {
        if bench.fits(keys, KEY_BYTES + TABLE_BYTES + most + limit::bytes_per_key(keys, TABLES))? {
            sizes.push(keys);
        }
    }
    Structure::start(&structures, &sizes)?;
    for keys in sizes {
        for value_bits in options.value_bits(&[2], &[2]) {
            one(bench, keys, value_bits, &structures)?;
        }
    }
    Ok(())
}

/// Measures one table size.
fn one(
    bench: &mut BenchRun<'_>,
    keys: u64,
    value_bits: u8,
    structures: &[Structure],
) -> Result<(), BenchError> {
    let options = bench.options;
    let busy = bench.busy("making keys and tables");
    let set = KeySet::new(keys, value_bits);
    let tables = tables(bench, &set, structures)?;
    let forms = KeyForms::of(&set, tables.iter().map(|(.., table)| table.form()));
    let limits: Vec<Lookups<'_>> =
        tables.iter().map(|(.., table)| Lookups::of(table.as_ref(), &set, &forms)).collect();
    drop(busy);
    let mut turns = Vec::new();
    for ((structure, case, _), limits) in tables.iter().zip(&limits) {
        for threads in options.threads_or_pair() {
            for mode in structure.modes(&options.batches(&BATCHES)) {
                turns.extend(limits.turns(&case.clone().threads(threads), None, mode));
            }
        }
    }
    interleave(bench, &mut vec![0; set.len()], turns)
}

/// A table of a structure, with its case.
type BuiltTable = (Structure, Case, Box<dyn Table>);

/// All tables of one size, built on all cores, with their cases.
fn tables(
    bench: &mut BenchRun<'_>,
    set: &KeySet,
    structures: &[Structure],
) -> Result<Vec<BuiltTable>, BenchError> {
    let options = bench.options;
    let make = BuildConfig { threads: pin::cores(), ..BuildConfig::table() };
    let mut tables = Vec::new();
    for &structure in structures {
        let is_compact = matches!(structure, Structure::SetSep | Structure::Othello);
        let isas = if is_compact { options.isas() } else { vec![make.isa] };
        for (format, make) in formats(structure, options, make) {
            for &isa in &isas {
                bench.check()?;
                let (table, pages) = with_pages(|| built(structure, set, BuildConfig { isa, ..make }))?;
                let variant = noted([
                    is_compact.then(|| isa.to_string()),
                    structure.note(),
                    table.note().map(str::to_owned),
                ]);
                let case = bench
                    .case(structure.name(), set.len() as u64)
                    .value_bits(structure.value_bits(set.value_bits))
                    .format(format)
                    .variant(variant)
                    .table_bytes(table.table_bytes());
                if let Some(share) = pages {
                    bench.add_exact(case.clone(), Metric::HugePages, share);
                }
                tables.push((structure, case, table));
            }
        }
    }
    Ok(tables)
}
