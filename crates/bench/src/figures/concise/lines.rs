//! `concise`: Table II of the Concise paper, memory and cache lines a query of MAC addresses, with its baselines run and not computed.

use super::build::{build, check};
use crate::baselines::buffalo::{Buffalo, Sizes};
use crate::baselines::cuckoo::Cuckoo;
use crate::baselines::orthogonal::Orthogonal;
use crate::baselines::sorted::Sorted;
use crate::baselines::{Answer, Baseline, BaselineError, RATE};
use crate::bench::Bench;
use crate::contestants::{Make, Structure};
use crate::error::BenchError;
use crate::keys::{KeySet, mix};
use crate::names::{NameHasher, macs};
use crate::pin;
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::Summary;
use rayon::prelude::*;
use scalebricks_tables::othello::Sizing;
use scalebricks_types::KeyHash;

/// The benchmark.
#[derive(Debug)]
pub struct Concise;

/// Bytes a name that building takes at the worst: orthogonal filters of eight pairs take 24.
const NAME_BYTES: u64 = 80 + 64;

/// Names of which the lines of a query are counted.
const COUNTED: usize = 10_000;

impl Bench for Concise {
    fn name(&self) -> &'static str {
        "concise"
    }

    fn run(&self, session: &mut Session<'_>) -> Result<(), BenchError> {
        let options = session.options();
        for names in options.keys(&[100_000], &[500_000, 1_000_000, 5_000_000]) {
            if !session.fits(names, NAME_BYTES)? {
                continue;
            }
            for value_bits in options.value_bits(&[1, 8], &[1, 4, 6, 8]) {
                let busy = session.busy("making names");
                let set = population(names as usize, value_bits); // fits the memory
                drop(busy);
                ours(session, &set)?;
                // Other structures were asked for by name.
                if options.structures.is_none() {
                    baselines(session, &set)?;
                }
            }
        }
        Ok(())
    }
}

/// MAC addresses, with an action for each.
fn population(names: usize, value_bits: u8) -> KeySet {
    let hasher = NameHasher::new(1);
    let hashes: Vec<KeyHash> = macs(1).take(names).map(|name| hasher.hash(&name)).collect();
    let values: Vec<u8> = (0..names as u64).map(|n| (mix(n) >> (64 - u32::from(value_bits))) as u8).collect(); // so many bits
    KeySet { value_bits, questions: hashes.clone(), answers: values.clone(), hashes, values }
}

fn subject(session: &Session<'_>, structure: &str, set: &KeySet, table_bytes: u64) -> Subject {
    Subject {
        value_bits: Some(set.value_bits),
        table_bytes: Some(table_bytes),
        ..session.subject(structure, set.len() as u64)
    }
}

fn add(session: &mut Session<'_>, subject: &Subject, lines: f64) {
    let bits = subject.table_bytes.unwrap_or(0) as f64 * 8.0 / subject.keys.max(1) as f64;
    session.add(subject.clone(), Metric::BitsPerKey, Summary::exact(bits));
    session.add(subject.clone(), Metric::CacheLines, Summary::exact(lines));
}

/// `SetSep` and Othello: lines by their own account, as every query reads the same number.
fn ours(session: &mut Session<'_>, set: &KeySet) -> Result<(), BenchError> {
    // Either finds a line by a line of its directory, which is small and stays in the cache: 4 bytes for 1024 or 220 names.
    let with_directory = |lines: u8| f64::from(1 + lines);
    let mut makes = vec![(Structure::SetSep, Make::table(), with_directory(2))];
    for sizing in Sizing::ALL {
        // A range of 512 bits is one line.
        let slots = if sizing == Sizing::Sharded && set.value_bits == 1 { 1 } else { 2 };
        makes.push((Structure::Othello, Make { sizing, ..Make::table() }, with_directory(slots)));
    }
    for structure in session.options().structures(&[Structure::SetSep, Structure::Othello]) {
        for &(_, make, lines) in makes.iter().filter(|(of, _, _)| *of == structure) {
            session.check()?;
            let busy = session.busy("building");
            let threads = pin::cores();
            let mut prepared = structure.prepare(set, Make { threads, ..make })?;
            let (table, _) = build(&mut *prepared, threads)?;
            check(structure, &*table, set)?;
            drop(busy);
            let is_othello = structure == Structure::Othello;
            let format = Some(if is_othello { make.sizing.name() } else { make.format.name() });
            let subject = Subject { format, ..subject(session, structure.name(), set, table.table_bytes()) };
            add(session, &subject, lines);
        }
    }
    Ok(())
}

/// Builds one of the baselines.
type BuildOne = fn(&[(KeyHash, u16)], u8) -> Result<Box<dyn Baseline + Sync>, BaselineError>;

/// All that are compared by names.
const BASELINES: [(&str, BuildOne); 4] = [
    ("cuckoo", |names, _| Ok(Box::new(Cuckoo::build(names)?))),
    ("binary-search", |names, _| Ok(Box::new(Sorted::build(names)?))),
    ("buffalo", |names, value_bits| {
        let mut counts = vec![0; 1 << value_bits];
        for &(_, action) in names {
            counts[usize::from(action)] += 1;
        }
        Ok(Box::new(Buffalo::build(names, &Sizes::for_rate(&counts, RATE, 1)?)?))
    }),
    ("orthogonal", |names, value_bits| Ok(Box::new(Orthogonal::build(names, value_bits, RATE, 1)?))),
];

fn baselines(session: &mut Session<'_>, set: &KeySet) -> Result<(), BenchError> {
    let actions = set.values.iter().map(|&value| u16::from(value));
    let names: Vec<(KeyHash, u16)> = set.hashes.iter().copied().zip(actions).collect();
    for (name, build) in BASELINES {
        session.check()?;
        let busy = session.busy("building");
        let table = build(&names, set.value_bits).map_err(|error| BenchError::of(name, error))?;
        let ambiguous = ask(name, &*table, &names)?;
        drop(busy);
        let step = names.len().div_ceil(COUNTED).max(1);
        let counted: Vec<f64> =
            names.iter().step_by(step).map(|&(name, _)| table.lines(name) as f64).collect();
        let subject = subject(session, name, set, table.table_bytes());
        add(session, &subject, counted.iter().sum::<f64>() / counted.len().max(1) as f64);
        session.add(subject, Metric::AmbiguousNames, Summary::exact(ambiguous as f64));
    }
    Ok(())
}

/// Asks for every name, on all cores: how many have several actions that fit. Any other answer must be right.
fn ask(
    structure: &str,
    table: &(dyn Baseline + Sync),
    names: &[(KeyHash, u16)],
) -> Result<usize, BenchError> {
    let ask = |&(name, action): &(KeyHash, u16)| match table.look_up(name) {
        Answer::Action(found) if found == action => Ok(0),
        Answer::Picked(_) => Ok(1),
        other => {
            Err(BenchError::check(structure, format!("{other:?} for {name:?}, whose action is {action}")))
        }
    };
    names.par_iter().map(ask).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use scalebricks_console::{Console, Interrupt};

    #[test]
    fn every_structure_answers_and_has_a_size() {
        let options = Options {
            keys: Some(vec![3000]),
            value_bits: Some(vec![1, 8]),
            quick: true,
            ..Options::default()
        };
        let (console, interrupt) = (Console::new(true), Interrupt::default());
        let mut session = Session::new("concise", &options, &console, &interrupt);
        Concise.run(&mut session).unwrap();
        let rows = session.rows();
        for structure in ["setsep", "othello", "cuckoo", "binary-search", "buffalo", "orthogonal"] {
            let of = rows.iter().filter(|row| row.subject.structure == structure);
            assert!(of.clone().count() >= 4, "{structure}");
            assert!(
                of.clone().all(|row| row.median > 0.0 || row.metric == Metric::AmbiguousNames),
                "{structure}"
            );
        }
        let lines = |structure: &str, bits: u8| {
            let mut rows = rows.iter().filter(|row| row.metric == Metric::CacheLines);
            let of = |row: &&crate::row::Row| {
                row.subject.structure == structure && row.subject.value_bits == Some(bits)
            };
            rows.find(of).unwrap().median
        };
        assert!(lines("buffalo", 8) > 200.0, "a line of each of 256 filters at least");
        assert!(lines("orthogonal", 8) > 4.0 * lines("orthogonal", 1));
    }

    #[test]
    fn a_wrong_answer_ends_it() {
        let names = [(KeyHash::new(5), 1), (KeyHash::new(6), 0)];
        let table = Sorted::build(&names).unwrap();
        assert_eq!(ask("sorted", &table, &names).unwrap(), 0);
        assert!(ask("sorted", &table, &[(KeyHash::new(5), 0)]).is_err());
        assert!(ask("sorted", &table, &[(KeyHash::new(7), 0)]).is_err());
    }
}
