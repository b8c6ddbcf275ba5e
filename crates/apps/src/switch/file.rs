//! The file of names: one name and its action per line, separated by a comma.
//!
//! ```text
//! # the hosts of rack 7
//! name,action
//! 02:00:00:00:07:01,forward rack7
//! 02:00:00:00:07:02,drop
//! ```
//!
//! Empty lines and lines that begin with `#` are ignored; a first line `name,action` is a heading. Spaces around names
//! and actions are ignored. A name of bytes that contains a comma is written in hexadecimal digits.

use super::text::{PortNames, parse_action, parse_name};
use scalebricks_elements::flat::{Action, FlatName, NameKind};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

/// Most errors of a file that are reported; further ones are counted.
pub const MAX_REPORTED: usize = 20;

/// An error in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// The errors in a file: the first [`MAX_REPORTED`], and the number of others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileErrors {
    /// Errors by line, ascending.
    pub lines: Vec<LineError>,
    /// Number of further errors.
    pub more: usize,
}

impl FileErrors {
    fn add(&mut self, error: LineError) {
        if self.lines.len() < MAX_REPORTED {
            self.lines.push(error);
        } else {
            self.more += 1;
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// Names in line order.
pub type NameList = Vec<(FlatName, Action)>;

/// Parses a file of names.
///
/// # Errors
/// [`FileErrors`]: malformed lines, and duplicate names, whether or not with the same action.
pub fn parse_names(bytes: &[u8], kind: NameKind, ports: &PortNames) -> Result<NameList, FileErrors> {
    let mut names: NameList = Vec::new();
    let mut lines: HashMap<FlatName, (usize, Action)> = HashMap::new();
    let mut errors = FileErrors::default();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut is_first = true;
    for (line, raw) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        match parse_line(raw, kind, ports, is_first) {
            Ok(None) => {}
            Ok(Some((name, action, column))) => match lines.entry(name) {
                Entry::Vacant(place) => {
                    names.push((place.key().clone(), action));
                    place.insert((line, action));
                }
                Entry::Occupied(place) => {
                    let (other, before) = place.get();
                    let how = if *before == action { "" } else { " with another action" };
                    errors.add(LineError {
                        line,
                        column,
                        what: format!("the name is already in line {other}{how}"),
                    });
                }
            },
            Err((column, what)) => errors.add(LineError { line, column, what }),
        }
        is_first &= raw.trim_ascii().is_empty() || raw.trim_ascii().starts_with(b"#");
    }
    if errors.is_empty() { Ok(names) } else { Err(errors) }
}

type Parsed = Option<(FlatName, Action, usize)>;

/// A line's name and action, and the column of the name.
fn parse_line(
    raw: &[u8],
    kind: NameKind,
    ports: &PortNames,
    may_be_heading: bool,
) -> Result<Parsed, (usize, String)> {
    let text = str::from_utf8(raw).map_err(|error| {
        let good = raw.get(..error.valid_up_to()).unwrap_or_default();
        (column(&String::from_utf8_lossy(good)), "not UTF-8".to_owned())
    })?;
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed.starts_with('#') {
        return Ok(None);
    }
    let Some((name, action)) = text.split_once(',') else {
        let start = text.len() - text.trim_start().len();
        return Err((column(&text[..start]), "no comma: a line is 'name,action'".to_owned()));
    };
    if may_be_heading && name.trim() == "name" && action.trim() == "action" {
        return Ok(None);
    }
    // The column where a part of the line begins, after its spaces.
    let name_at = name.len() - name.trim_start().len();
    let action_at = name.len() + 1 + (action.len() - action.trim_start().len());
    let column_of = |start: usize, at: usize| column(text.get(..start + at).unwrap_or(text));
    let name =
        parse_name(name.trim(), kind, ports).map_err(|error| (column_of(name_at, error.at), error.what))?;
    let action =
        parse_action(action.trim(), ports).map_err(|error| (column_of(action_at, error.at), error.what))?;
    Ok(Some((name, action, column(&text[..name_at]))))
}

/// The column after this text.
fn column(before: &str) -> usize {
    before.chars().count() + 1
}
