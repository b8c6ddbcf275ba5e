//! Errors in a configuration.

use crate::args::ArgError;
use crate::element::BindError;
use std::fmt;

/// A port in error messages: number, and name if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortName {
    /// The element.
    pub element: String,
    /// Whether it is an output.
    pub is_output: bool,
    /// Its number.
    pub number: usize,
    /// Its name in the class; empty if there is none.
    pub name: &'static str,
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.is_output { "output" } else { "input" };
        write!(f, "{side} {} of {}", self.number, self.element)?;
        if self.name.is_empty() { Ok(()) } else { write!(f, " ({})", self.name) }
    }
}

/// One error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There are more elements than a graph may have.
    #[error("{0} elements exceed the limit of {max}", max = super::ELEMENTS)]
    TooMany(usize),
    /// Two elements have one name.
    #[error("two elements are named {element}")]
    Duplicate {
        /// The name.
        element: String,
    },
    /// A connection names an element that is not declared.
    #[error("no element {element} to connect")]
    NoElement {
        /// The name.
        element: String,
    },
    /// There is no such class.
    #[error("element {element}: no class {class}")]
    NoClass {
        /// The element.
        element: String,
        /// The class.
        class: String,
    },
    /// The arguments are invalid.
    #[error("element {element}: {error}")]
    Arguments {
        /// The element.
        element: String,
        /// What is wrong.
        error: ArgError,
    },
    /// The class has no such port.
    #[error("the class has no {port}")]
    NoPort {
        /// The port.
        port: PortName,
    },
    /// A port that must be connected is not.
    #[error("{port} is not connected")]
    Unconnected {
        /// The port.
        port: PortName,
    },
    /// A push output or pull input has two connections; it can have one.
    #[error("{port} is connected twice")]
    Twice {
        /// The port.
        port: PortName,
    },
    /// Two elements pull from one output.
    #[error("{port} is pulled from by both {first} and {second}")]
    PulledTwice {
        /// The queue's port.
        port: PortName,
        /// The puller.
        first: String,
        /// The other puller.
        second: String,
    },
    /// One end of a connection pushes and the other pulls.
    #[error("{from} and {to} disagree on push and pull: connect them by a Queue or an Unqueue")]
    Conflict {
        /// Where packets leave.
        from: PortName,
        /// Where they arrive.
        to: PortName,
    },
    /// A cycle of pulls without a queue.
    #[error("{element} pulls from itself without a queue between")]
    PullLoop {
        /// An element of the cycle.
        element: String,
    },
    /// A pull chain is too long.
    #[error("the pull chain to {element} has more than {max} elements", max = super::PULL_DEPTH)]
    PullDepth {
        /// The puller.
        element: String,
    },
    /// An element reads a column that is not written on every path to it.
    #[error("{element} reads column {column}, which packets from {from} do not have")]
    Column {
        /// The element.
        element: String,
        /// The column.
        column: &'static str,
        /// A predecessor whose packets lack it.
        from: String,
    },
    /// The element refuses its place.
    #[error("element {element}: {error}")]
    Bind {
        /// The element.
        element: String,
        /// Why.
        error: BindError,
    },
}

impl BuildError {
    /// The element with the error, if it concerns one.
    pub fn element(&self) -> Option<&str> {
        match self {
            Self::TooMany(_) => None,
            Self::Duplicate { element }
            | Self::NoElement { element }
            | Self::NoClass { element, .. }
            | Self::Arguments { element, .. }
            | Self::PullLoop { element }
            | Self::PullDepth { element }
            | Self::Column { element, .. }
            | Self::Bind { element, .. } => Some(element),
            Self::NoPort { port }
            | Self::Unconnected { port }
            | Self::Twice { port }
            | Self::PulledTwice { port, .. }
            | Self::Conflict { from: port, .. } => Some(&port.element),
        }
    }
}

/// All errors that were found; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildErrors(pub Vec<BuildError>);

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let separator = if at > 0 { "; " } else { "" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildErrors {}
