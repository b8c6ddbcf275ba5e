//! Figure 8: rates by frame length, beside the paper, DPDK and routers seen elsewhere.

use super::paper::{self, ELSEWHERE, PACKET_BITS, WORKLOADS};
use super::{Rows, millions, point, spread};
use crate::bench_run::BenchRun;
use crate::router::{FRAMES, MBUFS, NULL_PORTS, TESTPMD};
use crate::row::{Metric, Row};
use crate::sheet::chart;
use scalebricks_report::exhibit::{PageTable, Scale};

/// Our goals on one core: work, router, packets, metric and unit, what it is compared with, and the least value.
const GOALS: [(&str, &str, &str, Against, f64); 7] = [
    ("forward", "fused", NULL_PORTS, Against::Testpmd, 0.8),
    ("route", "fused", "64 bytes", Against::L3fwd, 0.9),
    ("route", "Click", "64 bytes", Against::L3fwd, 0.45),
    ("encrypt, AES-128-GCM", "Click", "1024 bytes", Against::GigabitsPerSecond, 20.0),
    ("encrypt, AES-128-GCM", "Click", "64 bytes", Against::MillionPerSecond, 4.0),
    ("decrypt, AES-128-GCM", "Click", "1024 bytes", Against::GigabitsPerSecond, 20.0),
    ("decrypt, AES-128-GCM", "Click", "64 bytes", Against::MillionPerSecond, 4.0),
];

/// What a goal is measured by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Against {
    Testpmd,
    /// The fastest table of l3fwd in the same run; both with DPDK's packets.
    L3fwd,
    GigabitsPerSecond,
    MillionPerSecond,
}

pub(super) fn show(bench: &mut BenchRun<'_>, rows: &Rows) {
    let mixes = rows.0.iter().filter_map(|row| row.case.variant.clone());
    let mix = mixes.into_iter().find(|name| name.ends_with(" mix")).unwrap_or_default();
    let by_length = |row: &Row| FRAMES.iter().any(|bytes| row.case.is_variant(&format!("{bytes} bytes")));
    let ours = rows.routers(|row| row.metric == Metric::PacketTime && by_length(row));
    bench.add_table(figure_8(rows, &ours, &mix));
    bench.add_table(lengths(rows, &ours));
    for (name, title, unit, metric, per) in [
        ("router-rates", "Packets per second of one core by frame length", "Mpps", Metric::PacketRate, 1e6),
        ("router-bits", "Bits per second of one core by frame length", "Gb/s", Metric::BitRate, 1e9),
    ] {
        let points = ours.iter().flat_map(|(work, by)| {
            FRAMES.into_iter().filter_map(move |bytes| {
                let row = rows.find(work, by, &format!("{bytes} bytes"), metric)?;
                Some((format!("{work}, {by}"), point(f64::from(bytes), row, per)))
            })
        });
        let axes = (("bytes of a frame", Scale::Doublings), (unit, Scale::Decades));
        bench.add_chart(chart(name, title, axes.0, axes.1, points.collect::<Vec<_>>()));
    }
    bench.add_table(peers(rows, &mix));
    bench.add_table(goals(rows));
    bench.add_table(projection(rows));
}

/// The smallest packets and the mix.
fn figure_8(rows: &Rows, ours: &[(String, &'static str)], mix: &str) -> PageTable {
    let heads = [
        "work",
        "form",
        "64 B, ns per packet",
        "64 B, Mpps",
        "mix, Mpps",
        "mix, Gb/s",
        "paper, 64 B, Gb/s (Mpps), 8 cores",
        "paper, Abilene, Gb/s",
    ];
    let mut table = PageTable::new("router-figure-8", &heads);
    for (work, by) in ours {
        let cell = |packets: &str, metric, unit| spread(rows.find(work, by, packets, metric), unit);
        let paper = paper::workload(work);
        table.rows.push(vec![
            work.clone(),
            (*by).to_owned(),
            cell("64 bytes", Metric::PacketTime, 1.0),
            cell("64 bytes", Metric::PacketRate, 1e6),
            cell(mix, Metric::PacketRate, 1e6),
            cell(mix, Metric::BitRate, 1e9),
            paper.map_or_else(String::new, |paper| {
                format!("{} ({:.1})", paper.gbps[0], paper.gbps[0] * 1e3 / PACKET_BITS)
            }),
            paper.map_or_else(String::new, |paper| paper.gbps[1].to_string()),
        ]);
    }
    table
}

/// Rates by length.
fn lengths(rows: &Rows, ours: &[(String, &'static str)]) -> PageTable {
    let mut table = PageTable::new("router-lengths", &["work", "form"]);
    table.heads.extend(FRAMES.map(|bytes| format!("{bytes} B, Mpps (Gb/s)")));
    for (work, by) in ours {
        let mut cells = vec![work.clone(), (*by).to_owned()];
        cells.extend(FRAMES.map(|bytes| {
            let packets = format!("{bytes} bytes");
            let of = |metric, unit| {
                rows.find(work, by, &packets, metric).map(|row| format!("{:.2}", row.median / unit))
            };
            match (of(Metric::PacketRate, 1e6), of(Metric::BitRate, 1e9)) {
                (Some(rate), Some(bits)) => format!("{rate} ({bits})"),
                _ => String::new(),
            }
        }));
        table.rows.push(cells);
    }
    table
}

/// Ours and DPDK's in the same packets, then those seen elsewhere.
fn peers(rows: &Rows, mix: &str) -> PageTable {
    let heads = ["work", "router", "ports", "64 B, ns per packet", "64 B, Mpps", "mix, Mpps"];
    let mut table = PageTable::new("router-peers", &heads);
    for (ports, suffix) in [("ring, DPDK's packets", MBUFS), ("ring, our packets", ""), ("net_null", "")] {
        let (small, mix) = match ports {
            "net_null" => (NULL_PORTS.to_owned(), String::new()),
            _ => (format!("64 bytes{suffix}"), format!("{mix}{suffix}")),
        };
        let is_plain = |row: &Row| ["forward", "route"].contains(&row.case.structure.as_str());
        let all = rows
            .routers(|row| row.metric == Metric::PacketTime && is_plain(row) && row.case.is_variant(&small));
        for (work, by) in all {
            table.rows.push(vec![
                work.clone(),
                by.to_owned(),
                ports.to_owned(),
                spread(rows.find(&work, by, &small, Metric::PacketTime), 1.0),
                millions(rows.find(&work, by, &small, Metric::PacketRate)),
                millions(rows.find(&work, by, &mix, Metric::PacketRate)),
            ]);
        }
    }
    for (work, by, mpps) in ELSEWHERE {
        let cells = [work, by, "seen elsewhere, another processor", "", &mpps.to_string(), ""];
        table.rows.push(cells.map(str::to_owned).to_vec());
    }
    table
}

/// The fastest l3fwd.
fn l3fwd<'r>(rows: &'r Rows, packets: &str) -> Option<&'r Row> {
    let is_it = |row: &&Row| {
        row.case.is_variant(packets) && row.case.format.is_some_and(|by| by.starts_with("l3fwd"))
    };
    rows.of(Metric::PacketRate).filter(is_it).max_by(|a, b| a.median.total_cmp(&b.median))
}

fn goals(rows: &Rows) -> PageTable {
    let heads = ["goal, one core", "reached", "least and most"];
    let mut table = PageTable::new("router-goals", &heads);
    for (work, by, packets, against, least) in GOALS {
        let (of, over, unit) = match against {
            Against::Testpmd => (
                rows.find(work, by, packets, Metric::PacketRate),
                rows.find(work, TESTPMD, packets, Metric::PacketRate),
                "× testpmd",
            ),
            Against::L3fwd => {
                let packets = format!("{packets}{MBUFS}");
                (rows.find(work, by, &packets, Metric::PacketRate), l3fwd(rows, &packets), "× l3fwd")
            }
            Against::GigabitsPerSecond => (rows.find(work, by, packets, Metric::BitRate), None, "Gb/s"),
            Against::MillionPerSecond => (rows.find(work, by, packets, Metric::PacketRate), None, "Mpps"),
        };
        let per = if against == Against::GigabitsPerSecond { 1e9 } else { 1e6 };
        let figures = match against {
            Against::Testpmd | Against::L3fwd => Rows::ratio(of, over),
            _ => of.map(|row| [row.median, row.min, row.max].map(|figure| figure / per)),
        };
        let goal = format!("{work}, {by}, {packets}: at least {least} {unit}");
        let cells = figures.map_or_else(
            || ["not measured".to_owned(), String::new()],
            |[median, min, max]| {
                let is_met = if median >= least { "met" } else { "missed" };
                [format!("{median:.2} {unit}, {is_met}"), format!("{min:.2} to {max:.2}")]
            },
        );
        table.rows.push([vec![goal], cells.to_vec()].concat());
    }
    table
}

/// By formula: as many cores as the paper's servers have, each as fast as the one measured.
fn projection(rows: &Rows) -> PageTable {
    let heads = [
        "work",
        "form",
        "64 B, Gb/s: measured, 1 core",
        "8 cores, by formula",
        "32 cores, by formula",
        "paper, 8 cores",
        "paper, 32 cores projected",
        "4 times the paper's 8 cores",
    ];
    let mut table = PageTable::new("router-projection", &heads);
    for paper in &WORKLOADS {
        for by in ["Click", "fused"] {
            let Some(row) = rows.find(paper.work, by, "64 bytes", Metric::PacketRate) else { continue };
            let gbps = row.median * PACKET_BITS / 1e9;
            table.rows.push(vec![
                paper.work.to_owned(),
                by.to_owned(),
                format!("{gbps:.1}"),
                format!("{:.0}", gbps * paper::CORES),
                format!("{:.0}", gbps * paper::PROJECTED_CORES),
                paper.gbps[0].to_string(),
                paper.projected_gbps.to_string(),
                format!("{:.1}", 4.0 * paper.gbps[0]),
            ]);
        }
    }
    table
}
