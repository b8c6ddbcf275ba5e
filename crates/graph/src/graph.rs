//! A graph that is ready to run, made by [`Builder`](crate::Builder).

use crate::bursts::Bursts;
use crate::column::Columns;
use crate::count::{Cells, PassedCounts};
use crate::element::{Control, Element, HandlerError};
use crate::environment::{Environment, Supply};
use crate::slot::SlotList;
use crate::spec::{Access, Spec};
use scalebricks_io::PacketBuf;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Name, spec and counters of an element; a fusion has several.
#[derive(Debug, Clone)]
pub struct Part {
    pub(crate) name: Arc<str>,
    pub(crate) spec: &'static Spec,
    pub(crate) cells: Arc<Cells>,
}

/// Where an output leads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    /// Its number, for traces and captures.
    pub(crate) id: u32,
    /// The list it leads to, in [`Graph::pending`].
    pub(crate) target: u32,
    pub(crate) node: u16,
    pub(crate) input: u16,
    /// If it leads to a `burst` input, the bursts it leads to, in [`Graph::carried`].
    pub(crate) carried: Option<u32>,
    /// Whether it leads to an element that runs no later than this one.
    pub(crate) is_back: bool,
}

/// An output of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Port {
    /// The part that the output belongs to.
    pub(crate) part: u8,
    /// The connected edge, if any.
    pub(crate) edge: Option<Edge>,
}

/// The output that an input pulls from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PullEdge {
    pub(crate) node: u16,
    pub(crate) output: u16,
    /// Whether a packet pulled over it gains a hop.
    pub(crate) is_back: bool,
}

/// An element with its place in the graph.
pub(crate) struct Node<P> {
    pub(crate) element: Box<dyn Element<P>>,
    pub(crate) parts: Box<[Part]>,
    pub(crate) outs: Box<[SlotList]>,
    /// By output, if any is a `burst` port: packets that the element sent by value.
    pub(crate) sent: Box<[Bursts<P>]>,
    /// Outputs that are `burst` ports.
    pub(crate) senders: Box<[u16]>,
    /// By input, if any is a `burst` port: its bursts, in [`Graph::carried`].
    pub(crate) carried: Box<[Option<u32>]>,
    /// Inputs that are `burst` ports, as bits of [`Worker::waiting`](crate::Worker).
    pub(crate) by_value: u64,
    /// By output.
    pub(crate) ports: Box<[Port]>,
    /// By input.
    pub(crate) pulls: Box<[Option<PullEdge>]>,
    /// The index of its first input's list.
    pub(crate) first_input: u32,
    pub(crate) inputs: u16,
    /// The elements whose back-pressure it sees, one bit each.
    pub(crate) watches: Box<[u64]>,
    pub(crate) pressure: Option<u16>,
}

crate::element! {
    /// Placeholder for an element that is taken out while it pulls or works between turns.
    struct Absent as "Absent" {}
}

impl Control for Absent {}

impl<P: PacketBuf> Element<P> for Absent {}

impl<P: PacketBuf + 'static> Node<P> {
    /// A node without an element. Cost: no allocation.
    pub(crate) fn absent() -> Self {
        Self {
            element: Box::new(Absent {}),
            parts: Box::default(),
            outs: Box::default(),
            sent: Box::default(),
            senders: Box::default(),
            carried: Box::default(),
            by_value: 0,
            ports: Box::default(),
            pulls: Box::default(),
            first_input: 0,
            inputs: 0,
            watches: Box::default(),
            pressure: None,
        }
    }

    pub(crate) fn control(&mut self, part: usize) -> &mut dyn Control {
        if self.parts.len() == 1 {
            return &mut *self.element;
        }
        self.element.part(part).unwrap_or_else(|| unreachable!("a fusion has all its parts"))
    }
}

/// Description of an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeInfo {
    /// The element it leaves.
    pub from: Arc<str>,
    /// By which output.
    pub output: usize,
    /// The element it leads to.
    pub to: Arc<str>,
    /// By which input.
    pub input: usize,
    /// Whether a packet that passes it gains a hop.
    pub is_back: bool,
}

/// A connection as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The element it leaves.
    pub from: Arc<str>,
    /// By which output.
    pub output: usize,
    /// The element it leads to.
    pub to: Arc<str>,
    /// By which input.
    pub input: usize,
}

/// Elements and edges, ready to run on one worker. Elements are in the order in which they run.
pub struct Graph<P> {
    pub(crate) nodes: Vec<Node<P>>,
    /// The packets waiting at each input.
    pub(crate) pending: Vec<SlotList>,
    /// The packets waiting at each `burst` input.
    pub(crate) carried: Vec<Bursts<P>>,
    /// By the same index: the element that last sent there, and its port. It gets its burst memory back, because that
    /// memory is in the cache.
    pub(crate) homes: Vec<(u16, u16)>,
    /// Elements called at the beginning of a turn, one bit each.
    pub(crate) begins: Vec<u64>,
    pub(crate) ends: Vec<u16>,
    /// Elements that read and write handlers, and their names.
    pub(crate) betweens: Vec<(u16, Arc<str>)>,
    pub(crate) columns: Columns,
    /// By name: element and part.
    pub(crate) names: HashMap<Arc<str>, (u16, u8)>,
    pub(crate) edges: Vec<EdgeInfo>,
    pub(crate) connections: Vec<Connection>,
    /// Number of elements that raise back-pressure.
    pub(crate) pressures: usize,
}

impl<P> fmt::Debug for Graph<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("elements", &self.names.len())
            .field("edges", &self.edges)
            .finish_non_exhaustive()
    }
}

impl<P: PacketBuf + 'static> Graph<P> {
    /// Names and classes of all elements, in the order in which they run.
    pub fn elements(&self) -> impl Iterator<Item = (&str, &'static Spec)> {
        self.nodes.iter().flat_map(|node| node.parts.iter()).map(|part| (&*part.name, part.spec))
    }

    /// Number of elements that run; a fusion counts as one.
    pub fn boxes(&self) -> usize {
        self.nodes.len()
    }

    /// All push edges; the index is the edge's number.
    pub fn edges(&self) -> &[EdgeInfo] {
        &self.edges
    }

    /// All connections as declared, including pull connections and those within a fusion.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Number of packets that elements keep outside the frame.
    pub fn held(&self) -> usize {
        self.nodes.iter().map(|node| node.element.held()).sum()
    }

    /// Opens the resources of all elements; see [`Element::open`]. Call it once, before the graph runs.
    ///
    /// # Errors
    /// The names of elements that failed, and why. What others have opened stays open.
    pub fn open(&mut self, world: &mut dyn Environment<P>) -> Result<(), Vec<(Arc<str>, String)>> {
        self.open_each(|_, element| element.open(world))
    }

    /// Calls `open` for each element with its name. It can skip elements that will take over their predecessors' state.
    ///
    /// # Errors
    /// The names of elements for which it failed, and why.
    pub fn open_each(
        &mut self,
        mut open: impl FnMut(&str, &mut dyn Element<P>) -> Result<(), String>,
    ) -> Result<(), Vec<(Arc<str>, String)>> {
        let open = |node: &mut Node<P>| {
            let name = Arc::clone(&node.parts.first()?.name);
            open(&name, &mut *node.element).err().map(|why| (name, why))
        };
        let failed: Vec<_> = self.nodes.iter_mut().filter_map(open).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// The earliest supply of all sources that end. `None` if there is no such source.
    pub fn supply(&self) -> Option<Supply> {
        let all = self.nodes.iter().filter_map(|node| node.element.supply());
        all.reduce(|one, other| match (one, other) {
            (Supply::At(a), Supply::At(b)) => Supply::At(a.min(b)),
            (Supply::At(at), Supply::Ended) | (Supply::Ended, Supply::At(at)) => Supply::At(at),
            (Supply::Ended, Supply::Ended) => Supply::Ended,
        })
    }

    /// Whether an element asks to end the run.
    pub fn is_stopped(&self) -> bool {
        self.betweens.iter().any(|&(at, _)| self.nodes[usize::from(at)].element.stops())
    }

    /// Runs the elements that read and write handlers.
    pub(crate) fn between(&mut self, now: Duration) {
        // Taken out meanwhile, since elements get the graph as an argument.
        let betweens = std::mem::take(&mut self.betweens);
        for (at, name) in &betweens {
            let at = usize::from(*at);
            let mut element = std::mem::replace(&mut self.nodes[at].element, Box::new(Absent {}));
            element.between(name, self, now);
            self.nodes[at].element = element;
        }
        self.betweens = betweens;
    }

    /// External errors, by element.
    pub fn faults(&self) -> impl Iterator<Item = (&str, String)> {
        self.nodes.iter().filter_map(|node| Some((&*node.parts.first()?.name, node.element.fault()?)))
    }

    /// Reads a handler. Every counter and drop reason is a handler too, and so is `class`. A parameter may follow the
    /// handler's name, as in `lookup 192.0.2.1`.
    ///
    /// # Errors
    /// [`HandlerError`].
    pub fn read(&mut self, element: &str, handler: &str) -> Result<String, HandlerError> {
        let (node, part) = self.find(element)?;
        let Part { spec, ref cells, ref name } = self.nodes[node].parts[part];
        let (handler, parameter) = handler.split_once(char::is_whitespace).unwrap_or((handler, ""));
        if let Some(id) = spec.handler(handler, Access::Read) {
            return self.nodes[node].control(part).ask(id, parameter.trim());
        }
        if handler == "class" {
            return Ok(spec.class.to_owned());
        }
        let counted = cells.counted(name, spec);
        match counted.get(handler) {
            Some(value) => Ok(value.to_string()),
            None => Err(no_handler(element, handler)),
        }
    }

    /// Writes a value to a handler.
    ///
    /// # Errors
    /// [`HandlerError`].
    pub fn write(&mut self, element: &str, handler: &str, value: &str) -> Result<(), HandlerError> {
        let (node, part) = self.find(element)?;
        let spec = self.nodes[node].parts[part].spec;
        match spec.handler(handler, Access::Write) {
            Some(id) => self.nodes[node].control(part).write(id, value),
            None => Err(no_handler(element, handler)),
        }
    }

    /// Writes the handler `finish` of all elements that have one: no packets come any more, and what waits for others leaves
    /// in the next turns. Whether there is such an element.
    pub fn finish(&mut self) -> bool {
        let mut found = false;
        for node in &mut self.nodes {
            for part in 0..node.parts.len() {
                if let Some(id) = node.parts[part].spec.handler("finish", Access::Write) {
                    // Its value is ignored, so it is not refused.
                    found |= node.control(part).write(id, "").is_ok();
                }
            }
        }
        found
    }

    /// The runner's counters of an element, for a shortcut past it.
    pub fn passed_counts(&self, element: &str) -> Option<PassedCounts> {
        let (node, part) = self.find(element).ok()?;
        Some(PassedCounts::new(Arc::clone(&self.nodes[node].parts[part].cells)))
    }

    fn find(&self, element: &str) -> Result<(usize, usize), HandlerError> {
        match self.names.get(element) {
            Some(&(node, part)) => Ok((usize::from(node), usize::from(part))),
            None => Err(HandlerError::NoElement(element.to_owned())),
        }
    }
}

fn no_handler(element: &str, handler: &str) -> HandlerError {
    HandlerError::NoHandler { element: element.to_owned(), handler: handler.to_owned() }
}
