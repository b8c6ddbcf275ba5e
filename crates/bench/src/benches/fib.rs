//! `fib`: the exact flow table at 95 % load, compared with the hash map of Rust's standard library and DPDK's
//! `rte_hash`.

use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::limit::Lookups;
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Case, Metric};
#[cfg(feature = "dpdk")]
use crate::structures::dpdk::FlowHash;
use crate::structures::flows::{FlowFib, FlowMap, FlowTable, Flows, RUN};
use crate::structures::{BATCHES, KeyForm, KeyForms, LookupMode, Structure, Table, noted};
use crate::{pin, timing};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Load of the table during lookups.
const LOAD: f64 = 0.95;

/// Load below which inserts are easy.
const EASY: f64 = 0.75;

/// Bits of the checked part of a value; it is never all ones, which mean "missing".
const VALUE_BITS: u8 = 7;

/// Bits of the whole value.
const ALL_VALUE_BITS: u8 = 128;

/// One key in this many is removed.
const REMOVED: usize = 16;

/// Keys per call in a growing table.
const GROWING_BATCH: usize = 32;

/// Bytes per key for keys, queries in all forms, the FIB, each table, a growing table at its emptiest, and
/// the lines of three replays.
const KEY_BYTES: u64 = 18 + 80 + 34 + 34 + 84 + 55 * 5 / 2 + 3 * 17;

/// A measurement; the state is the answers.
type Turn<'a> = Measurement<'a, Vec<u8>>;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let structures = [Structure::Cuckoo, Structure::HashBrown, Structure::RteHash];
    let structures = structures.into_iter().filter(|structure| structure.is_built_in());
    let structures = bench.options.structures(&structures.collect::<Vec<_>>());
    let sizes = bench.sizes(&[1_000_000], &[1_000_000, 8_000_000], KEY_BYTES)?;
    Structure::start(&structures, &sizes)?;
    sizes.into_iter().try_for_each(|keys| one(bench, keys, &structures))
}

/// Keys and queries of one table size.
struct Keys {
    set: KeySet,
    forms: KeyForms,
    others: KeySet,
    other_forms: KeyForms,
}

impl Keys {
    /// Lookups of keys that a table has, and of others.
    fn lookups<'a>(&'a self, table: &'a dyn Table) -> [Lookups<'a>; 2] {
        [Lookups::of(table, &self.set, &self.forms), Lookups::of(table, &self.others, &self.other_forms)]
    }
}

/// Measures one table size.
fn one(bench: &mut BenchRun<'_>, keys: u64, structures: &[Structure]) -> Result<(), BenchError> {
    let busy = bench.busy("making keys and tables");
    let set = KeySet::new(keys, VALUE_BITS);
    let others = set.of_others(u8::MAX);
    let keys = Keys {
        forms: KeyForms::of(&set, [KeyForm::Words, KeyForm::Flow]),
        other_forms: KeyForms::of_others(&others),
        set,
        others,
    };
    let flows = Flows::new(&keys.set);
    let all = 0..keys.set.len();
    let (mut cuckoo, fib, mut map) =
        (FlowTable::new(all.len()), FlowFib::new(&flows)?, FlowMap::new(all.len()));
    cuckoo.insert_run(&flows, all.clone())?;
    map.insert(&flows, all.clone());
    let mut tables: Vec<(Structure, Box<dyn Table>)> = vec![(Structure::HashBrown, Box::new(map))];
    #[cfg(feature = "dpdk")]
    if structures.contains(&Structure::RteHash) {
        let mut hash = FlowHash::of_flows(all.len())?;
        hash.insert_flows(&flows, all.clone())?;
        tables.push((Structure::RteHash, Box::new(hash)));
    }
    tables.retain(|(structure, _)| structures.contains(structure));
    let cuckoo_lookups = keys.lookups(&cuckoo);
    let fib_lookups = Lookups::of(&fib, &keys.set, &keys.forms);
    let lookups: Vec<[Lookups<'_>; 2]> =
        tables.iter().map(|(_, table)| keys.lookups(table.as_ref())).collect();
    drop(busy);
    let batches = bench.options.batches(&BATCHES);
    let case = |structure: Structure, table: &dyn Table| {
        bench
            .case(structure.name(), all.len() as u64)
            .value_bits(ALL_VALUE_BITS)
            .threads(1)
            .variant(structure.note())
            .table_bytes(table.table_bytes())
    };
    let mut turns = Vec::new();
    if structures.contains(&Structure::Cuckoo) {
        let case = case(Structure::Cuckoo, &cuckoo);
        let modes = Structure::Cuckoo.modes(&batches);
        let loaded = case.clone().load(LOAD);
        for mode in modes {
            turns.extend(cuckoo_lookups[0].turns(&loaded, None, mode));
            turns.extend(cuckoo_lookups[1].turns(&loaded, Some("missing"), mode));
            turns.extend(fib_lookups.turns(&loaded, Some("partial-fib"), mode));
            turns.push(beside_writer(&loaded, &cuckoo, &cuckoo_lookups[0], &keys, &flows, mode));
        }
        turns.push(fill_in_steps(&case, &flows, &keys, ("single", 1), FlowTable::insert_each));
        turns.push(fill_in_steps(&case, &flows, &keys, ("one-writer", 1), FlowTable::insert_run));
        turns.push(fill_in_steps(&case, &flows, &keys, ("runs", RUN), FlowTable::insert_runs));
        turns.push(growth(&case, &flows, &keys));
    }
    for ((structure, table), [held, missing]) in tables.iter().zip(&lookups) {
        let case = case(*structure, table.as_ref());
        for mode in structure.modes(&batches) {
            turns.extend(held.turns(&case, None, mode));
            turns.extend(missing.turns(&case, Some("missing"), mode));
        }
        turns.push(match structure {
            #[cfg(feature = "dpdk")]
            Structure::RteHash => {
                let fill = Filling {
                    make: FlowHash::of_flows,
                    insert: FlowHash::insert_flows,
                    remove: FlowHash::remove_flows,
                };
                fill.changes("rte_hash", change_rows(&case), vec![all.clone()], &flows, &keys)
            }
            _ => {
                let fill = Filling {
                    make: |keys| Ok(FlowMap::new(keys)),
                    insert: |map: &mut FlowMap, flows, places| {
                        map.insert(flows, places);
                        Ok(())
                    },
                    remove: |map, flows, places| {
                        let _: () = map.remove(flows, places);
                        Ok(())
                    },
                };
                fill.changes("hashbrown", change_rows(&case), vec![all.clone()], &flows, &keys)
            }
        });
    }
    interleave(bench, &mut vec![0; all.len()], turns)
}

/// Lookups in the cuckoo table while another thread rewrites its values.
fn beside_writer<'a>(
    case: &Case,
    table: &'a FlowTable,
    limits: &'a Lookups<'a>,
    keys: &'a Keys,
    flows: &'a Flows<'_>,
    mode: LookupMode,
) -> Turn<'a> {
    let case = case.clone().variant("beside-writer".to_owned()).batch(mode.batch());
    let rows = vec![(case.clone(), Metric::LookupRate), (case, Metric::ShareOfLimit)];
    Measurement::several(rows, move |answers: &mut Vec<u8>| {
        let stop = AtomicBool::new(false);
        let rate = std::thread::scope(|scope| {
            scope.spawn(|| {
                pin::to_core(1);
                table.rewrite(flows, &stop);
            });
            let rate = timing::lookup(table, mode, &keys.set, &keys.forms, 1, answers);
            stop.store(true, Ordering::Relaxed);
            rate
        })?;
        timing::check("cuckoo", &keys.set, answers)?;
        let mut figures = vec![rate];
        figures.extend(limits.of_one(mode).map(|limit| rate / limit));
        Ok(figures.into())
    })
}

/// Inserts or removes the flows at some positions.
type Edit<T> = fn(&mut T, &Flows<'_>, Range<usize>) -> Result<(), BenchError>;

/// How a table is filled and emptied.
struct Filling<T> {
    /// Makes an empty table for this many keys.
    make: fn(usize) -> Result<T, BenchError>,
    insert: Edit<T>,
    remove: Edit<T>,
}

impl<T: Table> Filling<T> {
    /// Fills its own table in steps, checks it, and removes some keys if there is a row for that.
    fn changes<'a>(
        self,
        name: &'static str,
        rows: Vec<(Case, Metric)>,
        steps: Vec<Range<usize>>,
        flows: &'a Flows<'_>,
        Keys { set, forms, .. }: &'a Keys,
    ) -> Turn<'a>
    where
        T: 'a,
    {
        let removes = rows.len() > steps.len();
        Measurement::several(rows, move |answers: &mut Vec<u8>| {
            let mut table = (self.make)(set.len())?;
            let timed = |edit: Edit<T>, table: &mut T, places: Range<usize>| {
                let count = places.len() as f64;
                let (done, seconds) = timing::pinned(|| edit(table, flows, places))?;
                done.map(|()| count / seconds)
            };
            let mut figures = Vec::new();
            for step in &steps {
                figures.push(timed(self.insert, &mut table, step.clone())?);
            }
            timing::lookup(&table, LookupMode::Batch(64), set, forms, 1, answers)?;
            timing::check(name, set, answers)?;
            if removes {
                let removed = (set.len() / REMOVED).max(1).min(set.len());
                figures.push(timed(self.remove, &mut table, 0..removed)?);
            }
            Ok(figures.into())
        })
    }
}

/// Fills a cuckoo table in two steps.
fn fill_in_steps<'a>(
    case: &Case,
    flows: &'a Flows<'_>,
    keys: &'a Keys,
    (variant, batch): (&str, usize),
    insert: Edit<FlowTable>,
) -> Turn<'a> {
    let row = |metric, variant: String, load| (case.clone().variant(variant).batch(batch).load(load), metric);
    let mut rows = vec![
        row(Metric::InsertRate, format!("{variant}, 0 to {EASY}"), EASY),
        row(Metric::InsertRate, format!("{variant}, {EASY} to {LOAD}"), LOAD),
    ];
    rows.extend((variant == "single").then(|| row(Metric::DeleteRate, variant.to_owned(), LOAD)));
    let count = keys.set.len();
    #[expect(clippy::cast_sign_loss, reason = "a count of slots is not negative")]
    let cut = ((FlowTable::slots_for(count) as f64 * EASY) as usize).min(count);
    let fill = Filling { make: |keys| Ok(FlowTable::new(keys)), insert, remove: FlowTable::remove_each };
    fill.changes("cuckoo", rows, vec![0..cut, cut..count], flows, keys)
}

/// Fills its own growing table, and queries it when half of its keys have moved to a larger one.
fn growth<'a>(case: &Case, flows: &'a Flows<'_>, Keys { set, forms, .. }: &'a Keys) -> Turn<'a> {
    let row = |metric, variant: &str, batch| (case.clone().variant(variant.to_owned()).batch(batch), metric);
    let rows =
        vec![row(Metric::InsertRate, "growing", RUN), row(Metric::LookupRate, "half-moved", GROWING_BATCH)];
    Measurement::several(rows, move |answers: &mut Vec<u8>| {
        let mut table = FlowTable::new(0);
        let (done, seconds) = timing::pinned(|| table.insert_growing(flows, 0..set.len()))?;
        done?;
        table.move_half()?;
        let rate = timing::lookup(&table, LookupMode::Batch(GROWING_BATCH), set, forms, 1, answers)?;
        timing::check("cuckoo", set, answers)?;
        let figures = vec![set.len() as f64 / seconds, rate];
        Ok(RunResult { figures, table_bytes: Some(table.table_bytes()) })
    })
}

/// Rows of a table that is filled and emptied key by key.
fn change_rows(case: &Case) -> Vec<(Case, Metric)> {
    let variant = noted([case.variant.clone(), Some("single".to_owned())]);
    let case = case.clone().variant(variant).batch(1);
    vec![(case.clone(), Metric::InsertRate), (case, Metric::DeleteRate)]
}
