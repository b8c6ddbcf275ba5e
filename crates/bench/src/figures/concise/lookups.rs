//! Figure 3: lookups per second by number of names, with names generated during the run (as in the paper),
//! names hashed in advance, and a skewed choice of names.

use super::fibs::{BATCH, Fib, NameFib, replay};
use super::{add_point, conclusions, lookup_runs, millions, paper};
use crate::error::BenchError;
use crate::limit::{self, LIMIT, Limits};
use crate::names::population::{Population, SEED};
use crate::names::zipf::Zipf;
use crate::names::{NameHasher, mac_numbers, macs, mixed};
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric, Row};
use crate::session::Session;
use crate::structures::noted;
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, PageTable, Scale};
use scalebricks_tables::othello::Sizing;
use std::hint::black_box;

/// Bytes per name for names, answers and all tables of one size.
const NAME_BYTES: u64 = 150;
/// Approximate number of replays per size: seven tables, and three for the skewed names.
const REPLAYS: usize = 7 + 3;
/// Maximum lookups per run.
const ASKED: usize = 1 << 23;
/// The same for a structure with lookups of a tenth of a microsecond or more.
const ASKED_SLOWLY: usize = 1 << 19;
/// Up to this many names, all structures are measured; beyond, building takes minutes.
const FEW: u64 = 16_000_000;
/// Threads that look up names.
const THREADS: [usize; 3] = [1, 2, paper::THREADS];

/// Variant with names hashed in advance.
const HASHED: &str = "hashed before";
/// Variant with names generated during the run, as in the paper.
pub const MADE: &str = "names made within";
const SKEWED: &str = "few asked often";
/// Structures measured with the skewed names.
const SKEWED_FIBS: [Fib; 3] = [Fib::OTHELLO, Fib::SetSep, Fib::Cuckoo];

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let sizes = options
        .keys(&[65_536, 1_000_000], &[65_536, 1_000_000, 1_400_000, 4_000_000, 16_000_000, 64_000_000]);
    for value_bits in options.value_bits(&[8], &[8]) {
        for &names in &sizes {
            if session.fits(names, NAME_BYTES + limit::bytes_per_key(names, REPLAYS))? {
                session.console().note(&format!("concise: figure-3, {} names", short_count(names)));
                one(session, names, value_bits)?;
            }
        }
    }
    show(session);
    Ok(())
}

/// A structure, and how many names are looked up.
struct BuiltFib {
    fib: Fib,
    table: Box<dyn NameFib>,
    asked: usize,
}

/// The structures for this many names.
fn fibs(names: u64, value_bits: u8) -> Vec<Fib> {
    let mut fibs = vec![Fib::OTHELLO, Fib::Cuckoo];
    if value_bits <= 8 {
        fibs.insert(1, Fib::SetSep);
    }
    if names <= FEW {
        fibs.extend([Sizing::Option1, Sizing::Option2].map(|sizing| Fib::Othello(sizing, 0)));
        fibs.extend([Fib::Othello(Sizing::Sharded, 8), Fib::Filtered]);
        fibs.extend([Fib::Buffalo, Fib::Orthogonal, Fib::Sorted]);
    }
    fibs
}

fn one(session: &mut Session<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let busy = session.busy("building");
    let set = Population::of_numbers(names, value_bits);
    let mut candidates = Vec::new();
    for fib in fibs(names, value_bits) {
        session.check()?;
        let table = fib.build(&set, pin::cores())?;
        let asked = if fib.is_slow() { ASKED_SLOWLY } else { ASKED };
        candidates.push(BuiltFib { fib, table, asked: asked.min(set.len()) });
    }
    let few: Vec<usize> = Zipf::new(names, 1).take(set.len().min(ASKED)).map(|rank| rank as usize).collect();
    let skewed = Population {
        value_bits,
        hashes: few.iter().map(|&rank| set.hashes[rank]).collect(),
        actions: few.iter().map(|&rank| set.actions[rank]).collect(),
    };
    let limits: Vec<[Limits<'_>; 2]> = candidates
        .iter()
        .map(|BuiltFib { fib, table, asked }| {
            let skewed = SKEWED_FIBS.contains(fib).then(|| replay(&**table, &skewed.hashes[..*asked]));
            let all = replay(&**table, &set.hashes[..*asked]);
            [all, skewed.flatten()].map(|replay| Limits::new(replay, lookup_runs::passes(*fib, *asked)))
        })
        .collect();
    drop(busy);
    let mut answers = vec![0; set.len().min(ASKED)];
    let mut turns = bare(session, names);
    for (candidate, [limits, skewed_limits]) in candidates.iter().zip(&limits) {
        let BuiltFib { fib, table, asked } = candidate;
        let case = |how: &str, threads: usize| {
            session
                .case(fib.name(), names)
                .format(fib.format())
                .variant(noted([Some(how.to_owned()), fib.checks()]))
                .value_bits(value_bits)
                .threads(threads)
                .batch(BATCH)
                .table_bytes(table.table_bytes())
        };
        let limit = noted([fib.checks(), Some(LIMIT.to_owned())]).unwrap_or_default();
        let (set, skewed, asked) = (&set, &skewed, *asked);
        for threads in session.options().threads(&THREADS, &THREADS) {
            let case = case(MADE, threads);
            turns.extend(limits.turns(case, limit.clone(), move |answers: &mut Vec<u16>| {
                lookup_runs::made(*fib, &**table, (set, asked), threads, answers)
            }));
        }
        turns.extend(limits.turns(case(HASHED, 1), limit, move |answers: &mut Vec<u16>| {
            lookup_runs::hashed(*fib, &**table, (set, asked), 1, answers)
        }));
        if SKEWED_FIBS.contains(fib) {
            let limit = format!("{SKEWED}, {LIMIT}");
            turns.extend(skewed_limits.turns(case(SKEWED, 1), limit, move |answers: &mut Vec<u16>| {
                lookup_runs::hashed(*fib, &**table, (skewed, asked), 1, answers)
            }));
        }
    }
    interleave(session, &mut answers, turns)
}

/// The time to generate names, and to generate and hash them.
fn bare<'a>(session: &Session<'_>, names: u64) -> Vec<Measurement<'a, Vec<u16>>> {
    let count = (names as usize).min(ASKED);
    let turn = |variant: &str, work: fn(usize) -> u64| {
        let case = session.case("names alone", names).variant(variant.to_owned()).threads(1);
        Measurement::new(case, Metric::NameTime, move |_: &mut Vec<u16>| {
            let (_, seconds) = timing::pinned(|| black_box(work(count)))?;
            Ok((seconds * 1e9 / count as f64).into())
        })
    };
    vec![
        turn("made", |count| mac_numbers(1).take(count).fold(0, |sum, name| sum ^ black_box(name))),
        turn("made and mixed", |count| {
            mac_numbers(1).take(count).fold(0, |sum, name| sum ^ black_box(mixed(name).get()))
        }),
        turn("made and hashed under a key (SipHash)", |count| {
            let hasher = NameHasher::new(SEED);
            macs(1).take(count).fold(0, |sum, name| sum ^ black_box(hasher.hash(&name).get()))
        }),
    ]
}

/// The label of a case: structure with sizing and checks.
fn label(case: &Case, how: &str) -> String {
    let sizing = case.format.filter(|&format| format != Sizing::Sharded.name());
    let name = [Some(case.structure.as_str()), sizing].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let checks = case.variant_text().trim_start_matches(how);
    [name.as_str(), checks].concat()
}

fn rate<'a>(rows: &'a [Row], like: &Row, how: &str, threads: usize) -> Option<&'a Row> {
    rows.iter().find(|row| {
        let (a, b) = (&row.case, &like.case);
        row.metric == Metric::LookupRate
            && (&a.structure, a.format, a.keys, a.value_bits)
                == (&b.structure, b.format, b.keys, b.value_bits)
            && a.threads == Some(threads)
            && a.variant.as_deref().and_then(|variant| variant.strip_prefix(how))
                == b.variant.as_deref().and_then(|variant| variant.strip_prefix(MADE))
    })
}

/// Adds the charts and the table of the lookups.
fn show(session: &mut Session<'_>) {
    let rows: Vec<Row> = session.rows().to_vec();
    let is_made = |row: &&Row| {
        let variant = row.case.variant_text();
        row.metric == Metric::LookupRate && variant.starts_with(MADE)
    };
    let threads = session.options().threads(&THREADS, &THREADS);
    let mut sheet =
        PageTable::new("concise-figure-3", &["value bits", "names", "structure", "paper, 4 threads, M/s"]);
    for &threads in &threads {
        let mark = if threads > pin::cores() { ", oversubscribed" } else { "" };
        let s = if threads == 1 { "" } else { "s" };
        sheet.heads.push(format!("{threads} thread{s}{mark}, M/s"));
        sheet.heads.push(format!("{threads} thread{s}, of the limit"));
    }
    for how in [HASHED, SKEWED] {
        sheet.heads.extend([format!("{how}, 1 thread, M/s"), format!("{how}, of the limit")]);
    }
    sheet.heads.push("table, MB".to_owned());
    let first = threads.first().copied();
    for row in rows.iter().filter(|row| is_made(row) && row.case.threads == first) {
        let of = &row.case;
        let told = |how: &str, threads| {
            rate(&rows, row, how, threads).map_or_else(Default::default, |row| {
                [millions(&row.summary()), limit::share_text(limit::share_of(&rows, row))]
            })
        };
        let is_theirs = of.format.is_none_or(|format| format != Sizing::Tight.name());
        let mut cells = vec![
            of.value_bits.unwrap_or(0).to_string(),
            short_count(of.keys),
            label(of, MADE),
            if is_theirs {
                paper::lookups(&of.structure, of.keys, of.value_bits.unwrap_or(0))
            } else {
                paper::NOT_GIVEN
            }
            .to_owned(),
        ];
        cells.extend(threads.iter().flat_map(|&threads| told(MADE, threads)));
        cells.extend([told(HASHED, 1), told(SKEWED, 1)].concat());
        cells.push(super::megabytes(of.table_bytes.unwrap_or(0)));
        sheet.rows.push(cells);
    }
    session.add_table(sheet);
    session.add_table(costs(&rows));
    let made: Vec<&Row> = rows.iter().filter(is_made).collect();
    charts(session, &made);
    conclusions::lookups(session, &rows);
}

/// Charts by structure, by sizing and checks of Othello, and by threads.
fn charts(session: &mut Session<'_>, made: &[&Row]) {
    let cores = pin::cores();
    let chart = |name, title: &str| {
        Chart::new(name, title, ("names", Scale::Doublings), ("million lookups a second", Scale::Decades))
    };
    let most = made.iter().filter_map(|row| row.case.threads).filter(|&threads| threads <= cores).max();
    let most = most.unwrap_or(1);
    let mut structures = chart("concise-figure-3", &format!("Lookups, names made within, {most} threads"));
    let mut sizings =
        chart("concise-figure-3-sizings", &format!("Othello's sizings and checks, {most} threads"));
    let mut threads = chart("concise-figure-3-threads", "Lookups by threads, names made within");
    for row in made {
        let of = &row.case;
        let (name, names) = (label(of, MADE), of.keys as f64);
        let is_default = of.structure != "othello" || name == "othello";
        if of.threads == Some(most) && is_default {
            add_point(&mut structures, &name, names, row, 1e6);
        }
        if of.threads == Some(most) && of.structure == "othello" {
            add_point(&mut sizings, &name, names, row, 1e6);
        }
        if name == "othello" || name == "cuckoo" {
            let number = of.threads.unwrap_or(1);
            let mark = if number > cores { " (oversubscribed)" } else { "" };
            let name = format!("{name}, {number} thread{}{mark}", if number == 1 { "" } else { "s" });
            add_point(&mut threads, &name, names, row, 1e6);
        }
    }
    for chart in [structures, sizings, threads] {
        session.add_chart(chart);
    }
}

/// The time to generate names, and of a lookup alone.
fn costs(rows: &[Row]) -> PageTable {
    let (lookup, name) = paper::LOOKUP_AND_NAME_NS;
    let mut sheet =
        PageTable::new("concise-names", &["names", "what, one thread", "paper, ns a name", "ns a name"]);
    for row in rows {
        let of = &row.case;
        let variant = of.variant.clone().unwrap_or_default();
        let is_alone = of.structure == "othello" && of.format == Some("sharded") && variant == HASHED;
        let (paper, what, ns) = match row.metric {
            Metric::NameTime if variant == "made" => (
                format!("{} by what registers make a second", 1e3 / paper::NAMES_A_SECOND),
                variant,
                row.median,
            ),
            Metric::NameTime if variant == "made and mixed" => (name.to_string(), variant, row.median),
            Metric::NameTime => (paper::NOT_GIVEN.to_owned(), variant, row.median),
            Metric::LookupRate if is_alone => {
                (lookup.to_string(), "lookup alone, hashed before".to_owned(), 1e9 / row.median)
            }
            _ => continue,
        };
        let paper = if of.keys == 1_000_000 { paper } else { paper::NOT_GIVEN.to_owned() };
        sheet.rows.push(vec![short_count(of.keys), what, paper, format!("{ns:.1}")]);
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn all_structures_and_ways_to_ask_are_measured_and_told() {
        let options = Options { keys: Some(vec![2000]), quick: true, runs: Some(1), ..Options::default() };
        let mut session = Session::for_test("concise", options);
        run(&mut session).unwrap();
        let count = |how: &str| {
            let is = |row: &&Row| {
                row.metric == Metric::LookupRate
                    && !limit::is_limit(&row.case)
                    && row.case.variant_text().starts_with(how)
            };
            session.rows().iter().filter(is).count()
        };
        assert_eq!((count(MADE), count(HASHED), count(SKEWED)), (3 * 10, 10, 3));
        let of = |metric: Metric| session.rows().iter().filter(move |row| row.metric == metric).count();
        let limits = session.rows().iter().filter(|row| limit::is_limit(&row.case)).count();
        // Filters and the binary search are not replayed.
        assert_eq!((of(Metric::ShareOfLimit), limits), (7 * 4 + 3, 7 * 3 + 3));
        let (_, exhibits) = session.finish();
        assert_eq!((exhibits.charts.len(), exhibits.sheets.len()), (3, 2));
        assert!(exhibits.charts.iter().all(|chart| (1..=6).contains(&chart.series.len())));
        let sheet = &exhibits.sheets[0];
        assert_eq!(sheet.rows.iter().filter(|row| row.contains(&limit::NO_REPLAY.to_owned())).count(), 3);
        assert!(sheet.rows.len() == 10 && sheet.rows.iter().all(|row| row.len() == sheet.heads.len()));
        assert_eq!(exhibits.conclusions.len(), 1);
    }
}
