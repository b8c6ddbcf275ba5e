//! The report as one table for a terminal: a row per figure, a column per architecture.

use super::result::{ArchitectureResult, Report, Speed};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use scalebricks_console::quantity::{bytes, count, short_count};
use std::collections::BTreeSet;

/// The architecture with which all others are compared.
pub const BASELINE: &str = "full-duplication";

/// The report as text for this terminal, without a newline at the end. Cells wrap in a narrow terminal.
pub fn render(report: &Report) -> String {
    arranged(report, ContentArrangement::Dynamic)
}

/// The same without wrapping.
pub fn wide(report: &Report) -> String {
    arranged(report, ContentArrangement::Disabled)
}

fn arranged(report: &Report, arrangement: ContentArrangement) -> String {
    let results = &report.architectures;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(arrangement);
    table.set_header(std::iter::once(Cell::new("")).chain(results.iter().map(|r| right(r.name.to_owned()))));
    let any = |has: fn(&ArchitectureResult) -> bool| results.iter().any(has);
    let mut row = |name: &str, value: &dyn Fn(&ArchitectureResult) -> String| {
        let cells = results.iter().map(|result| right(value(result)));
        table.add_row(std::iter::once(Cell::new(name)).chain(cells));
    };
    // A value with its ratio to full duplication.
    let with_ratio = |figure: fn(&ArchitectureResult) -> f64, value: fn(&ArchitectureResult) -> String| {
        move |result: &ArchitectureResult| match ratio(report, result, figure) {
            Some(ratio) => format!("{} ({ratio:.2}×)", value(result)),
            None => value(result),
        }
    };
    row("Mpps, all nodes together", &with_ratio(|r| r.speed.mpps, |r| mpps(&r.speed)));
    if any(|r| r.speed.mpps_min < r.speed.mpps_max) {
        row("  slowest to fastest slice", &|r| format!("{:.2} to {:.2}", r.speed.mpps_min, r.speed.mpps_max));
    }
    row("hops a packet, mean", &|r| format!("{:.3}", r.hops_mean));
    row("hops a packet, max", &|r| r.hops_max.to_string());
    let fabric = with_ratio(|r| r.footprint.fabric_bytes as f64, |r| bytes(r.footprint.fabric_bytes));
    row("bytes over the fabric", &fabric);
    row("GPT, bytes a node", &|r| bytes(r.footprint.gpt_bytes_per_node));
    row("FIB, bytes a node", &|r| bytes(r.footprint.fib_bytes_per_node));
    row("GPT and FIB together", &with_ratio(|r| table_bytes(r) as f64, |r| bytes(table_bytes(r))));
    let fit = format!("flows that fit in {} a node", bytes(report.capacity_budget_bytes));
    row(&fit, &with_ratio(|r| r.capacity_flows as f64, |r| short_count(r.capacity_flows)));
    let formula = with_ratio(|r| r.capacity_formula_flows as f64, |r| short_count(r.capacity_formula_flows));
    row("  by the paper's formula *", &formula);
    row("packets in", &|r| count(r.packets_in));
    row("packets out", &|r| count(r.packets_out));
    if any(|r| r.packets_fragmented > 0) {
        row("  of them in fragments", &|r| count(r.packets_fragmented));
        row("  fragments made", &|r| count(r.fragments_made));
    }
    if any(|r| r.icmp_sent > 0) {
        row("ICMP errors sent", &|r| count(r.icmp_sent));
    }
    row("dropped", &|r| count(r.dropped.values().sum()));
    let reasons: BTreeSet<&str> = results.iter().flat_map(|r| r.dropped.keys().map(String::as_str)).collect();
    for reason in reasons {
        row(&format!("  {reason}"), &|r| count(r.dropped.get(reason).copied().unwrap_or(0)));
    }
    row("lost", &|r| count(r.lost));
    row("misdelivered", &|r| count(r.misdelivered));
    format!("{}\n{table}\n{}", heading(report), notes(report))
}

/// The rate of a run, or why it has none.
pub fn mpps(speed: &Speed) -> String {
    if speed.mpps > 0.0 { format!("{:.2}", speed.mpps) } else { "under 50 ms, no rate".to_owned() }
}

/// Bytes of both tables per node, each at the node where it is largest.
pub const fn table_bytes(result: &ArchitectureResult) -> u64 {
    result.footprint.gpt_bytes_per_node + result.footprint.fib_bytes_per_node
}

/// A figure relative to that of full duplication, if both are known, which means not 0.
pub fn ratio(
    report: &Report,
    result: &ArchitectureResult,
    figure: impl Fn(&ArchitectureResult) -> f64,
) -> Option<f64> {
    let baseline = report.architectures.iter().find(|r| r.name == BASELINE)?;
    let (value, of) = (figure(result), figure(baseline));
    (value > 0.0 && of > 0.0 && result.name != BASELINE).then(|| value / of)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::report::sample;

    #[test]
    fn every_figure_is_shown_with_ratios_to_full_duplication() {
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
