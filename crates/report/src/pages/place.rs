//! The places of a page, and what each shows of several processors.

use super::{EXPECTED, Evidence, Kind};
use crate::exhibit::PageTable;
use std::ops::Range;

const BEGIN: &str = "<!-- begin ";
const CLOSE: &str = " -->\n";

/// A place: its name and the range of its content in the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its name, with the kind if the page states it.
    pub name: String,
    /// The text between the two comments.
    pub content: Range<usize>,
}

/// The places of a page, in order.
///
/// # Errors
/// The name of a place that has no end.
pub fn places(page: &str) -> Result<Vec<Place>, String> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(found) = page[from..].find(BEGIN) {
        let begin = from + found;
        from = begin + BEGIN.len();
        if begin > 0 && !page[..begin].ends_with('\n') {
            continue; // in a sentence about places
        }
        let line = page[from..].split_inclusive('\n').next().unwrap_or_default();
        let Some(name) = line.strip_suffix(CLOSE) else { continue };
        let start = from + line.len();
        let length = page[start..].find(&format!("<!-- end {name} -->"));
        let length = length.filter(|&length| !page[start..start + length].contains(BEGIN));
        let Some(length) = length else { return Err(format!("the place {name} has no end")) };
        places.push(Place { name: name.to_owned(), content: start..start + length });
        from = start + length;
    }
    Ok(places)
}

/// The content of a place for data sorted by processor. `docs` is the path from the page to the docs
/// directory.
pub fn content(kind: &Kind, name: &str, all: &[&Evidence], docs: &str) -> String {
    let shown = tables(kind, name, all)
        .or_else(|| {
            each(all, |evidence| {
                let said = evidence.exhibits.conclusions.iter().find(|said| said.name == name)?;
                Some(format!("*{}:* {}\n", evidence.processor.name(), said.sentence))
            })
        })
        .or_else(|| {
            each(all, |evidence| {
                let text = evidence.texts.iter().find(|text| text.name == name)?;
                let lines = text.lines.trim_end();
                Some(format!("{}:\n\n```text\n{lines}\n```\n", origin(evidence)))
            })
        })
        .or_else(|| {
            each(all, |evidence| {
                let picture = evidence.pictures.iter().find(|picture| picture.file == name)?;
                let (title, processor) = (&picture.title, &evidence.processor);
                Some(format!("![{title}, {}]({docs}figures/{}/{name})\n", processor.name(), processor.slug()))
            })
        });
    let shown =
        shown.unwrap_or_else(|| format!("Not measured at a clean commit yet: run `{}`.\n", kind.command));
    format!("\n{shown}\n")
}

/// The texts that the data give for a place, one below the other; `None` if there are none.
fn each(all: &[&Evidence], show: impl Fn(&Evidence) -> Option<String>) -> Option<String> {
    let shown: Vec<String> = all.iter().filter_map(|evidence| show(evidence)).collect();
    (!shown.is_empty()).then(|| shown.join("\n"))
}

/// Processor, commit and runs.
fn origin(evidence: &Evidence) -> String {
    let runs = evidence.runs.map_or_else(String::new, |runs| format!(", {runs} {}", evidence.runs_are));
    format!("{}, commit {}{runs}", evidence.processor.name(), evidence.commit)
}

/// The tables with this name: side by side, or each under its processor's name.
fn tables(kind: &Kind, name: &str, all: &[&Evidence]) -> Option<String> {
    let of = |evidence: &Evidence| evidence.exhibits.sheets.iter().find(|sheet| sheet.name == name).cloned();
    let found: Vec<(&Evidence, PageTable)> =
        all.iter().filter_map(|&evidence| Some((evidence, of(evidence)?))).collect();
    let keys = found.first()?.1.keys;
    let missing =
        EXPECTED.iter().filter(|(_, slug)| found.iter().all(|(of, _)| of.processor.slug() != *slug));
    let missing: Vec<&str> = missing.map(|(name, _)| *name).collect();
    if keys > 0 {
        let table = side_by_side(&found, keys, &missing).markdown();
        if name == RUN {
            return Some(table);
        }
        let origins: Vec<String> = found.iter().map(|(evidence, _)| origin(evidence)).collect();
        return Some(format!("{table}\n*{}. Repeat with `{}`.*\n", origins.join("; "), kind.command));
    }
    let mut parts: Vec<String> = missing.iter().map(|name| format!("**{name}**: not measured.\n")).collect();
    parts.extend(
        found
            .iter()
            .map(|(evidence, sheet)| format!("**{}**\n\n{}", evidence.processor.name(), sheet.markdown())),
    );
    Some(parts.join("\n"))
}

/// The table that says where and how a run measured.
const RUN: &str = "run";

/// Joins several tables: first the key columns, then the other columns of each processor.
fn side_by_side(found: &[(&Evidence, PageTable)], keys: usize, missing: &[&str]) -> PageTable {
    let mut abouts: Vec<&[String]> = Vec::new();
    for row in found.iter().flat_map(|(_, sheet)| &sheet.rows) {
        let about = row.get(..keys).unwrap_or(row);
        if !abouts.contains(&about) {
            abouts.push(about);
        }
    }
    let mut heads: Vec<String> =
        found.first().map_or_else(Vec::new, |(_, sheet)| sheet.heads[..keys].to_vec());
    let mut rows: Vec<Vec<String>> = abouts.iter().map(|about| about.to_vec()).collect();
    for (name, _) in EXPECTED.iter().filter(|(name, _)| missing.contains(name)) {
        heads.push((*name).to_owned());
        for row in &mut rows {
            row.push("not measured".to_owned());
        }
    }
    for (evidence, sheet) in found {
        let name = evidence.processor.name();
        let columns = &sheet.heads[keys..];
        heads.extend(columns.iter().map(|head| match head.as_str() {
            "" => name.clone(),
            head => format!("{head}, {name}"),
        }));
        for (row, about) in rows.iter_mut().zip(&abouts) {
            let there = sheet.rows.iter().find(|row| row.get(..keys) == Some(*about));
            let cell = |place| there.and_then(|row| row.get(keys + place)).map_or("–", String::as_str);
            row.extend((0..columns.len()).map(|place| cell(place).to_owned()));
        }
    }
    PageTable { name: String::new(), heads, rows, keys }
}
