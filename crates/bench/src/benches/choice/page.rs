//! Tables and charts of `docs/choosing.md`.

use super::BATCH;
use crate::bench_run::BenchRun;
use crate::row::{Case, Metric, Row, SelectRows, distinct};
use crate::sheet::{Sheet, chart};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::Scale;

/// Adds the table, conclusions and charts.
pub fn show(bench: &mut BenchRun<'_>) {
    let rows = bench.rows().to_vec();
    let of = |case: &Case, metric: Metric, batch: Option<usize>| {
        rows.iter().metric(metric).find(|row| row.case == case.clone().batch(batch))
    };
    let text = |case: &Case, metric: Metric, batch: Option<usize>| {
        let unit = if metric.is_rate() { 1e6 } else { 1.0 };
        of(case, metric, batch).map(|row| digits(row.median / unit)).unwrap_or_default()
    };
    let cases = rows.iter().metric(Metric::BitsPerKey).map(|row| &row.case);
    let sheet = Sheet::new("choice", cases)
        .column("flows", |of| short_count(of.keys))
        .column("nodes", |of| of.nodes.map_or_else(|| "any".to_owned(), |nodes| nodes.to_string()))
        .column("structure", |of| of.structure.clone())
        .column("bits a flow", |of| text(of, Metric::BitsPerKey, None))
        .column("lookups M/s", |of| text(of, Metric::LookupRate, Some(BATCH)))
        .column("changes M/s, one at a time", |of| text(of, Metric::UpdateRate, Some(1)))
        .column("1,024 at a time", |of| text(of, Metric::UpdateRate, Some(1024)))
        .column("delta, bytes a change", |case| {
            of(case, Metric::DeltaBytes, Some(1024)).map_or_else(|| "–".to_owned(), |row| digits(row.median))
        })
        .column("build M/s", |of| text(of, Metric::BuildRate, None))
        .column("at the owner, bytes a flow", |of| text(of, Metric::ControlBytes, None));
    bench.add_table(sheet);
    for (name, sentence) in conclusions(&rows) {
        bench.add_conclusion(name, sentence);
    }
    for (name, title, metric, batch) in [
        ("choice-lookup", "Lookups of one core, 64 a call", Metric::LookupRate, BATCH),
        ("choice-update", "Changes of one core, 1,024 at a time", Metric::UpdateRate, 1024),
    ] {
        // Rows with a variant are limits of the machine.
        let rows = rows.iter().metric(metric);
        let rows = rows.filter(|row| row.case.batch == Some(batch) && row.case.variant.is_none());
        let points = rows.map(|row| {
            let nodes = row.case.nodes.map(|nodes| format!(", {nodes} nodes")).unwrap_or_default();
            (format!("{}{nodes}", row.case.structure), row.point(row.case.keys as f64, 1e6))
        });
        let (x, y) = (("flows", Scale::Decades), ("million a second", Scale::Decades));
        bench.add_chart(chart(name, title, x, y, points));
    }
}

/// From this many flows on, the partitions and blocks of a table are full.
const LARGE: u64 = 1_000_000;

/// Sentences with the numbers of the rows; unmeasured ones are left out.
fn conclusions(rows: &[Row]) -> Vec<(&'static str, String)> {
    let over = |metric, batch, of: &str| ratios(rows, metric, batch, of);
    let large = |metric, of: &str| {
        range(over(metric, None, of).iter().filter(|(keys, _)| *keys >= LARGE).map(|(_, ratio)| *ratio))
    };
    let values = |structure: &str, metric, batch| {
        let of = rows.iter().structure(structure).metric(metric);
        range(of.filter(|row| row.case.batch == batch && row.case.keys >= LARGE).map(|row| row.median))
    };
    let by_size = |metric, batch| {
        let ratios = over(metric, Some(batch), "othello");
        let of_size = |size: u64| {
            let of = range(ratios.iter().filter(|(keys, _)| *keys == size).map(|(_, ratio)| *ratio))?;
            Some(format!("{of} times at {} flows", short_count(size)))
        };
        let sizes = distinct(ratios.iter().map(|(keys, _)| *keys));
        sizes.into_iter().filter_map(of_size).collect::<Vec<_>>().join(", ")
    };
    let some = |text: String| (!text.is_empty()).then_some(text);
    let memory = large(Metric::BitsPerKey, "othello").zip(large(Metric::BitsPerKey, "full-copy"));
    let memory = memory.map(|(othello, copy)| {
        format!(
            "From a million flows on SetSep takes {othello} times Othello's bits a flow, and {copy} times those of a full copy."
        )
    });
    let lookups = some(by_size(Metric::LookupRate, BATCH))
        .map(|by_size| format!("Lookups a second, SetSep over Othello: {by_size}."));
    let changes = some(by_size(Metric::UpdateRate, 1)).map(|single| {
        let many = by_size(Metric::UpdateRate, 1024);
        format!("Changes a second, SetSep over Othello: one at a time {single}; 1,024 at a time {many}.")
    });
    let deltas = |structure| values(structure, Metric::DeltaBytes, Some(1024));
    let deltas = deltas("setsep").zip(deltas("othello")).map(|(ours, theirs)| {
        format!("From a million flows on a change sends {ours} bytes with SetSep and {theirs} with Othello.")
    });
    let owner = |structure| values(structure, Metric::ControlBytes, None);
    let building = large(Metric::BuildRate, "othello").zip(owner("setsep")).zip(owner("othello"));
    let building = building.map(|((build, ours), theirs)| {
        format!(
            "From a million flows on SetSep builds {build} times as fast as Othello; its owner holds {ours} bytes a flow, \
             Othello's {theirs}."
        )
    });
    let said = [
        ("choice-memory", memory),
        ("choice-lookups", lookups),
        ("choice-changes", changes),
        ("choice-deltas", deltas),
        ("choice-building", building),
    ];
    said.into_iter().filter_map(|(name, sentence)| Some((name, sentence?))).collect()
}

/// Number of flows and ratio of SetSep to another structure for the same flows and nodes. A full copy matches
/// any nodes.
fn ratios(rows: &[Row], metric: Metric, batch: Option<usize>, of: &str) -> Vec<(u64, f64)> {
    let found = |structure| {
        rows.iter().metric(metric).structure(structure).filter(move |row| row.case.batch == batch)
    };
    let ours = found("setsep").filter_map(|ours| {
        let is_same = |row: &&Row| row.case.nodes.is_none() || row.case.nodes == ours.case.nodes;
        let theirs = found(of).keys(ours.case.keys).find(is_same)?;
        Some((ours.case.keys, ours.median / theirs.median))
    });
    ours.collect()
}

/// The range of some figures.
fn range(figures: impl Iterator<Item = f64>) -> Option<String> {
    let figures: Vec<f64> = figures.filter(|figure| figure.is_finite()).collect();
    let least = digits(figures.iter().copied().reduce(f64::min)?);
    let most = digits(figures.iter().copied().reduce(f64::max)?);
    Some(if least == most { least } else { format!("{least} to {most}") })
}

/// A number with three digits or fewer after rounding.
fn digits(number: f64) -> String {
    if number < 9.95 { format!("{number:.2}") } else { format!("{number:.0}") }
}

#[cfg(test)]
mod tests {

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
