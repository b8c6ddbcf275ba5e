//! Rows as a table for the terminal.

use crate::row::{Metric, Row};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use scalebricks_console::quantity::{bytes, short_count};

/// A column: its head, and its text for a row.
pub type Column = (&'static str, fn(&Row) -> Option<String>);

/// Columns that describe the case. Columns that are empty for all rows are left out.
const COLUMNS: [Column; 10] = [
    ("structure", |row| Some(row.case.structure.clone())),
    ("format", |row| row.case.format.map(str::to_owned)),
    ("variant", |row| row.case.variant.clone()),
    ("keys", |row| Some(short_count(row.case.keys))),
    ("bits", |row| row.case.value_bits.map(|bits| bits.to_string())),
    ("threads", |row| row.case.threads.map(|threads| marked(threads, row.mark))),
    ("batch", |row| row.case.batch.map(|batch| batch.to_string())),
    ("nodes", |row| row.case.nodes.map(|nodes| nodes.to_string())),
    ("callers", |row| row.case.callers.map(|callers| callers.to_string())),
    ("load", |row| row.case.load.map(|load| format!("{load:.2}"))),
];

/// The column with the table size, which is measured and not part of the case.
const BYTES: Option<Column> = Some(("table", |row| row.case.table_bytes.map(bytes)));

/// The columns that describe these rows.
pub fn columns(rows: &[&Row]) -> Vec<Column> {
    COLUMNS.into_iter().filter(|(_, of)| rows.iter().any(|row| of(row).is_some())).collect()
}

/// The rows of one benchmark as text, without a final newline.
pub fn render(bench: &str, rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    let mut columns = columns(&rows.iter().collect::<Vec<_>>());
    columns.extend(BYTES.filter(|(_, of)| rows.iter().any(|row| of(row).is_some())));
    let heads = columns.iter().map(|(head, _)| *head).chain(["metric", "median", "least to most"]);
    table.set_header(heads);
    for row in rows {
        let cells = columns.iter().enumerate().map(|(place, (_, of))| {
            let cell = Cell::new(of(row).unwrap_or_default());
            if place < 3 { cell } else { cell.set_alignment(CellAlignment::Right) }
        });
        let spread = if row.runs > 1 {
            format!("{} to {}", figure(row, row.min), figure(row, row.max))
        } else {
            String::new()
        };
        let tail = [
            Cell::new(row.metric.name()),
            Cell::new(figure(row, row.median)).set_alignment(CellAlignment::Right),
            Cell::new(spread).set_alignment(CellAlignment::Right),
        ];
        table.add_row(cells.chain(tail));
    }
    format!("{bench}\n{table}")
}

/// The number of threads, with the mark if they did not have a core each.
fn marked(threads: usize, mark: Option<&str>) -> String {
    mark.map_or_else(|| threads.to_string(), |mark| format!("{threads}, {mark}"))
}

/// A figure with its unit.
pub fn figure(row: &Row, figure: f64) -> String {
    match row.metric {
        Metric::BitsPerKey => format!("{figure:.3}"),
        Metric::FallbackKeys
        | Metric::MaxGroupLoad
        | Metric::AmbiguousNames
        | Metric::Reseeded
        | Metric::NodeFlows
        | Metric::Instructions => format!("{figure:.0}"),
        Metric::Loss => format!("{figure:.1} %"),
        Metric::ShareOfLimit | Metric::HugePages | Metric::LinksPerPacket | Metric::Comparisons => {
            format!("{figure:.2}")
        }
        Metric::PacketLoss => format!("{:.3} %", figure * 100.0),
        Metric::AlienShare | Metric::ReseedShare => format!("{figure:.2e}"),
        Metric::DeltaEntropy => format!("{figure:.1} bits"),
        Metric::Iterations | Metric::CacheLines => format!("{figure:.1}"),
        Metric::ListedShare | Metric::FirstHit => format!("{:.2} %", figure * 100.0),
        Metric::FalsePositives | Metric::FalselyMatched => format!("{:.4} %", figure * 100.0),
        Metric::Flows | Metric::MemoryBytes => rate(figure),
        Metric::PacketTime
        | Metric::PortTime
        | Metric::PollTime
        | Metric::BusyTime
        | Metric::WorkTime
        | Metric::NameTime
        | Metric::ReseedTime => format!("{figure:.1} ns"),
        Metric::BitRate => format!("{:.2} Gb/s", figure / 1e9),
        Metric::Bandwidth => format!("{:.2} GB/s", figure / 1e9),
        Metric::ClockRate => format!("{:.2} GHz", figure / 1e9),
        Metric::DetectionTime | Metric::RepinTime | Metric::RecoveryTime | Metric::JoinTime => {
            format!("{:.0} ms", figure / 1e6)
        }
        Metric::LoadTime => format!("{:.1} ms", figure / 1e6),
        Metric::DeltaBytes | Metric::ControlBytes => format!("{figure:.1} bytes"),
        Metric::LatencyMean
        | Metric::LatencyP50
        | Metric::LatencyP99
        | Metric::LatencyP999
        | Metric::LatencyMax => {
            if figure < 1e4 {
                format!("{figure:.0} ns")
            } else {
                format!("{:.1} µs", figure / 1e3)
            }
        }
        Metric::Ratio => format!("{figure:.2} x"),
        Metric::BuildRate
        | Metric::LookupRate
        | Metric::UpdateRate
        | Metric::InsertRate
        | Metric::DeleteRate
        | Metric::PacketRate
        | Metric::FsyncRate => format!("{}/s", rate(figure)),
    }
}

/// A rate with at most four digits: `123 M`, `1.23 k`.
#[expect(clippy::cast_sign_loss, reason = "a rate is not negative")]
pub(crate) fn rate(figure: f64) -> String {
    short_count(figure.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Case;
    use scalebricks_report::stats::Summary;

    #[test]
    fn columns_without_content_are_left_out() {
        let case = Case { structure: "sux".to_owned(), keys: 2_000_000, ..Case::default() };
        let rows = [
            Row::new(case.clone(), Metric::LookupRate, Summary::of(&[1.5e8, 1.4e8, 1.6e8])),
            Row::new(case, Metric::BitsPerKey, Summary::exact(3.5)),
        ];
        let text = render("setsep-lookup", &rows);
        for want in ["sux", "2 M", "150 M/s", "140 M/s to 160 M/s", "3.500", "bits_per_key"] {
            assert!(text.contains(want), "{want} is missing in\n{text}");
        }
        assert!(!text.contains("load") && !text.contains("batch"), "{text}");
    }
}
