//! The handlers of a router, by the names that clients use: `element.handler`, `number.handler`, or a global handler.

use super::protocol::{Code, Handlers, Refusal};
use crate::click::Router;
use scalebricks_graph::element::HandlerError;
use scalebricks_graph::spec::{Access, RUN_COUNTERS, RUN_DROPS};
use scalebricks_graph::{Graph, Remote, Spec};
use scalebricks_io::PacketBuf;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// How long a worker may take to answer.
const ANSWER: Duration = Duration::from_secs(1);

/// What is known of a router without asking the worker.
#[derive(Debug)]
pub(super) struct Static {
    elements: Vec<Known>,
    by_name: HashMap<String, usize>,
    global: Vec<(&'static str, String)>,
}

#[derive(Debug)]
struct Known {
    name: String,
    class: String,
    config: String,
    /// `None` for a class that is not part of a graph.
    spec: Option<&'static Spec>,
}

impl Static {
    pub(super) fn new<P: PacketBuf + 'static>(router: &Router, graph: &Graph<P>) -> Self {
        let specs: HashMap<&str, &'static Spec> = graph.elements().collect();
        let configuration = router.configuration();
        let known = configuration.elements.iter().map(|element| Known {
            name: element.name.clone(),
            class: element.class.clone(),
            config: element.args.iter().map(|argument| argument.text.as_str()).collect::<Vec<_>>().join(", "),
            spec: specs.get(element.name.as_str()).copied(),
        });
        let elements: Vec<Known> = known.collect();
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

    fn element(&self, name: &str) -> Option<&Known> {
        let number = || name.parse::<usize>().ok()?.checked_sub(1);
        let at = self.by_name.get(name).copied().or_else(number)?;
        self.elements.get(at)
    }
}

fn lines<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.fold(String::new(), |text, line| text + line + "\n")
}

impl Known {
    /// Handlers that are read: the class's own, counters, drop reasons.
    fn readable(&self) -> impl Iterator<Item = &'static str> {
        let own = self.spec.into_iter().flat_map(|spec| {
            let handlers = spec.handlers.iter().filter(|handler| handler.access == Access::Read);
            let counters = RUN_COUNTERS.iter().chain(spec.counters).map(|counter| counter.name);
            let drops = RUN_DROPS.iter().chain(spec.drops).map(|drop| drop.name);
            handlers.map(|handler| handler.name).chain(counters).chain(drops)
        });
        ["class", "name", "config", "handlers"].into_iter().chain(own)
    }

    fn is_writable(&self, handler: &str) -> bool {
        self.spec.is_some_and(|spec| spec.handler(handler, Access::Write).is_some())
    }

    /// What is told of an element without asking it.
    fn told(&self, handler: &str) -> Option<String> {
        match handler {
            "class" => Some(self.class.clone()),
            "name" => Some(self.name.clone()),
            "config" => Some(self.config.clone()),
            "handlers" => {
                let mut text = String::new();
                for name in self.readable().collect::<BTreeSet<_>>() {
                    let _never_fails =
                        writeln!(text, "{name}\t{}", if self.is_writable(name) { "rw" } else { "r" });
                }
                let writes = self.spec.into_iter().flat_map(|spec| spec.handlers);
                for handler in writes.filter(|handler| handler.access == Access::Write) {
                    if !self.readable().any(|name| name == handler.name) {
                        let _never_fails = writeln!(text, "{}\tw", handler.name);
                    }
                }
                Some(text)
            }
            _ => None,
        }
    }
}

/// The handlers of a router that runs, for one client.
#[derive(Debug)]
pub(super) struct Directory<P> {
    pub(super) known: Arc<Static>,
    pub(super) remote: Remote<P>,
    pub(super) is_readonly: bool,
}

fn no_handler(name: &str) -> Refusal {
    Refusal::new(Code::NoHandler, format!("No handler named '{name}'"))
}

fn permission(name: &str, what: &str) -> Refusal {
    Refusal::new(Code::Permission, format!("Handler '{name}' {what}"))
}

/// A handler's element and its own name; a global one has no element.
fn parts(name: &str) -> (Option<&str>, &str) {
    match name.split_once('.') {
        Some(("" | "0", handler)) => (None, handler),
        Some((element, handler)) => (Some(element), handler),
        None => (None, name),
    }
}

impl<P: PacketBuf + 'static> Directory<P> {
    fn find<'a>(&'a self, name: &'a str) -> Result<(Option<&'a Known>, &'a str), Refusal> {
        let (element, handler) = parts(name);
        let Some(element) = element else { return Ok((None, handler)) };
        match self.known.element(element) {
            Some(known) => Ok((Some(known), handler)),
            None => Err(Refusal::new(Code::NoElement, format!("No element named '{element}'"))),
        }
    }

    fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut Graph<P>) -> Result<R, HandlerError> + Send + 'static,
    ) -> Result<R, Refusal> {
        let failed = |why: &dyn std::fmt::Display| Refusal::new(Code::Handler, why.to_string());
        let answer = self.remote.ask(ask).map_err(|error| failed(&error))?;
        let answer = answer.recv_timeout(ANSWER).map_err(|_| failed(&"the worker does not answer"))?;
        answer.map_err(|error| match error {
            HandlerError::NoElement(_) => Refusal::new(Code::NoElement, error.to_string()),
            HandlerError::NoHandler { .. } => Refusal::new(Code::NoHandler, error.to_string()),
            HandlerError::Value(_) => failed(&error),
        })
    }
}

impl<P: PacketBuf + 'static> Handlers for Directory<P> {
    fn read(&mut self, name: &str, parameters: &[u8]) -> Result<Vec<u8>, Refusal> {
        let (element, handler) = self.find(name)?;
        let Some(element) = element else {
            let found = self.known.global.iter().find(|(global, _)| *global == handler);
            return found.map(|(_, text)| text.clone().into_bytes()).ok_or_else(|| no_handler(name));
        };
        if let Some(text) = element.told(handler) {
            return Ok(text.into_bytes());
        }
        if !element.readable().any(|readable| readable == handler) {
            let is_writable = element.is_writable(handler);
            return Err(if is_writable { permission(name, "write-only") } else { no_handler(name) });
        }
        let Ok(parameters) = std::str::from_utf8(parameters) else {
            return Err(Refusal::new(Code::Handler, "the parameters are not UTF-8"));
        };
        let (element, handler) = (element.name.clone(), format!("{handler} {}", parameters.trim()));
        self.ask(move |graph| graph.read(&element, handler.trim_end())).map(String::into_bytes)
    }

    fn write(&mut self, name: &str, data: &[u8]) -> Result<Option<String>, Refusal> {
        let (element, handler) = self.find(name)?;
        let is_global = self.known.global.iter().any(|(global, _)| *global == handler);
        let Some(element) = element else {
            return Err(if is_global { permission(name, "read-only") } else { no_handler(name) });
        };
        if !element.is_writable(handler) {
            let is_readable = element.readable().any(|readable| readable == handler);
            return Err(if is_readable { permission(name, "read-only") } else { no_handler(name) });
        }
        if self.is_readonly {
            return Err(Refusal::new(Code::Permission, format!("Permission denied for '{name}'")));
        }
        let Ok(value) = String::from_utf8(data.to_vec()) else {
            return Err(Refusal::new(Code::Handler, "the data is not UTF-8"));
        };
        let (element, handler) = (element.name.clone(), handler.to_owned());
        self.ask(move |graph| graph.write(&element, &handler, &value)).map(|()| None)
    }

    fn check(&mut self, name: &str, is_write: bool) -> Result<(), Refusal> {
        let (element, handler) = self.find(name)?;
        let (reads, writes) = match element {
            Some(element) => {
                (element.readable().any(|readable| readable == handler), element.is_writable(handler))
            }
            None => (self.known.global.iter().any(|(global, _)| *global == handler), false),
        };
        match (is_write, reads, writes) {
            (true, _, true) if self.is_readonly => {
                Err(Refusal::new(Code::Permission, format!("Permission denied for '{name}'")))
            }
            (true, _, true) | (false, true, _) => Ok(()),
            (_, false, false) => Err(no_handler(name)),
            (true, ..) => Err(Refusal::new(Code::NoHandler, format!("Handler '{name}' not writable"))),
            (false, ..) => Err(Refusal::new(Code::NoHandler, format!("Handler '{name}' not readable"))),
        }
    }
}
