//! Figure 4: hashing and looking up names, by name length and number of threads.

use super::fibs::{self, BATCH, Fib, NameFib, replay};
use super::{names, paper, with_threads};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::keys::mix;
use crate::limit::{self, LIMIT, Limits};
use crate::names::NameHasher;
use crate::names::population::{Population, SEED};
use crate::rounds::interleave;
use crate::row::{Metric, Row, SelectRows, distinct};
use crate::sheet::{Sheet, chart, counted};
use crate::{pin, timing};
use scalebricks_report::exhibit::Scale;
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
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let names = options.first_keys(262_144, 262_144);
    if bench.fits(names, NAME_BYTES + limit::bytes_per_key(names, STRUCTURES.len()))? {
        for length in LENGTHS {
            one(bench, names, length, options.first_value_bits(8))?;
        }
        let rows = bench.rows().to_vec();
        show(bench, &rows);
        conclude(bench, &rows);
    }
    Ok(())
}

/// Names of one length in sequence; the first eight bytes of each are unique.
fn texts(names: u64, length: usize) -> Vec<u8> {
    let word = |number: u64, at: usize| mix(number.wrapping_add((at as u64) << 40)).to_le_bytes();
    let text = |number: u64| (0..length.div_ceil(8)).flat_map(move |at| word(number, at)).take(length);
    (0..names).flat_map(text).collect()
}

/// The hashed names with their actions.
fn population(texts: &[u8], length: usize, value_bits: u8) -> Population {
    let hasher = NameHasher::new(SEED);
    Population::new(texts.chunks(length).map(|name| hasher.hash(name)).collect(), value_bits)
}

fn one(bench: &mut BenchRun<'_>, names: u64, length: usize, value_bits: u8) -> Result<(), BenchError> {
    let busy = bench.busy("building");
    let texts = texts(names, length);
    let set = population(&texts, length, value_bits);
    let mut tables = Vec::new();
    for fib in STRUCTURES.into_iter().filter(|&fib| fib != Fib::SetSep || value_bits <= 8) {
        bench.check()?;
        tables.push((fib, fib.build(&set, pin::cores())?));
    }
    let limits: Vec<Limits<'_>> =
        tables.iter().map(|(_, table)| Limits::new(replay(&**table, &set.hashes), PASSES)).collect();
    drop(busy);
    let mut turns = Vec::new();
    for ((fib, table), limits) in tables.iter().zip(&limits) {
        for threads in bench.options.threads(&THREADS, &THREADS) {
            let variant = format!("names of {length} bytes");
            let case = bench
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
    interleave(bench, &mut vec![0; names as usize], turns)
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
                reader(hashes, answers);
            }
        }
    })
}

/// The name length of a row of this part.
fn length_of(row: &Row) -> Option<u32> {
    let variant = row.case.variant.as_deref()?.strip_prefix("names of ")?;
    variant.strip_suffix(" bytes").filter(|_| row.metric == Metric::LookupRate)?.parse().ok()
}

fn show(bench: &mut BenchRun<'_>, rows: &[Row]) {
    let threads = bench.options.threads(&THREADS, &THREADS);
    let ours = || rows.iter().filter_map(|row| Some((length_of(row)?, row)));
    let first = ours().filter(|(_, row)| row.case.threads == threads.first().copied());
    let sheet = Sheet::new("concise-figure-4", first)
        .column("names", |(_, row)| names(row))
        .column("bytes of a name", |(length, _)| *length)
        .column("structure", |(_, row)| row.case.structure.clone())
        .column("paper", |_| paper::PLOTTED);
    bench.add_table(with_threads(sheet, &threads, rows, |(length, like), threads| {
        let mut rows = ours().filter(|(of, row)| of == length && row.case.structure == like.case.structure);
        rows.find(|(_, row)| row.case.threads == Some(threads)).map(|(_, row)| row)
    }));
    // More threads than cores say nothing about lengths; they are only in the table.
    let points = ours().filter_map(|(length, row)| {
        let threads = row.case.threads.filter(|&threads| threads <= pin::cores())?;
        let name = format!("{}, {}", row.case.structure, counted(threads, "thread"));
        Some((name, row.point(length.into(), 1e6)))
    });
    let (x, y) = (("bytes of a name", Scale::Doublings), ("million a second", Scale::Linear));
    let title = "Names hashed and looked up, by length and threads";
    bench.add_chart(chart("concise-figure-4", title, x, y, points));
}

/// Compares the shortest and longest names, and one thread with all cores.
fn conclude(bench: &mut BenchRun<'_>, rows: &[Row]) {
    let ours = || rows.iter().structure("othello").filter_map(|row| Some((length_of(row)?, row)));
    let at = |length: u32, threads: usize| {
        let mut rows = ours().filter(|(of, _)| *of == length).map(|(_, row)| row).threads(threads);
        rows.next().map(|row| row.median / 1e6)
    };
    let lengths = distinct(ours().map(|(length, _)| length));
    let (Some(&short), Some(&long)) = (lengths.first(), lengths.last()) else { return };
    let cores = pin::cores();
    let (Some(most), Some(least), Some(both)) = (at(short, 1), at(long, 1), at(short, cores)) else { return };
    let sentence = format!(
        "One thread hashes and looks up {most:.0} M names of {short} bytes a second and {least:.0} M of {long} bytes; {cores} threads do \
         {:.2} times as much as one at {short} bytes. The paper says that its rate falls with the length, rises a little at multiples \
         of 64 bits, and grows with threads up to the number of cores.",
        both / most,
    );
    bench.add_conclusion("concise-figure-4-conclusion", sentence);
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
        let texts = texts(700, 20);
        let set = population(&texts, 20, 3);
        let table = Fib::OTHELLO.build(&set, 1).unwrap();
        for threads in [1, 3] {
            let mut answers = vec![9; 700];
            ask(&*table, (&texts, 20), &mut answers, threads).unwrap();
            assert_eq!(answers, set.actions);
        }
    }
}
