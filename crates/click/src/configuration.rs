//! The result: elements and connections without compounds, variables or tunnels.

use crate::limits::Limits;
use crate::problem::{Diagnostic, Errors, Problems};
use crate::source::{Source, Span};
use std::sync::Arc;

/// An argument of an element as it is written, comments and outer space removed. Equality ignores the place.
#[derive(Clone, Debug, Default)]
pub struct Argument {
    /// The text.
    pub text: String,
    /// Where it was written; with a substituted variable, what refers to it.
    pub span: Span,
    /// Whether the source holds the text byte for byte, so that a place in the text is a place in the source.
    pub(crate) exact: bool,
}

impl Argument {
    /// An argument that comes from no source.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Where bytes `start..end` of the text were written: the whole argument where that is not known.
    pub fn place(&self, start: usize, end: usize) -> Span {
        if !self.exact {
            return self.span;
        }
        let at = |offset: usize| (self.span.start as usize + offset).min(self.span.end as usize);
        Span::new(at(start), at(end))
    }
}

impl PartialEq for Argument {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Argument {}

/// An element. Equality ignores the place.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Its name, with the names of the compounds it lies in: `a/b`.
    pub name: String,
    /// Its class, which the configuration does not define.
    pub class: String,
    /// Its arguments.
    pub args: Vec<Argument>,
    /// Where it is declared: its name and class.
    pub span: Span,
    /// Written as a name only: perhaps an element was meant that is not declared.
    pub(crate) bare: bool,
}

impl Declaration {
    /// An element that comes from no source. That its name, class and arguments can be written in Click's language is
    /// up to the caller.
    pub fn new(name: impl Into<String>, class: impl Into<String>, args: Vec<Argument>) -> Self {
        Self { name: name.into(), class: class.into(), args, span: Span::default(), bare: false }
    }
}

impl PartialEq for Declaration {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.class, &self.args) == (&other.name, &other.class, &other.args)
    }
}

impl Eq for Declaration {}

/// A port of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Index into [`Configuration::elements`].
    pub element: usize,
    /// Number of the input or output.
    pub port: u32,
}

/// A connection. Equality ignores the place.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// An output.
    pub from: Port,
    /// An input.
    pub to: Port,
    /// Where it is written: the connector, for a connection through compounds the one nearest to `from`.
    pub span: Span,
}

impl PartialEq for Connection {
    fn eq(&self, other: &Self) -> bool {
        (self.from, self.to) == (other.from, other.to)
    }
}

impl Eq for Connection {}

/// A package that the configuration asks for. Equality ignores the place.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// Its name; a word.
    pub package: String,
    /// Where it is asked for.
    pub span: Span,
}

impl PartialEq for Requirement {
    fn eq(&self, other: &Self) -> bool {
        self.package == other.package
    }
}

impl Eq for Requirement {}

/// A router: what Click would hand to its elements. Equality compares what is described, not where it was written.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Elements with distinct names: those of the file in their order, then those of compounds.
    pub elements: Vec<Declaration>,
    /// Connections, each once, sorted by `from` and then `to`.
    pub connections: Vec<Connection>,
    /// Packages asked for, in the order of the text.
    pub requirements: Vec<Requirement>,
    pub(crate) source: Arc<Source>,
}

impl Configuration {
    /// The text that the spans point into.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Errors in this configuration that others than this crate have found, up to the default of
    /// [`Limits::errors`](crate::Limits::errors). `None` if there are none.
    pub fn errors(&self, found: impl IntoIterator<Item = Diagnostic>) -> Option<Errors> {
        let mut problems = Problems::new(Limits::default().errors);
        found.into_iter().for_each(|diagnostic| problems.push(diagnostic));
        (!problems.is_empty()).then(|| problems.into_errors(Arc::clone(&self.source)))
    }

    /// Index of the element with this name. Takes O(elements).
    pub fn find(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|element| element.name == name)
    }
}

impl PartialEq for Configuration {
    fn eq(&self, other: &Self) -> bool {
        self.elements == other.elements
            && self.connections == other.connections
            && self.requirements == other.requirements
    }
}

impl Eq for Configuration {}
