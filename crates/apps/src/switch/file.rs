//! The file of names: a name and its action a line, separated by a comma.
//!
//! ```text
//! # where the machines of rack 7 are
//! name,action
//! 02:00:00:00:07:01,forward rack7
//! 02:00:00:00:07:02,drop
//! ```
//!
//! Empty lines and those that begin with `#` say nothing; a first line `name,action` is a heading. Spaces around names and actions
//! do no harm. A name of bytes that has a comma in it is written in hexadecimal digits.

use super::text::{PortNames, parse_action, parse_name};
use scalebricks_elements::flat::{Action, FlatName, NameKind};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

/// Problems of a file that are told; how many more there are is counted.
pub const MAX_TOLD: usize = 20;

/// Something wrong in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, in characters, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)
    }
}

/// What is wrong with a file: the first [`MAX_TOLD`] lines, and how many more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileErrors {
    /// Lines, ascending.
    pub lines: Vec<LineError>,
    /// Further ones.
    pub more: usize,
}

impl FileErrors {
    fn add(&mut self, error: LineError) {
        if self.lines.len() < MAX_TOLD {
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

/// Names in the order of their lines.
pub type NameList = Vec<(FlatName, Action)>;

/// Reads a file of names.
///
/// # Errors
/// [`FileErrors`]: lines that are malformed, and names that are there twice, whether or not with the same action.
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
                    errors.add(LineError { line, column, what: format!("the name is in line {other}{how}") });
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
    // Where a part of the line begins, behind its spaces.
    let name_at = name.len() - name.trim_start().len();
    let action_at = name.len() + 1 + (action.len() - action.trim_start().len());
    let told = |start: usize, at: usize| column(text.get(..start + at).unwrap_or(text));
    let name = parse_name(name.trim(), kind, ports).map_err(|error| (told(name_at, error.at), error.what))?;
    let action =
        parse_action(action.trim(), ports).map_err(|error| (told(action_at, error.at), error.what))?;
    Ok(Some((name, action, column(&text[..name_at]))))
}

/// The column behind this text.
fn column(before: &str) -> usize {
    before.chars().count() + 1
}
