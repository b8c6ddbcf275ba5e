//! Table 1, and Figures 6 and 7: batches, and two cores.

use super::paper::{BATCHING, LAYOUTS, PACKET_BITS, QUEUES_AND_BATCHES};
use super::{Rows, millions, point};
use crate::bench_run::BenchRun;
use crate::pair::CorePair;
use crate::router::{BATCHES, FIGURE_6, KN, KP, UNTOUCHED};
use crate::row::{Metric, Row};
use crate::sheet::chart;
use scalebricks_report::exhibit::{PageTable, Scale};

pub(super) fn show(bench: &mut BenchRun<'_>, rows: &Rows) {
    if rows.of(Metric::PacketRate).any(|row| row.case.structure == "batching") {
        bench.add_table(table_1(rows));
        let points = ["Click", "fused"].into_iter().flat_map(|by| {
            KN.into_iter().flat_map(move |kn| {
                KP.into_iter().filter_map(move |kp| {
                    Some((format!("{by}, kn = {kn}"), point(kp as f64, batch(rows, by, kp, kn)?, 1e6)))
                })
            })
        });
        bench.add_chart(chart(
            "router-batching",
            "Minimal forwarding by packets per poll (kp) and per transaction (kn)",
            ("packets per poll, kp", Scale::Doublings),
            ("Mpps", Scale::Linear),
            points.collect::<Vec<_>>(),
        ));
    }
    let has = |variant| rows.of(Metric::PacketRate).any(|row| row.case.is_variant(variant));
    if has(FIGURE_6) {
        bench.add_table(figure_6(rows));
    }
    if has(UNTOUCHED) {
        bench.add_table(figure_7(rows));
    }
    if let Some(pair) = CorePair::known() {
        let sharing = match &pair.siblings {
            Some(siblings) => format!("`thread_siblings_list` of both cores: {siblings}"),
            None => "the kernel does not say which threads share a core".to_owned(),
        };
        bench.add_conclusion("router-pair", format!("The two cores: {pair}. By the kernel, {sharing}."));
    }
}

fn batch<'r>(rows: &'r Rows, by: &str, kp: usize, kn: usize) -> Option<&'r Row> {
    rows.of(Metric::PacketRate).find(|row| {
        let case = &row.case;
        case.structure == "batching"
            && case.format.is_some_and(|of| of == by)
            && case.batch == Some(kp)
            && case.is_variant(&format!("kn {kn}"))
    })
}

/// Mpps by kp and kn.
fn table_1(rows: &Rows) -> PageTable {
    let mut table = PageTable::new("router-table-1", &["kp", "kn"]);
    table
        .heads
        .extend(["Click, Mpps", "fused, Mpps", "paper, Gb/s", "paper, Mpps, 8 cores"].map(str::to_owned));
    for (kp, kn) in KP.into_iter().flat_map(|kp| KN.map(|kn| (kp, kn))) {
        let paper = BATCHING.iter().find(|(p, n, _)| (*p, *n) == (kp, kn));
        table.rows.push(vec![
            kp.to_string(),
            kn.to_string(),
            millions(batch(rows, "Click", kp, kn)),
            millions(batch(rows, "fused", kp, kn)),
            paper.map_or_else(String::new, |(_, _, gbps)| gbps.to_string()),
            paper.map_or_else(String::new, |(_, _, gbps)| format!("{:.1}", gbps * 1e3 / PACKET_BITS)),
        ]);
    }
    table
}

fn figure_6(rows: &Rows) -> PageTable {
    let heads = ["layout", "Click, Mpps in all", "fused, Mpps in all", "paper, Gb/s of 64 B"];
    let mut table = PageTable::new("router-figure-6", &heads);
    for (layout, paper) in LAYOUTS {
        let of = |by| millions(rows.find(layout, by, FIGURE_6, Metric::PacketRate));
        table.rows.push(vec![layout.to_owned(), of("Click"), of("fused"), paper.to_owned()]);
    }
    table
}

fn figure_7(rows: &Rows) -> PageTable {
    let heads = ["two cores", "Click, Mpps", "times untouched", "fused, Mpps", "times untouched", "paper"];
    let mut table = PageTable::new("router-figure-7", &heads);
    let (single, several) = ("one port, single queue", "parallel, multi-queue");
    for (name, layout, variant, paper) in [
        ("single queue, kp = kn = 1: untouched", single, UNTOUCHED, "1".to_owned()),
        ("multi-queue, kp = kn = 1", several, UNTOUCHED, String::new()),
        ("single queue, kp = kn = 32", single, BATCHES, String::new()),
        ("multi-queue, kp = kn = 32", several, BATCHES, QUEUES_AND_BATCHES.to_string()),
    ] {
        let of = |by, layout, variant| rows.find(layout, by, variant, Metric::PacketRate);
        let times = |by| {
            let ratio = Rows::ratio(of(by, layout, variant), of(by, single, UNTOUCHED));
            ratio.map_or_else(String::new, |[times, ..]| format!("{times:.1}"))
        };
        let cells = [
            name.to_owned(),
            millions(of("Click", layout, variant)),
            times("Click"),
            millions(of("fused", layout, variant)),
            times("fused"),
            paper,
        ];
        table.rows.push(cells.to_vec());
    }
    table
}
