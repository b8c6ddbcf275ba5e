//! Counters of ports as a table.

use super::view::PortView;
use comfy_table::{CellAlignment, Table, presets};
use scalebricks_console::quantity;

/// Counters of ports, a line each, and of drops behind them.
pub(super) fn ports_table(ports: &[PortView]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["port", "rx frames", "tx frames", "flooded", "unknown", "dropped"]);
    for port in ports {
        let numbers =
            [port.rx_frames, port.tx_frames, port.flooded, port.unknown, port.dropped.values().sum()];
        table.add_row(std::iter::once(port.name.clone()).chain(numbers.map(quantity::count)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut lines = vec![table.to_string()];
    for port in ports {
        for (reason, count) in &port.dropped {
            lines.push(format!("{}: {} {reason}", port.name, quantity::count(*count)));
        }
    }
    lines.join("\n")
}
