//! The tables of the DHash paper beside ours, from the rows of its benchmark.

mod paper;
mod stack;

use super::router::millions;
use crate::bench_run::BenchRun;
use crate::dhash::{
    CHAINED, COUNTED, CUCKOO, DHASH, FILE_3, FOUND, HASHBROWN, LIBNIDS, MEMORY_PARTS, PACKETS_ALONE,
    PACKETS_OF_A_SESSION, PAPER_BUCKETS, SEARCH, WHOLE_TRACE,
};
use crate::row::{Metric, Row, SelectRows, distinct};
use crate::sheet::{Sheet, chart};
use paper::{FILES, FRAME_BYTES, IN_LISTS, MEMORY_MB, SEARCHES, SIGNATURES, STACK_MPPS, TABLE_MB};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{PageTable, Scale};

/// The most sessions in lists, in percent: at 1.0 M in 100,000 buckets, and at 1,048,576.
const MOST_IN_LISTS: [f64; 2] = [0.56, 0.82];

/// The fewest lookups that find their session at the first slot, in percent.
const LEAST_FIRST_HITS: f64 = 67.0;

/// The least rate of lookups, in units of that of the best other table.
const LEAST_RATIO: f64 = 1.2;

/// Adds all tables and charts of the rows from `first` on.
pub fn show(bench: &mut BenchRun<'_>, first: usize) {
    let rows = bench.rows()[first..].to_vec();
    let Some(sessions) = rows.iter().structure(PACKETS_ALONE).map(|row| row.case.keys).max() else { return };
    bench.add_table(goals(&rows, sessions));
    bench.add_table(table_2(&rows));
    bench.add_table(in_lists(&rows));
    bench.add_table(table_4(&rows));
    bench.add_table(table_5(&rows));
    bench.add_table(memory(&rows));
    bench.add_table(lookups(&rows, sessions));
    bench.add_table(chains(&rows));
    stack::show(bench, &rows);
    let points = rows.iter().metric(Metric::LookupRate).filter(|row| is_compared(row)).map(|row| {
        let times = scalebricks_report::stats::Summary {
            median: 1e9 / row.median,
            min: 1e9 / row.max,
            max: 1e9 / row.min,
            runs: row.runs,
        };
        (label(row, FOUND), scalebricks_report::exhibit::Point::measured(row.case.keys as f64, times, 1.0))
    });
    bench.add_chart(chart(
        "dhash-figure-4",
        "Time per lookup by sessions, one core, packets from memory",
        ("sessions", Scale::Doublings),
        ("ns per packet", Scale::Linear),
        points.collect::<Vec<_>>(),
    ));
    if let Some(said) = conclusion(&rows, sessions) {
        bench.add_conclusion("dhash-conclusion", said);
    }
}

/// Whether it is a row of the comparison of all tables.
fn is_compared(row: &Row) -> bool {
    row.case.format.is_none() && row.case.batch.is_some()
}

/// Whether a row is of a table that does what ours does, with records in no order.
fn is_rival(row: &Row) -> bool {
    let name = row.case.structure.as_str();
    is_compared(row)
        && name != DHASH
        && name != PACKETS_ALONE
        && !row.case.variant_text().contains("in order")
}

/// Structure and variant, without what is done.
fn label(row: &Row, what: &str) -> String {
    let note = row.case.variant_text().trim_start_matches(what).trim_start_matches(", ");
    // The number of buckets differs by the number of sessions.
    let kept: Vec<&str> =
        note.split(", ").filter(|part| !part.is_empty() && !part.ends_with("buckets")).collect();
    if kept.is_empty() {
        row.case.structure.clone()
    } else {
        format!("{}, {}", row.case.structure, kept.join(", "))
    }
}

/// The rows of this work with all sessions.
fn work<'r>(rows: &'r [Row], sessions: u64, what: &'static str) -> impl Iterator<Item = &'r Row> {
    let rate = |row: &&Row| matches!(row.metric, Metric::LookupRate | Metric::PacketRate);
    let is_it = move |row: &&Row| {
        let variant = row.case.variant_text();
        variant == what || variant.strip_prefix(what).is_some_and(|rest| rest.starts_with(", "))
    };
    rows.iter().filter(rate).filter(is_it).keys(sessions).filter(|row| is_compared(row))
}

fn ours<'r>(rows: &'r [Row], sessions: u64, what: &'static str) -> Option<&'r Row> {
    work(rows, sessions, what).find(|row| row.case.structure == DHASH)
}

/// The fastest other table.
fn best_rival<'r>(rows: &'r [Row], sessions: u64, what: &'static str) -> Option<&'r Row> {
    work(rows, sessions, what).filter(|row| is_rival(row)).max_by(|a, b| a.median.total_cmp(&b.median))
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

fn goals(rows: &[Row], sessions: u64) -> PageTable {
    let mut table = PageTable::new("dhash-goals", &["goal, one core", "reached", ""]);
    let mut add = |goal: String, reached: Option<(String, bool)>| {
        let cells = reached.map_or(["not measured".to_owned(), String::new()], |(reached, is_met)| {
            [reached, met(is_met).to_owned()]
        });
        table.rows.push([vec![goal], cells.to_vec()].concat());
    };
    for what in [FOUND, COUNTED] {
        let pair = ours(rows, sessions, what).zip(best_rival(rows, sessions, what));
        let reached = pair.map(|(ours, best)| {
            let ratio = ours.median / best.median;
            (format!("{ratio:.2} times {}", best.case.structure), ratio >= LEAST_RATIO)
        });
        let sessions = short_count(sessions);
        add(
            format!("{what}, {sessions} sessions: at least {LEAST_RATIO} times the best other table"),
            reached,
        );
    }
    let mut lists: Vec<&Row> = rows.iter().metric(Metric::ListedShare).collect();
    lists.sort_by_key(|row| row.case.keys);
    for (row, most) in lists.into_iter().zip(MOST_IN_LISTS) {
        let goal = format!("sessions in lists, {} of them: at most {most} %", row.case.keys);
        let share = row.median * 100.0;
        add(goal, Some((format!("{share:.3} %"), share <= most)));
    }
    let first = rows.iter().metric(Metric::FirstHit).map(|row| row.median * 100.0).reduce(f64::max);
    add(
        format!("found at the first slot: at least {LEAST_FIRST_HITS} %"),
        first.map(|share| (format!("{share:.1} %"), share >= LEAST_FIRST_HITS)),
    );
    let stack = stack::one_core(rows, sessions).map(|row| row.median / 1e6);
    let sessions = short_count(sessions);
    add(
        format!("parse, track and reassemble, {sessions} sessions: at least {} Mpps", stack::LEAST_MPPS),
        stack.map(|mpps| (format!("{mpps:.1} Mpps"), mpps >= stack::LEAST_MPPS)),
    );
    table
}

fn table_2(rows: &[Row]) -> PageTable {
    let files = distinct(rows.iter().structure(PACKETS_ALONE).map(|row| row.case.keys));
    let packets = |sessions: u64| sessions * PACKETS_OF_A_SESSION as u64;
    Sheet::new("dhash-table-2", FILES.into_iter().zip(files))
        .column("trace", |((name, ..), _)| *name)
        .column("packets", |(_, sessions)| packets(*sessions))
        .column("paper", |((_, packets, ..), _)| *packets)
        .column("sessions at most", |(_, sessions)| *sessions)
        .column("paper", |((_, _, most, _), _)| *most)
        .column("mean sessions", |(_, sessions)| sessions * 19 / 20)
        .column("paper", |((.., mean), _)| *mean)
        .column("bytes per packet", |_| FRAME_BYTES)
        .into()
}

fn in_lists(rows: &[Row]) -> PageTable {
    let mut lists: Vec<&Row> = rows.iter().metric(Metric::ListedShare).collect();
    lists.sort_by_key(|row| row.case.keys);
    let buckets = |row: &Row| row.case.keys as f64 / mean(row);
    Sheet::new("dhash-lists", lists)
        .column("sessions", |row| row.case.keys)
        .column("buckets", |row| format!("{:.0}", buckets(row)))
        .column("in lists, %", |row| row.spread(0.01, 3))
        .column("in lists", |row| format!("{:.0}", row.median * row.case.keys as f64))
        .column("ideal hash, %", |row| {
            format!("{:.3}", paper::ideal_in_lists(row.case.keys as f64, buckets(row)) * 100.0)
        })
        .column("paper", |row| if row.case.keys == 1_000_000 { IN_LISTS.to_string() } else { String::new() })
        .into()
}

/// Sessions per bucket of a row about lists, whose variant begins with the number of buckets.
fn mean(row: &Row) -> f64 {
    let buckets = row.case.variant_text().split(' ').next().and_then(|word| word.parse().ok());
    buckets.map_or(paper::MEAN_SESSIONS, |buckets: f64| row.case.keys as f64 / buckets)
}

fn table_4(rows: &[Row]) -> PageTable {
    let names = scalebricks_tables::dhash::Signature::ALL.map(scalebricks_tables::dhash::Signature::name);
    let of = |name: &str, metric, variant: &str| {
        let mut found = rows.iter().metric(metric).filter(|row| row.case.format == Some(name));
        found.find(|row| row.case.is_variant(variant))
    };
    let share = |name: &str, metric, variant: &str| {
        of(name, metric, variant).map_or_else(String::new, |row| format!("{:.4}", row.median * 100.0))
    };
    let [structured, random] = crate::dhash::IDS;
    let paper = |name: &str| SIGNATURES.iter().find(|one| one.1 == name);
    Sheet::new("dhash-table-4", names)
        .column("signature", |name| *name)
        .column("in the paper", |name| paper(name).map_or_else(String::new, |one| one.0.to_string()))
        .column("Mpps, 1 core", |name| millions(of(name, Metric::LookupRate, FOUND)))
        .column("false positives per lookup, %", |name| share(name, Metric::FalsePositives, structured))
        .column("sessions with one, %", |name| share(name, Metric::FalselyMatched, structured))
        .column("per lookup, random sessions, %", |name| share(name, Metric::FalsePositives, random))
        .column("ideal, %", |_| format!("{:.0e}", (paper::MEAN_SESSIONS - 1.0) / 2_f64.powi(32) * 100.0))
        .column("paper, %", |name| paper(name).map_or_else(String::new, |one| one.3.to_string()))
        .column("paper, Mpps, 7 cores", |name| paper(name).map_or_else(String::new, |one| one.2.to_string()))
        .into()
}

fn table_5(rows: &[Row]) -> PageTable {
    let of = |metric, variant: String| rows.iter().metric(metric).find(|row| row.case.is_variant(&variant));
    let number = |row: Option<&Row>, unit: f64, digits: usize| {
        row.map_or_else(String::new, |row| format!("{:.digits$}", row.median / unit))
    };
    let hits = |variant: &str| format!("{variant}, hits");
    Sheet::new("dhash-table-5", SEARCHES.iter())
        .column("search", |search| search.variant)
        .column("first hit, %", |search| number(of(Metric::FirstHit, hits(search.variant)), 0.01, 1))
        .column("ideal", |search| search.ideal[0])
        .column("paper", |search| search.first_hit.map_or_else(String::new, |share| share.to_string()))
        .column("comparisons of hits", |search| number(of(Metric::Comparisons, hits(search.variant)), 1.0, 2))
        .column("ideal", |search| search.ideal[1])
        .column("of all packets", |search| number(of(Metric::Comparisons, search.variant.to_owned()), 1.0, 2))
        .column("ideal", |search| search.ideal[2])
        .column("paper", |search| search.comparisons)
        .column("paper, Mpps, six pipelines", |search| search.mpps)
        .into()
}

fn memory(rows: &[Row]) -> PageTable {
    let of = |part: &str| rows.iter().metric(Metric::MemoryBytes).find(|row| row.case.is_variant(part));
    let mut table = PageTable::new("dhash-memory", &["part", "MB", "paper, MB"]);
    let mut lookup = 0.0;
    for (number, part) in MEMORY_PARTS.into_iter().enumerate() {
        let Some(row) = of(part) else { continue };
        let paper = MEMORY_MB.iter().find(|(name, _)| *name == part).map_or("", |(_, mb)| *mb);
        table.rows.push(vec![part.to_owned(), format!("{:.2}", row.median / 1e6), paper.to_owned()]);
        lookup += row.median;
        if number == 2 {
            let cells = ["these three".to_owned(), format!("{:.2}", lookup / 1e6), TABLE_MB.to_string()];
            table.rows.push(cells.to_vec());
        }
    }
    table
}

fn lookups(rows: &[Row], sessions: u64) -> PageTable {
    let heads = ["table", "work", "Mpps", "ns per packet", "DHash in units of this", "bytes per session"];
    let mut table = PageTable::new("dhash-lookups", &heads);
    for what in [FOUND, COUNTED, WHOLE_TRACE] {
        let ours = ours(rows, sessions, what);
        for row in work(rows, sessions, what) {
            let is_other = row.case.structure != DHASH && row.case.structure != PACKETS_ALONE;
            let ratio = ours.filter(|_| is_other).map(|ours| format!("{:.2}", ours.median / row.median));
            let bytes = row.case.table_bytes.map(|bytes| format!("{:.1}", bytes as f64 / sessions as f64));
            table.rows.push(vec![
                label(row, what),
                what.to_owned(),
                millions(Some(row)),
                format!("{:.1}", 1e9 / row.median),
                ratio.unwrap_or_default(),
                bytes.unwrap_or_default(),
            ]);
        }
    }
    table
}

/// Chained hashing by buckets.
fn chains(rows: &[Row]) -> PageTable {
    let is_it = |row: &&Row| [Some(SEARCH), Some(LIBNIDS)].contains(&row.case.format);
    Sheet::new("dhash-buckets", rows.iter().structure(CHAINED).filter(is_it))
        .column("buckets", |row| row.case.variant_text().trim_start_matches("find, ").to_owned())
        .column("", |row| if row.case.format == Some(LIBNIDS) { LIBNIDS } else { "" })
        .column("Mpps", |row| millions(Some(row)))
        .column("ns per packet", |row| format!("{:.1}", 1e9 / row.median))
        .column("MB", |row| format!("{:.1}", row.case.table_bytes.unwrap_or(0) as f64 / 1e6))
        .into()
}

fn conclusion(rows: &[Row], sessions: u64) -> Option<String> {
    let ours = ours(rows, sessions, FOUND)?;
    let others: Vec<String> = [CHAINED, CUCKOO, HASHBROWN, "rte_hash"]
        .into_iter()
        .filter_map(|name| {
            let row = work(rows, sessions, FOUND).find(|row| row.case.structure == name && is_rival(row))?;
            Some(format!("{:.2} times {name}", ours.median / row.median))
        })
        .collect();
    let [one, traditional, seven] = STACK_MPPS;
    let scale =
        if sessions == FILE_3 { String::new() } else { format!(" in place of {}", short_count(FILE_3)) };
    Some(format!(
        "With {} sessions{scale} on one core, DHash finds {:.1} M sessions per second, packets read and hashed: {}. The \
         paper has {one} Mpps for its whole TCP stack on one core, and with seven cores {seven} Mpps over {traditional} \
         for chained hashing, both with {PAPER_BUCKETS} buckets or the best number.",
        short_count(sessions),
        ours.median / 1e6,
        others.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::without_place;
    use crate::options::Options;

    #[test]
    fn the_page_has_a_place_for_all_that_is_shown() {
        const PAGE: &str = include_str!("../../../../../docs/dhash-figures.md");
        let options = Options { keys: Some(vec![4096]), quick: true, runs: Some(1), ..Options::default() };
        let mut bench = BenchRun::for_test("dhash", options);
        crate::dhash::run(&mut bench).unwrap();
        let rows = bench.rows().to_vec();
        assert!(rows.iter().all(|row| row.median.is_finite() && row.median >= 0.0));
        for name in [DHASH, CHAINED, CUCKOO, HASHBROWN, PACKETS_ALONE] {
            let files = rows.iter().structure(name).filter(|row| is_compared(row)).metric(Metric::LookupRate);
            assert_eq!(distinct(files.map(|row| row.case.keys)), [1024, 2048, 4096], "{name}");
        }
        let (_, exhibits) = bench.finish();
        assert_eq!(without_place(PAGE, &exhibits), Vec::<String>::new());
        for sheet in &exhibits.sheets {
            assert!(!sheet.rows.is_empty(), "{}", sheet.name);
            assert!(sheet.rows.iter().all(|row| row.len() == sheet.heads.len()), "{}", sheet.name);
        }
        let goals = exhibits.sheets.iter().find(|sheet| sheet.name == "dhash-goals").unwrap();
        assert_eq!(goals.rows.len(), 6);
        assert!(goals.rows.iter().all(|row| row[1] != "not measured"), "{goals:?}");
        assert!(exhibits.charts.iter().all(
            |chart| chart.series.len() >= 6 && chart.series.iter().all(|series| series.points.len() == 3)
        ));
        for said in &exhibits.conclusions {
            assert!(!said.sentence.contains("NaN") && !said.sentence.contains("inf"), "{}", said.sentence);
        }
    }
}
