//! The tables and figures of RouteBricks beside ours, from the rows of the router benchmark.
//!
//! | module | contents |
//! |---|---|
//! | `paper` | the numbers of the paper, and of routers seen elsewhere |
//! | `workloads` | Figure 8, peers, goals, projections |
//! | `batches` | Table 1, Figures 6 and 7 |
//! | `bounds` | Tables 2 and 3 |
//! | `loads` | latency and processor time by load, timeouts, RB4 |

mod batches;
mod bounds;
mod loads;
mod paper;
mod workloads;

use crate::bench_run::BenchRun;
use crate::row::{Metric, Row};
use scalebricks_report::exhibit::Point;

/// Adds all tables and figures of the rows from `first` on.
pub fn show(bench: &mut BenchRun<'_>, first: usize) {
    let rows = Rows(bench.rows()[first..].to_vec());
    workloads::show(bench, &rows);
    batches::show(bench, &rows);
    bounds::show(bench, &rows);
    loads::show(bench, &rows);
}

/// Rows of the benchmark.
struct Rows(Vec<Row>);

impl Rows {
    /// The row of this work and router with these packets.
    fn find(&self, work: &str, by: &str, variant: &str, metric: Metric) -> Option<&Row> {
        self.of(metric).find(|row| {
            let case = &row.case;
            case.structure == work && case.format.unwrap_or_default() == by && case.is_variant(variant)
        })
    }

    fn of(&self, metric: Metric) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |row| row.metric == metric)
    }

    /// Distinct work and routers of rows that this accepts, in the order of rows.
    fn routers(&self, accepts: impl Fn(&Row) -> bool) -> Vec<(String, &'static str)> {
        let mut all = Vec::new();
        for row in self.0.iter().filter(|row| accepts(row)) {
            let one = (row.case.structure.clone(), row.case.format.unwrap_or_default());
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }

    /// Medians of two rows divided by each other, with the extremes that their ranges allow.
    fn ratio(of: Option<&Row>, over: Option<&Row>) -> Option<[f64; 3]> {
        let (of, over) = (of?, over?);
        Some([of.median / over.median, of.min / over.max, of.max / over.min])
    }
}

/// A row's rate in millions, with its range; a mark if its threads shared a core.
pub(super) fn millions(row: Option<&Row>) -> String {
    spread(row, 1e6)
}

/// A row's figure in this unit, with its range.
fn spread(row: Option<&Row>, unit: f64) -> String {
    let Some(row) = row else { return String::new() };
    let digits = match row.median / unit {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    let mark = row.mark.map_or_else(String::new, |mark| format!(", {mark}"));
    if row.runs < 2 {
        format!("{:.digits$}{mark}", row.median / unit)
    } else {
        row.spread(unit, digits) + &mark
    }
}

/// A point of a chart.
fn point(x: f64, row: &Row, unit: f64) -> Point {
    row.point(x, unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::without_place;
    use crate::options::Options;

    #[test]
    fn the_page_has_a_place_for_all_that_is_shown() {
        const PAGE: &str = include_str!("../../../../../docs/router-figures.md");
        // Beside other tests a measurement may be disturbed and rejected.
        let attempt = || {
            let options = Options { quick: true, runs: Some(1), ..Options::default() };
            let mut bench = BenchRun::for_test("router", options);
            crate::router::run(&mut bench).map(|()| bench)
        };
        let bench = attempt().or_else(|_| attempt()).or_else(|_| attempt()).unwrap();
        let rows = bench.rows().to_vec();
        assert!(rows.iter().all(|row| row.median.is_finite() && row.median >= 0.0));
        let (_, exhibits) = bench.finish();
        assert_eq!(without_place(PAGE, &exhibits), Vec::<String>::new());
        for sheet in &exhibits.sheets {
            assert!(!sheet.rows.is_empty(), "{}", sheet.name);
            assert!(sheet.rows.iter().all(|row| row.len() == sheet.heads.len()), "{}", sheet.name);
        }
        for chart in &exhibits.charts {
            assert!(!chart.series.is_empty(), "{}", chart.name);
        }
        for said in &exhibits.conclusions {
            assert!(!said.sentence.contains("NaN") && !said.sentence.contains("inf"), "{}", said.sentence);
        }
    }
}
