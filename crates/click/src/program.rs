//! The parser's result: scopes of elements and connections, with compounds not yet expanded.

use crate::configuration::Requirement;
use crate::source::Span;
use crate::text::Text;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Index into [`Program::classes`].
pub(crate) type ClassId = usize;

#[derive(Debug)]
pub(crate) enum Class {
    /// A class that the text does not define.
    Named(String),
    Compound(Box<Compound>),
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) classes: Vec<Class>,
    pub(crate) root: Compound,
    pub(crate) requirements: Vec<Requirement>,
}

/// A parameter of a compound. `keyword` is `__REST__` for the one that takes the remaining arguments.
#[derive(Debug)]
pub(crate) struct Formal {
    pub(crate) name: String,
    pub(crate) keyword: Option<String>,
}

pub(crate) const REST: &str = "__REST__";

/// A scope: the file, or a compound. In a compound, elements 0 and 1 are `input` and `output`.
#[derive(Debug)]
pub(crate) struct Compound {
    /// The class's name; empty for an inline compound.
    pub(crate) name: String,
    pub(crate) span: Span,
    /// Nesting depth, this compound included; 0 is the file.
    pub(crate) depth: usize,
    pub(crate) formals: Vec<Formal>,
    pub(crate) defines: Vec<(String, String)>,
    pub(crate) elements: Vec<Element>,
    pub(crate) links: Vec<ProgramConnection>,
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    /// The overload to try after this one.
    pub(crate) next: Option<ClassId>,
}

#[derive(Debug)]
pub(crate) enum Role {
    Instance(ClassId),
    /// A group as seen from outside. Its `input` and `output` are the next two elements.
    Group,
    /// `input` or `output` of a scope or a group.
    Inner,
}

#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) config: Rc<Text>,
    /// Whether only a name was written, which may have been meant as a declared element.
    pub(crate) bare: bool,
    pub(crate) span: Span,
    /// The ports with connections: inputs, outputs.
    pub(crate) used: [BTreeSet<u32>; 2],
}

/// A connection from an output to an input; elements are numbered in their scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramConnection {
    pub(crate) from: (usize, u32),
    pub(crate) to: (usize, u32),
    pub(crate) span: Span,
}
