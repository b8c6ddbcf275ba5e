//! Asks a structure on some threads, each pinned, and compares its answers with the right ones.

use super::fibs::{self, Asker, BATCH, Fib, NameFib};
use crate::error::BenchError;
use crate::names::population::Population;
use crate::names::{mac_numbers, mixed};
use crate::timing;
use scalebricks_types::KeyHash;

/// Least lookups of a run: few names are asked for again and again.
const LEAST: usize = 1 << 21;

/// Does the parts of some work, each on a thread of its own that stays on one core; seconds from when the first begins until the
/// last is done.
///
/// # Errors
/// [`BenchError::Threads`]; [`BenchError::Rejected`] if no time passed.
pub fn on_threads<P: Send>(parts: Vec<P>, work: impl Fn(P) + Sync) -> Result<f64, BenchError> {
    let work = &work;
    timing::together("names asked for", parts.into_iter().map(|part| move || work(part)).collect())
}

/// Asks for the first names, hashed before; lookups a second of all threads.
///
/// # Errors
/// [`BenchError::Check`] for a wrong answer; [`BenchError::Threads`].
pub fn hashed(
    fib: Fib,
    table: &dyn NameFib,
    (names, asked): (&Population, usize),
    threads: usize,
    answers: &mut [u16],
) -> Result<f64, BenchError> {
    measured(fib, table, (names, asked), answers, |answers, passes| {
        let share = asked.div_ceil(threads).max(1);
        let parts = names.hashes[..asked].chunks(share).zip(answers.chunks_mut(share)).collect();
        on_threads(parts, |(hashes, answers)| {
            let mut asker = table.asker();
            for _ in 0..passes {
                batches(&mut *asker, hashes, answers);
            }
        })
    })
}

/// The same with names made by a register and hashed while they are asked for. The population is [`Population::of_numbers`].
///
/// # Errors
/// As [`hashed`].
pub fn made(
    fib: Fib,
    table: &dyn NameFib,
    (names, asked): (&Population, usize),
    threads: usize,
    answers: &mut [u16],
) -> Result<f64, BenchError> {
    measured(fib, table, (names, asked), answers, |answers, passes| {
        let share = asked.div_ceil(threads).max(1);
        let mut register = mac_numbers(1);
        let mut parts = Vec::new();
        for answers in answers.chunks_mut(share) {
            let start = register.clone();
            register.nth(answers.len() - 1);
            parts.push((start, answers));
        }
        on_threads(parts, |(start, answers)| {
            let (mut asker, mut batch) = (table.asker(), [KeyHash::new(0); BATCH]);
            for _ in 0..passes {
                let mut register = start.clone();
                for answers in answers.chunks_mut(BATCH) {
                    let batch = &mut batch[..answers.len()];
                    // Never at its end.
                    batch.iter_mut().zip(&mut register).for_each(|(hash, name)| *hash = mixed(name));
                    asker.ask(batch, answers);
                }
            }
        })
    })
}

/// Makes answers wrong, has them written, and compares them.
fn measured(
    fib: Fib,
    table: &dyn NameFib,
    (names, asked): (&Population, usize),
    answers: &mut [u16],
    ask: impl FnOnce(&mut [u16], usize) -> Result<f64, BenchError>,
) -> Result<f64, BenchError> {
    let (hashes, right) = (&names.hashes[..asked], &names.actions[..asked]);
    let answers = &mut answers[..asked];
    answers.iter_mut().zip(right).for_each(|(answer, right)| *answer = !right);
    // Slow structures are given few names on purpose.
    let passes = if fib.is_slow() { 1 } else { (LEAST / asked.max(1)).max(1) };
    let seconds = ask(answers, passes)?;
    fibs::check(fib.name(), table, hashes, (right, answers))?;
    Ok((asked * passes) as f64 / seconds)
}

/// Asks for names in batches.
fn batches(asker: &mut dyn Asker, hashes: &[KeyHash], answers: &mut [u16]) {
    for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
        asker.ask(hashes, answers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_names_made_or_hashed() {
        let names = Population::of_numbers(1000, 2);
        let table = Fib::OTHELLO.build(&names, 1).unwrap();
        for ask in [hashed, made] {
            for threads in [1, 2, 3] {
                let mut answers = vec![0; 1000];
                assert!(ask(Fib::OTHELLO, &*table, (&names, 999), threads, &mut answers).unwrap() > 0.0);
                assert_eq!(answers[..999], names.actions[..999]);
            }
        }
    }

    #[test]
    fn wrong_answers_are_told() {
        let mut names = Population::of_numbers(1000, 2);
        let table = Fib::Sorted.build(&names, 1).unwrap();
        names.actions[998] ^= 1;
        for ask in [hashed, made] {
            assert!(ask(Fib::Sorted, &*table, (&names, 1000), 2, &mut vec![0; 1000]).is_err());
            assert!(ask(Fib::Sorted, &*table, (&names, 998), 2, &mut vec![0; 1000]).is_ok());
        }
    }
}
