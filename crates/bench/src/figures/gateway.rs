//! Figures 8 to 10: packets per second of one node by number of flows, with the whole cache and with half of
//! it, and latencies by load.

use crate::bench_run::BenchRun;
use crate::row::{Metric, Row};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};

/// Roles of a node and their column heads.
const ROLES: [(&str, &str); 5] = [
    ("ingress", "ingress, ns"),
    ("handling", "handling, ns"),
    ("handling, upstream", "upstream, ns"),
    ("ingress and handling", "both, ns"),
    ("ingress and handling, upstream", "both upstream, ns"),
];

/// Sets of tables: name, colour of the exact table, and style for how flows are placed.
const TABLES: [(&str, usize, Mark); 7] = [
    ("full-duplication chained-hash", 0, Mark::Dashes),
    ("scalebricks chained-hash", 0, Mark::Dotted),
    ("full-duplication rte_hash", 1, Mark::Dashes),
    ("scalebricks rte_hash", 1, Mark::Dotted),
    ("efd rte_hash", 2, Mark::Line),
    ("full-duplication cuckoo", 3, Mark::Dashes),
    ("scalebricks cuckoo", 3, Mark::Dotted),
];

/// The sets of tables in the headline.
const HEADLINE: [&str; 4] =
    ["full-duplication rte_hash", "scalebricks rte_hash", "full-duplication cuckoo", "scalebricks cuckoo"];

/// Adds the figures for the rows from `first` on.
pub fn show(bench: &mut BenchRun<'_>, first: usize) {
    let rows = Rows(bench.rows()[first..].to_vec());
    let stages = rows.stages();
    bench.add_table(stages);
    for (name, about, suffix) in
        [("figure-8", "", ""), ("figure-9", ", half the cache taken", ", half the cache")]
    {
        bench.add_chart(rows.rates(name, about, suffix));
        bench.add_table(rows.rate_table(name, suffix));
    }
    bench.add_table(rows.headline());
    bench.add_table(rows.throughputs());
    bench.add_chart(rows.latency_chart());
    bench.add_table(rows.latencies());
}

/// Rows of the benchmark.
struct Rows(Vec<Row>);

impl Rows {
    fn find(&self, structure: &str, variant: &str, keys: u64, metric: Metric) -> Option<&Row> {
        self.0.iter().find(|row| {
            let case = &row.case;
            let is_variant = case.is_variant(variant);
            is_variant && case.structure == structure && case.keys == keys && row.metric == metric
        })
    }

    /// The measured numbers of flows.
    fn flows(&self) -> Vec<u64> {
        let measured = self.0.iter().filter(|row| row.metric == Metric::WorkTime);
        let mut flows: Vec<u64> = measured.map(|row| row.case.keys).collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    }

    /// Work time by role.
    fn stages(&self) -> PageTable {
        let mut heads = vec!["flows", "tables"];
        heads.extend(ROLES.map(|(_, head)| head));
        let mut sheet = PageTable::new("gateway-stages", &heads);
        for flows in self.flows() {
            for (suffix, packets) in [("", ""), (", mbufs", ", mbufs")] {
                for (name, ..) in TABLES {
                    let found = ROLES.map(|(role, _)| {
                        self.find(name, &format!("{role}{suffix}"), flows, Metric::WorkTime)
                    });
                    if found.iter().all(Option::is_none) {
                        continue;
                    }
                    let bits = found.iter().flatten().find_map(|row| row.case.value_bits);
                    let mut cells = vec![short_count(flows), format!("{}{packets}", label(name, bits))];
                    cells.extend(found.map(|row| row.map_or_else(String::new, |row| row.spread(1.0, 0))));
                    sheet.rows.push(cells);
                }
            }
        }
        sheet
    }

    /// Rates by number of flows: of the core split, or of one core where the machine has only one.
    fn rates(&self, name: &'static str, about: &str, suffix: &str) -> Chart {
        let axes = (("flows", Scale::Decades), ("million packets a second", Scale::Linear));
        let has = |variant: &str| {
            let of_variant = |row: &Row| row.case.is_variant(variant);
            self.0.iter().any(|row| row.metric == Metric::PacketRate && of_variant(row))
        };
        let (split, completion) = (format!("core split{suffix}"), format!("run to completion{suffix}"));
        let (variant, cores) = if has(&split) { (split, "two cores") } else { (completion, "one core") };
        let title = format!("Packets a second of one node with {cores}{about}");
        let mut chart = Chart::new(name, &title, axes.0, axes.1);
        for (tables, colour, mark) in TABLES {
            let points: Vec<Point> = self
                .flows()
                .into_iter()
                .filter_map(|flows| self.find(tables, &variant, flows, Metric::PacketRate))
                .map(|row| Point::measured(row.case.keys as f64, row.summary(), 1e6))
                .collect();
            if !points.is_empty() {
                chart.series.push(Series::new(tables, mark, colour, points));
            }
        }
        chart
    }

    /// The same rates as a table, with the sources of the gain.
    fn rate_table(&self, name: &'static str, suffix: &str) -> PageTable {
        let columns = [
            ("core split", Metric::PacketRate, 1e6, 1),
            ("run to completion", Metric::PacketRate, 1e6, 1),
            ("core split, over full duplication", Metric::Ratio, 1.0, 2),
            ("of it by smaller tables", Metric::Ratio, 1.0, 2),
            ("of it by the idle core", Metric::Ratio, 1.0, 2),
        ];
        let mut sheet = PageTable::new(name, &["flows", "tables"]);
        sheet.heads.extend(columns.map(|(variant, metric, ..)| match metric {
            Metric::PacketRate => format!("{variant}, Mpps"),
            _ => variant.to_owned(),
        }));
        let candidates = TABLES.map(|(tables, ..)| tables).into_iter().chain(["plain forwarding"]);
        for flows in self.flows() {
            for tables in candidates.clone() {
                let found = columns.map(|(variant, metric, unit, digits)| {
                    let row = self.find(tables, &format!("{variant}{suffix}"), flows, metric);
                    row.map(|row| {
                        let mark = row.mark.map_or_else(String::new, |mark| format!(", {mark}"));
                        (row.case.value_bits, row.spread(unit, digits) + &mark)
                    })
                });
                if found.iter().all(Option::is_none) {
                    continue;
                }
                let bits = found.iter().flatten().find_map(|(bits, _)| *bits);
                let mut cells = vec![short_count(flows), label(tables, bits)];
                cells.extend(found.map(|cell| cell.map_or_else(String::new, |(_, text)| text)));
                sheet.rows.push(cells);
            }
        }
        sheet
    }

    /// The main rates of a node in million packets per second, with our exact table and with DPDK's.
    fn headline(&self) -> PageTable {
        let heads = ["flows", "tables", "one core, Mpps", "two cores, Mpps"];
        let mut sheet = PageTable::new("gateway-headline", &heads).side_by_side(2);
        for flows in self.flows() {
            for tables in HEADLINE {
                let rates = ["run to completion", "core split"]
                    .map(|variant| self.find(tables, variant, flows, Metric::PacketRate));
                if rates.iter().all(Option::is_none) {
                    continue;
                }
                let mut cells = vec![short_count(flows), tables.to_owned()];
                cells.extend(rates.map(|row| {
                    row.map_or_else(String::new, |row| {
                        row.spread(1e6, 1) + &row.mark.map_or_else(String::new, |mark| format!(", {mark}"))
                    })
                }));
                sheet.rows.push(cells);
            }
        }
        sheet
    }

    /// Rows of clusters.
    fn of_clusters(&self, metric: Metric) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |row| row.metric == metric && row.case.nodes.is_some())
    }

    /// The highest loss-free rates.
    fn throughputs(&self) -> PageTable {
        let mut sheet = PageTable::new("figure-10-throughput", &["approach", "throughput, Mpps", "searches"]);
        let searched = |row: &&Row| row.case.is_variant("throughput");
        for row in self.of_clusters(Metric::PacketRate).filter(searched) {
            let name = label(&row.case.structure, row.case.value_bits);
            sheet.rows.push(vec![name, row.spread(1e6, 2), row.runs.to_string()]);
        }
        sheet
    }

    /// The row of the same case with another metric.
    fn beside(&self, row: &Row, metric: Metric) -> Option<&Row> {
        self.of_clusters(metric).find(|other| other.case == row.case)
    }

    /// Mean latencies by load. Percentiles would make the chart unreadable.
    fn latency_chart(&self) -> Chart {
        let axes = (("million packets a second", Scale::Linear), ("microseconds", Scale::Decades));
        let mut chart =
            Chart::new("figure-10", "Mean latency by load, four nodes on one core", axes.0, axes.1);
        let mut names: Vec<&str> = Vec::new();
        for row in self.of_clusters(Metric::LatencyMean) {
            if !names.contains(&row.case.structure.as_str()) {
                names.push(&row.case.structure);
            }
        }
        let marks = [Mark::Dotted, Mark::Dashes];
        for (colour, name) in names.into_iter().enumerate() {
            let of_name = |row: &&Row| row.case.structure == name;
            let mut points: Vec<Point> = self
                .of_clusters(Metric::LatencyMean)
                .filter(of_name)
                .filter_map(|row| {
                    let x = self.beside(row, Metric::PacketRate)?.median / 1e6;
                    Some(Point::measured(x, row.summary(), 1e3))
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            chart.series.push(Series::new(name, marks[colour % marks.len()], colour, points));
        }
        chart
    }

    /// Latencies and losses by load.
    fn latencies(&self) -> PageTable {
        let columns = [
            ("mean, µs", Metric::LatencyMean, 1e3, 1),
            ("median, µs", Metric::LatencyP50, 1e3, 1),
            ("99th percentile, µs", Metric::LatencyP99, 1e3, 0),
            ("most, µs", Metric::LatencyMax, 1e3, 0),
            ("lost, %", Metric::PacketLoss, 0.01, 3),
        ];
        let mut sheet = PageTable::new("figure-10", &["approach", "load", "Mpps"]);
        sheet.heads.extend(columns.map(|(head, ..)| head.to_owned()));
        sheet.heads.push("trials".to_owned());
        for row in self.of_clusters(Metric::LatencyMean) {
            let rate = self.beside(row, Metric::PacketRate).map_or(0.0, |row| row.median / 1e6);
            let load = row.case.variant_text();
            let load = load.strip_prefix("at ").unwrap_or(load);
            let load = if load.ends_with("Mpps") { "the same for all" } else { load };
            let mut cells =
                vec![label(&row.case.structure, row.case.value_bits), load.to_owned(), format!("{rate:.2}")];
            cells.extend(columns.map(|(_, metric, unit, digits)| {
                self.beside(row, metric).map_or_else(String::new, |row| row.spread(unit, digits))
            }));
            cells.push(row.runs.to_string());
            sheet.rows.push(cells);
        }
        sheet
    }
}

/// The name of a set of tables, with the value bits of a compact GPT.
fn label(name: &str, value_bits: Option<u8>) -> String {
    value_bits.map_or_else(|| name.to_owned(), |bits| format!("{name}, {bits}-bit values"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Case;
    use scalebricks_report::stats::Summary;

    fn row(structure: &str, variant: &str, metric: Metric, figures: &[f64]) -> Row {
        let case = Case {
            bench: "gateway",
            structure: structure.to_owned(),
            variant: Some(variant.to_owned()),
            keys: 1_000_000,
            ..Case::default()
        };
        Row::new(case, metric, Summary::of(figures))
    }

    fn of_cluster(structure: &str, variant: &str, metric: Metric, figures: &[f64]) -> Row {
        let mut row = row(structure, variant, metric, figures);
        row.case.nodes = Some(4);
        row
    }

    #[test]
    fn rows_of_a_node_find_their_places() {
        let mut efd = row("efd rte_hash", "ingress", Metric::WorkTime, &[20.0]);
        efd.case.value_bits = Some(8);
        let mut marked = row("plain forwarding", "core split", Metric::PacketRate, &[90e6]);
        marked.mark = Some("one core");
        let mut rows = Rows(vec![
            row("scalebricks cuckoo", "ingress", Metric::WorkTime, &[14.0, 15.0, 16.0]),
            row("scalebricks cuckoo", "ingress, mbufs", Metric::WorkTime, &[13.0]),
            row("scalebricks cuckoo", "core split", Metric::PacketRate, &[20e6, 30e6, 40e6]),
            row("scalebricks cuckoo", "run to completion", Metric::PacketRate, &[10e6]),
            row("scalebricks cuckoo", "core split, over full duplication", Metric::Ratio, &[1.4]),
            marked,
            efd,
        ]);
        let stages = rows.stages();
        assert_eq!(stages.rows[0][1..3], ["efd rte_hash, 8-bit values", "20 (20–20)"]);
        assert_eq!(stages.rows[1], ["1 M", "scalebricks cuckoo", "15 (14–16)", "", "", "", ""]);
        assert_eq!(stages.rows[2][1..3], ["scalebricks cuckoo, mbufs", "13 (13–13)"]);
        let chart = rows.rates("figure-8", "", "");
        assert_eq!(chart.title, "Packets a second of one node with two cores");
        assert_eq!(chart.series.len(), 1);
        assert_eq!(chart.series[0].points[0], Point { x: 1e6, y: 30.0, spread: Some((20.0, 40.0)) });
        assert!(rows.rates("figure-9", "", ", half the cache").series.is_empty());
        let table = rows.rate_table("figure-8", "");
        let wanted =
            ["1 M", "scalebricks cuckoo", "30.0 (20.0–40.0)", "10.0 (10.0–10.0)", "1.40 (1.40–1.40)", "", ""];
        assert_eq!(table.rows[0], wanted);
        assert_eq!(table.rows[1][..3], ["1 M", "plain forwarding", "90.0 (90.0–90.0), one core"]);
        let headline = rows.headline();
        assert_eq!(
            headline.rows,
            [["1 M", "scalebricks cuckoo", "10.0 (10.0–10.0)", "30.0 (20.0–40.0)"]
                .map(str::to_owned)
                .to_vec()]
        );
        // On a machine with one core.
        rows.0.retain(|row| !row.case.variant.as_deref().is_some_and(|name| name.starts_with("core split")));
        let chart = rows.rates("figure-8", "", "");
        assert_eq!(chart.title, "Packets a second of one node with one core");
        assert_eq!(chart.series[0].points[0], Point { x: 1e6, y: 10.0, spread: Some((10.0, 10.0)) });
        assert_eq!(rows.rate_table("figure-8", "").rows[0][2..4], ["", "10.0 (10.0–10.0)"]);
    }

    #[test]
    fn rows_of_clusters_find_their_places() {
        let (own, equal) = ("at 50 % of its throughput", "at 1.25 Mpps");
        let rows = Rows(vec![
            of_cluster("vlb cuckoo", "throughput", Metric::PacketRate, &[4.8e6, 5e6, 5.2e6]),
            of_cluster("vlb cuckoo", own, Metric::PacketRate, &[2.5e6]),
            of_cluster("vlb cuckoo", own, Metric::LatencyMean, &[20_000.0]),
            of_cluster("vlb cuckoo", equal, Metric::PacketRate, &[1.25e6]),
            of_cluster("vlb cuckoo", equal, Metric::LatencyMean, &[14_000.0]),
            of_cluster("vlb cuckoo", equal, Metric::LatencyP99, &[90_000.0, 91_000.0]),
            of_cluster("vlb cuckoo", equal, Metric::PacketLoss, &[0.0, 0.001]),
            // A row of one node with the same name.
            row("vlb cuckoo", "ingress", Metric::PacketRate, &[7e6]),
        ]);
        assert_eq!(
            rows.throughputs().rows,
            [["vlb cuckoo", "5.00 (4.80–5.20)", "3"].map(str::to_owned).to_vec()]
        );
        let chart = rows.latency_chart();
        let mean: Vec<(f64, f64)> = chart.series[0].points.iter().map(|point| (point.x, point.y)).collect();
        assert_eq!(mean, [(1.25, 14.0), (2.5, 20.0)]);
        let sheet = rows.latencies();
        assert_eq!(sheet.rows[0][..4], ["vlb cuckoo", "50 % of its throughput", "2.50", "20.0 (20.0–20.0)"]);
        assert_eq!(sheet.rows[1][1..3], ["the same for all", "1.25"]);
        assert_eq!(sheet.rows[1][5..], ["90 (90–91)", "", "0.050 (0.000–0.100)", "1"]);
    }
}
