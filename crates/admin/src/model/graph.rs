//! A graph of elements, and operations on it.

use scalebricks_apps::directory::{ElementInfo, PortConnection};
use scalebricks_graph::CounterSnapshot;
use scalebricks_graph::spec::PortKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A running graph, on one or several workers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphView {
    /// The program's version.
    pub version: String,
    /// The configuration file of the process.
    pub file: String,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Number of workers that run the graph. Counters are summed over all, unless the request names one.
    #[serde(default = "one")]
    pub workers: usize,
    /// Whether a configuration in the Click language can replace it; not if the program wires the graph itself.
    #[serde(default)]
    pub is_replaceable: bool,
    /// Number of replacements of the configuration.
    pub replacements: u64,
    /// The elements, in the order of the configuration in the Click language, or in the order in which they run.
    pub elements: Vec<ElementView>,
    /// Counters of elements of replaced configurations.
    pub former: Vec<ElementCounts>,
}

const fn one() -> usize {
    1
}

/// Counters of an element since the start of the run, over all configurations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ElementCounts {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its counters, by name.
    pub counters: BTreeMap<String, u64>,
    /// Dropped packets, by reason; all reasons are present.
    pub dropped: BTreeMap<String, u64>,
}

/// An element.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ElementView {
    /// Its name, with the names of the compounds that contain it: `a/b`.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its arguments.
    pub configuration: String,
    /// The connections of its inputs.
    pub inputs: Vec<LinkView>,
    /// The connections of its outputs.
    pub outputs: Vec<LinkView>,
    /// Its counters, by name; empty for a class that is not part of a graph.
    pub counters: BTreeMap<String, u64>,
    /// Dropped packets, by reason; all reasons are present.
    pub dropped: BTreeMap<String, u64>,
    /// Its handlers, if the request is for one element.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<HandlerView>,
}

/// A connection, seen from one of its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    /// The element's port.
    pub port: u32,
    /// `push`, `pull`, or `agnostic`: the kind that the class declares for the port.
    pub flow: String,
    /// The element at the other end.
    pub element: String,
    /// The port of that element.
    pub other_port: u32,
}

/// A handler of an element: a value that can be read or written while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HandlerView {
    /// Its name.
    pub name: String,
    /// Whether it can be read.
    pub reads: bool,
    /// Whether it can be written.
    pub writes: bool,
    /// Its description.
    pub doc: String,
}

/// The value of a read handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HandlerAnswer {
    /// The value as text.
    pub value: String,
    /// The worker that answered. Absent if the value holds for all workers, or is summed over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<usize>,
}

/// A value for a write handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandlerValue {
    /// The value as text.
    pub value: String,
}

/// The result of replacing a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplacedView {
    /// Number of its elements.
    pub elements: usize,
    /// Number of its connections.
    pub connections: usize,
    /// Number of replacements since the start of the run.
    pub replacements: u64,
}

/// The faults of a refused configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationProblem {
    /// All faults as text, each as `file:line:column: what`, with the line itself.
    pub error: String,
    /// The faults.
    pub faults: Vec<FaultView>,
}

/// A fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FaultView {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub problem: String,
}

impl From<&CounterSnapshot> for ElementCounts {
    fn from(counted: &CounterSnapshot) -> Self {
        Self {
            name: counted.element.to_string(),
            class: counted.spec.class.to_owned(),
            counters: counted.counters().map(|(spec, value)| (spec.name.to_owned(), value)).collect(),
            dropped: counted.drops().map(|(spec, value)| (spec.name.to_owned(), value)).collect(),
        }
    }
}

impl From<&PortConnection> for LinkView {
    fn from(link: &PortConnection) -> Self {
        let flow = match link.flow {
            PortKind::Push => "push",
            PortKind::Pull => "pull",
            PortKind::Agnostic => "agnostic",
        };
        Self {
            port: link.port,
            flow: flow.to_owned(),
            element: link.element.clone(),
            other_port: link.other_port,
        }
    }
}

impl ElementView {
    /// An element with its counters, without its handlers.
    pub fn new(known: &ElementInfo, counts: Option<ElementCounts>) -> Self {
        let ElementCounts { counters, dropped, .. } = counts.unwrap_or_default();
        Self {
            name: known.name.clone(),
            class: known.class.clone(),
            configuration: known.config.clone(),
            inputs: known.inputs.iter().map(LinkView::from).collect(),
            outputs: known.outputs.iter().map(LinkView::from).collect(),
            counters,
            dropped,
            handlers: Vec::new(),
        }
    }

    /// Adds its handlers, by name.
    pub fn with_handlers(mut self, known: &ElementInfo) -> Self {
        let mut all: BTreeMap<&str, HandlerView> = BTreeMap::new();
        for (name, doc, is_write) in known
            .reads()
            .map(|(name, doc)| (name, doc, false))
            .chain(known.writes().map(|(name, doc)| (name, doc, true)))
        {
            let new =
                || HandlerView { name: name.to_owned(), reads: false, writes: false, doc: doc.to_owned() };
            let handler = all.entry(name).or_insert_with(new);
            handler.reads |= !is_write;
            handler.writes |= is_write;
        }
        self.handlers = all.into_values().collect();
        self
    }
}
