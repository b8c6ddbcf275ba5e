//! Our goals for the table in one place: rows of the other parts, compared with the paper's statements and
//! what follows from them.

use super::lookups::MADE;
use super::reconstruction::RECONSTRUCTION;
use super::{conclusions, millions, paper};
use crate::error::BenchError;
use crate::pin;
use crate::row::{Metric, Row};
use crate::session::Session;
use crate::table::figure;
use scalebricks_console::quantity::short_count;
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

impl Bound {
    fn is_met(&self, median: f64) -> bool {
        match self {
            Self::AtLeast(least) => median >= *least,
            Self::AtMost(most) => median <= *most,
        }
    }

    fn text(&self, row: &Row) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {}", figure(row, *least)),
            Self::AtMost(most) => format!("at most {}", figure(row, *most)),
        }
    }
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
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let heads = ["what", "names", "how", "paper", "goal", "here", "goal"];
    let mut sheet = PageTable::new("concise-goals", &heads);
    let is_default = |row: &&Row| {
        let of = &row.case;
        of.structure == "othello"
            && of.format == Some("sharded")
            && (of.keys >= 1_000_000 || session.options().quick || is(row, OVER_CUCKOO_MEMORY))
    };
    for goal in GOALS {
        let rows = session.rows().iter().filter(|row| row.metric == goal.metric);
        sheet
            .rows
            .extend(rows.filter(is_default).filter(|row| (goal.is_of)(row)).map(|row| line(&goal, row)));
    }
    let met = sheet
        .rows
        .iter()
        .filter(|row| row.last().is_some_and(|word| word == conclusions::word(true)))
        .count();
    let sentence = format!("{met} of {} goals are met.", sheet.rows.len());
    session.add_table(sheet);
    session.add_conclusion("concise-goals-conclusion", sentence);
    Ok(())
}

fn line(goal: &Goal, row: &Row) -> Vec<String> {
    let of = &row.case;
    let how = match goal.metric {
        Metric::Loss => of.variant.clone().unwrap_or_default(),
        Metric::UpdateRate | Metric::InsertRate => format!("{} at a time", of.batch.unwrap_or(1)),
        Metric::LookupRate if threads(row) > pin::cores() => {
            format!("{} threads, oversubscribed", threads(row))
        }
        Metric::LookupRate if threads(row) == 1 => "1 thread".to_owned(),
        Metric::LookupRate => format!("{} threads", threads(row)),
        _ => of.value_bits.map_or_else(String::new, |bits| format!("{} actions", 1_u32 << bits)),
    };
    let here = match goal.metric {
        Metric::Loss => format!("{:.1} % ({:.1} to {:.1})", row.median, row.min, row.max),
        metric if metric.is_rate() => format!("{} M/s", millions(&row.summary())),
        _ => figure(row, row.median),
    };
    let bound = (goal.bound)(row);
    vec![
        goal.what.to_owned(),
        short_count(of.keys),
        how,
        (goal.paper)(row),
        bound.text(row),
        here,
        conclusions::word(bound.is_met(row.median)).to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::row::Case;
    use scalebricks_report::stats::Summary;

    #[test]
    fn rows_of_other_parts_are_judged() {
        let mut session = Session::for_test("concise", Options::default());
        let case = session
            .case("othello", 1_000_000)
            .format("sharded")
            .variant("beside 500 k alterations a second".to_owned())
            .value_bits(8);
        session.add(case.clone(), Metric::Loss, Summary::exact(2.5));
        session.add(case.clone(), Metric::Loss, Summary::exact(7.5));
        let made = case.clone().variant(MADE.to_owned()).threads(1);
        session.add(made.clone(), Metric::LookupRate, Summary::exact(1.1e8));
        session.add(made.clone().threads(4), Metric::LookupRate, Summary::exact(1.1e8));
        session.add(Case { keys: 10, ..made }, Metric::LookupRate, Summary::exact(3e8));
        session.add(Case { structure: "setsep".to_owned(), ..case }, Metric::Loss, Summary::exact(9.0));
        run(&mut session).unwrap();
        let (_, exhibits) = session.finish();
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
