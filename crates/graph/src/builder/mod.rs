//! Builds graphs from declarations of elements and connections.

mod assemble;
mod assigned;
mod error;
mod order;
mod ports;
mod shortcut;

pub use error::{BuildError, BuildErrors, PortName};
pub use shortcut::{Draft, FindShortcuts, Shortcut};

use crate::count::Ledger;
use crate::element::Element;
use crate::graph::Graph;
use crate::registry::Registry;
use crate::spec::Spec;
use scalebricks_io::PacketBuf;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Most elements in a graph.
pub const ELEMENTS: usize = 4_096;

/// Most ports per side of an element.
pub const PORTS: usize = 1_024;

/// Most elements in a pull chain.
pub const PULL_DEPTH: usize = 64;

/// An element's ports.
#[derive(Debug)]
struct ElementPorts {
    name: Arc<str>,
    spec: &'static Spec,
    inputs: usize,
    outputs: usize,
    /// If it is one of several parts of an element: the index of the first part, and the part's number.
    part_of: Option<(usize, usize)>,
}

/// A connection, by element index.
#[derive(Debug, Clone, Copy)]
struct IndexedConnection {
    from: usize,
    output: usize,
    to: usize,
    input: usize,
    is_pull: bool,
}

enum ElementSource<P> {
    Class {
        class: String,
        args: Vec<String>,
    },
    Made(Box<dyn Element<P>>),
    /// A part of a joined element: its number, which is also its distance from the first part.
    Part(usize),
}

/// A graph under construction. Names and connections are all checked when it is [built](Self::build).
pub struct Builder<P> {
    elements: Vec<(Arc<str>, ElementSource<P>)>,
    connections: Vec<(String, usize, String, usize)>,
    fuses: bool,
}

impl<P> fmt::Debug for Builder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.elements.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Builder")
            .field("elements", &names)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

impl<P> Default for Builder<P> {
    fn default() -> Self {
        Self { elements: Vec::new(), connections: Vec::new(), fuses: true }
    }
}

impl<P: PacketBuf + 'static> Builder<P> {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares an element of a class, with its arguments as written in a configuration.
    pub fn declare(&mut self, name: &str, class: &str, args: &[&str]) -> &mut Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        self.elements.push((name.into(), ElementSource::Class { class: class.to_owned(), args }));
        self
    }

    /// Adds an existing element.
    pub fn add(&mut self, name: &str, element: impl Element<P>) -> &mut Self {
        self.elements.push((name.into(), ElementSource::Made(Box::new(element))));
        self
    }

    /// Adds an existing element that represents several named [parts](Element::part). Each part has its own ports,
    /// counters and handlers, and connections name the parts as if they were separate. The element numbers the inputs
    /// of the first part first, then those of the next, and the outputs likewise. It moves packets between its parts
    /// itself; such connections are declared for the checks.
    pub fn add_joined(&mut self, names: &[&str], element: impl Element<P>) -> &mut Self {
        let mut whats = vec![ElementSource::Made(Box::new(element))];
        whats.extend((1..names.len()).map(ElementSource::Part));
        self.elements.extend(names.iter().map(|&name| name.into()).zip(whats));
        self
    }

    /// Connects an output to an input.
    pub fn connect(&mut self, from: &str, output: usize, to: &str, input: usize) -> &mut Self {
        self.connections.push((from.to_owned(), output, to.to_owned(), input));
        self
    }

    /// Connects output 0 of each element to input 0 of the next.
    pub fn chain(&mut self, names: &[&str]) -> &mut Self {
        for pair in names.windows(2) {
            self.connect(pair[0], 0, pair[1], 0);
        }
        self
    }

    /// Whether sequences of per-packet elements run as one element where the registry has a fusion for them, and whether
    /// its [shortcuts](Registry::shortcut) are used; the default is yes.
    pub const fn fuses(&mut self, fuses: bool) -> &mut Self {
        self.fuses = fuses;
        self
    }

    /// Checks everything and builds the graph. Counters come from the `ledger`, by name and class. Cost: allocations,
    /// so do not call it on a packet thread.
    ///
    /// # Errors
    /// [`BuildErrors`]: all errors found in names, arguments and ports; if there are none, all in columns; and if there
    /// are none, those of elements that refuse their place.
    pub fn build(self, registry: &Registry<P>, ledger: &mut Ledger) -> Result<Graph<P>, BuildErrors> {
        let Self { elements, connections, fuses } = self;
        if elements.len() > ELEMENTS {
            return Err(BuildErrors(vec![BuildError::TooMany(elements.len())]));
        }
        let mut errors = Vec::new();
        let places = places(&elements, &mut errors);
        let mut shapes = Vec::new();
        let mut made: Vec<Option<Box<dyn Element<P>>>> = Vec::new();
        for (name, what) in elements {
            let at = made.len();
            let (spec, part_of, element) = match what {
                ElementSource::Part(part) => {
                    let whole = made[at - part].as_mut().and_then(|whole| whole.part(part));
                    let whole =
                        whole.unwrap_or_else(|| unreachable!("an element has as many parts as names"));
                    (whole.spec(), Some((at - part, part)), None)
                }
                what => {
                    let Some(mut element) = make(&name, what, registry, &mut errors) else { continue };
                    let first = element.part(0).map(|part| part.spec());
                    let part_of = first.map(|_| (at, 0));
                    (first.unwrap_or_else(|| element.spec()), part_of, Some(element))
                }
            };
            shapes.push(ElementPorts { name, spec, inputs: 0, outputs: 0, part_of });
            made.push(element);
        }
        let mut links = links(&connections, &places, &mut errors);
        // With missing connections, their neighbours would be reported as well.
        if errors.is_empty() {
            ports::count(&mut shapes, &mut links, &mut errors);
            ports::decide(&shapes, &mut links, &mut errors);
        }
        if errors.is_empty() {
            assigned::check(&shapes, &links, &mut errors);
        }
        if !errors.is_empty() {
            return Err(BuildErrors(errors));
        }
        if fuses {
            shortcut::insert(&registry.shortcuts, &mut shapes, &mut made, &mut links);
        }
        let plan = assemble::Plan { shapes, made, links };
        plan.assemble(if fuses { &registry.fusions } else { &[] }, ledger)
    }
}

/// The index of each element, by name.
fn places<P>(
    elements: &[(Arc<str>, ElementSource<P>)],
    errors: &mut Vec<BuildError>,
) -> HashMap<Arc<str>, usize> {
    let mut places = HashMap::new();
    for (at, (name, _)) in elements.iter().enumerate() {
        if places.insert(Arc::clone(name), at).is_some() {
            errors.push(BuildError::Duplicate { element: name.to_string() });
        }
    }
    places
}

fn make<P: PacketBuf + 'static>(
    name: &str,
    what: ElementSource<P>,
    registry: &Registry<P>,
    errors: &mut Vec<BuildError>,
) -> Option<Box<dyn Element<P>>> {
    let (class, args) = match what {
        ElementSource::Made(element) => return Some(element),
        ElementSource::Part(_) => return None,
        ElementSource::Class { class, args } => (class, args),
    };
    match registry.make(&class, &args) {
        Some(Ok(element)) => return Some(element),
        Some(Err(error)) => errors.push(BuildError::Arguments { element: name.to_owned(), error }),
        None => errors.push(BuildError::NoClass { element: name.to_owned(), class }),
    }
    None
}

fn links(
    connections: &[(String, usize, String, usize)],
    places: &HashMap<Arc<str>, usize>,
    errors: &mut Vec<BuildError>,
) -> Vec<IndexedConnection> {
    let mut links = Vec::new();
    for (from, output, to, input) in connections {
        match (places.get(&**from), places.get(&**to)) {
            (Some(&from), Some(&to)) => {
                links.push(IndexedConnection { from, output: *output, to, input: *input, is_pull: false });
            }
            (None, _) => errors.push(BuildError::NoElement { element: from.clone() }),
            (_, None) => errors.push(BuildError::NoElement { element: to.clone() }),
        }
    }
    links
}
