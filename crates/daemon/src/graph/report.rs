//! What a run tells at its end.

use super::args::RunArgs;
use comfy_table::{Cell, CellAlignment, Table, presets};
use scalebricks_apps::click::live::LiveRouter;
use scalebricks_apps::click::run::End;
use scalebricks_console::quantity::count;
use scalebricks_graph::{Clock, CounterSnapshot, Graph};
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
    /// How long it took, on the wall.
    seconds: f64,
    /// In the order of the configuration; behind them those of configurations that were replaced.
    elements: Vec<ElementReport>,
    /// Packets that elements keep.
    held: usize,
    /// What was asked for by `--read`.
    read: BTreeMap<String, String>,
    /// What went wrong outside the graph.
    pub(super) faults: Vec<String>,
    /// Captures that were written.
    pub(super) written: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct ElementReport {
    name: String,
    class: &'static str,
    counters: BTreeMap<&'static str, u64>,
    dropped: BTreeMap<&'static str, u64>,
}

impl From<&CounterSnapshot> for ElementReport {
    fn from(counted: &CounterSnapshot) -> Self {
        Self {
            name: counted.element.to_string(),
            class: counted.spec.class,
            counters: counted.counters().map(|(spec, value)| (spec.name, value)).collect(),
            dropped: counted
                .drops()
                .filter(|(_, value)| *value > 0)
                .map(|(spec, value)| (spec.name, value))
                .collect(),
        }
    }
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
        let elements = counted.iter().map(ElementReport::from).collect();
        let mut faults = live.faults();
        faults.extend(graph.faults().map(|(element, fault)| format!("{element}: {fault}")));
        let mut read = BTreeMap::new();
        for (element, handler) in &args.read {
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
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_header(["element", "class", "packets", "counters", "dropped"]);
        for element in &self.elements {
            let own = element
                .counters
                .iter()
                .filter(|(name, value)| !matches!(**name, "packets" | "batches") && **value > 0);
            let list = |values: &mut dyn Iterator<Item = (&&'static str, &u64)>| {
                let texts: Vec<String> =
                    values.map(|(name, value)| format!("{name} {}", count(*value))).collect();
                texts.join("\n")
            };
            let packets = element.counters.get("packets").copied().unwrap_or_default();
            table.add_row([
                Cell::new(&element.name),
                Cell::new(element.class),
                Cell::new(count(packets)).set_alignment(CellAlignment::Right),
                Cell::new(list(&mut own.into_iter())),
                Cell::new(list(&mut element.dropped.iter())),
            ]);
        }
        let mut lines = vec![table.to_string()];
        if self.held > 0 {
            lines.push(format!("{} packets are still kept", count(self.held as u64)));
        }
        lines.extend(self.read.iter().map(|(handler, value)| format!("{handler}: {value}")));
        lines.extend(self.written.iter().map(|path| format!("written: {}", path.display())));
        lines.join("\n")
    }
}
