//! `setsep-build`: builds tables from keys and values.

use crate::error::BenchError;
use crate::keys::KeySet;
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Case, Metric};
use crate::session::Session;
use crate::structures::{Build, BuildConfig, Fill, KeyForms, LookupMode, Product, Structure, Table, noted};
use crate::timing;
use scalebricks_report::stats::Summary;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::othello::Sizing;
use scalebricks_tables::setsep::{Format, SearchBits};

/// Bytes per key for keys and answers.
const KEY_BYTES: u64 = 24;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let structures = options.structures(&Structure::built_in());
    let most = structures.iter().map(|s| s.building_bytes_per_key()).max().unwrap_or(0);
    let sizes = options.keys(&[1_000_000], &[1_000_000, 16_000_000, 64_000_000]);
    let sizes = session.fitting(sizes, KEY_BYTES + 2 * most)?;
    Structure::start(&structures, &sizes)?;
    for keys in sizes {
        for value_bits in options.value_bits(&[2], &[1, 2, 4]) {
            let threads = options.threads_or_pair();
            one(session, keys, value_bits, &threads, &structures)?;
        }
    }
    Ok(())
}

/// What one measurement builds.
struct BuildCase {
    structure: Structure,
    case: Case,
    make: BuildConfig,
}

/// Measures one table size.
fn one(
    session: &mut Session<'_>,
    keys: u64,
    value_bits: u8,
    threads: &[usize],
    structures: &[Structure],
) -> Result<(), BenchError> {
    let busy = session.busy("making keys");
    let set = KeySet::new(keys, value_bits);
    drop(busy);
    let candidates = candidates(session, &set, threads, structures);
    let mut fills: Vec<(Fill, u64)> = vec![(Fill::default(), 0); candidates.len()];
    let turns = candidates.iter().enumerate().map(|(number, candidate)| {
        let set = &set;
        let mut is_checked = false;
        let again = candidate.make.product == Product::Table && candidate.structure == Structure::SetSep;
        let mut rows = vec![(candidate.case.clone(), Metric::BuildRate)];
        if again {
            let variant = candidate.case.variant.as_ref().map(|variant| format!("{variant}, again"));
            rows.push((candidate.case.clone().variant(variant), Metric::BuildRate));
        }
        Measurement::several(rows, move |fills: &mut Vec<(Fill, u64)>| {
            // Prepared anew in each run, so that the input does not occupy memory during other runs.
            let mut prepared = candidate.structure.prepare(set, candidate.make)?;
            candidate.structure.warm(set.len());
            let (table, seconds) = build(prepared.as_mut(), candidate.make.threads)?;
            if !is_checked {
                check(candidate.structure, table.as_ref(), set)?;
                is_checked = true;
            }
            fills[number] = (table.fill(), table.table_bytes());
            let mut figures = vec![set.len() as f64 / seconds];
            let table_bytes = Some(table.table_bytes());
            if again {
                // The same builder again, which has kept its memory.
                drop(table);
                let (_, seconds) = build(prepared.as_mut(), candidate.make.threads)?;
                figures.push(set.len() as f64 / seconds);
            }
            Ok(RunResult { figures, table_bytes })
        })
    });
    let turns = turns.collect();
    interleave(session, &mut fills, turns)?;
    // Equal keys give equal tables, whatever the threads, instructions and search order.
    let once = |make: BuildConfig| Some(&make.threads) == threads.first() && make.bits == SearchBits::Pairs;
    for (candidate, (fill, bytes)) in
        candidates.iter().zip(fills).filter(|(candidate, _)| once(candidate.make))
    {
        let case = candidate.case.clone().variant(None).threads(None).table_bytes(bytes);
        add_fill(session, &case, fill);
    }
    Ok(())
}

/// All builds for one table size.
fn candidates(
    session: &Session<'_>,
    set: &KeySet,
    threads: &[usize],
    structures: &[Structure],
) -> Vec<BuildCase> {
    let mut candidates = Vec::new();
    for &structure in structures {
        let mut threads: Vec<usize> =
            threads.iter().copied().filter(|&n| n == 1 || structure.builds_in_parallel()).collect();
        threads.dedup();
        let base = session
            .case(structure.name(), set.len() as u64)
            .value_bits(structure.value_bits(set.value_bits))
            .variant(structure.note());
        for threads in threads {
            let make = BuildConfig { threads, ..BuildConfig::table() };
            if structure == Structure::SetSep {
                for (format, bits, isa) in ways(session, set.value_bits) {
                    for (product, name) in [(Product::Table, "table"), (Product::Control, "control")] {
                        let together = (bits == SearchBits::Together).then(|| "bits together".to_owned());
                        let case = base
                            .clone()
                            .format(format.name())
                            .variant(noted([Some(isa.to_string()), together, Some(name.to_owned())]))
                            .threads(threads);
                        let make = BuildConfig { format, isa, bits, product, ..make };
                        candidates.push(BuildCase { structure, case, make });
                    }
                }
            } else if structure == Structure::Othello {
                for sizing in Sizing::ALL {
                    for (product, name) in [(Product::Table, "table"), (Product::Control, "control")] {
                        let case =
                            base.clone().format(sizing.name()).variant(name.to_owned()).threads(threads);
                        candidates.push(BuildCase {
                            structure,
                            case,
                            make: BuildConfig { sizing, product, ..make },
                        });
                    }
                }
            } else {
                let case = base.clone().threads(threads);
                candidates.push(BuildCase { structure, case, make });
            }
        }
    }
    candidates
}

/// The ways to build SetSep: formats, value bits searched together, instructions. With up to two bits there
/// is only one way.
fn ways(session: &Session<'_>, value_bits: u8) -> Vec<(Format, SearchBits, Isa)> {
    let mut ways = Vec::new();
    for format in session.options().formats() {
        for isa in session.options().isas() {
            ways.push((format, SearchBits::Pairs, isa));
            if format.is_papers() && value_bits > 2 && isa > Isa::Portable {
                ways.push((format, SearchBits::Together, isa));
            }
        }
    }
    ways
}

/// Builds on a pinned thread, or in a pool with several threads. One thread is a pool of itself, so that a
/// structure does not hand work to other threads.
pub fn build(
    prepared: &mut (dyn Build + Send + '_),
    threads: usize,
) -> Result<(Box<dyn Table>, f64), BenchError> {
    let pool = || rayon::ThreadPoolBuilder::new().num_threads(threads);
    let failed = |error: rayon::ThreadPoolBuildError| BenchError::Threads(error.to_string());
    let (table, seconds) = if threads == 1 {
        timing::pinned(|| pool().use_current_thread().build().map_err(failed)?.install(|| prepared.build()))?
    } else {
        let pool = pool().build().map_err(failed)?;
        timing::timed(|| pool.install(|| prepared.build()))
    };
    Ok((table?, seconds))
}

/// Looks up every key once.
pub fn check(structure: Structure, table: &dyn Table, set: &KeySet) -> Result<(), BenchError> {
    let forms = KeyForms::of(set, [table.form()]);
    let mut answers = vec![0; set.len()];
    timing::lookup(table, LookupMode::Batch(64), set, &forms, 1, &mut answers)?;
    timing::check(structure.name(), set, &answers)
}

/// Adds rows with the fill of a SetSep table.
pub fn add_fill(session: &mut Session<'_>, case: &Case, fill: Fill) {
    if let Some(keys) = fill.fallback_keys {
        session.add(case.clone(), Metric::FallbackKeys, Summary::exact(keys as f64));
    }
    if let Some(keys) = fill.max_group_load {
        session.add(case.clone(), Metric::MaxGroupLoad, Summary::exact(keys.into()));
    }
}
