//! Assigns arguments to the parameters of a class, by position or keyword, as Click does.

use crate::config_strings::shift_word;
use crate::configuration::{Argument, Declaration};
use crate::problem::{Diagnostic, Problem};
use crate::values::{Kind, Names, Value, ValueError};

/// A parameter of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its keyword.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether it may be given by position.
    pub positional: bool,
    /// Whether it is required.
    pub mandatory: bool,
}

/// A given value: an argument, or what follows the keyword in it.
#[derive(Clone, Copy, Debug)]
struct Given<'a> {
    argument: &'a Argument,
    at: usize,
}

/// The arguments of an element, by parameter.
#[derive(Debug)]
pub struct Arguments<'a> {
    element: &'a Declaration,
    parameters: &'a [Parameter],
    given: Vec<Option<Given<'a>>>,
    names: Names<'a>,
}

fn wrong(element: &Declaration, span: crate::Span, message: String) -> Diagnostic {
    Diagnostic::new(span, Problem::Argument { element: element.name.clone(), message })
}

impl<'a> Arguments<'a> {
    /// Assigns an element's arguments. An argument that starts with a keyword of `parameters` belongs to that
    /// parameter, and the last of several counts; the others fill the remaining positional parameters in order.
    ///
    /// # Errors
    ///
    /// Arguments without a parameter, and required parameters without an argument.
    pub fn assign(
        element: &'a Declaration,
        parameters: &'a [Parameter],
        names: Names<'a>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut given: Vec<Option<Given<'a>>> = vec![None; parameters.len()];
        let mut problems = Vec::new();
        let mut by_place = Vec::new();
        for argument in &element.args {
            let (word, value) = shift_word(&argument.text);
            match parameters.iter().position(|parameter| parameter.name == word) {
                Some(at) => given[at] = Some(Given { argument, at: argument.text.len() - value.len() }),
                None => by_place.push(argument),
            }
        }
        let mut by_place = by_place.into_iter();
        let open = parameters
            .iter()
            .zip(&mut given)
            .filter(|(parameter, given)| parameter.positional && given.is_none());
        for ((_, given), argument) in open.zip(by_place.by_ref()) {
            *given = Some(Given { argument, at: 0 });
        }
        if let Some(argument) = by_place.next() {
            let message = format!("too many arguments: `{}`", shown(&argument.text));
            problems.push(wrong(element, argument.span, message));
        }
        for (parameter, given) in parameters.iter().zip(&given) {
            if parameter.mandatory && given.is_none() {
                problems.push(wrong(
                    element,
                    element.span,
                    format!("missing mandatory {} argument", parameter.name),
                ));
            }
        }
        if problems.is_empty() { Ok(Self { element, parameters, given, names }) } else { Err(problems) }
    }

    fn given(&self, name: &str) -> Option<Given<'a>> {
        self.parameters.iter().position(|parameter| parameter.name == name).and_then(|at| self.given[at])
    }

    /// The value of a parameter; `None` if it was not given or is not listed.
    ///
    /// # Errors
    ///
    /// The argument is invalid; the error locates the character.
    pub fn get<T: Value>(&self, name: &str) -> Result<Option<T>, Diagnostic> {
        let Some(given) = self.given(name) else { return Ok(None) };
        let value = T::read(&given.argument.text[given.at..], &self.names);
        value.map(Some).map_err(|error| self.diagnostic(name, given, error))
    }

    /// Checks every value against its parameter's type; returns an error for each invalid one.
    pub fn check(&self) -> Vec<Diagnostic> {
        let pairs = self.parameters.iter().zip(&self.given);
        pairs
            .filter_map(|(parameter, given)| {
                let given = (*given)?;
                let error = parameter.kind.check(&given.argument.text[given.at..], &self.names).err()?;
                Some(self.diagnostic(parameter.name, given, error))
            })
            .collect()
    }

    fn diagnostic(&self, name: &str, given: Given<'_>, error: ValueError) -> Diagnostic {
        let error = error.shifted(given.at);
        let span = given.argument.place(error.at, given.argument.text.len());
        wrong(self.element, span, format!("{name}: {}", error.message))
    }
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
