//! Table II: memory and cache lines a query of MAC addresses, with the baselines run and not computed.

use super::fibs::{self, Fib};
use super::{megabytes, paper};
use crate::baselines::buffalo::{Buffalo, Sizes};
use crate::baselines::cuckoo::Cuckoo;
use crate::baselines::orthogonal::Orthogonal;
use crate::baselines::sorted::Sorted;
use crate::baselines::{Answer, Baseline, BaselineError, RATE};
use crate::contestants::Structure;
use crate::error::BenchError;
use crate::figures::exhibit::Sheet;
use crate::names::population::{Kind, Population};
use crate::pin;
use crate::row::{Metric, Subject};
use crate::session::Session;
use crate::stats::Summary;
use rayon::prelude::*;
use scalebricks_console::quantity::short_count;
use scalebricks_tables::othello::Sizing;
use scalebricks_types::KeyHash;

/// Bytes a name that building takes at the worst: orthogonal filters of eight pairs take 24.
const NAME_BYTES: u64 = 80 + 64;

/// Names of which the lines of a query are counted.
const COUNTED: usize = 10_000;

/// Filters that are asked at the most, in all, each of them a miss: where there are hundreds, not every name can be.
pub(super) const MOST_FILTERS: usize = 1 << 26;

/// Builds, asks, counts.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let heads = [
        "names",
        "value bits",
        "structure",
        "paper, MB",
        "MB",
        "slots alone, MB",
        "bits a name",
        "lines a query",
        "ambiguous",
    ];
    let mut sheet = Sheet::new("concise-table-2", &heads);
    for names in options.keys(&[100_000], &[500_000, 5_000_000]) {
        if !session.fits(names, NAME_BYTES)? {
            continue;
        }
        for value_bits in options.value_bits(&[1, 8], &[1, 4, 8]) {
            let busy = session.busy("making names");
            let names = Population::of(Kind::Mac, names, value_bits);
            drop(busy);
            ours(session, &mut sheet, &names)?;
            // Other structures were asked for by name.
            if options.structures.is_none() {
                baselines(session, &mut sheet, &names)?;
            }
        }
    }
    session.tabulate(sheet);
    Ok(())
}

fn subject(session: &Session<'_>, structure: &str, names: &Population, table_bytes: u64) -> Subject {
    Subject {
        value_bits: Some(names.value_bits),
        table_bytes: Some(table_bytes),
        variant: Some("MAC".to_owned()),
        ..session.subject(structure, names.len() as u64)
    }
}

/// What was found of a structure.
#[derive(Debug, Clone, Copy)]
struct Found {
    slot_bytes: Option<u64>,
    lines: f64,
    ambiguous: Option<usize>,
}

fn add(session: &mut Session<'_>, sheet: &mut Sheet, subject: Subject, found: Found) {
    let Found { slot_bytes, lines, ambiguous } = found;
    let bytes = subject.table_bytes.unwrap_or(0);
    let bits = bytes as f64 * 8.0 / subject.keys.max(1) as f64;
    let value_bits = subject.value_bits.unwrap_or(0);
    let known = paper::megabytes(&subject.structure, subject.keys, value_bits);
    // The paper's table is of its option 1 or 2; those of our own sizings have nothing beside them.
    let is_paper = subject.format.is_none_or(|format| format == Sizing::Option2.name());
    sheet.rows.push(vec![
        short_count(subject.keys),
        value_bits.to_string(),
        [Some(subject.structure.as_str()), subject.format]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" "),
        known
            .filter(|_| is_paper)
            .map_or_else(|| paper::NOT_GIVEN.to_owned(), |megabytes| megabytes.to_string()),
        megabytes(bytes),
        slot_bytes.map_or_else(String::new, megabytes),
        format!("{bits:.2}"),
        format!("{lines:.1}"),
        ambiguous.map_or_else(String::new, |names| names.to_string()),
    ]);
    session.add(subject.clone(), Metric::BitsPerKey, Summary::exact(bits));
    session.add(subject.clone(), Metric::CacheLines, Summary::exact(lines));
    if let Some(ambiguous) = ambiguous {
        session.add(subject, Metric::AmbiguousNames, Summary::exact(ambiguous as f64));
    }
}

/// `SetSep` and Othello: lines by their own account, as every query reads the same number.
fn ours(session: &mut Session<'_>, sheet: &mut Sheet, names: &Population) -> Result<(), BenchError> {
    // Either finds a line by a line of its directory, which is small and stays in the cache: 4 bytes for 1024 or 220 names.
    let mut all = vec![(Structure::SetSep, Fib::SetSep, 3.0)];
    for sizing in Sizing::ALL {
        // A range of 512 bits is one line.
        let slots = if sizing == Sizing::Sharded && names.value_bits == 1 { 1.0 } else { 2.0 };
        all.push((Structure::Othello, Fib::Othello(sizing, 0), 1.0 + slots));
    }
    let wanted = session.options().structures(&[Structure::SetSep, Structure::Othello]);
    let takes = |fib: Fib| fib != Fib::SetSep || names.value_bits <= 8;
    for (_, fib, lines) in all.into_iter().filter(|(of, fib, _)| wanted.contains(of) && takes(*fib)) {
        session.check()?;
        let busy = session.busy("building");
        let table = fib.build(names, pin::cores())?;
        let mut answers = vec![fibs::UNKNOWN; names.len()];
        table.asker().ask(&names.hashes, &mut answers);
        fibs::check(fib.name(), &*table, &names.hashes, (&names.actions, &answers))?;
        drop(busy);
        let subject =
            Subject { format: fib.format(), ..subject(session, fib.name(), names, table.table_bytes()) };
        let found = Found { slot_bytes: table.slot_bytes(), lines, ambiguous: None };
        add(session, sheet, subject, found);
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

fn baselines(session: &mut Session<'_>, sheet: &mut Sheet, names: &Population) -> Result<(), BenchError> {
    let pairs = names.pairs();
    for (name, build) in BASELINES {
        session.check()?;
        let busy = session.busy("building");
        let table = build(&pairs, names.value_bits).map_err(|error| BenchError::of(name, error))?;
        let asked = if name == "buffalo" { MOST_FILTERS >> names.value_bits } else { pairs.len() };
        let ambiguous = ask(name, &*table, &pairs[..asked.min(pairs.len())])?;
        drop(busy);
        // Of a filter an action, lines are many and names few enough for a minute.
        let step = names.len().div_ceil(COUNTED >> (names.value_bits / 4)).max(1);
        let counted: Vec<f64> =
            pairs.iter().step_by(step).map(|&(name, _)| table.lines(name) as f64).collect();
        let subject = subject(session, name, names, table.table_bytes());
        let lines = counted.iter().sum::<f64>() / counted.len().max(1) as f64;
        add(session, sheet, subject, Found { slot_bytes: None, lines, ambiguous: Some(ambiguous) });
    }
    Ok(())
}

/// Asks for these names, on all cores: how many have several actions that fit. Any other answer must be right.
pub(super) fn ask(
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
        run(&mut session).unwrap();
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
