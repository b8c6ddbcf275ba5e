//! `fib`: the exact flow table at 95 % load, compared with the hash map of Rust's standard library and DPDK's
//! `rte_hash`.

use crate::error::BenchError;
use crate::keys::KeySet;
use crate::limit::Lookups;
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Case, Metric};
use crate::session::Session;
#[cfg(feature = "dpdk")]
use crate::structures::dpdk::FlowHash;
use crate::structures::flows::{FlowFib, FlowMap, FlowTable, Flows, RUN};
use crate::structures::{BATCHES, KeyForm, KeyForms, LookupMode, Structure, Table, noted};
use crate::{pin, timing};
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

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let structures = [Structure::Cuckoo, Structure::HashBrown, Structure::RteHash];
    let structures = structures.into_iter().filter(|structure| structure.is_built_in());
    let structures = session.options().structures(&structures.collect::<Vec<_>>());
    let sizes = session.options().keys(&[1_000_000], &[1_000_000, 8_000_000]);
    let sizes = session.fitting(sizes, KEY_BYTES)?;
    Structure::start(&structures, &sizes)?;
    sizes.into_iter().try_for_each(|keys| one(session, keys, &structures))
}

/// Keys and queries of one table size.
struct Keys {
    set: KeySet,
    forms: KeyForms,
    others: KeySet,
    other_forms: KeyForms,
}

/// The permanent tables.
struct Tables {
    cuckoo: FlowTable,
    fib: FlowFib,
    map: FlowMap,
    #[cfg(feature = "dpdk")]
    hash: Option<FlowHash>,
}

/// The tables with their queries and limits.
struct TableLimits<'a> {
    held: Lookups<'a>,
    missing: Lookups<'a>,
    fib: Lookups<'a>,
    map: [Lookups<'a>; 2],
    #[cfg(feature = "dpdk")]
    hash: Option<[Lookups<'a>; 2]>,
}

/// Measures one table size.
fn one(session: &mut Session<'_>, keys: u64, structures: &[Structure]) -> Result<(), BenchError> {
    let busy = session.busy("making keys and tables");
    let set = KeySet::new(keys, VALUE_BITS);
    let others = set.of_others(u8::MAX);
    let keys = Keys {
        forms: KeyForms::of(&set, [KeyForm::Words, KeyForm::Flow]),
        other_forms: KeyForms::of_others(&others),
        set,
        others,
    };
    let flows = Flows::new(&keys.set);
    let mut tables = Tables {
        cuckoo: FlowTable::new(keys.set.len()),
        fib: FlowFib::new(&flows)?,
        map: FlowMap::new(keys.set.len()),
        #[cfg(feature = "dpdk")]
        hash: structures
            .contains(&Structure::RteHash)
            .then(|| rte_hash(&flows, 0..keys.set.len()))
            .transpose()?,
    };
    tables.cuckoo.insert_run(&flows, 0..keys.set.len())?;
    tables.map.insert(&flows, 0..keys.set.len());
    let limits = TableLimits {
        held: Lookups::of(&tables.cuckoo, &keys.set, &keys.forms),
        missing: Lookups::of(&tables.cuckoo, &keys.others, &keys.other_forms),
        fib: Lookups::of(&tables.fib, &keys.set, &keys.forms),
        map: both_of(&tables.map, &keys),
        #[cfg(feature = "dpdk")]
        hash: tables.hash.as_ref().map(|hash| both_of(hash, &keys)),
    };
    drop(busy);
    let mut turns = Vec::new();
    let batches = session.options().batches(&BATCHES);
    for &structure in structures {
        let case = session
            .case(structure.name(), keys.set.len() as u64)
            .value_bits(ALL_VALUE_BITS)
            .threads(1)
            .variant(structure.note());
        let modes = structure.modes(&batches);
        let of = |table: &dyn Table| case.clone().table_bytes(table.table_bytes());
        match structure {
            Structure::Cuckoo => {
                let case = of(&tables.cuckoo);
                turns.extend(table_lookups(&case, &tables, &limits, &keys, &flows, &modes));
                turns.push(table_changes(&case, &flows, &keys, ("single", 1), FlowTable::insert_each));
                turns.push(table_changes(&case, &flows, &keys, ("one-writer", 1), FlowTable::insert_run));
                turns.push(table_changes(&case, &flows, &keys, ("runs", RUN), FlowTable::insert_runs));
                turns.push(table_growth(&case, &flows, &keys));
            }
            Structure::HashBrown => {
                let case = of(&tables.map);
                turns.extend(other_lookups(&case, &limits.map, &modes));
                turns.push(map_changes(&case, &flows, &keys));
            }
            _ =>
            {
                #[cfg(feature = "dpdk")]
                if let (Some(hash), Some(limits)) = (&tables.hash, &limits.hash) {
                    let case = of(hash);
                    turns.extend(other_lookups(&case, limits, &modes));
                    turns.push(rte_hash_changes(&case, &flows, &keys));
                }
            }
        }
    }
    interleave(session, &mut vec![0; keys.set.len()], turns)
}

/// Lookups in the cuckoo table: of its keys, of other keys, during writes, and through the FIB.
fn table_lookups<'a>(
    case: &Case,
    tables: &'a Tables,
    limits: &'a TableLimits<'a>,
    keys: &'a Keys,
    flows: &'a Flows<'_>,
    modes: &[LookupMode],
) -> Vec<Measurement<'a, Vec<u8>>> {
    let case = case.clone().load(LOAD);
    let held = (&keys.set, &keys.forms);
    let mut turns = Vec::new();
    for &mode in modes {
        turns.extend(limits.held.turns(&case, None, mode));
        turns.extend(limits.missing.turns(&case, Some("missing"), mode));
        turns.extend(limits.fib.turns(&case, Some("partial-fib"), mode));
        let variant = Some("beside-writer".to_owned());
        let case = case.clone().variant(variant).batch(mode.batch());
        let rows = vec![(case.clone(), Metric::LookupRate), (case, Metric::ShareOfLimit)];
        turns.push(Measurement::several(rows, move |answers: &mut Vec<u8>| {
            let stop = AtomicBool::new(false);
            let rate = std::thread::scope(|scope| {
                scope.spawn(|| {
                    pin::to_core(1);
                    tables.cuckoo.rewrite(flows, &stop);
                });
                let rate = timing::lookup(&tables.cuckoo, mode, held.0, held.1, 1, answers);
                stop.store(true, Ordering::Relaxed);
                rate
            })?;
            timing::check("cuckoo", held.0, answers)?;
            let mut figures = vec![rate];
            figures.extend(limits.held.of_one(mode).map(|limit| rate / limit));
            Ok(figures.into())
        }));
    }
    turns
}

/// Lookups of keys that a table has, and of others.
fn both_of<'a>(table: &'a dyn Table, keys: &'a Keys) -> [Lookups<'a>; 2] {
    [Lookups::of(table, &keys.set, &keys.forms), Lookups::of(table, &keys.others, &keys.other_forms)]
}

/// Lookups in another table: of its keys, and of others.
fn other_lookups<'a>(
    case: &Case,
    [held, missing]: &'a [Lookups<'a>; 2],
    modes: &[LookupMode],
) -> Vec<Measurement<'a, Vec<u8>>> {
    let of = |&mode: &LookupMode| {
        let mut turns = held.turns(case, None, mode);
        turns.extend(missing.turns(case, Some("missing"), mode));
        turns
    };
    modes.iter().flat_map(of).collect()
}

/// Inserts the flows at some positions.
type Insert = fn(&FlowTable, &Flows<'_>, std::ops::Range<usize>) -> Result<(), BenchError>;

/// Fills its own table in two steps, checks it, and removes some keys.
fn table_changes<'a>(
    case: &Case,
    flows: &'a Flows<'_>,
    Keys { set, forms, .. }: &'a Keys,
    (variant, batch): (&str, usize),
    insert: Insert,
) -> Measurement<'a, Vec<u8>> {
    let row = |metric, variant: String, load| (case.clone().variant(variant).batch(batch).load(load), metric);
    let mut rows = vec![
        row(Metric::InsertRate, format!("{variant}, 0 to {EASY}"), EASY),
        row(Metric::InsertRate, format!("{variant}, {EASY} to {LOAD}"), LOAD),
    ];
    rows.extend((variant == "single").then(|| row(Metric::DeleteRate, variant.to_owned(), LOAD)));
    let deletes = rows.len() > 2;
    Measurement::several(rows, move |answers: &mut Vec<u8>| {
        let keys = set.len();
        let table = FlowTable::new(keys);
        #[expect(clippy::cast_sign_loss, reason = "a count of slots is not negative")]
        let cut = ((table.slots() as f64 * EASY) as usize).min(keys);
        let mut figures = Vec::new();
        for places in [0..cut, cut..keys] {
            let inserted = places.len() as f64;
            let (done, seconds) = timing::pinned(|| insert(&table, flows, places))?;
            done?;
            figures.push(inserted / seconds);
        }
        timing::lookup(&table, LookupMode::Batch(64), set, forms, 1, answers)?;
        timing::check("cuckoo", set, answers)?;
        if deletes {
            let removed = (keys / REMOVED).max(1).min(keys);
            let (done, seconds) = timing::pinned(|| table.remove_each(flows, 0..removed))?;
            done?;
            figures.push(removed as f64 / seconds);
        }
        Ok(figures.into())
    })
}

/// Fills its own growing table, and queries it when half of its keys have moved to a larger one.
fn table_growth<'a>(
    case: &Case,
    flows: &'a Flows<'_>,
    Keys { set, forms, .. }: &'a Keys,
) -> Measurement<'a, Vec<u8>> {
    let row = |metric, variant: &str, batch| (case.clone().variant(variant.to_owned()).batch(batch), metric);
    let rows =
        vec![row(Metric::InsertRate, "growing", RUN), row(Metric::LookupRate, "half-moved", GROWING_BATCH)];
    Measurement::several(rows, move |answers: &mut Vec<u8>| {
        let table = FlowTable::growing();
        let (done, seconds) = timing::pinned(|| table.insert_growing(flows, 0..set.len()))?;
        done?;
        table.move_half()?;
        let rate = timing::lookup(&table, LookupMode::Batch(GROWING_BATCH), set, forms, 1, answers)?;
        timing::check("cuckoo", set, answers)?;
        Ok(RunResult {
            figures: vec![set.len() as f64 / seconds, rate],
            table_bytes: Some(table.table_bytes()),
        })
    })
}

/// Fills its own map, checks it, and removes some keys.
fn map_changes<'a>(
    case: &Case,
    flows: &'a Flows<'_>,
    Keys { set, forms, .. }: &'a Keys,
) -> Measurement<'a, Vec<u8>> {
    Measurement::several(change_rows(case), move |answers: &mut Vec<u8>| {
        let keys = set.len();
        let mut map = FlowMap::new(keys);
        let ((), inserting) = timing::pinned(|| map.insert(flows, 0..keys))?;
        timing::lookup(&map, LookupMode::Loop, set, forms, 1, answers)?;
        timing::check("hashbrown", set, answers)?;
        let removed = (keys / REMOVED).max(1).min(keys);
        let ((), removing) = timing::pinned(|| map.remove(flows, 0..removed))?;
        Ok(vec![keys as f64 / inserting, removed as f64 / removing].into())
    })
}

/// Rows of a table that is filled and emptied key by key.
fn change_rows(case: &Case) -> Vec<(Case, Metric)> {
    let variant = noted([case.variant.clone(), Some("single".to_owned())]);
    let case = case.clone().variant(variant).batch(1);
    vec![(case.clone(), Metric::InsertRate), (case, Metric::DeleteRate)]
}

/// DPDK's table with the flows at these positions.
#[cfg(feature = "dpdk")]
fn rte_hash(flows: &Flows<'_>, places: std::ops::Range<usize>) -> Result<FlowHash, BenchError> {
    let mut table = FlowHash::of_flows(places.len())?;
    table.insert_flows(flows, places)?;
    Ok(table)
}

/// Fills its own DPDK table, checks it, and removes some keys.
#[cfg(feature = "dpdk")]
fn rte_hash_changes<'a>(
    case: &Case,
    flows: &'a Flows<'_>,
    Keys { set, forms, .. }: &'a Keys,
) -> Measurement<'a, Vec<u8>> {
    Measurement::several(change_rows(case), move |answers: &mut Vec<u8>| {
        let keys = set.len();
        let mut table = FlowHash::of_flows(keys)?;
        let (done, inserting) = timing::pinned(|| table.insert_flows(flows, 0..keys))?;
        done?;
        timing::lookup(&table, LookupMode::Batch(64), set, forms, 1, answers)?;
        timing::check("rte_hash", set, answers)?;
        let removed = (keys / REMOVED).max(1).min(keys);
        let (done, removing) = timing::pinned(|| table.remove_flows(flows, 0..removed))?;
        done?;
        Ok(vec![keys as f64 / inserting, removed as f64 / removing].into())
    })
}
