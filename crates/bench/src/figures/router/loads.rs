//! Latency and processor time by load, timeouts for batches, and RB4.

use super::paper::{LATENCY_US, PACKET_BITS, RB4_EXPECTED_GBPS, RB4_GBPS};
use super::{Rows, point, spread};
use crate::bench_run::BenchRun;
use crate::router::{BESIDE, CLUSTER, LOADS, OPEN_LOOP};
use crate::row::{Metric, Row};
use crate::sheet::chart;
use scalebricks_report::exhibit::{PageTable, Scale};

/// Percentiles in tables.
const PERCENTILES: [(&str, Metric); 5] = [
    ("median, µs", Metric::LatencyP50),
    ("99 %, µs", Metric::LatencyP99),
    ("99.9 %, µs", Metric::LatencyP999),
    ("most, µs", Metric::LatencyMax),
    ("lost, share", Metric::PacketLoss),
];

pub(super) fn show(bench: &mut BenchRun<'_>, rows: &Rows) {
    let at_load = |row: &&Row| row.case.is_variant(OPEN_LOOP);
    if rows.of(Metric::LatencyP50).any(|row| at_load(&row)) {
        bench.add_table(latency(rows));
        for (name, title, unit, metrics, per) in [
            (
                "router-latency",
                "Latency by load, one server that routes 64-byte packets",
                "µs",
                &[
                    ("median", Metric::LatencyP50),
                    ("99 %", Metric::LatencyP99),
                    ("99.9 %", Metric::LatencyP999),
                ][..],
                1e3,
            ),
            (
                "router-figure-9",
                "Processor time per packet by load, without empty polls",
                "ns per packet",
                &[("", Metric::BusyTime)][..],
                1.0,
            ),
        ] {
            let points = ["Click", "fused"].into_iter().flat_map(|by| {
                metrics.iter().flat_map(move |(what, metric)| {
                    let of = rows.of(*metric).filter(at_load).filter(move |row| row.case.format == Some(by));
                    let name = if what.is_empty() { by.to_owned() } else { format!("{by}, {what}") };
                    of.map(move |row| {
                        (name.clone(), point(row.case.load.unwrap_or_default() * 100.0, row, per))
                    })
                })
            });
            let scale = if per > 1.0 { Scale::Decades } else { Scale::Linear };
            let axes = (("per cent of the capacity", Scale::Linear), (unit, scale));
            bench.add_chart(chart(name, title, axes.0, axes.1, points.collect::<Vec<_>>()));
        }
    }
    if rows.of(Metric::LatencyP50).any(is_timeout) {
        bench.add_table(timeouts(rows));
    }
    if rows.of(Metric::PacketTime).any(|row| row.case.structure == CLUSTER) {
        bench.add_table(rb4(rows));
        bench.add_table(rb4_latency(rows));
    }
}

/// The row of the same case with another metric.
fn beside<'r>(rows: &'r Rows, row: &Row, metric: Metric) -> Option<&'r Row> {
    row.beside(&rows.0, metric)
}

fn percentiles(rows: &Rows, row: &Row) -> Vec<String> {
    let cell = |(head, metric): (&str, Metric)| {
        let unit = if head.ends_with("µs") { 1e3 } else { 1.0 };
        beside(rows, row, metric).map_or_else(String::new, |row| spread(Some(row), unit))
    };
    PERCENTILES.map(cell).to_vec()
}

fn latency(rows: &Rows) -> PageTable {
    let mut table = PageTable::new("router-latency", &["form", "load, %", "Mpps"]);
    table.heads.extend(PERCENTILES.map(|(head, _)| head.to_owned()));
    table.heads.push("processor time without empty polls, ns per packet".to_owned());
    for by in ["Click", "fused"] {
        for load in LOADS {
            let is_it = |row: &&Row| {
                let case = &row.case;
                let is_load = case.load.is_some_and(|share| (share * 100.0 - f64::from(load)).abs() < 0.01);
                is_load && case.format == Some(by) && case.is_variant(OPEN_LOOP)
            };
            let Some(row) = rows.of(Metric::LatencyP50).find(is_it) else { continue };
            let rate = beside(rows, row, Metric::PacketRate);
            let mut cells = vec![by.to_owned(), load.to_string()];
            cells.push(rate.map_or_else(String::new, |row| format!("{:.2}", row.median / 1e6)));
            cells.extend(percentiles(rows, row));
            cells.push(spread(beside(rows, row, Metric::BusyTime), 1.0));
            table.rows.push(cells);
        }
    }
    table
}

fn is_timeout(row: &Row) -> bool {
    row.case.variant_text().contains("batches")
}

fn timeouts(rows: &Rows) -> PageTable {
    let mut table = PageTable::new("router-timeout", &["packets per second", "batches"]);
    table.heads.extend(PERCENTILES.map(|(head, _)| head.to_owned()));
    for row in rows.of(Metric::LatencyP50).filter(|row| is_timeout(row)) {
        let rate = row.case.load.unwrap_or_default();
        let mut cells = vec![format!("{rate:.0}"), row.case.variant_text().to_owned()];
        cells.extend(percentiles(rows, row));
        table.rows.push(cells);
    }
    table
}

/// Rates of four nodes beside the single server of the same rounds.
fn rb4(rows: &Rows) -> PageTable {
    let heads = [
        "packets",
        "what",
        "ns per packet",
        "Mpps, one core",
        "Gb/s, one core",
        "links per packet",
        "over Direct VLB, ns",
        "paper, Gb/s, four servers of 8 cores",
    ];
    let mut table = PageTable::new("router-rb4", &heads);
    let variants =
        rows.0.iter().filter(|row| row.case.structure == CLUSTER && row.metric == Metric::PacketTime);
    let mut packets: Vec<&str> = variants.map(|row| row.case.variant_text()).collect();
    packets.dedup();
    packets.sort_unstable_by_key(|name| !name.starts_with("64"));
    packets.dedup();
    for (number, packets) in packets.into_iter().enumerate() {
        let name = packets.trim_end_matches(BESIDE);
        let time = |work: &str, by: &str| rows.find(work, by, packets, Metric::PacketTime);
        let direct = time(CLUSTER, "direct-vlb").map(|row| row.median);
        let all = rows.routers(|row| row.case.is_variant(packets) && row.metric == Metric::PacketTime);
        for (work, by) in all {
            let of = |metric, unit| spread(rows.find(&work, by, packets, metric), unit);
            let over = time(&work, by).map(|row| row.median).zip(direct).filter(|_| work == CLUSTER);
            let links = rows.of(Metric::LinksPerPacket).find(|row| {
                row.case.structure == work && row.case.format == Some(by) && row.case.is_variant(name)
            });
            let is_rb4 = work == CLUSTER && by == "flowlets";
            table.rows.push(vec![
                name.to_owned(),
                format!("{work}, {by}"),
                of(Metric::PacketTime, 1.0),
                of(Metric::PacketRate, 1e6),
                of(Metric::BitRate, 1e9),
                links.map_or_else(String::new, |row| format!("{:.2}", row.median)),
                over.map_or_else(String::new, |(time, direct)| format!("{:+.1}", time - direct)),
                if is_rb4 {
                    RB4_GBPS.get(number).map_or_else(String::new, f64::to_string)
                } else {
                    String::new()
                },
            ]);
        }
        // A packet is routed at one node and forwarded at another.
        let ports = rows.find("forward", "Click", packets, Metric::PortTime);
        if let (Some(route), Some(forward), Some(ports)) =
            (time("route", "Click"), time("forward", "Click"), ports)
        {
            // The ports are part of the time of forwarding.
            let sum = route.median + (forward.median - ports.median).max(0.0);
            let expected = if number == 0 { RB4_EXPECTED_GBPS.to_string() } else { String::new() };
            table.rows.push(vec![
                name.to_owned(),
                "expected: one server's routing and forwarding, Click, added".to_owned(),
                format!("{sum:.0}"),
                format!("{:.2}", 1e3 / sum),
                if number == 0 { format!("{:.2}", PACKET_BITS / sum) } else { String::new() },
                "1".to_owned(),
                String::new(),
                expected,
            ]);
        }
    }
    table
}

fn rb4_latency(rows: &Rows) -> PageTable {
    let mut table = PageTable::new("router-rb4-latency", &["what", "way", "nodes"]);
    table.heads.extend(PERCENTILES.map(|(head, _)| head.to_owned()));
    table.heads.push("paper, µs (an estimate)".to_owned());
    let server = |row: &&Row| {
        let is_load = row.case.load.is_some_and(|load| (load - 0.4).abs() < 0.01);
        is_load && row.case.is_variant(OPEN_LOOP) && row.case.format == Some("Click")
    };
    if let Some(row) = rows.of(Metric::LatencyP50).find(server) {
        let mut cells = vec!["one server at 40 %".to_owned(), "Click".to_owned(), "1".to_owned()];
        cells.extend(percentiles(rows, row));
        cells.push(LATENCY_US[0].to_string());
        table.rows.push(cells);
    }
    for row in rows.of(Metric::LatencyP50).filter(|row| row.case.structure == CLUSTER) {
        let nodes = row.case.variant_text().split_whitespace().find_map(|word| word.parse::<usize>().ok());
        let Some(nodes) = nodes else { continue };
        let way = row.case.format.unwrap_or_default();
        let mut cells = vec!["four nodes at 50 %".to_owned(), way.to_owned(), nodes.to_string()];
        cells.extend(percentiles(rows, row));
        let paper = nodes.checked_sub(1).and_then(|at| LATENCY_US.get(at));
        cells.push(paper.map_or_else(String::new, f64::to_string));
        table.rows.push(cells);
    }
    table
}
