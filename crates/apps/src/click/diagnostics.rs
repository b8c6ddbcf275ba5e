//! Locates the graph builder's errors in the text.

use super::Router;
use scalebricks_click::{Connection, Declaration, Diagnostic, Errors, Problem, Span};
use scalebricks_graph::BuildError;
use scalebricks_graph::args::ArgError;
use scalebricks_graph::builder::PortName;
use std::collections::HashMap;

/// An argument that a class refuses, located at the argument if it is known.
pub(super) fn argument(element: &Declaration, texts: &[String], error: &ArgError) -> Diagnostic {
    let place = |is_it: &dyn Fn(&str, &str) -> bool| {
        let at = texts.iter().position(|text| {
            let text = text.trim();
            let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            is_it(word, rest.trim())
        })?;
        element.args.get(at).map(|argument| argument.span)
    };
    let is_param = |word: &str, param: &str| param.to_ascii_uppercase() == word;
    let whole = |text: &str| texts.iter().position(|other| other.trim() == text);
    let span = match error {
        ArgError::Value { param, text, .. } => place(&|word, rest| is_param(word, param) && rest == text)
            .or_else(|| element.args.get(whole(text)?).map(|argument| argument.span)),
        ArgError::Unknown(text) => {
            whole(text).and_then(|at| element.args.get(at)).map(|argument| argument.span)
        }
        ArgError::Twice(param) => place(&|word, _| is_param(word, param)),
        ArgError::Missing(_) | ArgError::Refused(_) => None,
    };
    let message = match error {
        ArgError::Missing(param) => format!("parameter {} is missing", param.to_ascii_uppercase()),
        ArgError::Value { param, text, kind } => {
            format!("{}: cannot read {text:?} as {kind}", param.to_ascii_uppercase())
        }
        ArgError::Twice(param) => format!("parameter {} was given twice", param.to_ascii_uppercase()),
        other => other.to_string(),
    };
    let problem = Problem::Argument { element: element.name.clone(), message };
    Diagnostic::new(span.unwrap_or(element.span), problem)
}

/// All errors, located.
pub(super) fn errors(router: &Router, faults: &[BuildError]) -> Errors {
    let configuration = &router.configuration;
    let by_name =
        configuration.elements.iter().zip(0..).map(|(element, at)| (element.name.as_str(), at)).collect();
    let places = Places { router, by_name };
    let errors = configuration.errors(faults.iter().map(|fault| places.diagnostic(fault)));
    errors.unwrap_or_else(|| unreachable!("a builder that fails says why"))
}

/// Positions of elements in the text.
struct Places<'a> {
    router: &'a Router,
    by_name: HashMap<&'a str, usize>,
}

impl Places<'_> {
    fn declared(&self, name: &str) -> Span {
        let element = self.by_name.get(name).and_then(|&at| self.router.configuration.elements.get(at));
        element.map_or_else(Span::default, |element| element.span)
    }

    /// Connections at a port, in text order.
    fn at(&self, port: &PortName) -> Vec<&Connection> {
        let element = self.by_name.get(port.element.as_str()).copied();
        let is_at = |connection: &&Connection| {
            let end = if port.is_output { connection.from } else { connection.to };
            end.port as usize == port.number && Some(end.element) == element
        };
        let mut all: Vec<&Connection> = self.router.configuration.connections.iter().filter(is_at).collect();
        all.sort_by_key(|connection| connection.span);
        all
    }

    fn diagnostic(&self, fault: &BuildError) -> Diagnostic {
        let refused = |span| Diagnostic::new(span, Problem::Refused(fault.to_string()));
        match fault {
            BuildError::Arguments { element, error } => {
                let at = self.by_name.get(element.as_str()).copied();
                let element = at.and_then(|at| self.router.configuration.elements.get(at));
                match (element, at.and_then(|at| self.router.arguments.get(at))) {
                    (Some(element), Some(texts)) => argument(element, texts, error),
                    _ => refused(Span::default()),
                }
            }
            BuildError::Conflict { from, to } => {
                let entering = self.at(to);
                let between = self.at(from).into_iter().find(|one| entering.contains(one));
                refused(between.map_or_else(|| self.declared(&from.element), |connection| connection.span))
            }
            BuildError::Twice { port } | BuildError::PulledTwice { port, .. } => match self.at(port)[..] {
                [first, second, ..] => refused(second.span).noted(first.span, "connected here too"),
                _ => refused(self.declared(&port.element)),
            },
            BuildError::NoPort { port } => {
                let connection = self.at(port).first().map(|connection| connection.span);
                refused(connection.unwrap_or_else(|| self.declared(&port.element)))
            }
            BuildError::Column { element, from, .. } if !from.is_empty() => {
                refused(self.declared(element)).noted(self.declared(from), "packets come from here")
            }
            other => refused(other.element().map_or_else(Span::default, |element| self.declared(element))),
        }
    }
}
