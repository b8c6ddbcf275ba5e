//! Reads a file, and collects its problems.

use super::Spanned;
use super::keys::{CANDIDATES, Key, Kind};
use super::walk::Walk;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::fmt::{self, Display};
use std::ops::Range;
use std::str::FromStr;
use toml::de::DeTable;

/// A problem in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// The key with its section; empty if the text is not TOML.
    pub key: String,
    /// The value, what is wrong, and what is allowed.
    pub what: String,
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "line {}: {}", self.line, self.what)
        } else {
            write!(f, "line {}: {}: {}", self.line, self.key, self.what)
        }
    }
}

/// A value in a message: its first line, not too long.
pub(super) fn quoted(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(60).collect();
    if short.len() == text.len() { format!("'{text}'") } else { format!("'{short}…'") }
}

/// Collects the problems of a file.
pub(crate) struct Problems<'t> {
    text: &'t str,
    found: Vec<Problem>,
}

impl<'t> Problems<'t> {
    /// Reads a file into sections, and makes a configuration of them.
    ///
    /// # Errors
    /// All problems, by line; only those of the syntax if the text is not TOML.
    pub(crate) fn parse_file<S: DeserializeOwned + JsonSchema, T>(
        text: &str,
        make: impl Fn(S, &mut Problems<'_>) -> Option<T>,
    ) -> Result<T, Vec<Problem>> {
        let keys = Key::of::<S>();
        let Kind::Table(keys) = keys.kind else { return Err(Vec::new()) };
        let mut first = Problems { text, found: Vec::new() };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            first.add_error(&error);
        }
        if !first.found.is_empty() {
            return Err(first.sorted());
        }
        // What a check of several keys finds with some replacements of a wrong value and not with others is only a
        // consequence of that value.
        let mut consequences: Option<Vec<Problem>> = None;
        for round in 0..CANDIDATES {
            let (mut of_keys, mut of_checks) = (Problems::new(text), Problems::new(text));
            let mut table = table.clone();
            let place = table.span();
            let mut walk = Walk::new(&mut of_keys, round);
            walk.table(&keys, table.get_mut(), &place, "");
            let replaced = walk.replaced;
            let sections = S::deserialize(toml::de::Deserializer::from(table));
            let made = match sections {
                Ok(sections) => make(sections, &mut of_checks),
                Err(error) => {
                    of_checks.add_error(&error);
                    None
                }
            };
            let is_good = of_keys.found.is_empty() && of_checks.found.is_empty();
            if let Some(made) = made.filter(|_| is_good) {
                return Ok(made);
            }
            match &mut consequences {
                None => {
                    first.found = of_keys.found;
                    consequences = Some(of_checks.found);
                }
                Some(all) => all.retain(|problem| of_checks.found.contains(problem)),
            }
            if replaced == 0 {
                break;
            }
        }
        first.found.extend(consequences.unwrap_or_default());
        Err(first.sorted())
    }

    const fn new(text: &'t str) -> Self {
        Self { text, found: Vec::new() }
    }

    fn sorted(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| problem.line);
        self.found.dedup();
        self.found
    }

    /// The end of the text.
    pub(crate) const fn end(&self) -> Range<usize> {
        self.text.len()..self.text.len()
    }

    /// The place of values that are not in the text.
    pub(super) const fn nowhere(&self) -> Range<usize> {
        self.text.len() + 1..self.text.len() + 1
    }

    /// The text at a place.
    pub(super) fn text_at(&self, place: &Range<usize>) -> &'t str {
        self.text.get(place.clone()).unwrap_or_default()
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).fold(1, |line, byte| line + usize::from(byte == b'\n'))
    }

    /// Adds a problem, unless it is that of a value that is not in the text.
    pub(crate) fn add(&mut self, place: Range<usize>, key: &str, what: impl Into<String>) {
        if place.start < self.nowhere().start {
            let line = self.line(place.start);
            self.found.push(Problem { line, key: key.to_owned(), what: what.into() });
        }
    }

    fn add_error(&mut self, error: &toml::de::Error) {
        self.add(error.span().unwrap_or(0..0), "", error.message().trim().replace('\n', ", "));
    }

    /// The value of a key; `what` describes the problem of a wrong one.
    pub(crate) fn check<T: Copy>(
        &mut self,
        given: &Spanned<T>,
        key: &str,
        is_right: impl FnOnce(T) -> bool,
        what: impl FnOnce(T) -> String,
    ) -> T {
        let value = *given.get_ref();
        if !is_right(value) {
            self.add(given.span(), key, what(value));
        }
        value
    }

    /// Parses the text of a key.
    pub(crate) fn parse<T: FromStr<Err: Display>>(&mut self, text: &Spanned<String>, key: &str) -> Option<T> {
        let parsed = text.get_ref().parse();
        parsed.map_err(|error: T::Err| self.add(text.span(), key, error.to_string())).ok()
    }
}
