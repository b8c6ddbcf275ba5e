//! Figures 8 to 10: packets a second of one node by the number of flows, with all of the cache and with half of it, and
//! latencies by load.

use super::exhibit::{Chart, Mark, Point, Scale, Series, Sheet};
use crate::row::{Metric, Row};
use crate::session::Session;
use scalebricks_console::quantity::short_count;

/// What a node does, as columns.
const ROLES: [(&str, &str); 5] = [
    ("ingress", "ingress, ns"),
    ("handling", "handling, ns"),
    ("handling, upstream", "upstream, ns"),
    ("ingress and handling", "both, ns"),
    ("ingress and handling, upstream", "both upstream, ns"),
];

/// The sets of tables, in pairs: the colour of the exact table, and how the flows are spread.
const TABLES: [(&str, usize, Mark); 7] = [
    ("full-duplication chained-hash", 0, Mark::Dashes),
    ("scalebricks chained-hash", 0, Mark::Dotted),
    ("full-duplication rte_hash", 1, Mark::Dashes),
    ("scalebricks rte_hash", 1, Mark::Dotted),
    ("efd rte_hash", 2, Mark::Line),
    ("full-duplication cuckoo", 3, Mark::Dashes),
    ("scalebricks cuckoo", 3, Mark::Dotted),
];

/// Shows the rows from `first` on.
pub fn show(session: &mut Session<'_>, first: usize) {
    let rows = Rows(session.rows()[first..].to_vec());
    let stages = rows.stages();
    session.tabulate(stages);
    let about = "Packets a second of one node with two cores";
    for (name, title, suffix) in [
        ("figure-8", about.to_owned(), ""),
        ("figure-9", format!("{about}, half the cache taken"), ", half the cache"),
    ] {
        session.show(rows.rates(name, &title, suffix));
        session.tabulate(rows.rate_table(name, suffix));
    }
    let (chart, sheet) = rows.latencies();
    session.show(chart);
    session.tabulate(sheet);
}

/// Rows of the benchmark.
struct Rows(Vec<Row>);

impl Rows {
    fn find(&self, structure: &str, variant: &str, keys: u64, metric: Metric) -> Option<&Row> {
        self.0.iter().find(|row| {
            let subject = &row.subject;
            let is_variant = subject.variant.as_deref() == Some(variant);
            is_variant && subject.structure == structure && subject.keys == keys && row.metric == metric
        })
    }

    /// The numbers of flows measured.
    fn flows(&self) -> Vec<u64> {
        let measured = self.0.iter().filter(|row| row.metric == Metric::WorkTime);
        let mut flows: Vec<u64> = measured.map(|row| row.subject.keys).collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    }

    /// Work by what a node does.
    fn stages(&self) -> Sheet {
        let mut heads = vec!["flows", "tables"];
        heads.extend(ROLES.map(|(_, head)| head));
        let mut sheet = Sheet::new("gateway-stages", &heads);
        for flows in self.flows() {
            for (suffix, packets) in [("", ""), (", mbufs", ", mbufs")] {
                for (name, ..) in TABLES {
                    let found = ROLES.map(|(role, _)| {
                        self.find(name, &format!("{role}{suffix}"), flows, Metric::WorkTime)
                    });
                    if found.iter().all(Option::is_none) {
                        continue;
                    }
                    let mut cells = vec![short_count(flows), format!("{name}{packets}")];
                    cells.extend(found.map(|row| row.map_or_else(String::new, |row| spread(row, 1.0, 0))));
                    sheet.rows.push(cells);
                }
            }
        }
        sheet
    }

    /// Rates of the core split by flows.
    fn rates(&self, name: &'static str, title: &str, suffix: &str) -> Chart {
        let axes = (("flows", Scale::Decades), ("million packets a second", Scale::Linear));
        let mut chart = Chart::new(name, title, axes.0, axes.1);
        for (tables, colour, mark) in TABLES {
            let points: Vec<Point> = self
                .flows()
                .into_iter()
                .filter_map(|flows| {
                    self.find(tables, &format!("core split{suffix}"), flows, Metric::PacketRate)
                })
                .map(|row| Point {
                    x: row.subject.keys as f64,
                    y: row.median / 1e6,
                    spread: Some((row.min / 1e6, row.max / 1e6)),
                })
                .collect();
            if !points.is_empty() {
                chart.series.push(Series::new(tables, mark, colour, points));
            }
        }
        chart
    }

    /// The same as a table, and what of the gain comes from where.
    fn rate_table(&self, name: &'static str, suffix: &str) -> Sheet {
        let columns = [
            ("core split", Metric::PacketRate, 1e6, 1),
            ("run to completion", Metric::PacketRate, 1e6, 1),
            ("core split, over full duplication", Metric::Ratio, 1.0, 2),
            ("of it by smaller tables", Metric::Ratio, 1.0, 2),
            ("of it by the idle core", Metric::Ratio, 1.0, 2),
        ];
        let mut sheet = Sheet::new(name, &["flows", "tables"]);
        sheet.heads.extend(columns.map(|(variant, metric, ..)| match metric {
            Metric::PacketRate => format!("{variant}, Mpps"),
            _ => variant.to_owned(),
        }));
        for flows in self.flows() {
            for (tables, ..) in TABLES {
                let found = columns.map(|(variant, metric, unit, digits)| {
                    let row = self.find(tables, &format!("{variant}{suffix}"), flows, metric);
                    row.map(|row| spread(row, unit, digits))
                });
                if found.iter().any(Option::is_some) {
                    let cells = [short_count(flows), tables.to_owned()];
                    sheet.rows.push(cells.into_iter().chain(found.map(Option::unwrap_or_default)).collect());
                }
            }
        }
        sheet
    }

    /// Latencies by load.
    fn latencies(&self) -> (Chart, Sheet) {
        let axes = (("million packets a second", Scale::Linear), ("microseconds", Scale::Decades));
        let mut chart = Chart::new("figure-10", "Latency by load, four nodes on one core", axes.0, axes.1);
        let heads = ["way through the cluster", "load", "mean, µs", "99th percentile, µs"];
        let mut sheet = Sheet::new("figure-10", &heads);
        let of = |metric| self.0.iter().filter(move |row| row.metric == metric);
        let mut names: Vec<&str> =
            of(Metric::LatencyMean).map(|row| row.subject.structure.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for (colour, name) in names.into_iter().enumerate() {
            let loss_free = self.0.iter().find(|row| {
                row.subject.structure == name && row.subject.variant.as_deref() == Some("loss-free")
            });
            let own = loss_free.map_or(0.0, |row| row.median / 1e6);
            for (metric, mark, what) in
                [(Metric::LatencyMean, Mark::Dotted, "mean"), (Metric::LatencyP99, Mark::Dashes, "p99")]
            {
                let points = of(metric).filter(|row| row.subject.structure == name).map(|row| Point {
                    x: load(row).unwrap_or(own),
                    y: row.median / 1e3,
                    spread: Some((row.min / 1e3, row.max / 1e3)),
                });
                chart.series.push(Series::new(format!("{name}, {what}"), mark, colour, points.collect()));
            }
            for mean in of(Metric::LatencyMean).filter(|row| row.subject.structure == name) {
                let variant = mean.subject.variant.as_deref().unwrap_or_default();
                let p99 = self.find(name, variant, mean.subject.keys, Metric::LatencyP99);
                sheet.rows.push(vec![
                    name.to_owned(),
                    load(mean).map_or_else(
                        || format!("loss-free, {own:.2} Mpps"),
                        |load| format!("{load:.2} Mpps"),
                    ),
                    spread(mean, 1e3, 1),
                    p99.map_or_else(String::new, |row| spread(row, 1e3, 0)),
                ]);
            }
        }
        (chart, sheet)
    }
}

/// The load a latency was measured at, in millions of packets a second; `None` at the loss-free rate.
fn load(row: &Row) -> Option<f64> {
    let variant = row.subject.variant.as_deref()?;
    variant.strip_prefix("at ")?.strip_suffix(" Mpps")?.parse().ok()
}

/// A figure in some unit, with the least and the most.
fn spread(row: &Row, unit: f64, digits: usize) -> String {
    let [median, least, most] = [row.median, row.min, row.max].map(|figure| figure / unit);
    format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Subject;
    use crate::stats::Summary;

    fn row(structure: &str, variant: &str, metric: Metric, figures: &[f64]) -> Row {
        let subject = Subject {
            bench: "gateway",
            structure: structure.to_owned(),
            variant: Some(variant.to_owned()),
            keys: 1_000_000,
            ..Subject::default()
        };
        Row::new(subject, metric, Summary::of(figures))
    }

    #[test]
    fn rows_find_their_places() {
        let rows = Rows(vec![
            row("scalebricks cuckoo", "ingress", Metric::WorkTime, &[14.0, 15.0, 16.0]),
            row("scalebricks cuckoo", "ingress, mbufs", Metric::WorkTime, &[13.0]),
            row("scalebricks cuckoo", "core split", Metric::PacketRate, &[20e6, 30e6, 40e6]),
            row("scalebricks cuckoo", "core split, over full duplication", Metric::Ratio, &[1.4]),
            row("vlb", "loss-free", Metric::PacketRate, &[5e6]),
            row("vlb", "at 1.25 Mpps", Metric::LatencyMean, &[14_000.0]),
            row("vlb", "at 1.25 Mpps", Metric::LatencyP99, &[90_000.0]),
            row("vlb", "at its loss-free rate", Metric::LatencyMean, &[2e6]),
        ]);
        let stages = rows.stages();
        assert_eq!(stages.rows[0], ["1 M", "scalebricks cuckoo", "15 (14–16)", "", "", "", ""]);
        assert_eq!(stages.rows[1][1..3], ["scalebricks cuckoo, mbufs", "13 (13–13)"]);
        let chart = rows.rates("figure-8", "", "");
        assert_eq!(chart.series.len(), 1);
        assert_eq!(chart.series[0].points[0], Point { x: 1e6, y: 30.0, spread: Some((20.0, 40.0)) });
        assert!(rows.rates("figure-9", "", ", half the cache").series.is_empty());
        let table = rows.rate_table("figure-8", "");
        let wanted = ["1 M", "scalebricks cuckoo", "30.0 (20.0–40.0)", "", "1.40 (1.40–1.40)", "", ""];
        assert_eq!(table.rows, [wanted.map(str::to_owned).to_vec()]);
        let (chart, sheet) = rows.latencies();
        let mean: Vec<(f64, f64)> = chart.series[0].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(mean, [(1.25, 14.0), (5.0, 2000.0)]);
        assert_eq!(sheet.rows[0], ["vlb", "1.25 Mpps", "14.0 (14.0–14.0)", "90 (90–90)"]);
        assert_eq!(sheet.rows[1][1], "loss-free, 5.00 Mpps");
    }
}
