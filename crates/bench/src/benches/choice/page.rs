//! The rows as the table and the pictures of `docs/choosing.md`.

use crate::figures::exhibit::{Chart, Mark, Point, Scale, Series, Sheet};
use crate::row::{Metric, Row, Subject};
use crate::session::Session;
use scalebricks_console::quantity::short_count;

/// Heads of the table.
const HEADS: [&str; 10] = [
    "flows",
    "nodes",
    "structure",
    "bits a flow",
    "lookups M/s",
    "changes M/s, one at a time",
    "1,024 at a time",
    "delta, bytes a change",
    "build M/s",
    "at the owner, bytes a flow",
];

/// Keeps what is shown of the rows.
pub fn show(session: &mut Session<'_>) {
    let rows = session.rows().to_vec();
    let mut sheet = Sheet::new("choice", &HEADS);
    let mut subjects: Vec<&Subject> = Vec::new();
    for row in rows.iter().filter(|row| row.metric == Metric::BitsPerKey) {
        subjects.push(&row.subject);
    }
    for subject in subjects {
        let of = |metric, batch| of(&rows, subject, metric, batch);
        let rate = |row: Option<&Row>| row.map_or_else(String::new, |row| digits(row.median / 1e6));
        sheet.rows.push(vec![
            short_count(subject.keys),
            subject.nodes.map_or_else(|| "any".to_owned(), |nodes| nodes.to_string()),
            subject.structure.clone(),
            of(Metric::BitsPerKey, None).map_or_else(String::new, |row| digits(row.median)),
            rate(of(Metric::LookupRate, Some(super::candidate::BATCH))),
            rate(of(Metric::UpdateRate, Some(1))),
            rate(of(Metric::UpdateRate, Some(1024))),
            of(Metric::DeltaBytes, Some(1024)).map_or_else(|| "–".to_owned(), |row| digits(row.median)),
            rate(of(Metric::BuildRate, None)),
            of(Metric::ControlBytes, None).map_or_else(String::new, |row| digits(row.median)),
        ]);
    }
    session.tabulate(sheet);
    for (name, title, metric, batch) in [
        ("choice-lookup", "Lookups of one core, 256 a call", Metric::LookupRate, super::candidate::BATCH),
        ("choice-update", "Changes of one core, 1,024 at a time", Metric::UpdateRate, 1024),
    ] {
        let mut chart =
            Chart::new(name, title, ("flows", Scale::Decades), ("million a second", Scale::Decades));
        chart.series = series(&rows, metric, batch);
        session.show(chart);
    }
}

fn of<'a>(rows: &'a [Row], subject: &Subject, metric: Metric, batch: Option<usize>) -> Option<&'a Row> {
    rows.iter().find(|row| row.metric == metric && row.subject == Subject { batch, ..subject.clone() })
}

fn series(rows: &[Row], metric: Metric, batch: usize) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| row.metric == metric && row.subject.batch == Some(batch)) {
        if row.subject.variant.is_some() {
            continue; // the machine's limit
        }
        let nodes = row.subject.nodes.map(|nodes| format!(", {nodes} nodes")).unwrap_or_default();
        let name = format!("{}{nodes}", row.subject.structure);
        let point = Point {
            x: row.subject.keys as f64,
            y: row.median / 1e6,
            spread: Some((row.min / 1e6, row.max / 1e6)),
        };
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series::new(name, Mark::Dotted, all.len(), vec![point])),
        }
    }
    all
}

/// A number with as many digits as it is known to.
fn digits(number: f64) -> String {
    if number < 9.95 { format!("{number:.2}") } else { format!("{number:.0}") }
}
