//! The report of a run at its end.

use super::args::RunArgs;
use comfy_table::Cell;
use scalebricks_admin::commands::{right, table, trimmed};
use scalebricks_admin::model::ElementCounts;
use scalebricks_apps::click::live::LiveRouter;
use scalebricks_apps::click::run::End;
use scalebricks_console::quantity::count;
use scalebricks_graph::{Clock, Graph};
use scalebricks_io::PacketBuf;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    file: PathBuf,
    clock: &'static str,
    ended: &'static str,
    /// Its duration on the wall clock.
    seconds: f64,
    /// In the order of the configuration, followed by those of replaced configurations.
    elements: Vec<ElementCounts>,
    /// Packets that elements still hold.
    held: usize,
    /// The values that `--read` asks for.
    read: BTreeMap<String, String>,
    /// Errors outside the graph.
    pub(super) faults: Vec<String>,
    /// Captures that were written.
    pub(super) written: Vec<PathBuf>,
}

impl Report {
    pub(super) fn new<P: PacketBuf + 'static>(
        args: &RunArgs,
        (clock, end, took): (Clock, End, Duration),
        live: &LiveRouter<P>,
        graph: &mut Graph<P>,
    ) -> Self {
        let known = live.directory().known();
        let places: HashMap<(&str, &str), usize> =
            known.elements.iter().zip(0..).map(|(one, at)| ((&*one.name, &*one.class), at)).collect();
        let mut counted = live.directory().counted(None).unwrap_or_default();
        counted
            .sort_by_key(|one| places.get(&(&*one.element, one.spec.class)).copied().unwrap_or(usize::MAX));
        let mut elements: Vec<ElementCounts> = counted.iter().map(ElementCounts::from).collect();
        for element in &mut elements {
            element.dropped.retain(|_, count| *count > 0);
        }
        let mut faults = live.faults();
        faults.extend(graph.faults().map(|(element, fault)| format!("{element}: {fault}")));
        let mut read = BTreeMap::new();
        for (element, handler) in &args.options.read {
            match graph.read(element, handler) {
                Ok(value) => drop(read.insert(format!("{element}.{handler}"), value)),
                Err(error) => faults.push(error.to_string()),
            }
        }
        Self {
            file: args.file.file.clone(),
            clock: if clock == Clock::Wall { "wall" } else { "captures" },
            ended: match end {
                End::Done => "done",
                End::Stuck => "stuck",
                End::Stopped => "interrupted",
                End::Elapsed => "elapsed",
            },
            seconds: took.as_secs_f64(),
            elements,
            held: graph.held(),
            read,
            faults,
            written: Vec::new(),
        }
    }

    pub(super) fn render(&self) -> String {
        let mut lines = vec![elements_table(&self.elements)];
        if self.held > 0 {
            lines.push(format!("{} packets are still held", count(self.held as u64)));
        }
        lines.extend(self.read.iter().map(|(handler, value)| format!("{handler}: {value}")));
        lines.extend(self.written.iter().map(|path| format!("written: {}", path.display())));
        lines.join("\n")
    }
}

/// The elements and their counters, as a table.
pub(super) fn elements_table(elements: &[ElementCounts]) -> String {
    let mut table = table(["element", "class", "packets", "counters", "dropped"]);
    for element in elements {
        let mut own = element.counters.clone();
        own.retain(|name, _| !matches!(name.as_str(), "packets" | "batches"));
        let packets = element.counters.get("packets").map_or_else(String::new, |packets| count(*packets));
        table.add_row([
            Cell::new(&element.name),
            Cell::new(&element.class),
            right(packets),
            Cell::new(nonzero(&own)),
            Cell::new(nonzero(&element.dropped)),
        ]);
    }
    trimmed(&table)
}

/// The counters that are not zero, one per line.
pub(super) fn nonzero(counters: &BTreeMap<String, u64>) -> String {
    let counted = counters.iter().filter(|(_, value)| **value > 0);
    counted.map(|(name, value)| format!("{name} {}", count(*value))).collect::<Vec<_>>().join("\n")
}
