//! Tables 2 and 3: instructions, time and cycles per packet, and what memory could carry.

use super::paper;
use super::{Rows, spread};
use crate::bench_run::BenchRun;
use crate::router::{CLOCK, STREAMS};
use crate::row::{Metric, Row};
use scalebricks_report::exhibit::PageTable;

pub(super) fn show(bench: &mut BenchRun<'_>, rows: &Rows) {
    let Some(clock) = rows.of(Metric::ClockRate).find(|row| row.case.structure == CLOCK).cloned() else {
        return;
    };
    bench.add_table(table_2(rows, &clock));
    bench.add_table(table_3(rows, &clock));
}

/// Bytes of memory per packet of 64 bytes if a card writes the frame and reads it, and the core reads and writes its first
/// line: four times a line.
const LINES: f64 = 4.0;
const LINE_BYTES: f64 = 64.0;

fn table_2(rows: &Rows, clock: &Row) -> PageTable {
    let heads =
        ["bound", "one core", "two cores", "64 B packets at that rate, two cores, Mpps", "paper, empirical"];
    let mut table = PageTable::new("router-table-2", &heads);
    table.rows.push(
        ["clock, GHz", &spread(Some(clock), 1e9), "", "", "8 cores of 2.8"].map(str::to_owned).to_vec(),
    );
    for what in STREAMS {
        let of = |threads| {
            rows.of(Metric::Bandwidth)
                .find(|row| row.case.structure == what && row.case.threads == Some(threads))
        };
        let most = of(2).or_else(|| of(1));
        let packets =
            most.map_or_else(String::new, |row| format!("{:.0}", row.median / (LINES * LINE_BYTES) / 1e6));
        let paper = if what == STREAMS[2] { "262 Gb/s, random writes" } else { "" };
        table.rows.push(vec![
            format!("{what}, GB/s"),
            spread(of(1), 1e9),
            spread(of(2), 1e9),
            packets,
            paper.to_owned(),
        ]);
    }
    for (bound, paper) in [
        ("inter-socket link", "144 Gb/s"),
        ("socket-I/O link", "117 Gb/s, the load at the cards' limit"),
        ("PCIe", "50.8 Gb/s, the load at the cards' limit"),
    ] {
        let cells = [bound, "not measurable here: no card, one socket", "", "", paper];
        table.rows.push(cells.map(str::to_owned).to_vec());
    }
    table
}

fn table_3(rows: &Rows, clock: &Row) -> PageTable {
    let heads = [
        "work",
        "router",
        "instructions per packet",
        "ns per packet",
        "cycles per packet",
        "cycles per instruction",
        "empty poll, ns",
        "paper: instructions, cycles per instruction",
    ];
    let mut table = PageTable::new("router-table-3", &heads);
    let suffixes = ["64 bytes", "64 bytes, mbufs", "64 bytes, beside nodes"];
    let is_of_64 = |row: &Row| suffixes.iter().any(|packets| row.case.is_variant(packets));
    let timed = rows.routers(|row| row.metric == Metric::PacketTime && is_of_64(row));
    for (work, by) in timed {
        let counted =
            |row: &&Row| row.case.structure == work && row.case.is_variant(&format!("{by}, counted"));
        let counted = rows.of(Metric::Instructions).find(counted);
        let poll = rows.find(&work, by, "empty poll", Metric::PollTime);
        if counted.is_none() && poll.is_none() {
            continue;
        }
        let times = suffixes.iter().filter_map(|packets| rows.find(&work, by, packets, Metric::PacketTime));
        let time = times.into_iter().next();
        // The ports are part of the time of forwarding, but not of any count.
        let ports = time.filter(|_| work == "forward").and_then(|row| row.beside(&rows.0, Metric::PortTime));
        let ports = ports.map_or(0.0, |row| row.median);
        let cycles = time.map(|row| (row.median - ports).max(0.0) * clock.median / 1e9);
        let cpi = cycles.zip(counted).map(|(cycles, row)| cycles / row.median);
        let paper = paper::workload(&work);
        table.rows.push(vec![
            work.clone(),
            by.to_owned(),
            counted.map_or_else(|| "not counted".to_owned(), |row| format!("{:.0}", row.median)),
            spread(time, 1.0) + if ports > 0.0 { " with ports" } else { "" },
            cycles.map_or_else(String::new, |cycles| format!("{cycles:.0}")),
            cpi.map_or_else(String::new, |cpi| format!("{cpi:.2}")),
            spread(poll, 1.0),
            paper.map_or_else(String::new, |paper| format!("{}, {}", paper.instructions, paper.cpi)),
        ]);
    }
    table
}
