//! `fib`: the exact table of flows at 95 % load, beside the hash map of Rust's standard library.

use crate::bench::Bench;
use crate::contestants::flows::{FlowMap, FlowTable, Flows};
use crate::contestants::{Form, Forms, Mode, Structure, Table};
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::rounds::{Found, Turn, alternate};
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::timing;

/// The benchmark.
#[derive(Debug)]
pub struct Fib;

/// Load of the table when it is looked up.
const LOAD: f64 = 0.95;

/// Load below which inserts are easy.
const EASY: f64 = 0.75;

/// Bits of the part of the value that is checked: never all ones, which stand for "not there".
const VALUE_BITS: u8 = 7;

/// Bits of the whole value.
const ALL_VALUE_BITS: u8 = 128;

/// Of all keys, those that are taken out again.
const REMOVED: usize = 16;

/// Bytes a key of everything: keys, questions, and two of each table.
const KEY_BYTES: u64 = 18 + 32 + 2 * (34 + 84);

impl Bench for Fib {
    fn name(&self) -> &'static str {
        "fib"
    }

    fn run(&self, session: &mut Session<'_>) -> Result<(), BenchError> {
        for keys in session.options().keys(&[1_000_000], &[1_000_000, 8_000_000]) {
            if session.fits(keys, KEY_BYTES)? {
                one(session, keys)?;
            }
        }
        Ok(())
    }
}

/// One table size.
fn one(session: &mut Session<'_>, keys: u64) -> Result<(), BenchError> {
    let options = session.options();
    let busy = session.busy("making keys and tables");
    let set = KeySet::new(keys, VALUE_BITS);
    let flows = Flows::new(&set);
    let forms = Forms::of(&set, [Form::Words]);
    let structures = options.structures(&[Structure::Cuckoo, Structure::HashBrown]);
    let subject = |structure: Structure| Subject {
        value_bits: Some(ALL_VALUE_BITS),
        threads: Some(1),
        ..session.subject(structure.name(), keys)
    };
    let table = FlowTable::new(set.len());
    table.insert_run(&flows, 0..set.len())?;
    let mut map = FlowMap::new(set.len());
    map.insert(&flows, 0..set.len());
    drop(busy);

    let mut turns = Vec::new();
    for structure in structures {
        let (held, modes): (&dyn Table, Vec<Mode>) = if structure == Structure::Cuckoo {
            (&table, options.batches(&[32, 64, 256]).into_iter().map(Mode::Batch).collect())
        } else {
            (&map, vec![Mode::Loop])
        };
        let subject = Subject { table_bytes: Some(held.table_bytes()), ..subject(structure) };
        for mode in modes {
            let load = (structure == Structure::Cuckoo).then_some(LOAD);
            let variant = Some(mode.name().to_owned());
            let subject = Subject { variant, batch: mode.batch(), load, ..subject.clone() };
            let (set, forms) = (&set, &forms);
            turns.push(Turn::new(subject, Metric::LookupRate, move |answers: &mut Vec<u8>| {
                let rate = timing::lookup(held, mode, set, forms, 1, answers)?;
                timing::check(structure.name(), set, answers)?;
                Ok(rate.into())
            }));
        }
        if structure == Structure::Cuckoo {
            turns.push(table_changes(&subject, &flows, &set, &forms, "single", FlowTable::insert_each));
            turns.push(table_changes(&subject, &flows, &set, &forms, "one-writer", FlowTable::insert_run));
        } else {
            turns.push(map_changes(&subject, &flows, &set, &forms));
        }
    }
    alternate(session, &mut vec![0; set.len()], turns)
}

/// Adds the flows at some places.
type Insert = fn(&FlowTable, &Flows<'_>, std::ops::Range<usize>) -> Result<(), BenchError>;

/// Fills a table of its own in two steps, checks it, and takes some keys out.
fn table_changes<'a>(
    subject: &Subject,
    flows: &'a Flows<'_>,
    set: &'a KeySet,
    forms: &'a Forms,
    variant: &str,
    insert: Insert,
) -> Turn<'a, Vec<u8>> {
    let row = |metric, variant: String, load| {
        (Subject { variant: Some(variant), batch: Some(1), load: Some(load), ..subject.clone() }, metric)
    };
    let mut rows = vec![
        row(Metric::InsertRate, format!("{variant}, 0 to {EASY}"), EASY),
        row(Metric::InsertRate, format!("{variant}, {EASY} to {LOAD}"), LOAD),
    ];
    rows.extend((variant == "single").then(|| row(Metric::DeleteRate, variant.to_owned(), LOAD)));
    let deletes = rows.len() > 2;
    Turn::several(rows, move |answers: &mut Vec<u8>| {
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
        timing::lookup(&table, Mode::Batch(64), set, forms, 1, answers)?;
        timing::check("cuckoo", set, answers)?;
        if deletes {
            let removed = (keys / REMOVED).max(1).min(keys);
            let (done, seconds) = timing::pinned(|| table.remove_each(flows, 0..removed))?;
            done?;
            figures.push(removed as f64 / seconds);
        }
        Ok(Found { figures, table_bytes: None })
    })
}

/// Fills a map of its own, checks it, and takes some keys out.
fn map_changes<'a>(
    subject: &Subject,
    flows: &'a Flows<'_>,
    set: &'a KeySet,
    forms: &'a Forms,
) -> Turn<'a, Vec<u8>> {
    let subject = Subject { variant: Some("single".to_owned()), batch: Some(1), ..subject.clone() };
    let rows = vec![(subject.clone(), Metric::InsertRate), (subject, Metric::DeleteRate)];
    Turn::several(rows, move |answers: &mut Vec<u8>| {
        let keys = set.len();
        let mut map = FlowMap::new(keys);
        let ((), inserting) = timing::pinned(|| map.insert(flows, 0..keys))?;
        timing::lookup(&map, Mode::Loop, set, forms, 1, answers)?;
        timing::check("hashbrown", set, answers)?;
        let removed = (keys / REMOVED).max(1).min(keys);
        let ((), removing) = timing::pinned(|| map.remove(flows, 0..removed))?;
        Ok(Found { figures: vec![keys as f64 / inserting, removed as f64 / removing], table_bytes: None })
    })
}
