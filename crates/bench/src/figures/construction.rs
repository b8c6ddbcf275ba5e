//! Table 1: build rates, and keys that go to the fallback.

use super::paper;
use crate::bench_run::BenchRun;
use crate::benches::build;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::rounds::{Measurement, RunResult, interleave};
use crate::row::{Metric, Row};
use crate::structures::{BuildConfig, Structure};
use scalebricks_console::quantity::count;
use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};
use scalebricks_report::stats::Summary;
use scalebricks_tables::setsep::Format;

/// Bytes per key for keys, answers and building one table.
const KEY_BYTES: u64 = 24 + 40;

/// The settings of the paper's table, and our formats with the same value bits. The paper varies value bits
/// for 16+8 only.
fn settings(bench: &BenchRun<'_>) -> Vec<(Format, Vec<u8>)> {
    let options = bench.options;
    let formats = options.formats();
    let settings = [
        (Format::Paper16x8, &[1, 2, 3, 4][..]),
        (Format::Paper8x16, &[1]),
        (Format::Paper16x16, &[1]),
        (Format::Brute, &[1, 2, 3, 4]),
        (Format::Linear, &[1, 2, 3, 4]),
        (Format::Dense, &[1, 2, 3, 4]),
    ];
    let wanted = settings.into_iter().filter(|(format, _)| formats.contains(format));
    wanted.map(|(format, bits)| (format, options.value_bits(bits, bits))).collect()
}

/// Measures all settings and compares them with the paper's.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    for keys in bench.options.keys(&[1_000_000], &[16_000_000]) {
        if !bench.fits(keys, KEY_BYTES)? {
            continue;
        }
        let settings = settings(bench);
        let mut most: Vec<u8> = settings.iter().flat_map(|(_, bits)| bits.clone()).collect();
        most.sort_unstable();
        most.dedup();
        let mut made = Vec::new();
        for value_bits in most {
            let formats = settings.iter().filter(|(_, bits)| bits.contains(&value_bits));
            let formats: Vec<Format> = formats.map(|(format, _)| *format).collect();
            made.extend(one(bench, keys, value_bits, &formats)?);
        }
        show(bench, keys, &made);
    }
    Ok(())
}

/// The results of one setting.
struct Built {
    format: Format,
    value_bits: u8,
    threads: usize,
    rate: Summary,
    fallback: f64,
    bits_per_key: f64,
}

fn one(
    bench: &mut BenchRun<'_>,
    keys: u64,
    value_bits: u8,
    formats: &[Format],
) -> Result<Vec<Built>, BenchError> {
    let options = bench.options;
    let busy = bench.busy("making keys");
    let set = KeySet::new(keys, value_bits);
    drop(busy);
    let threads = options.threads_or_pair();
    let all = formats.iter().flat_map(|&format| threads.iter().map(move |&threads| (format, threads)));
    let all: Vec<(Format, usize)> = all.collect();
    let mut fills = vec![(0, 0); all.len()];
    let turns = all.iter().enumerate().map(|(number, &(format, threads))| {
        let case = bench
            .case(Structure::SetSep.name(), keys)
            .format(format.name())
            .value_bits(value_bits)
            .threads(threads);
        let set = &set;
        let mut is_checked = false;
        Measurement::new(case, Metric::BuildRate, move |fills: &mut Vec<(u64, u64)>| {
            let make = BuildConfig { format, threads, ..BuildConfig::table() };
            let mut prepared = Structure::SetSep.prepare(set, make)?;
            Structure::SetSep.warm(set.len());
            let (table, seconds) = build::build(&mut prepared, threads)?;
            if !is_checked {
                build::check(Structure::SetSep, table.as_ref(), set)?;
                is_checked = true;
            }
            fills[number] = (table.fill().fallback_keys.unwrap_or(0), table.table_bytes());
            Ok(RunResult { figures: vec![keys as f64 / seconds], table_bytes: Some(table.table_bytes()) })
        })
    });
    let turns = turns.collect();
    let first = bench.rows().len();
    interleave(bench, &mut fills, turns)?;
    let rows = bench.rows()[first..].iter();
    let rates: Vec<Summary> = rows.map(Row::summary).collect();
    let built = all.into_iter().zip(fills).zip(rates);
    let built = built.map(|(((format, threads), (fallback, bytes)), rate)| Built {
        format,
        value_bits,
        threads,
        rate,
        fallback: fallback as f64,
        bits_per_key: bytes as f64 * 8.0 / keys as f64,
    });
    let built: Vec<Built> = built.collect();
    for of in built.iter().filter(|of| Some(&of.threads) == threads.first()) {
        let case = bench.case(Structure::SetSep.name(), keys).format(of.format.name()).value_bits(value_bits);
        bench.add(case.clone(), Metric::FallbackKeys, Summary::exact(of.fallback));
        bench.add(case, Metric::BitsPerKey, Summary::exact(of.bits_per_key));
    }
    Ok(built)
}

fn show(bench: &mut BenchRun<'_>, keys: u64, made: &[Built]) {
    let mut sheet = PageTable::new(
        "table-1",
        &[
            "format",
            "value bits",
            "threads",
            "paper, M keys/s",
            "here, M keys/s",
            "least to most",
            "ratio",
            "fallback, paper",
            "fallback here",
            "bits a key, paper",
            "bits a key here",
        ],
    );
    let mut chart = Chart::new(
        "table-1",
        &format!("Keys built a second, one thread, {} keys", count(keys)),
        ("value bits, l", Scale::Linear),
        ("million keys a second", Scale::Decades),
    );
    let papers = paper::CONSTRUCTION.iter().filter(|row| row.threads == 1 && row.format == Format::Paper16x8);
    let points = papers.map(|row| Point::exact(row.value_bits, row.mkeys_per_second)).collect();
    chart.series.push(Series::new("the paper's 16+8", Mark::Dotted, 7, points));
    let mut order: Vec<&Built> = made.iter().collect();
    order.sort_by_key(|of| (Format::ALL.iter().position(|&format| format == of.format), of.threads));
    for of in &order {
        let paper = paper::CONSTRUCTION
            .iter()
            .find(|row| (row.format, row.value_bits, row.threads) == (of.format, of.value_bits, of.threads));
        let millions = of.rate.median / 1e6;
        sheet.rows.push(vec![
            of.format.name().to_owned(),
            of.value_bits.to_string(),
            of.threads.to_string(),
            paper.map_or_else(String::new, |row| row.mkeys_per_second.to_string()),
            format!("{millions:.1}"),
            format!("{:.1} to {:.1}", of.rate.min / 1e6, of.rate.max / 1e6),
            paper.map_or_else(String::new, |row| format!("{:.0}×", millions / row.mkeys_per_second)),
            paper.map_or_else(String::new, |row| format!("{:.2} %", row.fallback * 100.0)),
            share(of.fallback, keys),
            paper.map_or_else(String::new, |row| row.bits_per_key.to_string()),
            format!("{:.2}", of.bits_per_key),
        ]);
    }
    // The paper's other two settings have one point each and are only in the table.
    for format in Format::ALL.into_iter().filter(|of| ![Format::Paper8x16, Format::Paper16x16].contains(of)) {
        let points: Vec<Point> = order
            .iter()
            .filter(|of| of.format == format && of.threads == 1)
            .map(|of| Point::measured(of.value_bits.into(), of.rate, 1e6))
            .collect();
        if !points.is_empty() {
            let colour = format as usize - 1;
            chart.series.push(Series::new(format!("{format}, here"), Mark::Dotted, colour, points));
        }
    }
    bench.add_chart(chart);
    bench.add_table(sheet);
    bench.add_table(threads(&order));
    conclude(bench, made);
}

/// The paper's 16+8 by number of threads, and our results for the available threads.
fn threads(made: &[&Built]) -> PageTable {
    let heads = ["threads", "paper, M keys/s", "a thread", "here, M keys/s", "a thread here"];
    let mut sheet = PageTable::new("table-1-threads", &heads);
    let papers =
        paper::CONSTRUCTION.iter().filter(|row| row.format == Format::Paper16x8 && row.value_bits == 1);
    for row in papers {
        let ours = made
            .iter()
            .find(|of| (of.format, of.value_bits, of.threads) == (row.format, row.value_bits, row.threads));
        let ours = ours.map(|of| of.rate.median / 1e6);
        let digits = |rate: f64| format!("{rate:.2}");
        let threads = row.threads as f64;
        sheet.rows.push(vec![
            row.threads.to_string(),
            row.mkeys_per_second.to_string(),
            digits(row.mkeys_per_second / threads),
            ours.map_or_else(|| "not measured".to_owned(), digits),
            ours.map_or_else(String::new, |rate| digits(rate / threads)),
        ]);
    }
    sheet
}

/// States the range of ratios for the paper's settings on one thread, and the best rate of the default
/// format.
fn conclude(bench: &mut BenchRun<'_>, made: &[Built]) {
    let ratios: Vec<f64> = paper::CONSTRUCTION
        .iter()
        .filter(|row| row.threads == 1)
        .filter_map(|row| {
            let same =
                |of: &&Built| (of.format, of.value_bits, of.threads) == (row.format, row.value_bits, 1);
            Some(made.iter().find(same)?.rate.median / 1e6 / row.mkeys_per_second)
        })
        .collect();
    let best = |format: Format| {
        let rates = made.iter().filter(|of| of.format == format && of.threads == 1);
        rates.map(|of| of.rate.median / 1e6).fold(0.0, f64::max)
    };
    let (least, most) =
        ratios.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &ratio| (a.min(ratio), b.max(ratio)));
    if ratios.is_empty() {
        return;
    }
    let sentence = format!(
        "One thread builds the paper's own settings {least:.0} to {most:.0} times as fast as its machine did; our default format \
         builds up to {:.1} M keys a second.",
        best(Format::default()),
    );
    bench.add_conclusion("table-1-conclusion", sentence);
}

/// A part of all keys as a percentage or, if small, with its count.
fn share(some: f64, all: u64) -> String {
    match some {
        0.0 => "0".to_owned(),
        _ if some >= all as f64 * 1e-4 => format!("{:.2} %", some * 100.0 / all as f64),
        _ => format!("{:.1e} ({some:.0} keys)", some / all as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn shares_are_readable() {
        assert_eq!(share(0.0, 1000), "0");
        assert_eq!(share(23.0, 1000), "2.30 %");
        assert_eq!(share(6.0, 1_000_000), "6.0e-6 (6 keys)");
    }

    #[test]
    fn the_papers_settings_are_measured() {
        let options = Options {
            keys: Some(vec![20_000]),
            formats: Some(vec![Format::Paper16x8, Format::Paper8x16]),
            threads: Some(vec![1]),
            quick: true,
            ..Options::default()
        };
        let mut bench = BenchRun::for_test("test", options);
        run(&mut bench).unwrap();
        let rows = bench.rows();
        assert_eq!(rows.iter().filter(|row| row.metric == Metric::BuildRate).count(), 5);
        let fallback = |format: Format| {
            let found = rows
                .iter()
                .find(|row| row.metric == Metric::FallbackKeys && row.case.format == Some(format.name()));
            found.unwrap().median / 20_000.0
        };
        assert!(fallback(Format::Paper16x8) < 0.01);
        assert!((0.001..0.03).contains(&fallback(Format::Paper8x16)));
        let (_, exhibits) = bench.finish();
        assert_eq!((exhibits.charts.len(), exhibits.sheets.len()), (1, 2));
        assert_eq!(exhibits.conclusions.len(), 1);
        assert_eq!(exhibits.sheets[0].rows[0][3], "0.54");
    }
}
