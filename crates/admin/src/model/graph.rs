//! A graph of elements, and what is done with it.

use scalebricks_apps::directory::{ElementInfo, PortConnection};
use scalebricks_graph::CounterSnapshot;
use scalebricks_graph::spec::PortKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A graph that runs, on one worker or on several of the same wiring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphView {
    /// The program's version.
    pub version: String,
    /// The file of the configuration that the process was started with.
    pub file: String,
    /// Seconds since it began.
    pub uptime_s: f64,
    /// How many workers run the graph. Counters are summed over all, unless one was asked for.
    #[serde(default = "one")]
    pub workers: usize,
    /// Whether a configuration in the Click language can take its place; not where the program wires the graph itself.
    #[serde(default)]
    pub is_replaceable: bool,
    /// How often the configuration was replaced since.
    pub replacements: u64,
    /// The elements, in the order of a configuration in the Click language, or else in that in which they run.
    pub elements: Vec<ElementView>,
    /// Elements of configurations that were replaced: what they had counted.
    pub former: Vec<ElementCounts>,
}

const fn one() -> usize {
    1
}

/// What an element has counted since the run began, whatever configurations it was in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ElementCounts {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its counters, by name.
    pub counters: BTreeMap<String, u64>,
    /// Packets it dropped, by reason; every reason is there.
    pub dropped: BTreeMap<String, u64>,
}

/// An element.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ElementView {
    /// Its name, with the names of the compounds it lies in: `a/b`.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its arguments.
    pub configuration: String,
    /// What its inputs are connected to.
    pub inputs: Vec<LinkView>,
    /// What its outputs are connected to.
    pub outputs: Vec<LinkView>,
    /// Its counters, by name; none for a class that is not part of a graph.
    pub counters: BTreeMap<String, u64>,
    /// Packets it dropped, by reason; every reason is there.
    pub dropped: BTreeMap<String, u64>,
    /// Its handlers, where one element was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<HandlerView>,
}

/// A connection, seen from one of its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkView {
    /// The element's port.
    pub port: u32,
    /// `push`, `pull`, or `agnostic`: what the class says of the port.
    pub flow: String,
    /// The element at the other end.
    pub element: String,
    /// Its port.
    pub other_port: u32,
}

/// A value of an element that can be read or written while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HandlerView {
    /// Its name.
    pub name: String,
    /// Whether it can be read.
    pub reads: bool,
    /// Whether it can be written.
    pub writes: bool,
    /// What it tells or sets.
    pub doc: String,
}

/// What a read handler tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HandlerAnswer {
    /// As text.
    pub value: String,
    /// The worker that it is true of. Absent if it is true of all workers, or summed over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<usize>,
}

/// What a write handler is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HandlerValue {
    /// As text.
    pub value: String,
}

/// A configuration that has taken the place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplacedView {
    /// Its elements.
    pub elements: usize,
    /// Its connections.
    pub connections: usize,
    /// How often the configuration was replaced since the run began.
    pub replacements: u64,
}

/// Why a configuration was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationProblem {
    /// All of it in words, each fault as `file:line:column: what`, with the line itself.
    pub error: String,
    /// Its faults by place.
    pub faults: Vec<FaultView>,
}

/// Something that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FaultView {
    /// The file, as the text names it.
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
    /// An element, and what it has counted; without handlers.
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

    /// The same with its handlers, by name.
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
