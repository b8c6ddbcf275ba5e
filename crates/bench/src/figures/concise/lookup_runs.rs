//! Asks a structure on some threads, each pinned, and compares its answers with the right ones.

use super::fibs::{self, BATCH, Fib, NameFib};
use crate::error::BenchError;
use crate::names::population::Population;
use crate::names::{mac_numbers, mixed};
use crate::timing;
use scalebricks_types::KeyHash;

/// Least lookups of a run: few names are asked for again and again.
const LEAST: usize = 1 << 21;

/// What is timed here, in errors.
const WHAT: &str = "names asked for";

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
        timing::shared(WHAT, answers, threads, |places, answers| {
            let (mut reader, hashes) = (table.reader(), &names.hashes[places]);
            for _ in 0..passes {
                for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
                    reader.lookup(hashes, answers);
                }
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
        let (share, mut register) = (timing::share(asked, threads), mac_numbers(1));
        // Where the register is at the first name of each thread.
        let mut starts = Vec::new();
        for _ in (0..asked).step_by(share) {
            starts.push(register.clone());
            register.nth(share - 1);
        }
        timing::shared(WHAT, answers, threads, |places, answers| {
            let (mut reader, mut batch) = (table.reader(), [KeyHash::new(0); BATCH]);
            for _ in 0..passes {
                let mut register = starts[places.start / share].clone();
                for answers in answers.chunks_mut(BATCH) {
                    let batch = &mut batch[..answers.len()];
                    // Never at its end.
                    batch.iter_mut().zip(&mut register).for_each(|(hash, name)| *hash = mixed(name));
                    reader.lookup(batch, answers);
                }
            }
        })
    })
}

/// How often a run asks for all of so many names. Slow structures are given few names on purpose.
pub fn passes(fib: Fib, asked: usize) -> usize {
    if fib.is_slow() { 1 } else { (LEAST / asked.max(1)).max(1) }
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
    let passes = passes(fib, asked);
    let seconds = ask(answers, passes)?;
    fibs::check(fib.name(), table, hashes, (right, answers))?;
    Ok((asked * passes) as f64 / seconds)
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
