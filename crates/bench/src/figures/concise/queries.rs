//! Figure 3: lookups a second by the number of names: names hashed before, names made within, and few names asked often.

use super::fibs::{self, Asker, BATCH, Fib, NameFib};
use super::{add_point, millions, paper};
use crate::error::BenchError;
use crate::figures::exhibit::{Chart, Scale, Sheet};
use crate::names::population::{Kind, Population, SEED};
use crate::names::zipf::Zipf;
use crate::names::{NameHasher, macs};
use crate::rounds::{Turn, alternate};
use crate::row::{Metric, Row, Subject};
use crate::session::Session;
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_tables::othello::Sizing;
use scalebricks_types::KeyHash;
use std::hint::black_box;
use std::sync::Barrier;

/// Bytes a name of names, answers and all tables of a size.
const NAME_BYTES: u64 = 120;
/// Most lookups of a run.
const ASKED: usize = 1 << 24;
/// Most of a structure that takes microseconds for one.
const ASKED_SLOWLY: usize = 1 << 17;
/// Names up to which slow structures and other sizings are measured.
const FEW: u64 = 4_000_000;

/// How names come.
pub const HASHED: &str = "hashed before";
const MADE: &str = "names made within";
const SKEWED: &str = "few asked often";

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let sizes = options
        .keys(&[65_536, 1_000_000], &[65_536, 1_000_000, 1_400_000, 4_000_000, 16_000_000, 64_000_000]);
    let bits = options.value_bits(&[2], &[2, 8]);
    for &value_bits in &bits {
        for &names in &sizes {
            // The largest is asked for the goals, with two bits.
            let is_extra = options.keys.is_none() && names > 16_000_000 && value_bits > 2;
            if !is_extra && session.fits(names, NAME_BYTES)? {
                one(session, names, value_bits)?;
            }
        }
    }
    show(session, &bits);
    Ok(())
}

/// A structure, and how much it is asked.
struct Contestant {
    fib: Fib,
    table: Box<dyn NameFib>,
    asked: usize,
}

/// The structures of a size.
fn fibs(names: u64, value_bits: u8) -> Vec<Fib> {
    let mut fibs = vec![Fib::OTHELLO, Fib::Cuckoo];
    if value_bits <= 8 {
        fibs.insert(1, Fib::SetSep);
    }
    if names <= 16_000_000 {
        fibs.extend([Fib::Othello(Sizing::Sharded, 8), Fib::Filtered]);
    }
    if names <= FEW {
        fibs.extend([Sizing::Tight, Sizing::Option1, Sizing::Option2].map(|sizing| Fib::Othello(sizing, 0)));
        fibs.extend([Fib::Buffalo, Fib::Sorted]);
    }
    fibs
}

fn one(session: &mut Session<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let busy = session.busy("building");
    let set = Population::of(Kind::Mac, names, value_bits);
    let mut contestants = Vec::new();
    for fib in fibs(names, value_bits) {
        session.check()?;
        let table = fib.build(&set, pin::cores())?;
        let asked = if matches!(fib, Fib::Buffalo) { ASKED_SLOWLY } else { ASKED };
        contestants.push(Contestant { fib, table, asked: asked.min(set.len()) });
    }
    let few: Vec<usize> = Zipf::new(names, 1).take(set.len().min(ASKED)).map(|rank| rank as usize).collect();
    let skewed = Population {
        value_bits,
        hashes: few.iter().map(|&rank| set.hashes[rank]).collect(),
        actions: few.iter().map(|&rank| set.actions[rank]).collect(),
    };
    drop(busy);
    let mut answers = vec![0; set.len().min(ASKED)];
    let mut turns = bare(session, names);
    for contestant in &contestants {
        let Contestant { fib, table, asked } = contestant;
        let subject = |how: &str| Subject {
            format: fib.format(),
            variant: Some(
                [Some(how.to_owned()), fib.checks()].into_iter().flatten().collect::<Vec<_>>().join(", "),
            ),
            value_bits: Some(value_bits),
            threads: Some(1),
            batch: Some(BATCH),
            table_bytes: Some(table.table_bytes()),
            ..session.subject(fib.name(), names)
        };
        let is_main = [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo].contains(fib);
        let (set, skewed) = (&set, &skewed);
        turns.push(Turn::new(subject(HASHED), Metric::LookupRate, move |answers: &mut Vec<u16>| {
            Ok(ask(*fib, &**table, (set, *asked), 1, answers)?.into())
        }));
        if is_main {
            turns.push(Turn::new(subject(MADE), Metric::LookupRate, move |answers: &mut Vec<u16>| {
                Ok(ask_made(*fib, &**table, (set, *asked), answers)?.into())
            }));
            turns.push(Turn::new(subject(SKEWED), Metric::LookupRate, move |answers: &mut Vec<u16>| {
                Ok(ask(*fib, &**table, (skewed, *asked), 1, answers)?.into())
            }));
        }
    }
    alternate(session, &mut answers, turns)
}

/// What names cost by themselves: made, and made and hashed.
fn bare<'a>(session: &Session<'_>, names: u64) -> Vec<Turn<'a, Vec<u16>>> {
    let count = (names as usize).min(ASKED);
    let subject = |variant: &str| Subject {
        variant: Some(variant.to_owned()),
        threads: Some(1),
        ..session.subject("names alone", names)
    };
    let nanoseconds = move |seconds: f64| seconds * 1e9 / count as f64;
    let made = Turn::new(subject("made"), Metric::NameTime, move |_: &mut Vec<u16>| {
        let sum = || macs(1).take(count).fold(0_u8, |sum, name| sum ^ black_box(name)[5]);
        let (_, seconds) = timing::pinned(|| black_box(sum()))?;
        Ok(nanoseconds(seconds).into())
    });
    let hashed = Turn::new(subject("made and hashed"), Metric::NameTime, move |_: &mut Vec<u16>| {
        let hasher = NameHasher::new(SEED);
        let sum = || macs(1).take(count).fold(0, |sum, name| sum ^ hasher.hash(&name).get());
        let (_, seconds) = timing::pinned(|| black_box(sum()))?;
        Ok(nanoseconds(seconds).into())
    });
    vec![made, hashed]
}

/// Asks for the first names on so many threads, checks the answers; lookups a second.
///
/// # Errors
/// [`BenchError::Check`] for a wrong answer; [`BenchError::Threads`].
pub fn ask(
    fib: Fib,
    table: &dyn NameFib,
    (names, asked): (&Population, usize),
    threads: usize,
    answers: &mut [u16],
) -> Result<f64, BenchError> {
    let (hashes, right) = (&names.hashes[..asked], &names.actions[..asked]);
    let answers = &mut answers[..asked];
    answers.iter_mut().zip(right).for_each(|(answer, right)| *answer = !right);
    let seconds = if threads == 1 {
        timing::pinned(|| batches(&mut *table.asker(), hashes, &mut *answers))?.1
    } else {
        together(table, hashes, answers, threads)?
    };
    fibs::check(fib.name(), table, hashes, (right, answers))?;
    Ok(asked as f64 / seconds)
}

fn batches(asker: &mut dyn Asker, hashes: &[KeyHash], answers: &mut [u16]) {
    for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
        asker.ask(hashes, answers);
    }
}

/// Seconds from when all threads have begun until the last is done.
fn together(
    table: &dyn NameFib,
    hashes: &[KeyHash],
    answers: &mut [u16],
    threads: usize,
) -> Result<f64, BenchError> {
    let share = hashes.len().div_ceil(threads).max(1);
    let barrier = Barrier::new(hashes.len().div_ceil(share) + 1);
    let panicked = |_| BenchError::Threads("a thread that measured has panicked".to_owned());
    std::thread::scope(|scope| {
        let barrier = &barrier;
        let parts = hashes.chunks(share).zip(answers.chunks_mut(share)).enumerate();
        let workers: Vec<_> = parts
            .map(|(number, (hashes, answers))| {
                scope.spawn(move || {
                    pin::to_core(number);
                    let mut asker = table.asker();
                    barrier.wait();
                    batches(&mut *asker, hashes, answers);
                    timing::Clock::Wall.now()
                })
            })
            .collect();
        barrier.wait();
        let start = timing::Clock::Wall.now();
        let ends: Result<Vec<_>, _> =
            workers.into_iter().map(|worker| worker.join().map_err(panicked)).collect();
        let end = ends?.into_iter().max().unwrap_or(start);
        Ok(end.saturating_sub(start).as_secs_f64().max(1e-9))
    })
}

/// The same on one thread with names made while they are asked for.
fn ask_made(
    fib: Fib,
    table: &dyn NameFib,
    (names, asked): (&Population, usize),
    answers: &mut [u16],
) -> Result<f64, BenchError> {
    let (hashes, right) = (&names.hashes[..asked], &names.actions[..asked]);
    let answers = &mut answers[..asked];
    answers.iter_mut().zip(right).for_each(|(answer, right)| *answer = !right);
    let ((), seconds) = timing::pinned(|| {
        let (mut asker, hasher, mut made) = (table.asker(), NameHasher::new(SEED), macs(1));
        let mut batch = [KeyHash::new(0); BATCH];
        for answers in answers.chunks_mut(BATCH) {
            let batch = &mut batch[..answers.len()];
            // Never at its end.
            batch.iter_mut().zip(&mut made).for_each(|(hash, name)| *hash = hasher.hash(&name));
            asker.ask(batch, answers);
        }
    })?;
    fibs::check(fib.name(), table, hashes, (right, answers))?;
    Ok(asked as f64 / seconds)
}

/// The rows of lookups, as charts and as a table.
fn show(session: &mut Session<'_>, bits: &[u8]) {
    let rows: Vec<Row> = session.rows().to_vec();
    let is_ours = |row: &&Row| {
        let variant = row.subject.variant.as_deref().unwrap_or_default();
        row.metric == Metric::LookupRate && [HASHED, MADE, SKEWED].iter().any(|how| variant.starts_with(how))
    };
    let heads = ["value bits", "names", "structure", "how", "paper, M/s", "M/s", "table"];
    let mut sheet = Sheet::new("concise-figure-3", &heads);
    for row in rows.iter().filter(is_ours) {
        let of = &row.subject;
        let is_paper = of.variant.as_deref() == Some(MADE);
        sheet.rows.push(vec![
            of.value_bits.unwrap_or(0).to_string(),
            short_count(of.keys),
            label(of),
            of.variant.clone().unwrap_or_default(),
            if is_paper { paper::lookups(&of.structure, of.keys) } else { paper::NOT_GIVEN }.to_owned(),
            millions(&row.summary()),
            super::megabytes(of.table_bytes.unwrap_or(0)) + " MB",
        ]);
    }
    session.tabulate(sheet);
    session.tabulate(costs(&rows));
    for (name, &value_bits) in ["concise-figure-3", "concise-figure-3-wide"].into_iter().zip(bits) {
        let title = format!("Lookups on one core, values of {value_bits} bits");
        let mut chart = Chart::new(
            name,
            &title,
            ("names", Scale::Doublings),
            ("million lookups a second", Scale::Decades),
        );
        for row in rows.iter().filter(|row| is_ours(row) && row.subject.value_bits == Some(value_bits)) {
            let variant = row.subject.variant.clone().unwrap_or_default();
            let is_shown = variant.starts_with(HASHED)
                || row.subject.structure == "othello" && row.subject.format == Some("sharded");
            if !is_shown {
                continue;
            }
            let rest = variant.trim_start_matches(HASHED).trim_start_matches(", ").to_owned();
            let name = [label(&row.subject), rest].join(" ").trim().to_owned();
            add_point(&mut chart, &name, row.subject.keys as f64, row, 1e6);
        }
        session.show(chart);
    }
}

fn label(subject: &Subject) -> String {
    let sizing = subject.format.filter(|&format| format != Sizing::Sharded.name());
    [Some(subject.structure.as_str()), sizing].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// What names cost by themselves.
fn costs(rows: &[Row]) -> Sheet {
    let mut sheet = Sheet::new("concise-names", &["names", "what", "paper, ns a name", "ns a name"]);
    for row in rows.iter().filter(|row| row.metric == Metric::NameTime) {
        let variant = row.subject.variant.clone().unwrap_or_default();
        let paper = if variant == "made" {
            paper::NAME_AND_LOOKUP_NS.1.to_string()
        } else {
            paper::NOT_GIVEN.to_owned()
        };
        let cells = [short_count(row.subject.keys), variant, paper, format!("{:.1}", row.median)];
        sheet.rows.push(cells.into());
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use scalebricks_console::{Console, Interrupt};

    #[test]
    fn all_ways_to_ask_are_measured_and_checked() {
        let options = Options { keys: Some(vec![2000]), quick: true, ..Options::default() };
        let (console, interrupt) = (Console::new(true), Interrupt::default());
        let mut session = Session::new("concise", &options, &console, &interrupt);
        run(&mut session).unwrap();
        for how in [HASHED, MADE, SKEWED] {
            for structure in ["othello", "setsep", "cuckoo"] {
                let is = |row: &&Row| {
                    row.subject.structure == structure && row.subject.variant.as_deref() == Some(how)
                };
                assert!(session.rows().iter().any(|row| is(&row)), "{structure} {how}");
            }
        }
        let (_, exhibits) = session.finish();
        assert_eq!((exhibits.charts.len(), exhibits.sheets.len()), (1, 2));
    }

    #[test]
    fn threads_share_the_names() {
        let names = Population::of(Kind::Mac, 1000, 2);
        let table = Fib::OTHELLO.build(&names, 1).unwrap();
        let mut answers = vec![0; 1000];
        for threads in [1, 2, 3] {
            assert!(ask(Fib::OTHELLO, &*table, (&names, 999), threads, &mut answers).unwrap() > 0.0);
            assert_eq!(answers[..999], names.actions[..999]);
        }
    }
}
