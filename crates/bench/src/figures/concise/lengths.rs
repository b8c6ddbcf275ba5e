//! Figure 4: hashing a name and looking it up, by the length of names and the number of threads.

use super::fibs::{self, BATCH, Fib, NameFib};
use super::{add_point, millions, paper};
use crate::error::BenchError;
use crate::figures::exhibit::{Chart, Scale, Sheet};
use crate::keys::mix;
use crate::names::NameHasher;
use crate::names::population::{Population, SEED, action};
use crate::pin;
use crate::rounds::{Turn, alternate};
use crate::row::{Metric, Row, Subject};
use crate::session::Session;
use crate::timing;
use scalebricks_console::quantity::short_count;
use scalebricks_types::KeyHash;
use std::sync::Barrier;

/// Bytes of a name.
const LENGTHS: [usize; 6] = [8, 16, 32, 64, 128, 256];
/// Bytes a name, the longest and the tables.
const NAME_BYTES: u64 = 256 + 100;
const STRUCTURES: [Fib; 3] = [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo];

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let names = options.keys(&[100_000], &[1_000_000]).first().copied().unwrap_or(1);
    if !session.fits(names, NAME_BYTES)? {
        return Ok(());
    }
    let value_bits = options.value_bits(&[2], &[2]).first().copied().unwrap_or(2);
    for length in LENGTHS {
        one(session, names, length, value_bits)?;
    }
    show(session);
    Ok(())
}

/// Names of one length, one behind the other; the first eight bytes are all different.
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
    drop(busy);
    let mut turns = Vec::new();
    let threads = session.options().threads_or_pair();
    for (fib, table) in &tables {
        for &threads in &threads {
            let subject = Subject {
                format: fib.format(),
                variant: Some(format!("names of {length} bytes")),
                value_bits: Some(value_bits),
                threads: Some(threads),
                batch: Some(BATCH),
                table_bytes: Some(table.table_bytes()),
                ..session.subject(fib.name(), names)
            };
            let (texts, set) = (&texts, &set);
            turns.push(Turn::new(subject, Metric::LookupRate, move |answers: &mut Vec<u16>| {
                answers.iter_mut().zip(&set.actions).for_each(|(answer, right)| *answer = !right);
                let seconds = ask(&**table, (texts, length), answers, threads)?;
                fibs::check(fib.name(), &**table, &set.hashes, (&set.actions, answers))?;
                Ok((set.len() as f64 / seconds).into())
            }));
        }
    }
    alternate(session, &mut vec![0; names as usize], turns)
}

/// Hashes and asks for all names on so many threads; seconds.
fn ask(
    table: &dyn NameFib,
    (texts, length): (&[u8], usize),
    answers: &mut [u16],
    threads: usize,
) -> Result<f64, BenchError> {
    let share = answers.len().div_ceil(threads).max(1);
    let barrier = Barrier::new(answers.len().div_ceil(share));
    let panicked = |_| BenchError::Threads("a thread that measured has panicked".to_owned());
    std::thread::scope(|scope| {
        let barrier = &barrier;
        let parts = texts.chunks(share * length).zip(answers.chunks_mut(share)).enumerate();
        let clock = if threads == 1 { timing::Clock::chosen() } else { timing::Clock::Wall };
        let workers: Vec<_> = parts
            .map(|(number, (texts, answers))| {
                scope.spawn(move || {
                    pin::to_core(number);
                    let (mut asker, hasher) = (table.asker(), NameHasher::new(SEED));
                    let mut hashes = [KeyHash::new(0); BATCH];
                    barrier.wait();
                    let start = clock.now();
                    for (texts, answers) in texts.chunks(BATCH * length).zip(answers.chunks_mut(BATCH)) {
                        let hashes = &mut hashes[..answers.len()];
                        for (hash, name) in hashes.iter_mut().zip(texts.chunks(length)) {
                            *hash = hasher.hash(name);
                        }
                        asker.ask(hashes, answers);
                    }
                    (start, clock.now())
                })
            })
            .collect();
        let times: Vec<_> =
            workers.into_iter().map(|worker| worker.join().map_err(panicked)).collect::<Result<_, _>>()?;
        let start = times.iter().map(|time| time.0).min().unwrap_or_default();
        let end = times.iter().map(|time| time.1).max().unwrap_or_default();
        Ok(end.saturating_sub(start).as_secs_f64().max(1e-9))
    })
}

fn show(session: &mut Session<'_>) {
    let heads = ["names", "bytes of a name", "structure", "threads", "paper, M/s", "M/s"];
    let mut sheet = Sheet::new("concise-figure-4", &heads);
    let axis = ("bytes of a name", Scale::Doublings);
    let title = "Names hashed and looked up, by length and threads";
    let mut chart = Chart::new("concise-figure-4", title, axis, ("million a second", Scale::Linear));
    let rows: Vec<Row> = session.rows().to_vec();
    for row in &rows {
        let of = &row.subject;
        let Some(length) = of.variant.as_deref().and_then(|variant| variant.strip_prefix("names of ")) else {
            continue;
        };
        let Some(length) = length.strip_suffix(" bytes").and_then(|length| length.parse::<u32>().ok()) else {
            continue;
        };
        let threads = of.threads.unwrap_or(1);
        sheet.rows.push(vec![
            short_count(of.keys),
            length.to_string(),
            of.structure.clone(),
            threads.to_string(),
            paper::NOT_GIVEN.to_owned(),
            millions(&row.summary()),
        ]);
        let name = format!("{}, {threads} thread{}", of.structure, if threads == 1 { "" } else { "s" });
        add_point(&mut chart, &name, length.into(), row, 1e6);
    }
    session.tabulate(sheet);
    session.show(chart);
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
