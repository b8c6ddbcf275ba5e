//! Figure 4: hashing and looking up names, by name length and number of threads.

use super::fibs::{self, BATCH, Fib, NameFib, replay};
use super::{add_point, conclusions, millions, paper};
use crate::error::BenchError;
use crate::keys::mix;
use crate::limit::{self, LIMIT, Limits};
use crate::names::NameHasher;
use crate::names::population::{Population, SEED, action};
use crate::rounds::interleave;
use crate::row::{Metric, Row};
use crate::session::Session;
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, PageTable, Scale};
use scalebricks_types::KeyHash;

/// Name lengths in bytes.
const LENGTHS: [usize; 9] = [8, 12, 16, 20, 24, 32, 64, 128, 256];
/// Lookups of all names per run.
const PASSES: usize = 8;
/// Threads that hash and look up.
const THREADS: [usize; 3] = [1, 2, paper::THREADS];
/// Bytes per name for the longest names and the tables.
const NAME_BYTES: u64 = 256 + 100;
const STRUCTURES: [Fib; 3] = [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo];

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let names = options.first_keys(262_144, 262_144);
    if !session.fits(names, NAME_BYTES + limit::bytes_per_key(names, STRUCTURES.len()))? {
        return Ok(());
    }
    let value_bits = options.first_value_bits(8);
    for length in LENGTHS {
        one(session, names, length, value_bits)?;
    }
    show(session);
    Ok(())
}

/// Names of one length in sequence; the first eight bytes of each are unique.
fn texts(names: u64, length: usize) -> Vec<u8> {
    let word = |number: u64, at: usize| mix(number.wrapping_add((at as u64) << 40)).to_le_bytes();
    let text = |number: u64| (0..length.div_ceil(8)).flat_map(move |at| word(number, at)).take(length);
    (0..names).flat_map(text).collect()
}

fn one(session: &mut Session<'_>, names: u64, length: usize, value_bits: u8) -> Result<(), BenchError> {
    let busy = session.busy("building");
    let texts = texts(names, length);
    let hasher = NameHasher::new(SEED);
    let set = Population {
        value_bits,
        hashes: texts.chunks(length).map(|name| hasher.hash(name)).collect(),
        actions: (0..names).map(|number| action(number, value_bits)).collect(),
    };
    let mut tables = Vec::new();
    for fib in STRUCTURES.into_iter().filter(|&fib| fib != Fib::SetSep || value_bits <= 8) {
        session.check()?;
        tables.push((fib, fib.build(&set, pin::cores())?));
    }
    let limits: Vec<Limits<'_>> =
        tables.iter().map(|(_, table)| Limits::new(replay(&**table, &set.hashes), PASSES)).collect();
    drop(busy);
    let mut turns = Vec::new();
    let threads = session.options().threads(&THREADS, &THREADS);
    for ((fib, table), limits) in tables.iter().zip(&limits) {
        for &threads in &threads {
            let variant = format!("names of {length} bytes");
            let case = session
                .case(fib.name(), names)
                .format(fib.format())
                .variant(variant.clone())
                .value_bits(value_bits)
                .threads(threads)
                .batch(BATCH)
                .table_bytes(table.table_bytes());
            let (texts, set) = (&texts, &set);
            turns.extend(limits.turns(case, format!("{variant}, {LIMIT}"), move |answers: &mut Vec<u16>| {
                answers.iter_mut().zip(&set.actions).for_each(|(answer, right)| *answer = !right);
                let seconds = ask(&**table, (texts, length), answers, threads)?;
                fibs::check(fib.name(), &**table, &set.hashes, (&set.actions, answers))?;
                Ok((PASSES * set.len()) as f64 / seconds)
            }));
        }
    }
    interleave(session, &mut vec![0; names as usize], turns)
}

/// Hashes and looks up all names on `threads` threads; returns seconds.
fn ask(
    table: &dyn NameFib,
    (texts, length): (&[u8], usize),
    answers: &mut [u16],
    threads: usize,
) -> Result<f64, BenchError> {
    timing::shared("names of one length", answers, threads, |places, answers| {
        let texts = &texts[places.start * length..places.end * length];
        let (mut reader, hasher) = (table.reader(), NameHasher::new(SEED));
        let mut hashes = [KeyHash::new(0); BATCH];
        for _ in 0..PASSES {
            for (texts, answers) in texts.chunks(BATCH * length).zip(answers.chunks_mut(BATCH)) {
                let hashes = &mut hashes[..answers.len()];
                for (hash, name) in hashes.iter_mut().zip(texts.chunks(length)) {
                    *hash = hasher.hash(name);
                }
                reader.lookup(hashes, answers);
            }
        }
    })
}

/// The name length of a row of this part.
pub fn length_of(row: &Row) -> Option<u32> {
    if row.metric != Metric::LookupRate {
        return None;
    }
    let variant = row.case.variant.as_deref()?.strip_prefix("names of ")?;
    variant.strip_suffix(" bytes")?.parse().ok()
}

fn show(session: &mut Session<'_>) {
    let rows: Vec<Row> = session.rows().to_vec();
    let threads = session.options().threads(&THREADS, &THREADS);
    let mut sheet = PageTable::new("concise-figure-4", &["names", "bytes of a name", "structure", "paper"]);
    for &threads in &threads {
        let mark = if threads > pin::cores() { ", oversubscribed" } else { "" };
        sheet.heads.push(format!("{threads} thread{}{mark}, M/s", if threads == 1 { "" } else { "s" }));
        sheet.heads.push(format!("{threads} thread{}, of the limit", if threads == 1 { "" } else { "s" }));
    }
    let axis = ("bytes of a name", Scale::Doublings);
    let title = "Names hashed and looked up, by length and threads";
    let mut chart = Chart::new("concise-figure-4", title, axis, ("million a second", Scale::Linear));
    for row in &rows {
        let of = &row.case;
        let (Some(length), Some(number)) = (length_of(row), of.threads) else { continue };
        if Some(&number) == threads.first() {
            let head =
                [short_count(of.keys), length.to_string(), of.structure.clone(), paper::PLOTTED.to_owned()];
            sheet.rows.push(head.into());
        }
        if let Some(cells) = sheet.rows.last_mut() {
            cells.extend([millions(&row.summary()), limit::share_text(limit::share_of(&rows, row))]);
        }
        // More threads than cores say nothing about lengths; they are only in the table.
        if number <= pin::cores() {
            let name = format!("{}, {number} thread{}", of.structure, if number == 1 { "" } else { "s" });
            add_point(&mut chart, &name, length.into(), row, 1e6);
        }
    }
    session.add_table(sheet);
    session.add_chart(chart);
    conclusions::name_lengths(session, &rows);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_of_one_length_differ() {
        for length in [8, 12, 64] {
            let all = texts(1000, length);
            assert_eq!(all.len(), 1000 * length);
            assert_eq!(all.chunks(length).collect::<HashSet<_>>().len(), 1000);
        }
    }

    #[test]
    fn names_are_hashed_and_found() {
        let (hasher, texts) = (NameHasher::new(SEED), texts(700, 20));
        let set = Population {
            value_bits: 3,
            hashes: texts.chunks(20).map(|name| hasher.hash(name)).collect(),
            actions: (0..700).map(|number| action(number, 3)).collect(),
        };
        let table = Fib::OTHELLO.build(&set, 1).unwrap();
        for threads in [1, 3] {
            let mut answers = vec![9; 700];
            ask(&*table, (&texts, 20), &mut answers, threads).unwrap();
            assert_eq!(answers, set.actions);
        }
    }
}
