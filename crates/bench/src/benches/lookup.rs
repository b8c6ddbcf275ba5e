//! `setsep-lookup`: looks up every key once.

use super::build::build;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::limit::{self, Lookups};
use crate::pin;
use crate::rounds::interleave;
use crate::row::{Case, Metric};
use crate::session::Session;
use crate::structures::{BATCHES, BuildConfig, KeyForms, Structure, Table, noted, with_pages};
use scalebricks_report::stats::Summary;
use scalebricks_tables::othello::Sizing;

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
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let structures = options.structures(&Structure::built_in());
    let most = structures.iter().map(|s| s.building_bytes_per_key()).max().unwrap_or(0);
    let mut sizes = Vec::new();
    for keys in options.keys(&[1_000_000, 4_000_000], &[1_000_000, 16_000_000, 64_000_000]) {
        if session.fits(keys, KEY_BYTES + TABLE_BYTES + most + limit::bytes_per_key(keys, TABLES))? {
            sizes.push(keys);
        }
    }
    Structure::start(&structures, &sizes)?;
    for keys in sizes {
        for value_bits in options.value_bits(&[2], &[2]) {
            one(session, keys, value_bits, &structures)?;
        }
    }
    Ok(())
}

/// A table and its case.
struct BuiltTable {
    structure: Structure,
    case: Case,
    table: Box<dyn Table>,
}

/// Measures one table size.
fn one(
    session: &mut Session<'_>,
    keys: u64,
    value_bits: u8,
    structures: &[Structure],
) -> Result<(), BenchError> {
    let options = session.options();
    let busy = session.busy("making keys and tables");
    let set = KeySet::new(keys, value_bits);
    let candidates = candidates(session, &set, structures)?;
    let forms = KeyForms::of(&set, candidates.iter().map(|candidate| candidate.table.form()));
    let limits: Vec<Lookups<'_>> =
        candidates.iter().map(|candidate| Lookups::of(candidate.table.as_ref(), &set, &forms)).collect();
    drop(busy);
    let mut turns = Vec::new();
    for (candidate, limits) in candidates.iter().zip(&limits) {
        for threads in options.threads_or_pair() {
            for mode in candidate.structure.modes(&options.batches(&BATCHES)) {
                let case = candidate.case.clone().threads(threads);
                turns.extend(limits.turns(&case, None, mode));
            }
        }
    }
    interleave(session, &mut vec![0; set.len()], turns)
}

/// All tables of one size, built on all cores.
fn candidates(
    session: &mut Session<'_>,
    set: &KeySet,
    structures: &[Structure],
) -> Result<Vec<BuiltTable>, BenchError> {
    let options = session.options();
    let mut candidates = Vec::new();
    for &structure in structures {
        let make = BuildConfig { threads: pin::cores(), ..BuildConfig::table() };
        let case =
            session.case(structure.name(), set.len() as u64).value_bits(structure.value_bits(set.value_bits));
        let mut made = Vec::new();
        if structure == Structure::SetSep {
            for format in options.formats() {
                for isa in options.isas() {
                    let format_name = Some(format.name());
                    let case = case.clone().format(format_name).variant(isa.to_string());
                    made.push((case, BuildConfig { format, isa, ..make }));
                }
            }
        } else if structure == Structure::Othello {
            for sizing in Sizing::ALL {
                for isa in options.isas() {
                    let format = Some(sizing.name());
                    let case = case.clone().format(format).variant(isa.to_string());
                    made.push((case, BuildConfig { sizing, isa, ..make }));
                }
            }
        } else {
            made.push((case, make));
        }
        for (case, make) in made {
            session.check()?;
            let (table, pages) = with_pages(|| {
                let mut prepared = structure.prepare(set, make)?;
                Ok(build(prepared.as_mut(), make.threads)?.0)
            })?;
            let variant = noted([case.variant.clone(), structure.note(), table.note().map(str::to_owned)]);
            let case = case.table_bytes(table.table_bytes()).variant(variant);
            if let Some(share) = pages {
                session.add(case.clone(), Metric::HugePages, Summary::exact(share));
            }
            candidates.push(BuiltTable { structure, case, table });
        }
    }
    Ok(candidates)
}
