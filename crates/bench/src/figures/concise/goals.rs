//! Our goals for the table in one place: rows of the other parts, compared with the paper's statements and
//! what follows from them.

use super::lookups::MADE;
use super::reconstruction::RECONSTRUCTION;
use super::{met, millions, names, paper, threads_text};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::row::{Metric, Row, SelectRows};
use crate::sheet::Sheet;
use crate::table::figure;
use scalebricks_report::exhibit::PageTable;

/// Maximum loss of lookups during half a million updates per second, in percent: a number for the paper's
/// "very small drop".
const MOST_LOST: f64 = 5.0;

/// Variant of the lookup ratios.
pub const OVER_CUCKOO_LOOKUPS: &str = "lookups over the exact cuckoo table's, names made within";
/// Variant of the memory ratios.
pub const OVER_CUCKOO_MEMORY: &str = "memory over the exact cuckoo table's";
/// Variant of the bits per name of sufficient checksums.
pub const CHECKS_FOR_RATE: &str = "checksums that let through one in 100,000 at the most";

/// A bound in the unit of its row.
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A goal: its name, the rows it applies to, the paper's statement, and the bound.
struct Goal {
    what: &'static str,
    metric: Metric,
    is_of: fn(&Row) -> bool,
    paper: fn(&Row) -> String,
    bound: fn(&Row) -> Bound,
}

fn is(row: &Row, variant: &str) -> bool {
    row.case.is_variant(variant)
}

fn threads(row: &Row) -> usize {
    row.case.threads.unwrap_or(1)
}

const GOALS: [Goal; 10] = [
    Goal {
        what: "lookups, names made within",
        metric: Metric::LookupRate,
        is_of: |row| is(row, MADE),
        paper: |row| {
            let of = &row.case;
            format!("{} M/s with 4 threads", paper::lookups("othello", of.keys, of.value_bits.unwrap_or(8)))
        },
        bound: |row| {
            let all = paper::lookups_of_concise(row.case.keys) * 1e6;
            Bound::AtLeast(all * threads(row) as f64 / paper::THREADS as f64)
        },
    },
    Goal {
        what: OVER_CUCKOO_LOOKUPS,
        metric: Metric::Ratio,
        is_of: |row| is(row, OVER_CUCKOO_LOOKUPS),
        paper: |_| format!("more than {} times", paper::OVER_CUCKOO.1),
        bound: |_| Bound::AtLeast(paper::OVER_CUCKOO.1),
    },
    Goal {
        what: OVER_CUCKOO_MEMORY,
        metric: Metric::Ratio,
        is_of: |row| is(row, OVER_CUCKOO_MEMORY),
        paper: |_| "7 to 40 % (C7)".to_owned(),
        bound: |_| Bound::AtMost(paper::OVER_CUCKOO.0),
    },
    Goal {
        what: "build, query and control structure, one core",
        metric: Metric::BuildRate,
        is_of: |row| is(row, "with control structure") && threads(row) == 1,
        paper: |_| format!("{} M/s at 4 M names", paper::BUILD),
        bound: |_| Bound::AtLeast(paper::BUILD * 1e6),
    },
    Goal {
        what: "alter",
        metric: Metric::UpdateRate,
        is_of: |row| is(row, "single") || is(row, "batched"),
        paper: |_| format!("at least {} M/s", paper::UPDATES),
        bound: |_| Bound::AtLeast(paper::UPDATES * 1e6),
    },
    Goal {
        what: "add, half to full, reconstructions included",
        metric: Metric::InsertRate,
        is_of: |row| row.case.variant_text().ends_with("half to full"),
        paper: |_| format!("at least {} M/s", paper::UPDATES),
        bound: |_| Bound::AtLeast(paper::UPDATES * 1e6),
    },
    Goal {
        what: "longest of all reconstructions",
        metric: Metric::LatencyMax,
        is_of: |row| is(row, RECONSTRUCTION),
        paper: |_| paper::RECONSTRUCTION.to_owned(),
        bound: |_| Bound::AtMost(paper::REBUILD.1 * 1e9),
    },
    Goal {
        what: "time in reconstructions, an addition at full load",
        metric: Metric::ReseedTime,
        is_of: |row| is(row, RECONSTRUCTION),
        paper: |_| format!("{:.0} ns by its numbers (C14)", paper::REBUILD.0 * paper::REBUILD.1 * 1e9),
        bound: |_| Bound::AtMost(paper::REBUILD.0 * paper::REBUILD.1 * 1e9),
    },
    Goal {
        what: "lookups lost",
        metric: Metric::Loss,
        is_of: |row| row.case.variant_text().contains("500 k"),
        paper: |row| paper::beside(row.case.keys).to_owned(),
        bound: |_| Bound::AtMost(MOST_LOST),
    },
    Goal {
        what: CHECKS_FOR_RATE,
        metric: Metric::BitsPerKey,
        is_of: |row| is(row, CHECKS_FOR_RATE),
        paper: |_| format!("under {} MB at 1 M names: under 16 bits a name (C16)", paper::ALIENS.1),
        bound: |_| Bound::AtMost(paper::ALIENS.1 * 8.0),
    },
];

/// Collects the rows.
///
/// # Errors
/// None; the other parts report their own errors.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let is_default = |row: &&Row| {
        let is_large = row.case.keys >= 1_000_000 || bench.options.quick || is(row, OVER_CUCKOO_MEMORY);
        row.case.format == Some("sharded") && is_large
    };
    let judged = GOALS.iter().flat_map(|goal| {
        let rows = bench.rows().iter().metric(goal.metric).structure("othello").filter(is_default);
        rows.filter(|row| (goal.is_of)(row)).map(move |row| (goal, row, (goal.bound)(row)))
    });
    let sheet = Sheet::new("concise-goals", judged)
        .column("what", |(goal, ..)| goal.what)
        .column("names", |(_, row, _)| names(row))
        .column("how", |(_, row, _)| how(row))
        .column("paper", |(goal, row, _)| (goal.paper)(row))
        .column("goal", |(_, row, bound)| match bound {
            Bound::AtLeast(least) => format!("at least {}", figure(row, *least)),
            Bound::AtMost(most) => format!("at most {}", figure(row, *most)),
        })
        .column("here", |(_, row, _)| match row.metric {
            Metric::Loss => format!("{:.1} % ({:.1} to {:.1})", row.median, row.min, row.max),
            metric if metric.is_rate() => format!("{} M/s", millions(row)),
            _ => figure(row, row.median),
        })
        .column("goal", |(_, row, bound)| {
            met(match bound {
                Bound::AtLeast(least) => row.median >= *least,
                Bound::AtMost(most) => row.median <= *most,
            })
        });
    let table = PageTable::from(sheet);
    let kept = table.rows.iter().filter(|row| row.last().is_some_and(|word| word == met(true))).count();
    let sentence = format!("{kept} of {} goals are met.", table.rows.len());
    bench.add_table(table);
    bench.add_conclusion("concise-goals-conclusion", sentence);
    Ok(())
}

/// How the figure of a row was measured.
fn how(row: &Row) -> String {
    match row.metric {
        Metric::Loss => row.case.variant_text().to_owned(),
        Metric::UpdateRate | Metric::InsertRate => format!("{} at a time", row.case.batch.unwrap_or(1)),
        Metric::LookupRate => threads_text(threads(row)),
        _ => row.case.value_bits.map(|bits| format!("{} actions", 1_u32 << bits)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::row::Case;
    use scalebricks_report::stats::Summary;

    #[test]
    fn rows_of_other_parts_are_judged() {
        let mut bench = BenchRun::for_test("concise", Options::default());
        let case = bench
            .case("othello", 1_000_000)
            .format("sharded")
            .variant("beside 500 k alterations a second".to_owned())
            .value_bits(8);
        bench.add(case.clone(), Metric::Loss, Summary::exact(2.5));
        bench.add(case.clone(), Metric::Loss, Summary::exact(7.5));
        let made = case.clone().variant(MADE.to_owned()).threads(1);
        bench.add(made.clone(), Metric::LookupRate, Summary::exact(1.1e8));
        bench.add(made.clone().threads(4), Metric::LookupRate, Summary::exact(1.1e8));
        bench.add(Case { keys: 10, ..made }, Metric::LookupRate, Summary::exact(3e8));
        bench.add(Case { structure: "setsep".to_owned(), ..case }, Metric::Loss, Summary::exact(9.0));
        run(&mut bench).unwrap();
        let (_, exhibits) = bench.finish();
        let rows = &exhibits.sheets[0].rows;
        let told: Vec<(&str, &str, &str)> =
            rows.iter().map(|row| (row[4].as_str(), row[5].as_str(), row[6].as_str())).collect();
        assert_eq!(
            told,
            [
                ("at least 100 M/s", "110 M/s", "met"),
                ("at least 400 M/s", "110 M/s", "missed"),
                ("at most 5.0 %", "2.5 % (2.5 to 2.5)", "met"),
                ("at most 5.0 %", "7.5 % (7.5 to 7.5)", "missed"),
            ]
        );
        assert_eq!(exhibits.conclusions[0].sentence, "2 of 4 goals are met.");
    }
}
