//! Compares a file with the description of its keys, and replaces what is wrong.
//!
//! The replacements let the checks of several keys, which need a complete file, run in spite of a wrong one. A value that
//! was replaced has no place in the text; [`super::problems`] drops what these checks say of it.

use super::keys::{CANDIDATES, Key, Kind};
use super::problems::{Problems, quoted};
use scalebricks_click::similar;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A walk through a file.
pub(super) struct Walk<'w, 't> {
    problems: &'w mut Problems<'t>,
    /// Which of the candidates replace wrong values.
    round: usize,
    /// Number of replaced values.
    pub replaced: usize,
}

impl<'w, 't> Walk<'w, 't> {
    pub(super) const fn new(problems: &'w mut Problems<'t>, round: usize) -> Self {
        Self { problems, round, replaced: 0 }
    }

    /// Compares a section with its keys. It is at `place`, and its name is `path`; the whole file has no name.
    pub(super) fn table(
        &mut self,
        keys: &'t BTreeMap<String, Key>,
        table: &mut DeTable<'t>,
        place: &Range<usize>,
        path: &str,
    ) {
        self.unknown(keys, table, path);
        for (name, key) in keys {
            let path = join(path, name);
            if let Some(value) = table.get_mut(name.as_str()) {
                self.value(key, value, &path);
            } else if key.is_required {
                let (place, what) = match &key.kind {
                    Kind::Table(keys) => {
                        let required = keys.iter().filter(|(_, key)| key.is_required);
                        let required: Vec<&str> = required.map(|(name, _)| name.as_str()).collect();
                        (
                            self.problems.end(),
                            format!("the section is missing; it needs {}", required.join(", ")),
                        )
                    }
                    kind => (place.clone(), format!("missing; it must be {kind}")),
                };
                self.problems.add(place, &path, what);
                let hole = self.problems.nowhere();
                table.insert(Spanned::new(hole, Cow::Borrowed(name)), self.candidate(key));
            }
        }
    }

    /// Reports unknown keys. One that was probably meant as another key is treated as that one.
    fn unknown(&mut self, keys: &BTreeMap<String, Key>, table: &mut DeTable<'t>, path: &str) {
        let given = table.keys().map(|name| (name.get_ref().to_string(), name.span()));
        let unknown: Vec<(String, Range<usize>)> =
            given.filter(|(name, _)| !keys.contains_key(name)).collect();
        for (name, place) in unknown {
            let meant = similar(&name, keys.keys().map(String::as_str));
            let what = if let Some(meant) = &meant {
                format!("unknown; did you mean {meant}?")
            } else {
                let known: Vec<&str> = keys.keys().map(String::as_str).collect();
                let of = if path.is_empty() { "the sections are".to_owned() } else { format!("{path} has") };
                format!("unknown; {of} {}", known.join(", "))
            };
            self.problems.add(place.clone(), &join(path, &name), what);
            let value = table.remove(name.as_str());
            if let (Some(meant), Some(value)) = (meant, value)
                && !table.contains_key(meant.as_str())
            {
                table.insert(Spanned::new(place, Cow::Owned(meant)), value);
            }
        }
    }

    fn value(&mut self, key: &'t Key, value: &mut Spanned<DeValue<'t>>, path: &str) {
        let place = value.span();
        match (&key.kind, value.get_mut()) {
            (Kind::Table(keys), DeValue::Table(table)) => return self.table(keys, table, &place, path),
            (Kind::Array(item), DeValue::Array(values)) => {
                return values.iter_mut().for_each(|value| self.value(item, value, path));
            }
            (Kind::Array(item), DeValue::Table(table)) => {
                if let Kind::Table(keys) = &item.kind {
                    let what = format!("write [[{path}]]: there may be several such sections");
                    self.problems.add(place.clone(), path, what);
                    self.table(keys, table, &place, path);
                    let one = std::mem::replace(value.get_mut(), DeValue::Boolean(false));
                    let one = std::iter::once(Spanned::new(place.clone(), one)).collect();
                    *value = Spanned::new(place, DeValue::Array(one));
                    return;
                }
            }
            _ => {}
        }
        if let Some(what) = refused(key, value.get_ref(), self.problems.text_at(&place)) {
            self.problems.add(place, path, what);
            *value = self.candidate(key);
        }
    }

    /// A right value, which has no place in the text.
    fn candidate(&mut self, key: &'t Key) -> Spanned<DeValue<'t>> {
        let text = key.candidate((self.round + self.replaced) % CANDIDATES);
        self.replaced += 1;
        let value = DeValue::parse(text).unwrap_or_else(|_| Spanned::new(0..0, DeValue::Boolean(false)));
        at(&self.problems.nowhere(), value)
    }
}

/// The same value at another place.
fn at<'t>(place: &Range<usize>, value: Spanned<DeValue<'t>>) -> Spanned<DeValue<'t>> {
    let value = match value.into_inner() {
        DeValue::Array(values) => DeValue::Array(values.into_iter().map(|value| at(place, value)).collect()),
        DeValue::Table(table) => {
            let fields = table.into_iter();
            let moved = fields
                .map(|(name, value)| (Spanned::new(place.clone(), name.into_inner()), at(place, value)));
            DeValue::Table(moved.collect())
        }
        other => other,
    };
    Spanned::new(place.clone(), value)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Why a value is refused, if it is. `text` is the value in the file.
fn refused(key: &Key, value: &DeValue<'_>, text: &str) -> Option<String> {
    let kind = &key.kind;
    let given = match value {
        _ if key.is_hidden => String::new(),
        DeValue::String(text) => quoted(text) + " is ",
        DeValue::Table(_) | DeValue::Array(_) => String::new(),
        _ => format!("{text} is "),
    };
    let meant =
        |meant: Option<String>| meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    let what = match (kind, value) {
        (Kind::Bool, DeValue::Boolean(_)) => return None,
        (Kind::Integer(least, most), DeValue::Integer(value)) => {
            let value = i128::from_str_radix(&value.as_str().replace('_', ""), value.radix());
            if value.is_ok_and(|value| (*least..=*most).contains(&value)) {
                return None;
            }
            kind.range()
        }
        (Kind::Float(least, most), DeValue::Float(value)) => {
            let value = value.as_str().replace('_', "").parse::<f64>();
            if value.is_ok_and(|value| (*least..=*most).contains(&value)) {
                return None;
            }
            kind.range()
        }
        (Kind::Name(names), DeValue::String(name)) => {
            if names.iter().any(|known| known == name) {
                return None;
            }
            format!("{kind}{}", meant(similar(name, names.iter().map(String::as_str))))
        }
        (Kind::Text(form), DeValue::String(text)) => {
            if (form.is_right)(text) {
                return None;
            }
            format!("{kind}{}", meant((form.meant)(text)))
        }
        (Kind::Secret, DeValue::Table(table)) => {
            let mut fields = table.iter();
            let is_place = |(name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                ["file", "env"].contains(&name.get_ref().as_ref()) && value.get_ref().is_str()
            };
            if fields.next().is_some_and(is_place) && fields.next().is_none() {
                return None;
            }
            kind.to_string()
        }
        (Kind::Secret, _) => {
            return Some(format!(
                "a secret must not be in this file: write {kind}; only its owner may read the file"
            ));
        }
        _ => kind.to_string(),
    };
    Some(format!("{given}not {what}"))
}
