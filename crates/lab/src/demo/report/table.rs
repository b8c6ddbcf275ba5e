//! The report as one table for a terminal: a row a figure, a column an architecture.

use super::result::{ArchitectureResult, Report};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use scalebricks_console::quantity::{bytes, count, short_count};
use std::collections::BTreeSet;

/// The name of the architecture all others are compared with.
pub const BASELINE: &str = "full-duplication";

/// The report as text for this terminal, without a newline at the end: cells wrap where it is narrow.
pub fn render(report: &Report) -> String {
    arranged(report, ContentArrangement::Dynamic)
}

/// The same as wide as it is, wherever it is made.
pub fn wide(report: &Report) -> String {
    arranged(report, ContentArrangement::Disabled)
}

fn arranged(report: &Report, arrangement: ContentArrangement) -> String {
    let results = &report.architectures;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(arrangement);
    table.set_header(std::iter::once(Cell::new("")).chain(results.iter().map(|r| right(r.name.to_owned()))));
    let budget = bytes(report.capacity_budget_bytes);
    ratio_row(&mut table, report, "Mpps, all nodes together", |r| r.mpps, |r| format!("{:.2}", r.mpps));
    if results.iter().any(|r| r.mpps_min < r.mpps_max) {
        row(&mut table, report, "  slowest to fastest slice", |r| {
            format!("{:.2} to {:.2}", r.mpps_min, r.mpps_max)
        });
    }
    row(&mut table, report, "hops a packet, mean", |r| format!("{:.3}", r.hops_mean));
    row(&mut table, report, "hops a packet, max", |r| r.hops_max.to_string());
    ratio_row(
        &mut table,
        report,
        "bytes over the fabric",
        |r| r.fabric_bytes as f64,
        |r| bytes(r.fabric_bytes),
    );
    row(&mut table, report, "GPT, bytes a node", |r| bytes(r.gpt_bytes_per_node));
    row(&mut table, report, "FIB, bytes a node", |r| bytes(r.fib_bytes_per_node));
    ratio_row(
        &mut table,
        report,
        "GPT and FIB together",
        |r| table_bytes(r) as f64,
        |r| bytes(table_bytes(r)),
    );
    ratio_row(
        &mut table,
        report,
        &format!("flows that fit in {budget} a node"),
        |r| r.capacity_flows as f64,
        |r| short_count(r.capacity_flows),
    );
    ratio_row(
        &mut table,
        report,
        "  by the paper's formula *",
        |r| r.capacity_formula_flows as f64,
        |r| short_count(r.capacity_formula_flows),
    );
    row(&mut table, report, "packets in", |r| count(r.packets_in));
    row(&mut table, report, "packets out", |r| count(r.packets_out));
    if results.iter().any(|r| r.packets_fragmented > 0) {
        row(&mut table, report, "  of them in fragments", |r| count(r.packets_fragmented));
        row(&mut table, report, "  fragments made", |r| count(r.fragments_made));
    }
    if results.iter().any(|r| r.icmp_sent > 0) {
        row(&mut table, report, "ICMP errors sent", |r| count(r.icmp_sent));
    }
    row(&mut table, report, "dropped", |r| count(r.dropped.values().sum()));
    let reasons: BTreeSet<&str> = results.iter().flat_map(|r| r.dropped.keys().map(String::as_str)).collect();
    for reason in reasons {
        let name = format!("  {reason}");
        row(&mut table, report, &name, |r| count(r.dropped.get(reason).copied().unwrap_or(0)));
    }
    row(&mut table, report, "lost", |r| count(r.lost));
    row(&mut table, report, "misdelivered", |r| count(r.misdelivered));
    format!("{}\n{table}\n{}", heading(report), notes(report))
}

/// Bytes of both tables a node, each at the node where it is largest.
pub const fn table_bytes(result: &ArchitectureResult) -> u64 {
    result.gpt_bytes_per_node + result.fib_bytes_per_node
}

/// A figure over that of full duplication, if that was run and the figure means something.
pub fn ratio(
    report: &Report,
    result: &ArchitectureResult,
    figure: impl Fn(&ArchitectureResult) -> f64,
) -> Option<f64> {
    let baseline = report.architectures.iter().find(|r| r.name == BASELINE)?;
    let of = figure(baseline);
    (of > 0.0 && result.name != BASELINE).then(|| figure(result) / of)
}

fn heading(report: &Report) -> String {
    let share: Vec<String> = report.flows_per_node.iter().map(|&flows| short_count(flows)).collect();
    format!(
        "{} flows on {} nodes ({}), key {}, {} thread(s), seed {}\nflows pinned to each node: {}",
        count(report.flows),
        report.nodes,
        report.input,
        report.key,
        report.threads,
        report.seed,
        share.join(", "),
    )
}

fn notes(report: &Report) -> String {
    format!(
        "×: over full duplication. A hop is one crossing of the switch; no hop if a packet enters at its handling node.\n\
         Table sizes are those of the largest node. A full copy of the FIB answers \"which node?\" too: no GPT.\n\
         * M·n / (64 + (0.5 + 1.5·log2 n)·n), M/64 for full copies, M·n/64 for a partition, with M bits a node:\n  \
         it counts one key and 64 bits a flow. The tables here hold two keys a flow, one a direction, each with its\n  \
         full state: 64 bytes a flow.\n\
         {}, {} cores, scalebricks {}",
        report.machine.cpu, report.machine.cores, report.version,
    )
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn row(table: &mut Table, report: &Report, name: &str, value: impl Fn(&ArchitectureResult) -> String) {
    let cells = report.architectures.iter().map(|result| right(value(result)));
    table.add_row(std::iter::once(Cell::new(name)).chain(cells));
}

/// A row whose cells tell the ratio to full duplication as well.
fn ratio_row(
    table: &mut Table,
    report: &Report,
    name: &str,
    figure: impl Fn(&ArchitectureResult) -> f64,
    value: impl Fn(&ArchitectureResult) -> String,
) {
    row(table, report, name, |result| match ratio(report, result, &figure) {
        Some(ratio) => format!("{} ({ratio:.2}×)", value(result)),
        None => value(result),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::report::sample;

    #[test]
    fn every_figure_is_there_and_ratios_are_to_full_duplication() {
        let text = render(&sample::report());
        for want in
            ["full-duplication", "scalebricks", "2.00", "3.00 (1.50×)", "0.750", "misdelivered", "no_buffer"]
        {
            assert!(text.contains(want), "{want} is missing in\n{text}");
        }
    }

    #[test]
    fn without_full_duplication_there_are_no_ratios() {
        let mut report = sample::report();
        report.architectures.retain(|r| r.name != BASELINE);
        assert!(!render(&report).contains("×)"));
    }
}
