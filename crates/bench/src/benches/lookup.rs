//! `setsep-lookup`: every key asked for once.

use super::build::build;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::limit::{self, Lookups};
use crate::pin;
use crate::rounds::alternate;
use crate::row::{Case, Metric};
use crate::session::Session;
use crate::stats::Summary;
use crate::structures::{BATCHES, Forms, Make, Structure, Table, noted, with_pages};
use scalebricks_tables::othello::Sizing;

/// Bytes a key that keys, questions and answers take, the flows of the questions included.
const KEY_BYTES: u64 = 24 + 48;

/// Bytes a key of the tables that stay while another is built, together.
const TABLE_BYTES: u64 = 36 + 28 + 36;

/// Tables of ours, about: six formats, four sizings, and two exact ones.
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

/// A table, and what is known of it.
struct Contestant {
    structure: Structure,
    case: Case,
    table: Box<dyn Table>,
}

/// One table size.
fn one(
    session: &mut Session<'_>,
    keys: u64,
    value_bits: u8,
    structures: &[Structure],
) -> Result<(), BenchError> {
    let options = session.options();
    let busy = session.busy("making keys and tables");
    let set = KeySet::new(keys, value_bits);
    let contestants = contestants(session, &set, structures)?;
    let forms = Forms::of(&set, contestants.iter().map(|contestant| contestant.table.form()));
    let limits: Vec<Lookups<'_>> =
        contestants.iter().map(|contestant| Lookups::of(contestant.table.as_ref(), &set, &forms)).collect();
    drop(busy);
    let mut turns = Vec::new();
    for (contestant, limits) in contestants.iter().zip(&limits) {
        for threads in options.threads_or_pair() {
            for mode in contestant.structure.modes(&options.batches(&BATCHES)) {
                let case = contestant.case.clone().threads(threads);
                turns.extend(limits.turns(&case, None, mode));
            }
        }
    }
    alternate(session, &mut vec![0; set.len()], turns)
}

/// All tables of one size, built with all cores.
fn contestants(
    session: &mut Session<'_>,
    set: &KeySet,
    structures: &[Structure],
) -> Result<Vec<Contestant>, BenchError> {
    let options = session.options();
    let mut contestants = Vec::new();
    for &structure in structures {
        let make = Make { threads: pin::cores(), ..Make::table() };
        let case =
            session.case(structure.name(), set.len() as u64).value_bits(structure.value_bits(set.value_bits));
        let mut made = Vec::new();
        if structure == Structure::SetSep {
            for format in options.formats() {
                for isa in options.isas() {
                    let format_name = Some(format.name());
                    let case = case.clone().format(format_name).variant(isa.to_string());
                    made.push((case, Make { format, isa, ..make }));
                }
            }
        } else if structure == Structure::Othello {
            for sizing in Sizing::ALL {
                for isa in options.isas() {
                    let format = Some(sizing.name());
                    let case = case.clone().format(format).variant(isa.to_string());
                    made.push((case, Make { sizing, isa, ..make }));
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
            contestants.push(Contestant { structure, case, table });
        }
    }
    Ok(contestants)
}
