//! Figure 3: lookups per second by number of names, with names generated during the run (as in the paper),
//! names hashed in advance, and a skewed choice of names.

use super::fibs::{BATCH, Fib, NameFib, replay};
use super::{
    goals, has_default_sizing, lookup_runs, met, names, paper, threads_text, with_rate, with_threads,
};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::limit::{self, LIMIT, Limits};
use crate::names::population::{Population, SEED};
use crate::names::zipf::Zipf;
use crate::names::{NameHasher, mac_numbers, macs, mixed};
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric, Row, SelectRows};
use crate::sheet::{Sheet, chart, counted};
use crate::structures::noted;
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::Scale;
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
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let sizes = options
        .keys(&[65_536, 1_000_000], &[65_536, 1_000_000, 1_400_000, 4_000_000, 16_000_000, 64_000_000]);
    for value_bits in options.value_bits(&[8], &[8]) {
        for &names in &sizes {
            if bench.fits(names, NAME_BYTES + limit::bytes_per_key(names, REPLAYS))? {
                bench.console.note(&format!("concise: figure-3, {} names", short_count(names)));
                one(bench, names, value_bits)?;
            }
        }
    }
    let rows = bench.rows().to_vec();
    show(bench, &rows);
    conclude(bench, &rows);
    Ok(())
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

fn one(bench: &mut BenchRun<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let busy = bench.busy("building");
    let set = Population::of_numbers(names, value_bits);
    let few: Vec<usize> = Zipf::new(names, 1).take(set.len().min(ASKED)).map(|rank| rank as usize).collect();
    let skewed = Population {
        value_bits,
        hashes: few.iter().map(|&rank| set.hashes[rank]).collect(),
        actions: few.iter().map(|&rank| set.actions[rank]).collect(),
    };
    let mut tables: Vec<(Fib, Box<dyn NameFib>, usize)> = Vec::new();
    for fib in fibs(names, value_bits) {
        bench.check()?;
        let asked = if fib.is_slow() { ASKED_SLOWLY } else { ASKED };
        tables.push((fib, fib.build(&set, pin::cores())?, asked.min(set.len())));
    }
    let limits = tables.iter().map(|(fib, table, asked)| {
        let skewed = SKEWED_FIBS.contains(fib).then(|| replay(&**table, &skewed.hashes[..*asked]));
        let all = replay(&**table, &set.hashes[..*asked]);
        [all, skewed.flatten()].map(|replay| Limits::new(replay, lookup_runs::passes(*fib, *asked)))
    });
    let limits: Vec<[Limits<'_>; 2]> = limits.collect();
    drop(busy);
    let mut turns = bare(bench, names);
    for ((fib, table, asked), [limits, skewed_limits]) in tables.iter().zip(&limits) {
        let case = |how: &str, threads: usize| {
            bench
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
        for threads in bench.options.threads(&THREADS, &THREADS) {
            turns.extend(limits.turns(case(MADE, threads), limit.clone(), move |answers: &mut Vec<u16>| {
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
    interleave(bench, &mut vec![0; set.len().min(ASKED)], turns)
}

/// The time to generate names, and to generate and hash them.
fn bare<'a>(bench: &BenchRun<'_>, names: u64) -> Vec<Measurement<'a, Vec<u16>>> {
    let count = (names as usize).min(ASKED);
    let turn = |variant: &str, work: fn(usize) -> u64| {
        let case = bench.case("names alone", names).variant(variant.to_owned()).threads(1);
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
    name + case.variant_text().trim_start_matches(how)
}

/// The rate of the same table as `like` in another way and with other threads.
fn rate<'a>(rows: &'a [Row], like: &Row, how: &str, threads: usize) -> Option<&'a Row> {
    let checks = |row: &Row, how: &str| Some(row.case.variant.as_ref()?.strip_prefix(how)?.to_owned());
    rows.iter().metric(Metric::LookupRate).threads(threads).find(|row| {
        let (a, b) = (&row.case, &like.case);
        (&a.structure, a.format, a.keys, a.value_bits) == (&b.structure, b.format, b.keys, b.value_bits)
            && checks(row, how) == checks(like, MADE)
    })
}

/// Adds the charts and the tables of the lookups.
fn show(bench: &mut BenchRun<'_>, rows: &[Row]) {
    let threads = bench.options.threads(&THREADS, &THREADS);
    let made: Vec<&Row> = rows
        .iter()
        .metric(Metric::LookupRate)
        .filter(|row| row.case.variant_text().starts_with(MADE))
        .collect();
    let first = made.iter().copied().filter(|row| row.case.threads == threads.first().copied());
    let bits = |row: &&Row| row.case.value_bits.unwrap_or(0);
    let sheet = Sheet::new("concise-figure-3", first)
        .column("value bits", bits)
        .column("names", names)
        .column("structure", |row| label(&row.case, MADE))
        .column("paper, 4 threads, M/s", |row| match row.case.format {
            Some(format) if format == Sizing::Tight.name() => paper::NOT_GIVEN,
            _ => paper::lookups(&row.case.structure, row.case.keys, bits(row)),
        });
    let mut sheet = with_threads(sheet, &threads, rows, |row, threads| rate(rows, row, MADE, threads));
    for how in [HASHED, SKEWED] {
        let heads = [format!("{how}, 1 thread, M/s"), format!("{how}, of the limit")];
        sheet = with_rate(sheet, heads, rows, |row| rate(rows, row, how, 1));
    }
    bench.add_table(sheet.column("table, MB", |row| super::megabytes(row.case.table_bytes.unwrap_or(0))));
    bench.add_table(costs(rows));
    let most =
        made.iter().filter_map(|row| row.case.threads).filter(|&threads| threads <= pin::cores()).max();
    let most = most.unwrap_or(1);
    let draw = |name: &str, title: String, label: &dyn Fn(&Row) -> Option<String>| {
        let points = made.iter().filter_map(|row| Some((label(row)?, row.point(row.case.keys as f64, 1e6))));
        let (x, y) = (("names", Scale::Doublings), ("million lookups a second", Scale::Decades));
        chart(name, &title, x, y, points)
    };
    let with_most = |row: &Row| (row.case.threads == Some(most)).then(|| label(&row.case, MADE));
    let charts = [
        draw("concise-figure-3", format!("Lookups, names made within, {most} threads"), &|row| {
            with_most(row).filter(|name| row.case.structure != "othello" || name == "othello")
        }),
        draw("concise-figure-3-sizings", format!("Othello's sizings and checks, {most} threads"), &|row| {
            with_most(row).filter(|_| row.case.structure == "othello")
        }),
        draw("concise-figure-3-threads", "Lookups by threads, names made within".to_owned(), &|row| {
            let (name, threads) = (label(&row.case, MADE), row.case.threads.unwrap_or(1));
            let mark = if threads > pin::cores() { " (oversubscribed)" } else { "" };
            let text = format!("{name}, {}{mark}", counted(threads, "thread"));
            ["othello", "cuckoo"].contains(&name.as_str()).then_some(text)
        }),
    ];
    for chart in charts {
        bench.add_chart(chart);
    }
}

/// The time to generate names, and of a lookup alone.
fn costs(rows: &[Row]) -> Sheet<(&Row, String, String, f64)> {
    let (lookup, name) = paper::LOOKUP_AND_NAME_NS;
    let costs = rows.iter().filter_map(|row| {
        let of = &row.case;
        let is_alone = of.structure == "othello" && of.format == Some("sharded") && of.is_variant(HASHED);
        let (paper, what, ns) = match (row.metric, of.variant_text()) {
            (Metric::NameTime, "made") => {
                let paper = format!("{} by what registers make a second", 1e3 / paper::NAMES_A_SECOND);
                (paper, "made", row.median)
            }
            (Metric::NameTime, what @ "made and mixed") => (name.to_string(), what, row.median),
            (Metric::NameTime, what) => (paper::NOT_GIVEN.to_owned(), what, row.median),
            (Metric::LookupRate, _) if is_alone => {
                (lookup.to_string(), "lookup alone, hashed before", 1e9 / row.median)
            }
            _ => return None,
        };
        let paper = if of.keys == 1_000_000 { paper } else { paper::NOT_GIVEN.to_owned() };
        Some((row, what.to_owned(), paper, ns))
    });
    Sheet::new("concise-names", costs)
        .column("names", |(row, ..)| short_count(row.case.keys))
        .column("what, one thread", |(_, what, ..)| what.clone())
        .column("paper, ns a name", |(_, _, paper, _)| paper.clone())
        .column("ns a name", |(.., ns)| format!("{ns:.1}"))
}

/// States the rates at the size nearest to the paper's 1.4 M names.
fn conclude(bench: &mut BenchRun<'_>, rows: &[Row]) {
    let made = || rows.iter().metric(Metric::LookupRate).variant(MADE).filter(has_default_sizing);
    let Some(names) = made().nearest(1_400_000).map(|row| row.case.keys) else { return };
    let of = |structure, threads| made().keys(names).structure(structure).threads(threads).next();
    let (Some(ours), Some(cuckoo)) = (of("othello", 1), of("cuckoo", 1)) else { return };
    let (share, times) =
        (paper::lookups_of_concise(names) / paper::THREADS as f64, ours.median / cuckoo.median);
    let all = of("othello", pin::cores()).unwrap_or(ours);
    let setsep = of("setsep", pin::cores()).or_else(|| of("setsep", 1));
    let setsep = setsep.map(|row| format!(", SetSep {:.0}", row.median / 1e6)).unwrap_or_default();
    let sentence = format!(
        "At {} names and {} actions, names made within, one thread looks up {:.0} M names a second; a quarter of what the paper's four \
         threads do is {share:.0}: {}. With {} it is {:.0} M/s{setsep} (paper, four cores: 470 and 211 at 1.4 M). It is {times:.1} \
         times our exact cuckoo table on one thread; the goal of more than {:.0} times is {}.",
        short_count(names),
        1_u32 << ours.case.value_bits.unwrap_or(0),
        ours.median / 1e6,
        met(ours.median / 1e6 >= share),
        threads_text(all.case.threads.unwrap_or(1)),
        all.median / 1e6,
        paper::OVER_CUCKOO.1,
        met(times > paper::OVER_CUCKOO.1),
    );
    bench.add_exact(ours.case.clone().variant(goals::OVER_CUCKOO_LOOKUPS.to_owned()), Metric::Ratio, times);
    bench.add_conclusion("concise-figure-3-conclusion", sentence);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn all_structures_and_ways_to_ask_are_measured_and_told() {
        let options = Options { keys: Some(vec![2000]), quick: true, runs: Some(1), ..Options::default() };
        let mut bench = BenchRun::for_test("concise", options);
        run(&mut bench).unwrap();
        let count = |how: &str| {
            let is = |row: &&Row| {
                row.metric == Metric::LookupRate
                    && !limit::is_limit(&row.case)
                    && row.case.variant_text().starts_with(how)
            };
            bench.rows().iter().filter(is).count()
        };
        assert_eq!((count(MADE), count(HASHED), count(SKEWED)), (3 * 10, 10, 3));
        let of = |metric: Metric| bench.rows().iter().filter(move |row| row.metric == metric).count();
        let limits = bench.rows().iter().filter(|row| limit::is_limit(&row.case)).count();
        // Filters and the binary search are not replayed.
        assert_eq!((of(Metric::ShareOfLimit), limits), (7 * 4 + 3, 7 * 3 + 3));
        let (_, exhibits) = bench.finish();
        assert_eq!((exhibits.charts.len(), exhibits.sheets.len()), (3, 2));
        assert!(exhibits.charts.iter().all(|chart| (1..=6).contains(&chart.series.len())));
        let sheet = &exhibits.sheets[0];
        assert_eq!(sheet.rows.iter().filter(|row| row.contains(&limit::NO_REPLAY.to_owned())).count(), 3);
        assert!(sheet.rows.len() == 10 && sheet.rows.iter().all(|row| row.len() == sheet.heads.len()));
        assert_eq!(exhibits.conclusions.len(), 1);
    }
}
