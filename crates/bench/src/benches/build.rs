//! `setsep-build`: from keys and values to a table.

use crate::bench::Bench;
use crate::contestants::{Build, Fill, Forms, Make, Mode, Product, Structure, Table, noted};
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::rounds::{Found, Turn, alternate};
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::Summary;
use crate::timing;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::othello::Sizing;
use scalebricks_tables::setsep::{Format, SearchBits};

/// The benchmark.
#[derive(Debug)]
pub struct SetSepBuild;

/// Bytes a key that the keys and their answers take, whatever is built.
const KEY_BYTES: u64 = 24;

impl Bench for SetSepBuild {
    fn name(&self) -> &'static str {
        "setsep-build"
    }

    fn run(&self, session: &mut Session<'_>) -> Result<(), BenchError> {
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
}

/// What one turn builds with; its fill is known once it was built.
struct Contestant {
    structure: Structure,
    subject: Subject,
    make: Make,
}

/// One table size.
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
    let contestants = contestants(session, &set, threads, structures);
    let mut fills: Vec<(Fill, u64)> = vec![(Fill::default(), 0); contestants.len()];
    let turns = contestants.iter().enumerate().map(|(number, contestant)| {
        let set = &set;
        let mut is_checked = false;
        let again = contestant.make.product == Product::Table && contestant.structure == Structure::SetSep;
        let mut rows = vec![(contestant.subject.clone(), Metric::BuildRate)];
        if again {
            let variant = contestant.subject.variant.as_ref().map(|variant| format!("{variant}, again"));
            rows.push((Subject { variant, ..contestant.subject.clone() }, Metric::BuildRate));
        }
        Turn::several(rows, move |fills: &mut Vec<(Fill, u64)>| {
            // Prepared anew: what a structure is built from is not kept for those whose turn is later.
            let mut prepared = contestant.structure.prepare(set, contestant.make)?;
            contestant.structure.warm(set.len());
            let (table, seconds) = build(prepared.as_mut(), contestant.make.threads)?;
            if !is_checked {
                check(contestant.structure, table.as_ref(), set)?;
                is_checked = true;
            }
            fills[number] = (table.fill(), table.table_bytes());
            let mut figures = vec![set.len() as f64 / seconds];
            let table_bytes = Some(table.table_bytes());
            if again {
                // The same builder once more: it has kept its memory.
                drop(table);
                let (_, seconds) = build(prepared.as_mut(), contestant.make.threads)?;
                figures.push(set.len() as f64 / seconds);
            }
            Ok(Found { figures, table_bytes })
        })
    });
    let turns = turns.collect();
    alternate(session, &mut fills, turns)?;
    // Equal keys give equal tables, whatever the threads, the instructions and the order of the search.
    let once = |make: Make| Some(&make.threads) == threads.first() && make.bits == SearchBits::Pairs;
    for (contestant, (fill, bytes)) in
        contestants.iter().zip(fills).filter(|(contestant, _)| once(contestant.make))
    {
        let subject =
            Subject { variant: None, threads: None, table_bytes: Some(bytes), ..contestant.subject.clone() };
        add_fill(session, &subject, fill);
    }
    Ok(())
}

/// All that is built of one table size.
fn contestants(
    session: &Session<'_>,
    set: &KeySet,
    threads: &[usize],
    structures: &[Structure],
) -> Vec<Contestant> {
    let mut contestants = Vec::new();
    for &structure in structures {
        let mut threads: Vec<usize> =
            threads.iter().copied().filter(|&n| n == 1 || structure.builds_in_parallel()).collect();
        threads.dedup();
        let base = Subject {
            value_bits: Some(structure.value_bits(set.value_bits)),
            variant: structure.note(),
            ..session.subject(structure.name(), set.len() as u64)
        };
        for threads in threads {
            let make = Make { threads, ..Make::table() };
            if structure == Structure::SetSep {
                for (format, bits, isa) in ways(session, set.value_bits) {
                    for (product, name) in [(Product::Table, "table"), (Product::Control, "control")] {
                        let together = (bits == SearchBits::Together).then(|| "bits together".to_owned());
                        let subject = Subject {
                            format: Some(format.name()),
                            variant: noted([Some(isa.to_string()), together, Some(name.to_owned())]),
                            threads: Some(threads),
                            ..base.clone()
                        };
                        let make = Make { format, isa, bits, product, ..make };
                        contestants.push(Contestant { structure, subject, make });
                    }
                }
            } else if structure == Structure::Othello {
                for sizing in Sizing::ALL {
                    for (product, name) in [(Product::Table, "table"), (Product::Control, "control")] {
                        let subject = Subject {
                            format: Some(sizing.name()),
                            variant: Some(name.to_owned()),
                            threads: Some(threads),
                            ..base.clone()
                        };
                        contestants.push(Contestant {
                            structure,
                            subject,
                            make: Make { sizing, product, ..make },
                        });
                    }
                }
            } else {
                let subject = Subject { threads: Some(threads), ..base.clone() };
                contestants.push(Contestant { structure, subject, make });
            }
        }
    }
    contestants
}

/// The ways to build SetSep: formats, value bits searched for at once, instructions. Up to two bits are one way.
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

/// Builds on a pinned thread, or on as many as asked in a pool of their own. One thread is a pool, too, of itself alone: what
/// structures would hand to other threads stays with it.
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

/// Asks for every key once.
pub fn check(structure: Structure, table: &dyn Table, set: &KeySet) -> Result<(), BenchError> {
    let forms = Forms::of(set, [table.form()]);
    let mut answers = vec![0; set.len()];
    timing::lookup(table, Mode::Batch(64), set, &forms, 1, &mut answers)?;
    timing::check(structure.name(), set, &answers)
}

/// Rows of what is known of a SetSep table.
pub fn add_fill(session: &mut Session<'_>, subject: &Subject, fill: Fill) {
    if let Some(keys) = fill.fallback_keys {
        session.add(subject.clone(), Metric::FallbackKeys, Summary::exact(keys as f64));
    }
    if let Some(keys) = fill.max_group_load {
        session.add(subject.clone(), Metric::MaxGroupLoad, Summary::exact(keys.into()));
    }
}
