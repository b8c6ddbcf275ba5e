//! The report of a replay.

use super::super::load::Configuration;
use super::super::ports_table::ports_table;
use scalebricks_admin::model::switch::PortView;
use scalebricks_console::quantity;
use scalebricks_elements::flat::NameStats;
use serde::Serialize;
use std::path::PathBuf;

/// The result of a replay.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    kind: &'static str,
    names: u64,
    actions: u64,
    table_bytes: u64,
    /// Frames that were longer than any packet.
    too_long: u64,
    ports: Vec<PortView>,
    files: Vec<PathBuf>,
}

impl Report {
    pub(super) fn new(
        configuration: &Configuration,
        names: &NameStats,
        ports: Vec<PortView>,
        files: &[PathBuf],
        too_long: u64,
    ) -> Self {
        let file = &configuration.file;
        Self {
            kind: file.names.kind.word(),
            names: names.names as u64,
            actions: names.actions as u64,
            table_bytes: names.table_bytes as u64,
            too_long,
            ports,
            files: files.to_vec(),
        }
    }

    pub(super) fn render(&self) -> String {
        let mut lines = vec![format!(
            "switch by {}: {} names, {} different actions, {} for lookups",
            self.kind,
            quantity::count(self.names),
            quantity::count(self.actions),
            quantity::bytes(self.table_bytes),
        )];
        lines.push(ports_table(&self.ports, None));
        if self.too_long > 0 {
            lines.push(format!("{} frames were too long for a switch", quantity::count(self.too_long)));
        }
        lines.extend(self.files.iter().map(|path| format!("written: {}", path.display())));
        lines.join("\n")
    }
}
