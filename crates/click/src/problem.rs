//! Errors in a configuration, and how they are displayed.

use crate::source::{Source, Span};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// A single error. Its text needs no source; the enclosing [`Diagnostic`] locates it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// Bytes that are not text.
    #[error("not UTF-8: byte {0:#04x}")]
    NotUtf8(u8),
    /// A limit of [`Limits`](crate::Limits) is exceeded.
    #[error("too large: more than {limit} {what}")]
    TooLarge {
        /// What was counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// An unsupported feature of Click's language.
    #[error("`{0}` is not supported: {1}")]
    Unsupported(String, &'static str),
    /// A misplaced token.
    #[error("syntax error near `{0}`")]
    Syntax(String),
    /// A missing token.
    #[error("expected {wanted}, found {found}")]
    Expected {
        /// What was expected.
        wanted: &'static str,
        /// What was found.
        found: String,
    },
    /// An unterminated configuration string, comment or quote.
    #[error("{0} is not closed")]
    Unclosed(&'static str),
    /// A line that starts with `#` but is not a line directive.
    #[error("unknown preprocessor directive")]
    Directive,
    /// A port that is not a number, or is too large.
    #[error("port number must be an integer from 0 to {max}, not `{text}`")]
    PortNumber {
        /// The text found.
        text: String,
        /// The largest port number.
        max: u32,
    },
    /// Ports with nothing to connect.
    #[error("{0}")]
    StrayPorts(&'static str),
    /// The ends of a connection are lists of different lengths.
    #[error("connection mismatch: {outputs} outputs connected to {inputs} inputs")]
    Mismatch {
        /// Outputs on the left.
        outputs: usize,
        /// Inputs on the right.
        inputs: usize,
    },
    /// Both ends are lists, but the connector is `->`.
    #[error("many-to-many connections require `=>`")]
    ManyToMany,
    /// An element is declared again.
    #[error("redeclaration of element `{0}`")]
    Redeclared(String),
    /// The name of a class used as the name of an element.
    #[error("class `{0}` used as element name")]
    ClassAsName(String),
    /// A component of a name consists of digits only.
    #[error("element name `{0}` has an all-digit component")]
    DigitName(String),
    /// A name that is neither an element nor a class.
    #[error("undeclared element `{name}`{}", hint(.similar.as_ref()))]
    Undeclared {
        /// The name.
        name: String,
        /// A similar known name.
        similar: Option<String>,
    },
    /// A class that does not exist.
    #[error("unknown element class `{name}`{}", hint(.similar.as_ref()))]
    UnknownClass {
        /// The class.
        name: String,
        /// A similar known class.
        similar: Option<String>,
    },
    /// A configuration string at a mere reference to an element.
    #[error("configuration string ignored on reference to element `{0}`")]
    ConfigOnReference(String),
    /// `input` or `output` used at the wrong side, or a gap in its ports.
    #[error("{0}")]
    Pseudo(String),
    /// Parameters of a compound out of order, repeated, or not variables.
    #[error("{0}")]
    Parameters(String),
    /// No overload of a compound matches its use.
    #[error("no match for `{wanted}`; candidates: {candidates}")]
    NoMatch {
        /// The arguments and ports of the use.
        wanted: String,
        /// The compound's overloads.
        candidates: String,
    },
    /// A port that a compound lacks or leaves unconnected.
    #[error("{0}")]
    CompoundPort(String),
    /// A variable whose value contains itself, or is nested too deep.
    #[error("variable `${0}` refers to itself")]
    VariableLoop(String),
    /// The result of a substitution is not a valid argument.
    #[error("the substituted text `{0}` cannot stand as arguments")]
    Substituted(String),
    /// An invalid entry in `require(…)`.
    #[error("{0}")]
    Requirement(String),
    /// An argument that the class does not accept.
    #[error("`{element}`: {message}")]
    Argument {
        /// The element.
        element: String,
        /// What is wrong.
        message: String,
    },
    /// An error from the program that runs the configuration.
    #[error("{0}")]
    Refused(String),
    /// A required package that is not available.
    #[error("required package `{0}` is not available")]
    NoPackage(String),
}

fn hint(similar: Option<&String>) -> String {
    similar.map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}

/// A problem and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where.
    pub span: Span,
    /// What.
    pub problem: Problem,
    /// A related earlier position, and what is there.
    pub note: Option<(Span, &'static str)>,
}

impl Diagnostic {
    /// A diagnostic without a note.
    pub fn new(span: Span, problem: Problem) -> Self {
        Self { span, problem, note: None }
    }

    /// Adds a note about another position.
    pub fn noted(self, span: Span, note: &'static str) -> Self {
        Self { note: Some((span, note)), ..self }
    }
}

/// Collects problems up to a limit, and counts the others.
#[derive(Debug)]
pub(crate) struct Problems {
    list: Vec<Diagnostic>,
    limit: usize,
    more: usize,
}

impl Problems {
    pub(crate) fn new(limit: usize) -> Self {
        Self { list: Vec::new(), limit, more: 0 }
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if self.list.len() < self.limit.max(1) {
            self.list.push(diagnostic);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn report(&mut self, span: Span, problem: Problem) {
        self.push(Diagnostic::new(span, problem));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn into_errors(mut self, source: Arc<Source>) -> Errors {
        self.list.sort_by_key(|diagnostic| diagnostic.span);
        Errors { source, list: self.list, more: self.more }
    }
}

/// All errors in a configuration, in source order. `Display` shows each as `file:line:column: what`, with the line and
/// carets under the position.
#[derive(Clone, Debug)]
pub struct Errors {
    source: Arc<Source>,
    list: Vec<Diagnostic>,
    more: usize,
}

impl Errors {
    /// The problems, at least one.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// The number of problems that are not listed.
    pub fn more(&self) -> usize {
        self.more
    }

    /// The text that contains them.
    pub fn source_text(&self) -> &Source {
        &self.source
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |span: Span| {
            let place = self.source.place(span.start);
            format!("{}:{}:{}", place.file, place.line, place.column)
        };
        for (index, diagnostic) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            let (line, carets) = self.source.excerpt(diagnostic.span);
            write!(f, "{}: {}\n    {line}\n    {carets}", place(diagnostic.span), diagnostic.problem)?;
            if let Some((span, note)) = diagnostic.note {
                write!(f, "\n{}: note: {note}", place(span))?;
            }
        }
        if self.more > 0 {
            write!(f, "\n… and {} more errors", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// The name among `known` that is most similar to `name`, if it differs in case or a few letters only.
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let limit = (name.chars().count() / 3).min(4);
    known
        .into_iter()
        .filter(|other| *other != name && other.len().abs_diff(name.len()) <= limit * 4)
        .map(|other| {
            let distance = if other.eq_ignore_ascii_case(name) { 0 } else { distance(name, other) };
            (distance, other)
        })
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, other)| other.to_owned())
}

/// Edit distance: characters to insert, remove, replace, or swap with the next one. Names longer than 64 characters are
/// truncated.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(64).collect();
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    let mut row_before = Vec::new();
    for (i, a) in left.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let changed = row[j] + usize::from(a != b);
            let mut least = changed.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && left[i - 1] == *b && right[j - 1] == *a {
                least = least.min(row_before[j - 1] + 1);
            }
            next.push(least);
        }
        row_before = std::mem::replace(&mut row, next);
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_found_and_a_far_one_is_not() {
        let known = ["Queue", "Unqueue", "CheckIPHeader", "Discard"];
        assert_eq!(similar("Quue", known).as_deref(), Some("Queue"));
        assert_eq!(similar("Qeuue", known).as_deref(), Some("Queue"));
        assert_eq!(similar("queue", known).as_deref(), Some("Queue"));
        assert_eq!(similar("CheckIpHeader", known).as_deref(), Some("CheckIPHeader"));
        assert_eq!(similar("Zebra", known), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn errors_show_the_line_and_what_was_left_out() {
        let mut problems = Problems::new(1);
        problems.push(
            Diagnostic::new(Span { start: 5, end: 8 }, Problem::Redeclared("foo".into()))
                .noted(Span { start: 0, end: 3 }, "previously declared here"),
        );
        problems.report(Span::default(), Problem::ManyToMany);
        let errors = problems.into_errors(Arc::new(Source::new("r.click", "foo;\nfoo;")));
        assert_eq!(
            errors.to_string(),
            "r.click:2:1: redeclaration of element `foo`\n    foo;\n    ^~~\n\
             r.click:1:1: note: previously declared here\n… and 1 more errors"
        );
        assert_eq!((errors.list().len(), errors.more()), (1, 1));
    }
}
