//! Rows as tables of `docs/measured.md` and `README.md`: all rows of a benchmark, and the headline.

use super::goals::goals;
use crate::limit;
use crate::report::Report;
use crate::row::{Metric, Row};
use crate::table::{self, figure};
use scalebricks_console::quantity::{count, short_count};
use scalebricks_report::exhibit::PageTable;
use scalebricks_report::pages::Evidence;
use scalebricks_tables::setsep::Format;

/// Value bits of the headline: a cluster of four nodes.
const VALUE_BITS: u8 = 2;

/// Suffix of update variants that change no table.
pub(super) const OWNER_ALONE: &str = "owner alone";

/// Suffix of update variants that change the owner's own table.
pub(super) const OWN_TABLE: &str = ", own table";

/// Keys per call in the headline. Nodes look up 32 or 64 at once; callers with many keys use more.
const BATCHES: [usize; 3] = [32, 64, 1024];

/// What pages show of benchmarks without their own charts: a table of all rows for each, the headline, and our goals.
///
/// # Errors
/// A description of what is wrong with the text.
pub fn evidence(json: &str) -> Result<Evidence, String> {
    let mut evidence = Report::evidence(json)?;
    let report: Report = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let rows = &report.rows;
    let mut benches: Vec<&str> = rows.iter().map(|row| row.case.bench).collect();
    benches.dedup();
    let of = |bench: &str| rows.iter().filter(|row| row.case.bench == bench).collect::<Vec<_>>();
    evidence.exhibits.sheets.extend(benches.iter().map(|bench| whole(bench, &of(bench))));
    let headline = headline(rows);
    if !headline.rows.is_empty() {
        evidence.exhibits.sheets.push(headline);
    }
    let goals = goals(rows);
    if !goals.rows.is_empty() {
        evidence.exhibits.sheets.push(goals);
    }
    Ok(evidence)
}

/// All rows of a benchmark: one line per case, one column per metric.
fn whole(bench: &str, rows: &[&Row]) -> PageTable {
    let columns = table::columns(rows);
    let mut metrics: Vec<Metric> = Vec::new();
    for row in rows {
        if !metrics.contains(&row.metric) {
            metrics.push(row.metric);
        }
    }
    let mut sheet = PageTable::new(bench, &[]).side_by_side(columns.len());
    sheet.heads = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    sheet.heads.extend(metrics.iter().map(|metric| metric.name().replace('_', " ")));
    for row in rows {
        let about: Vec<String> = columns.iter().map(|(_, of)| of(row).unwrap_or_default()).collect();
        let known = sheet.rows.iter().position(|known| known[..about.len()] == about[..]);
        let place = known.unwrap_or_else(|| {
            let empty = std::iter::repeat_n(String::new(), metrics.len());
            sheet.rows.push(about.iter().cloned().chain(empty).collect());
            sheet.rows.len() - 1
        });
        if let Some(metric) = metrics.iter().position(|metric| *metric == row.metric) {
            sheet.rows[place][about.len() + metric] = with_spread(row);
        }
    }
    sheet
}

/// The median, with minimum and maximum for several runs.
fn with_spread(row: &Row) -> String {
    let median = figure(row, row.median);
    if row.runs < 2 {
        return median;
    }
    format!("{median} ({} to {})", figure(row, row.min), figure(row, row.max))
}

/// SetSep in its default format: its speed, its share of the machine's limit, and the closest static
/// structure.
fn headline(rows: &[Row]) -> PageTable {
    let heads = ["", "SetSep", "of the machine's limit", "ptr_hash with a packed array"];
    let mut sheet = PageTable::new("headline", &heads).side_by_side(1);
    let mut sizes: Vec<u64> = Vec::new();
    for row in rows.iter().filter(|row| row.case.bench == "setsep-lookup") {
        if !sizes.contains(&row.case.keys) {
            sizes.push(row.case.keys);
        }
    }
    for &keys in &sizes {
        for batch in BATCHES {
            let lookup = |structure, batch| {
                best(
                    rows,
                    &Asked { bench: "setsep-lookup", metric: Metric::LookupRate, structure, keys, batch },
                )
            };
            // A static table without calls of this size uses its preferred way.
            let other = lookup("ptr_hash", Some(batch)).or_else(|| lookup("ptr_hash", None));
            let what = format!("lookup, {} keys, {} a call", short_count(keys), count(batch as u64));
            push(&mut sheet, what, rows, lookup("setsep", Some(batch)), other);
        }
    }
    for &keys in &sizes {
        let build = |structure| {
            best(
                rows,
                &Asked { bench: "setsep-build", metric: Metric::BuildRate, structure, keys, batch: None },
            )
        };
        let what = format!("build, {} keys, one thread", short_count(keys));
        push(&mut sheet, what, rows, build("setsep"), build("ptr_hash"));
    }
    for &keys in &sizes {
        for batch in [1, 1 << 16] {
            let change = Asked {
                bench: "setsep-update",
                metric: Metric::UpdateRate,
                structure: "setsep",
                keys,
                batch: Some(batch),
            };
            let what =
                format!("change of a value, {} keys, {} at a time", short_count(keys), count(batch as u64));
            push(&mut sheet, what, rows, best(rows, &change), None);
        }
    }
    sheet
}

/// What a line of the headline compares.
struct Asked<'a> {
    bench: &'a str,
    metric: Metric,
    structure: &'a str,
    keys: u64,
    batch: Option<usize>,
}

/// The fastest row among several ways; for SetSep in its default format. Limits of the machine and updates at
/// an owner without a table do not count.
fn best<'a>(rows: &'a [Row], asked: &Asked<'_>) -> Option<&'a Row> {
    let found = rows.iter().filter(|row| {
        let case = &row.case;
        let is_alone = case.variant_text().ends_with(OWNER_ALONE);
        let format = (asked.structure == "setsep").then(|| Format::default().name());
        (case.bench, row.metric, case.keys) == (asked.bench, asked.metric, asked.keys)
            && (case.structure.as_str(), case.batch, case.format) == (asked.structure, asked.batch, format)
            && (case.value_bits, case.threads) == (Some(VALUE_BITS), Some(1))
            && !limit::is_limit(case)
            && !is_alone
    });
    found.max_by(|a, b| a.median.total_cmp(&b.median))
}

/// Adds a line if our row was measured.
fn push(sheet: &mut PageTable, what: String, rows: &[Row], ours: Option<&Row>, theirs: Option<&Row>) {
    let Some(ours) = ours else { return };
    let cell = |row: Option<&Row>| row.map_or_else(|| "–".to_owned(), with_spread);
    sheet.rows.push(vec![what, with_spread(ours), cell(limit::share_of(rows, ours)), cell(theirs)]);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::tests::sample;
    use crate::row::Case;
    use scalebricks_console::output;
    use scalebricks_report::stats::Summary;

    pub(in crate::figures) fn row(
        bench: &'static str,
        structure: &str,
        batch: Option<usize>,
        metric: Metric,
        rate: f64,
    ) -> Row {
        let case = Case {
            bench,
            structure: structure.to_owned(),
            format: (structure == "setsep").then_some("linear"),
            keys: 16_000_000,
            value_bits: Some(2),
            threads: Some(1),
            batch,
            ..Case::default()
        };
        Row::new(case, metric, Summary::of(&[rate, 0.9 * rate, 1.1 * rate]))
    }

    #[test]
    fn the_headline_begins_with_the_calls_that_nodes_make() {
        let mut limit = row("setsep-lookup", "setsep", Some(32), Metric::LookupRate, 9e8);
        limit.case.variant = Some(format!("portable, {}", limit::LIMIT));
        let rows = vec![
            limit,
            row("setsep-lookup", "setsep", Some(32), Metric::ShareOfLimit, 0.5),
            row("setsep-lookup", "setsep", Some(1024), Metric::LookupRate, 4e8),
            row("setsep-lookup", "setsep", Some(32), Metric::LookupRate, 2e8),
            row("setsep-lookup", "ptr_hash", None, Metric::LookupRate, 1e8),
            row("setsep-build", "setsep", None, Metric::BuildRate, 1e8),
        ];
        let sheet = headline(&rows);
        let told: Vec<&str> = sheet.rows.iter().map(|row| row[0].as_str()).collect();
        let want = [
            "lookup, 16 M keys, 32 a call",
            "lookup, 16 M keys, 1,024 a call",
            "build, 16 M keys, one thread",
        ];
        assert_eq!(told, want);
        assert_eq!(sheet.rows[0][1], "200 M/s (180 M/s to 220 M/s)");
        assert_eq!(sheet.rows[0][2..], ["0.50 (0.45 to 0.55)", "100 M/s (90 M/s to 110 M/s)"]);
        assert_eq!(sheet.rows[2][2..], ["–", "–"]);
    }

    #[test]
    fn each_subject_has_a_row_and_each_metric_a_column() {
        let rows = vec![
            row("fib", "cuckoo", Some(32), Metric::LookupRate, 2e6),
            row("fib", "cuckoo", Some(64), Metric::LookupRate, 3e6),
            row("fib", "cuckoo", Some(64), Metric::InsertRate, 1e6),
        ];
        let json = output::json(&Report { rows, ..sample("c") }).unwrap();
        let evidence = evidence(&json).unwrap();
        let sheet = evidence.exhibits.sheets.iter().find(|sheet| sheet.name == "fib").unwrap();
        assert_eq!(
            sheet.heads,
            ["structure", "keys", "bits", "threads", "batch", "lookup rate", "insert rate"]
        );
        assert_eq!((sheet.rows.len(), sheet.keys), (2, 5));
        assert_eq!(sheet.rows[1][5..], ["3 M/s (2.70 M/s to 3.30 M/s)", "1 M/s (900 k/s to 1.10 M/s)"]);
        assert_eq!(sheet.rows[0][6], "");
    }
}
