//! The parsed configuration: elements and connections without compounds, variables or tunnels.

use crate::limits::Limits;
use crate::problem::{Diagnostic, Errors, Problems};
use crate::source::{Source, Span};
use std::sync::Arc;

/// An argument as written, without comments and outer space. Equality ignores the position.
#[derive(Clone, Debug, Default)]
pub struct Argument {
    /// The text.
    pub text: String,
    /// Its position; for a substituted variable, that of the reference.
    pub span: Span,
    /// Whether the source contains the text byte for byte, so that positions in the text map to the source.
    pub(crate) exact: bool,
}

impl Argument {
    /// An argument without a source.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The position of bytes `start..end` of the text, or of the whole argument if that is unknown.
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

/// An element. Equality ignores the position.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// Its name, prefixed by the names of its compounds: `a/b`.
    pub name: String,
    /// Its class, which the configuration does not define.
    pub class: String,
    /// Its arguments.
    pub args: Vec<Argument>,
    /// The position of its declaration: name and class.
    pub span: Span,
    /// Whether only a name was written, which may have been meant as a declared element.
    pub(crate) bare: bool,
}

impl Declaration {
    /// An element without a source. The caller must ensure that its name, class and arguments are valid in Click's
    /// language.
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

/// A connection. Equality ignores the position.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// An output.
    pub from: Port,
    /// An input.
    pub to: Port,
    /// Its position: the connector, or for a connection through compounds the connector nearest to `from`.
    pub span: Span,
}

impl PartialEq for Connection {
    fn eq(&self, other: &Self) -> bool {
        (self.from, self.to) == (other.from, other.to)
    }
}

impl Eq for Connection {}

/// A package that the configuration requires. Equality ignores the position.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// Its name; a word.
    pub package: String,
    /// Its position.
    pub span: Span,
}

impl PartialEq for Requirement {
    fn eq(&self, other: &Self) -> bool {
        self.package == other.package
    }
}

impl Eq for Requirement {}

/// A router configuration, as Click would pass it to its elements. Equality compares contents, not positions.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Elements with distinct names: those of the file in order, then those of compounds.
    pub elements: Vec<Declaration>,
    /// Connections, each once, sorted by `from` and then `to`.
    pub connections: Vec<Connection>,
    /// Required packages, in text order.
    pub requirements: Vec<Requirement>,
    pub(crate) source: Arc<Source>,
}

impl Configuration {
    /// The text that the spans refer to.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Wraps errors that other crates found in this configuration, up to the default of
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
