//! Tables and charts of `docs/choosing.md`.

use crate::row::{Case, Metric, Row};
use crate::session::Session;
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};

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

/// Adds the table, conclusions and charts.
pub fn show(session: &mut Session<'_>) {
    let rows = session.rows().to_vec();
    let mut sheet = PageTable::new("choice", &HEADS);
    let mut cases: Vec<&Case> = Vec::new();
    for row in rows.iter().filter(|row| row.metric == Metric::BitsPerKey) {
        cases.push(&row.case);
    }
    for case in cases {
        let of = |metric, batch| of(&rows, case, metric, batch);
        let rate = |row: Option<&Row>| row.map_or_else(String::new, |row| digits(row.median / 1e6));
        sheet.rows.push(vec![
            short_count(case.keys),
            case.nodes.map_or_else(|| "any".to_owned(), |nodes| nodes.to_string()),
            case.structure.clone(),
            of(Metric::BitsPerKey, None).map_or_else(String::new, |row| digits(row.median)),
            rate(of(Metric::LookupRate, Some(super::candidate::BATCH))),
            rate(of(Metric::UpdateRate, Some(1))),
            rate(of(Metric::UpdateRate, Some(1024))),
            of(Metric::DeltaBytes, Some(1024)).map_or_else(|| "–".to_owned(), |row| digits(row.median)),
            rate(of(Metric::BuildRate, None)),
            of(Metric::ControlBytes, None).map_or_else(String::new, |row| digits(row.median)),
        ]);
    }
    session.add_table(sheet);
    for (name, sentence) in conclusions(&rows) {
        session.add_conclusion(name, sentence);
    }
    for (name, title, metric, batch) in [
        ("choice-lookup", "Lookups of one core, 64 a call", Metric::LookupRate, super::candidate::BATCH),
        ("choice-update", "Changes of one core, 1,024 at a time", Metric::UpdateRate, 1024),
    ] {
        let mut chart =
            Chart::new(name, title, ("flows", Scale::Decades), ("million a second", Scale::Decades));
        chart.series = series(&rows, metric, batch);
        session.add_chart(chart);
    }
}

/// From this many flows on, the partitions and blocks of a table are full.
const LARGE: u64 = 1_000_000;

/// Sentences with the numbers of the rows; unmeasured ones are left out.
fn conclusions(rows: &[Row]) -> Vec<(&'static str, String)> {
    let batch = super::candidate::BATCH;
    let over = |metric, batch, of: &str| ratios(rows, metric, batch, of);
    let large = |ratios: Vec<(u64, f64)>| {
        range(ratios.iter().filter(|(keys, _)| *keys >= LARGE).map(|(_, ratio)| *ratio))
    };
    let values = |structure: &str, metric, batch| {
        let of = rows.iter().filter(|row| row.case.structure == structure && row.metric == metric);
        range(of.filter(|row| row.case.batch == batch && row.case.keys >= LARGE).map(|row| row.median))
    };
    let mut said = Vec::new();
    if let (Some(othello), Some(copy)) =
        (large(over(Metric::BitsPerKey, None, "othello")), large(over(Metric::BitsPerKey, None, "full-copy")))
    {
        said.push((
            "choice-memory",
            format!(
                "From a million flows on SetSep takes {othello} times Othello's bits a flow, and {copy} times those of a full copy."
            ),
        ));
    }
    let by_size = |metric, batch| {
        let ratios = over(metric, batch, "othello");
        let mut sizes: Vec<u64> = ratios.iter().map(|(keys, _)| *keys).collect();
        sizes.dedup();
        let told = sizes.iter().filter_map(|size| {
            let of = range(ratios.iter().filter(|(keys, _)| keys == size).map(|(_, ratio)| *ratio))?;
            Some(format!("{of} times at {} flows", short_count(*size)))
        });
        told.collect::<Vec<_>>().join(", ")
    };
    let lookups = by_size(Metric::LookupRate, Some(batch));
    if !lookups.is_empty() {
        said.push(("choice-lookups", format!("Lookups a second, SetSep over Othello: {lookups}.")));
    }
    let (single, many) = (by_size(Metric::UpdateRate, Some(1)), by_size(Metric::UpdateRate, Some(1024)));
    if !single.is_empty() {
        let sentence =
            format!("Changes a second, SetSep over Othello: one at a time {single}; 1,024 at a time {many}.");
        said.push(("choice-changes", sentence));
    }
    let deltas = |structure| values(structure, Metric::DeltaBytes, Some(1024));
    if let (Some(ours), Some(theirs)) = (deltas("setsep"), deltas("othello")) {
        said.push((
            "choice-deltas",
            format!(
                "From a million flows on a change sends {ours} bytes with SetSep and {theirs} with Othello."
            ),
        ));
    }
    let owner = |structure| values(structure, Metric::ControlBytes, None);
    if let (Some(build), Some(ours), Some(theirs)) =
        (large(over(Metric::BuildRate, None, "othello")), owner("setsep"), owner("othello"))
    {
        said.push((
            "choice-building",
            format!(
                "From a million flows on SetSep builds {build} times as fast as Othello; its owner holds {ours} bytes a flow, \
                 Othello's {theirs}."
            ),
        ));
    }
    said
}

/// Number of flows and ratio of SetSep to another structure for the same flows and nodes. A full copy matches
/// any nodes.
fn ratios(rows: &[Row], metric: Metric, batch: Option<usize>, of: &str) -> Vec<(u64, f64)> {
    let found = |structure: &str| {
        let structure = structure.to_owned();
        rows.iter().filter(move |row| {
            row.metric == metric && row.case.batch == batch && row.case.structure == structure
        })
    };
    let ours = found("setsep").filter_map(|ours| {
        let is_same = |row: &&Row| {
            let nodes = row.case.nodes;
            row.case.keys == ours.case.keys && (nodes.is_none() || nodes == ours.case.nodes)
        };
        found(of).find(is_same).map(|theirs| (ours.case.keys, ours.median / theirs.median))
    });
    ours.collect()
}

/// The range of some figures.
fn range(figures: impl Iterator<Item = f64>) -> Option<String> {
    let figures: Vec<f64> = figures.filter(|figure| figure.is_finite()).collect();
    let least = figures.iter().copied().reduce(f64::min)?;
    let most = figures.iter().copied().reduce(f64::max)?;
    let (least, most) = (digits(least), digits(most));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

fn of<'a>(rows: &'a [Row], case: &Case, metric: Metric, batch: Option<usize>) -> Option<&'a Row> {
    rows.iter().find(|row| row.metric == metric && row.case == case.clone().batch(batch))
}

fn series(rows: &[Row], metric: Metric, batch: usize) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| row.metric == metric && row.case.batch == Some(batch)) {
        if row.case.variant.is_some() {
            continue; // the machine's limit
        }
        let nodes = row.case.nodes.map(|nodes| format!(", {nodes} nodes")).unwrap_or_default();
        let name = format!("{}{nodes}", row.case.structure);
        let point = Point::measured(row.case.keys as f64, row.summary(), 1e6);
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series::new(name, Mark::Dotted, all.len(), vec![point])),
        }
    }
    all
}

/// A number with three digits or fewer after rounding.
fn digits(number: f64) -> String {
    if number < 9.95 { format!("{number:.2}") } else { format!("{number:.0}") }
}

#[cfg(test)]
mod tests {
    use super::super::candidate::BATCH;
    use super::*;
    use scalebricks_report::stats::Summary;

    fn row(structure: &str, keys: u64, metric: Metric, batch: Option<usize>, figure: f64) -> Row {
        let nodes = (structure != "full-copy").then_some(4);
        let case = Case { structure: structure.to_owned(), keys, batch, nodes, ..Case::default() };
        Row::new(case, metric, Summary::exact(figure))
    }

    #[test]
    fn conclusions_are_made_from_rows() {
        let bits = |structure, keys, bits| row(structure, keys, Metric::BitsPerKey, None, bits);
        let rate = |structure, keys, rate| row(structure, keys, Metric::LookupRate, Some(BATCH), rate);
        let rows = [
            bits("setsep", 1_000, 90.0),
            bits("setsep", 1_000_000, 2.0),
            bits("othello", 1_000_000, 2.5),
            bits("full-copy", 1_000_000, 200.0),
            rate("setsep", 1_000, 3e6),
            rate("othello", 1_000, 4e6),
            rate("setsep", 1_000_000, 3e6),
            rate("othello", 1_000_000, 2e6),
        ];
        let said = conclusions(&rows);
        let want = [
            (
                "choice-memory",
                "From a million flows on SetSep takes 0.80 times Othello's bits a flow, and 0.01 times those of a full copy.",
            ),
            (
                "choice-lookups",
                "Lookups a second, SetSep over Othello: 0.75 times at 1 k flows, 1.50 times at 1 M flows.",
            ),
        ];
        assert_eq!(said.len(), want.len(), "{said:?}");
        for ((name, sentence), (want_name, want)) in said.iter().zip(want) {
            assert_eq!((*name, sentence.as_str()), (want_name, want));
        }
        assert!(conclusions(&[]).is_empty());
    }
}
