//! `setsep-build`: builds tables from keys and values. Other benchmarks use its measurements too.

use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::options::Options;
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Case, Metric};
use crate::structures::{Build, BuildConfig, Fill, KeyForms, LookupMode, Product, Structure, Table, noted};
use crate::timing;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::othello::Sizing;
use scalebricks_tables::setsep::SearchBits;

/// Bytes per key for keys and answers.
const KEY_BYTES: u64 = 24;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let structures = options.structures(&Structure::built_in());
    let most = structures.iter().map(|s| s.building_bytes_per_key()).max().unwrap_or(0);
    let sizes = bench.sizes(&[1_000_000], &[1_000_000, 16_000_000, 64_000_000], KEY_BYTES + 2 * most)?;
    Structure::start(&structures, &sizes)?;
    for keys in sizes {
        for value_bits in options.value_bits(&[2], &[1, 2, 4]) {
            one(bench, keys, value_bits, &structures)?;
        }
    }
    Ok(())
}

/// What a built table reports: its fill and its bytes.
pub type Built = (Fill, u64);

/// A build to measure: what, its case, and how.
pub type BuildCase = (Structure, Case, BuildConfig);

/// Measures one table size.
fn one(
    bench: &mut BenchRun<'_>,
    keys: u64,
    value_bits: u8,
    structures: &[Structure],
) -> Result<(), BenchError> {
    let busy = bench.busy("making keys");
    let set = KeySet::new(keys, value_bits);
    drop(busy);
    let threads = bench.options.threads_or_pair();
    let builds: Vec<BuildCase> =
        structures.iter().flat_map(|&structure| candidates(bench, &set, &threads, structure)).collect();
    let built = measure(bench, &set, &builds, true)?;
    // Equal keys give equal tables, whatever the threads, instructions and search order.
    let once = |make: BuildConfig| Some(&make.threads) == threads.first() && make.bits == SearchBits::Pairs;
    for ((_, case, make), (fill, bytes)) in builds.into_iter().zip(built) {
        if once(make) {
            add_fill(bench, &case.variant(None).threads(None).table_bytes(bytes), fill);
        }
    }
    Ok(())
}

/// Interleaves these builds. `repeats` also measures a second build by SetSep's builder, which keeps its memory.
/// Returns what each last table reports.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn measure(
    bench: &mut BenchRun<'_>,
    set: &KeySet,
    builds: &[BuildCase],
    repeats: bool,
) -> Result<Vec<Built>, BenchError> {
    let mut built = vec![(Fill::default(), 0); builds.len()];
    let turns = builds.iter().enumerate().map(|(number, (structure, case, make))| {
        let again = repeats && make.product == Product::Table && *structure == Structure::SetSep;
        turn(case, *structure, *make, set, again, move |all: &mut Vec<Built>, built| all[number] = built)
    });
    let turns = turns.collect();
    interleave(bench, &mut built, turns)?;
    Ok(built)
}

/// A measurement of builds, which checks the first table and passes what each reports to `keep`.
pub fn turn<'a, S>(
    case: &Case,
    structure: Structure,
    make: BuildConfig,
    set: &'a KeySet,
    again: bool,
    keep: impl Fn(&mut S, Built) + 'a,
) -> Measurement<'a, S> {
    let mut rows = vec![(case.clone(), Metric::BuildRate)];
    if again {
        let variant = case.variant.as_ref().map(|variant| format!("{variant}, again"));
        rows.push((case.clone().variant(variant), Metric::BuildRate));
    }
    let mut is_checked = false;
    Measurement::several(rows, move |state: &mut S| {
        // Prepared anew in each run, so that the input does not occupy memory during other runs.
        let mut prepared = structure.prepare(set, make)?;
        structure.warm(set.len());
        let (table, seconds) = build(&mut prepared, make.threads)?;
        if !std::mem::replace(&mut is_checked, true) {
            check(structure, table.as_ref(), set)?;
        }
        let table_bytes = Some(table.table_bytes());
        keep(state, (table.fill(), table.table_bytes()));
        let mut figures = vec![set.len() as f64 / seconds];
        drop(table);
        if again {
            figures.push(set.len() as f64 / build(&mut prepared, make.threads)?.1);
        }
        Ok(RunResult { figures, table_bytes })
    })
}

/// The formats of a structure: group formats of SetSep, sizings of Othello; others have one without a name.
pub fn formats(
    structure: Structure,
    options: &Options,
    make: BuildConfig,
) -> Vec<(Option<&'static str>, BuildConfig)> {
    let formats =
        options.formats().into_iter().map(|of| (Some(of.name()), BuildConfig { format: of, ..make }));
    let sizings = Sizing::ALL.into_iter().map(|of| (Some(of.name()), BuildConfig { sizing: of, ..make }));
    match structure {
        Structure::SetSep => formats.collect(),
        Structure::Othello => sizings.collect(),
        _ => vec![(None, make)],
    }
}

/// All builds of a structure.
fn candidates(bench: &BenchRun<'_>, set: &KeySet, threads: &[usize], structure: Structure) -> Vec<BuildCase> {
    let is_setsep = structure == Structure::SetSep;
    let isas = if is_setsep { bench.options.isas() } else { vec![Isa::best()] };
    let is_compact = is_setsep || structure == Structure::Othello;
    let products: &[Product] =
        if is_compact { &[Product::Table, Product::Control] } else { &[Product::Table] };
    let mut threads = threads.to_vec();
    threads.retain(|&n| n == 1 || structure.builds_in_parallel());
    threads.dedup();
    let mut builds = Vec::new();
    for threads in threads {
        let make = BuildConfig { threads, ..BuildConfig::table() };
        for (format, make) in formats(structure, bench.options, make) {
            for &isa in &isas {
                // With up to two value bits, there is only one way to search them.
                let searched = is_setsep && make.format.is_papers() && isa > Isa::Portable;
                let together = (searched && set.value_bits > 2).then_some(SearchBits::Together);
                for bits in [SearchBits::Pairs].into_iter().chain(together) {
                    for &product in products {
                        let name = if product == Product::Table { "table" } else { "control" };
                        let variant = noted([
                            is_setsep.then(|| isa.to_string()),
                            (bits == SearchBits::Together).then(|| "bits together".to_owned()),
                            is_compact.then(|| name.to_owned()),
                            structure.note(),
                        ]);
                        let case = bench
                            .case(structure.name(), set.len() as u64)
                            .value_bits(structure.value_bits(set.value_bits))
                            .format(format)
                            .variant(variant)
                            .threads(threads);
                        builds.push((structure, case, BuildConfig { isa, bits, product, ..make }));
                    }
                }
            }
        }
    }
    builds
}

/// Builds on a pinned thread, or in a pool with several threads. One thread is a pool of itself, so that a
/// structure does not hand work to other threads.
///
/// # Errors
/// [`BenchError::Threads`]; the error of the build.
pub fn build(prepared: &mut Build<'_>, threads: usize) -> Result<(Box<dyn Table>, f64), BenchError> {
    let pool = || rayon::ThreadPoolBuilder::new().num_threads(threads);
    let failed = |error: rayon::ThreadPoolBuildError| BenchError::Threads(error.to_string());
    let (table, seconds) = if threads == 1 {
        timing::pinned(|| pool().use_current_thread().build().map_err(failed)?.install(&mut *prepared))?
    } else {
        let pool = pool().build().map_err(failed)?;
        timing::timed(|| pool.install(prepared))
    };
    Ok((table?, seconds))
}

/// Builds a table once, not timed.
///
/// # Errors
/// As [`build`].
pub fn built(structure: Structure, set: &KeySet, make: BuildConfig) -> Result<Box<dyn Table>, BenchError> {
    Ok(build(&mut structure.prepare(set, make)?, make.threads)?.0)
}

/// Looks up every key once.
pub fn check(structure: Structure, table: &dyn Table, set: &KeySet) -> Result<(), BenchError> {
    let forms = KeyForms::of(set, [table.form()]);
    let mut answers = vec![0; set.len()];
    timing::lookup(table, LookupMode::Batch(64), set, &forms, 1, &mut answers)?;
    timing::check(structure.name(), set, &answers)
}

/// Adds rows with the fill of a SetSep table.
pub fn add_fill(bench: &mut BenchRun<'_>, case: &Case, fill: Fill) {
    if let Some(keys) = fill.fallback_keys {
        bench.add_exact(case.clone(), Metric::FallbackKeys, keys as f64);
    }
    if let Some(keys) = fill.max_group_load {
        bench.add_exact(case.clone(), Metric::MaxGroupLoad, keys.into());
    }
}
