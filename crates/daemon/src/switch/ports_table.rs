//! Counters of ports as a table.

use comfy_table::{CellAlignment, Table, presets};
use scalebricks_admin::commands::Samples;
use scalebricks_admin::model::switch::PortView;
use scalebricks_apps::switch::counts::counters;
use std::time::Duration;

/// Counters of ports, a line each, and of drops behind them: all there were, or a second since those `before`, some time ago.
pub(super) fn ports_table(ports: &[PortView], before: Option<(&[PortView], Duration)>) -> String {
    let looks = ports.iter().enumerate().map(|(at, now)| {
        let before = before.and_then(|(ports, time)| Some((ports.get(at)?, time)));
        Samples { now, before: before.map(|(port, _)| port), time: before.unwrap_or((now, Duration::ZERO)).1 }
    });
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    let columns: Vec<&str> =
        counters().map(|spec| spec.name).filter(|name| !name.ends_with("_bytes")).collect();
    let heads = ["port"].into_iter().chain(columns.iter().copied()).chain(["dropped"]);
    table.set_header(heads.map(|head| head.replace('_', " ")));
    let mut drops = Vec::new();
    for port in looks {
        let counts = columns.iter().map(|name| port.text(|port| port.counters.get(name)));
        let dropped = port.text(|port| port.dropped.values().sum());
        table.add_row(std::iter::once(port.now.name.clone()).chain(counts).chain([dropped]));
        for reason in port.now.dropped.keys() {
            let count = port.text(|port| port.dropped.get(reason).copied().unwrap_or_default());
            drops.push(format!("\n{}: {count} {reason}", port.now.name));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string() + &drops.concat()
}
