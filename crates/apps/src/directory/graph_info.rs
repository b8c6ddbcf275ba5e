//! Information about a graph that needs no worker.

use super::RequestError;
use scalebricks_graph::spec::{Access, PortKind, PortSpec, RUN_COUNTERS, RUN_DROPS};
use scalebricks_graph::{Graph, Spec};
use scalebricks_io::PacketBuf;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;

/// A port's connection to another element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConnection {
    /// The element's port.
    pub port: u32,
    /// Push or pull.
    pub flow: PortKind,
    /// The element at the other end.
    pub element: String,
    /// Its port.
    pub other_port: u32,
}

/// An element of a graph, or of its configuration only.
#[derive(Debug)]
pub struct ElementInfo {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its arguments, as in a configuration.
    pub config: String,
    /// `None` for a class that is not part of a graph.
    pub spec: Option<&'static Spec>,
    /// The connections of its inputs.
    pub inputs: Vec<PortConnection>,
    /// The connections of its outputs.
    pub outputs: Vec<PortConnection>,
}

/// Information about a graph that needs no worker.
#[derive(Debug, Default)]
pub struct GraphInfo {
    /// In run order, or in the order of a configuration's text.
    pub elements: Vec<ElementInfo>,
    by_name: HashMap<String, usize>,
    global: Vec<(&'static str, String)>,
}

impl GraphInfo {
    /// Describes a graph: its elements in run order, and their connections.
    pub fn of<P: PacketBuf + 'static>(graph: &Graph<P>) -> Self {
        let mut elements: Vec<ElementInfo> =
            graph.elements().map(|(name, spec)| ElementInfo::new(name, spec.class, Some(spec))).collect();
        let by_name: HashMap<&str, usize> = graph.elements().map(|(name, _)| name).zip(0..).collect();
        for connection in graph.connections() {
            let [from, to] = [(&connection.from, connection.output), (&connection.to, connection.input)];
            if let Some(element) = by_name.get(&**from.0).and_then(|&at| elements.get_mut(at)) {
                element.outputs.push(element.link(|spec| spec.outputs, from.1, to));
            }
            if let Some(element) = by_name.get(&**to.0).and_then(|&at| elements.get_mut(at)) {
                element.inputs.push(element.link(|spec| spec.inputs, to.1, from));
            }
        }
        Self::new(elements)
    }

    fn new(elements: Vec<ElementInfo>) -> Self {
        let classes: BTreeSet<&str> = elements.iter().map(|element| element.class.as_str()).collect();
        let names = elements.iter().map(|element| element.name.as_str());
        let global = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("list", format!("{}\n{}", elements.len(), lines(names))),
            ("classes", lines(classes.into_iter())),
        ];
        let by_name = elements.iter().zip(0..).map(|(element, at)| (element.name.clone(), at)).collect();
        Self { elements, by_name, global }
    }

    /// The same as declared by a configuration: `elements` are names, classes and arguments in text order, including
    /// classes that are not part of a graph. `global` adds values of the router's own handlers.
    pub(crate) fn declared(
        self,
        elements: impl Iterator<Item = (String, String, String)>,
        global: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Self {
        let mut built: HashMap<String, ElementInfo> =
            self.elements.into_iter().map(|element| (element.name.clone(), element)).collect();
        let elements = elements.map(|(name, class, config)| {
            let known = built.remove(&name).unwrap_or_else(|| ElementInfo::new(&name, "", None));
            ElementInfo { class, config, ..known }
        });
        let mut declared = Self::new(elements.collect());
        declared.global.extend(global);
        declared
    }

    /// An element by name, or by number from 1.
    ///
    /// # Errors
    /// [`RequestError::NoElement`].
    pub fn element(&self, name: &str) -> Result<&ElementInfo, RequestError> {
        let number = || name.parse::<usize>().ok()?.checked_sub(1);
        let at = self.by_name.get(name).copied().or_else(number);
        at.and_then(|at| self.elements.get(at)).ok_or_else(|| RequestError::NoElement(name.to_owned()))
    }

    /// The value of a handler of the router itself.
    pub fn global(&self, handler: &str) -> Option<&str> {
        self.global.iter().find(|(global, _)| *global == handler).map(|(_, text)| text.as_str())
    }
}

fn lines<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.fold(String::new(), |text, line| text + line + "\n")
}

impl ElementInfo {
    fn new(name: &str, class: &str, spec: Option<&'static Spec>) -> Self {
        let (name, class) = (name.to_owned(), class.to_owned());
        Self { name, class, config: String::new(), spec, inputs: Vec::new(), outputs: Vec::new() }
    }

    /// A connection of one of its ports, on the given side.
    fn link(
        &self,
        side: impl Fn(&'static Spec) -> &'static [PortSpec],
        port: usize,
        (element, other_port): (&Arc<str>, usize),
    ) -> PortConnection {
        let spec = self.spec.and_then(|spec| Spec::port(side(spec), port));
        let flow = spec.map_or(PortKind::Agnostic, |port| port.flow);
        // A graph has at most some thousand ports.
        PortConnection {
            port: port as u32,
            flow,
            element: element.to_string(),
            other_port: other_port as u32,
        }
    }

    /// The class, if this read handler is a counter or drop reason, whose value is in the ledger.
    pub(super) fn class_that_counts(&self, handler: &str) -> Option<&'static str> {
        let spec = self.spec?;
        let counters = RUN_COUNTERS.iter().chain(spec.counters).map(|counter| counter.name);
        let mut names = counters.chain(RUN_DROPS.iter().chain(spec.drops).map(|drop| drop.name));
        // A handler of that name takes precedence.
        let is_counted = spec.handler(handler, Access::Read).is_none() && names.any(|name| name == handler);
        is_counted.then_some(spec.class)
    }

    /// Read handlers and their descriptions: those of all elements, the class's own, counters, drop reasons.
    pub fn reads(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let own = self.spec.into_iter().flat_map(|spec| {
            let handlers = spec.handlers.iter().filter(|handler| handler.access == Access::Read);
            let counters =
                RUN_COUNTERS.iter().chain(spec.counters).map(|counter| (counter.name, counter.doc));
            let drops = RUN_DROPS.iter().chain(spec.drops).map(|drop| (drop.name, drop.doc));
            handlers.map(|handler| (handler.name, handler.doc)).chain(counters).chain(drops)
        });
        let all = [
            ("class", "Its class."),
            ("name", "Its name."),
            ("config", "Its arguments."),
            ("handlers", "Its handlers."),
        ];
        all.into_iter().chain(own)
    }

    /// Write handlers and their descriptions.
    pub fn writes(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = self.spec.into_iter().flat_map(|spec| spec.handlers);
        all.filter(|handler| handler.access == Access::Write).map(|handler| (handler.name, handler.doc))
    }

    /// Whether a handler can be read, and whether it can be written.
    ///
    /// # Errors
    /// [`RequestError::NoHandler`].
    pub fn access(&self, handler: &str) -> Result<(bool, bool), RequestError> {
        let reads = self.reads().any(|(name, _)| name == handler);
        let writes = self.writes().any(|(name, _)| name == handler);
        if reads || writes {
            return Ok((reads, writes));
        }
        Err(RequestError::NoHandler { element: self.name.clone(), handler: handler.to_owned() })
    }

    /// The value of a handler that needs no worker.
    pub(super) fn told(&self, handler: &str) -> Option<String> {
        match handler {
            "class" => Some(self.class.clone()),
            "name" => Some(self.name.clone()),
            "config" => Some(self.config.clone()),
            "handlers" => {
                let names =
                    |all: &mut dyn Iterator<Item = (&'static str, _)>| all.map(|(name, _)| name).collect();
                let [reads, writes]: [BTreeSet<&str>; 2] =
                    [names(&mut self.reads()), names(&mut self.writes())];
                let mut text = String::new();
                for name in &reads {
                    let _never_fails =
                        writeln!(text, "{name}\t{}", if writes.contains(name) { "rw" } else { "r" });
                }
                for name in writes.difference(&reads) {
                    let _never_fails = writeln!(text, "{name}\tw");
                }
                Some(text)
            }
            _ => None,
        }
    }
}
