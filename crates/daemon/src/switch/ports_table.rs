//! Counters of ports as a table.

use comfy_table::CellAlignment;
use scalebricks_admin::commands::{Samples, table, trimmed};
use scalebricks_admin::model::switch::PortView;
use scalebricks_apps::switch::counts::counters;
use std::time::Duration;

/// Counters of ports, one line per port, followed by their drops: totals, or rates since the counters `before`.
pub(super) fn ports_table(ports: &[PortView], before: Option<(&[PortView], Duration)>) -> String {
    let looks = ports.iter().enumerate().map(|(at, now)| {
        let before = before.and_then(|(ports, time)| Some((ports.get(at)?, time)));
        Samples { now, before: before.map(|(port, _)| port), time: before.unwrap_or((now, Duration::ZERO)).1 }
    });
    let columns: Vec<&str> =
        counters().map(|spec| spec.name).filter(|name| !name.ends_with("_bytes")).collect();
    let heads = ["port"].into_iter().chain(columns.iter().copied()).chain(["dropped"]);
    let heads: Vec<String> = heads.map(|head| head.replace('_', " ")).collect();
    let mut table = table(heads.iter().map(String::as_str));
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
    trimmed(&table) + &drops.concat()
}
