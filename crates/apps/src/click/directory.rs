//! The elements of a router that runs and their handlers, as whoever controls it sees them.

use super::Router;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::spec::{Access, Flow, PortSpec, RUN_COUNTERS, RUN_DROPS};
use scalebricks_graph::{Graph, Remote, Spec};
use scalebricks_io::PacketBuf;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// How long a worker may take to answer.
pub const ANSWER: Duration = Duration::from_secs(1);

/// Why a handler was not called, or did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no such element.
    #[error("no element {0:?}")]
    NoElement(String),
    /// The element has no such handler.
    #[error("element {element:?} has no handler {handler:?}")]
    NoHandler {
        /// The element.
        element: String,
        /// What was asked for.
        handler: String,
    },
    /// It can only be written.
    #[error("handler {0:?} is write-only")]
    WriteOnly(String),
    /// It can only be read.
    #[error("handler {0:?} is read-only")]
    ReadOnly(String),
    /// The value or the parameter is not what it takes.
    #[error("{0}")]
    Value(String),
    /// Too many wait for the worker already.
    #[error("{0}")]
    Busy(String),
    /// The worker is slow, or has ended.
    #[error("the worker does not answer")]
    NoAnswer,
}

impl From<HandlerError> for Refused {
    fn from(error: HandlerError) -> Self {
        match error {
            HandlerError::NoElement(element) => Self::NoElement(element),
            HandlerError::NoHandler { element, handler } => Self::NoHandler { element, handler },
            HandlerError::Value(why) => Self::Value(why),
        }
    }
}

/// The end of a connection at a port of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The element's port.
    pub port: u32,
    /// Who moves packets over it.
    pub flow: Flow,
    /// The element at the other end.
    pub element: String,
    /// Its port.
    pub other_port: u32,
}

/// An element of a configuration.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its arguments, as they are written.
    pub config: String,
    /// `None` for a class that is not part of a graph.
    pub spec: Option<&'static Spec>,
    /// What its inputs are connected to.
    pub inputs: Vec<Link>,
    /// What its outputs are connected to.
    pub outputs: Vec<Link>,
}

/// What is known of a configuration without asking the worker.
#[derive(Debug)]
pub struct Static {
    /// In the order of the text.
    pub elements: Vec<Known>,
    by_name: HashMap<String, usize>,
    global: Vec<(&'static str, String)>,
}

impl Static {
    fn new<P: PacketBuf + 'static>(router: &Router, graph: &Graph<P>) -> Self {
        let specs: HashMap<&str, &'static Spec> = graph.elements().collect();
        let configuration = router.configuration();
        let known = configuration.elements.iter().map(|element| Known {
            name: element.name.clone(),
            class: element.class.clone(),
            config: element.args.iter().map(|argument| argument.text.as_str()).collect::<Vec<_>>().join(", "),
            spec: specs.get(element.name.as_str()).copied(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        });
        let mut elements: Vec<Known> = known.collect();
        for connection in &configuration.connections {
            let [from, to] = [connection.from, connection.to];
            let name = |at: usize| elements.get(at).map(|element| element.name.clone()).unwrap_or_default();
            let [from_name, to_name] = [name(from.element), name(to.element)];
            if let Some(element) = elements.get_mut(from.element) {
                let flow = element.flow(|spec| spec.outputs, from.port);
                let link = Link { port: from.port, flow, element: to_name, other_port: to.port };
                element.outputs.push(link);
            }
            if let Some(element) = elements.get_mut(to.element) {
                let flow = element.flow(|spec| spec.inputs, to.port);
                element.inputs.push(Link { port: to.port, flow, element: from_name, other_port: from.port });
            }
        }
        let classes: BTreeSet<&str> = elements.iter().map(|element| element.class.as_str()).collect();
        let names = elements.iter().map(|element| element.name.as_str());
        let required = configuration.requirements.iter().map(|requirement| requirement.package.as_str());
        let global = vec![
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("list", format!("{}\n{}", elements.len(), lines(names))),
            ("classes", lines(classes.into_iter())),
            ("config", configuration.source().text().to_owned()),
            ("flatconfig", configuration.to_string()),
            ("packages", String::new()),
            ("requirements", lines(required)),
        ];
        let by_name = elements.iter().zip(0..).map(|(element, at)| (element.name.clone(), at)).collect();
        Self { elements, by_name, global }
    }

    /// An element by its name, or by its number from 1.
    ///
    /// # Errors
    /// [`Refused::NoElement`].
    pub fn element(&self, name: &str) -> Result<&Known, Refused> {
        let number = || name.parse::<usize>().ok()?.checked_sub(1);
        let at = self.by_name.get(name).copied().or_else(number);
        at.and_then(|at| self.elements.get(at)).ok_or_else(|| Refused::NoElement(name.to_owned()))
    }

    /// The answer of a handler of the router itself.
    pub fn global(&self, handler: &str) -> Option<&str> {
        self.global.iter().find(|(global, _)| *global == handler).map(|(_, text)| text.as_str())
    }
}

fn lines<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.fold(String::new(), |text, line| text + line + "\n")
}

impl Known {
    fn flow(&self, side: impl Fn(&'static Spec) -> &'static [PortSpec], port: u32) -> Flow {
        let port = self.spec.and_then(|spec| Spec::port(side(spec), port as usize));
        port.map_or(Flow::Agnostic, |port| port.flow)
    }

    /// Handlers that are read, with what they tell: those of all elements, the class's own, counters, drop reasons.
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

    /// Handlers that are written, with what they set.
    pub fn writes(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = self.spec.into_iter().flat_map(|spec| spec.handlers);
        all.filter(|handler| handler.access == Access::Write).map(|handler| (handler.name, handler.doc))
    }

    /// Whether a handler can be read, and whether it can be written.
    ///
    /// # Errors
    /// [`Refused::NoHandler`].
    pub fn access(&self, handler: &str) -> Result<(bool, bool), Refused> {
        let reads = self.reads().any(|(name, _)| name == handler);
        let writes = self.writes().any(|(name, _)| name == handler);
        if reads || writes {
            return Ok((reads, writes));
        }
        Err(Refused::NoHandler { element: self.name.clone(), handler: handler.to_owned() })
    }

    /// What is told of an element without asking it.
    fn told(&self, handler: &str) -> Option<String> {
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

/// The handlers of a router that runs. It follows when the configuration is replaced.
#[derive(Debug)]
pub struct Directory<P> {
    known: RwLock<Arc<Static>>,
    remote: Remote<P>,
}

impl<P: PacketBuf + 'static> Directory<P> {
    /// Of a graph that was made of the configuration, and runs on the worker of `remote`.
    pub fn new(router: &Router, graph: &Graph<P>, remote: Remote<P>) -> Self {
        Self { known: RwLock::new(Arc::new(Static::new(router, graph))), remote }
    }

    /// What is known without asking the worker.
    pub fn known(&self) -> Arc<Static> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner)) // it is replaced whole
    }

    /// What is known of another configuration.
    pub(super) fn describe(router: &Router, graph: &Graph<P>) -> Arc<Static> {
        Arc::new(Static::new(router, graph))
    }

    /// The worker runs another configuration.
    pub(super) fn follow(&self, known: Arc<Static>) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// The worker.
    pub(super) const fn remote(&self) -> &Remote<P> {
        &self.remote
    }

    /// Asks the worker between two turns, and waits for its answer.
    ///
    /// # Errors
    /// [`Refused::Busy`], [`Refused::NoAnswer`].
    pub fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Graph<P>) -> R + Send + 'static,
    ) -> Result<R, Refused> {
        let answer = self.remote.ask(ask).map_err(|error| Refused::Busy(error.to_string()))?;
        answer.recv_timeout(ANSWER).map_err(|_| Refused::NoAnswer)
    }

    /// Asks a read handler of an element.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn read(&self, element: &str, handler: &str, parameter: &str) -> Result<String, Refused> {
        let known = self.known();
        let element = known.element(element)?;
        if let Some(text) = element.told(handler) {
            return Ok(text);
        }
        if let (false, _) = element.access(handler)? {
            return Err(Refused::WriteOnly(handler.to_owned()));
        }
        let (element, handler) = (element.name.clone(), format!("{handler} {}", parameter.trim()));
        Ok(self.ask(move |graph| graph.read(&element, handler.trim_end()))??)
    }

    /// Gives a write handler of an element a value.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn write(&self, element: &str, handler: &str, value: String) -> Result<(), Refused> {
        let known = self.known();
        let element = known.element(element)?;
        if let (_, false) = element.access(handler)? {
            return Err(Refused::ReadOnly(handler.to_owned()));
        }
        let (element, handler) = (element.name.clone(), handler.to_owned());
        Ok(self.ask(move |graph| graph.write(&element, &handler, &value))??)
    }
}
