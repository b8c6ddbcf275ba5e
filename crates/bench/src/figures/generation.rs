//! Figures 3 and 4: time to search for a group's functions and the bits they take, by number of cells of the
//! array.

use super::paper::{self, KEYS_PER_GROUP};
use super::search::{Functions, Group};
use super::theory;
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::row::Metric;
use rayon::prelude::*;
use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};
use scalebricks_report::stats::Summary;

/// Numbers of cells. One cell cannot separate values.
const CELLS: std::ops::RangeInclusive<u32> = 2..=30;

/// Searches with more expected iterations are only computed.
const LONGEST: f64 = 40_000.0;

/// Tolerated share of groups without a function: one in a million.
const TOLERATED: f64 = 1e-6;

/// Value bits of Figure 4.
const JOINT_BITS: [u8; 2] = [2, 3];

/// How functions represent a group's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FunctionLayout {
    /// One function for the whole value, with an array of values.
    OneFunction,
    /// One function per value bit, each with an array of bits.
    OneABit,
}

impl FunctionLayout {
    const fn name(self) -> &'static str {
        match self {
            Self::OneFunction => "one function",
            Self::OneABit => "one function a bit",
        }
    }

    /// Expected number of functions to try.
    fn iterations(self, value_bits: u8, cells: u32) -> Option<f64> {
        match self {
            Self::OneFunction => theory::iterations(KEYS_PER_GROUP, value_bits, cells),
            Self::OneABit => Some(f64::from(value_bits) * theory::iterations(KEYS_PER_GROUP, 1, cells)?),
        }
    }

    /// Bits per key for indices and arrays.
    fn bits_per_key(self, value_bits: u8, cells: u32) -> Option<f64> {
        let array = f64::from(value_bits) * f64::from(cells);
        let (of_each, indices) = match self {
            Self::OneFunction => (value_bits, 1),
            Self::OneABit => (1, value_bits),
        };
        let index = theory::index_bits(KEYS_PER_GROUP, of_each, cells, TOLERATED)?;
        Some((f64::from(index) * f64::from(indices) + array) / f64::from(KEYS_PER_GROUP))
    }

    fn search(self, group: &Group, functions: Functions, value_bits: u8, cells: u32) -> (u64, bool) {
        match self {
            Self::OneFunction => group.one_function(functions, cells),
            Self::OneABit => group.one_a_bit(functions, cells, value_bits),
        }
    }
}

/// Measures and draws both figures.
///
/// # Errors
/// An interrupt.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let mut sheet = PageTable::new(
        "figure-3",
        &[
            "cells m",
            "functions to try, paper",
            "formula",
            "32-bit index",
            "16-bit index, as the tables",
            "index bits, mean",
            "index bits, one group in 10⁶ fails",
            "bits a key",
        ],
    );
    figure_3(bench, &mut sheet)?;
    bench.add_table(sheet);
    figure_4(bench)?;
    conclude(bench);
    Ok(())
}

/// States what the formula gives, and what the paper's text says.
fn conclude(bench: &mut BenchRun<'_>) {
    let tried = |way: FunctionLayout, bits: u8, cells: u32| way.iterations(bits, cells).unwrap_or(f64::NAN);
    let [two, six, twelve] = [2, 6, 12].map(|cells| tried(FunctionLayout::OneABit, 1, cells));
    let bits = |cells: u32| {
        let index = theory::index_bits(KEYS_PER_GROUP, 1, cells, TOLERATED).unwrap_or(0);
        tried(FunctionLayout::OneABit, 1, cells).log2().min(f64::from(index)) + f64::from(cells)
    };
    let least = CELLS.map(bits).filter(|bits| bits.is_finite()).fold(f64::INFINITY, f64::min);
    let sentence = format!(
        "By the formula 2 cells take {} functions on average (paper: over 10,000), 6 take {:.0} times fewer (paper: 10), and 12 take {} \
         (paper: under 100); a group takes {least:.1} bits at the least and {:.1} at 12 cells (paper: {} and about {}).",
        rounded(two),
        two / six,
        rounded(twelve),
        bits(12),
        paper::GROUP_BITS.0,
        paper::GROUP_BITS.1,
    );
    bench.add_conclusion("figure-3-conclusion", sentence);
    let gains = CELLS.filter_map(|cells| {
        let one = FunctionLayout::OneFunction.iterations(2, cells)?;
        let gain = one / FunctionLayout::OneABit.iterations(2, cells)?;
        gain.is_finite().then_some((gain, cells))
    });
    if let Some((gain, cells)) = gains.max_by(|a, b| a.0.total_cmp(&b.0)) {
        let sentence = format!(
            "One function for 2-bit values takes up to {gain:.0} times as many attempts as one a bit, at {cells} cells; the paper says up \
             to {:.0} times.",
            paper::JOINT_SEARCH,
        );
        bench.add_conclusion("figure-4-conclusion", sentence);
    }
}

fn figure_3(bench: &mut BenchRun<'_>, sheet: &mut PageTable) -> Result<(), BenchError> {
    let mut wide = measured("measured, 32-bit index", 1);
    let mut narrow = measured("measured, index of the tables", 2);
    let (mut expected, mut average) = (Vec::new(), Vec::new());
    let (mut array, mut index, mut total) = (Vec::new(), Vec::new(), Vec::new());
    for cells in CELLS {
        let way = FunctionLayout::OneABit;
        let (Some(mean), Some(bits)) =
            (way.iterations(1, cells), theory::index_bits(KEYS_PER_GROUP, 1, cells, TOLERATED))
        else {
            continue;
        };
        push(&mut expected, cells, mean);
        push(&mut array, cells, per_key(cells.into()));
        push(&mut index, cells, per_key(bits.into()));
        push(&mut total, cells, per_key(f64::from(bits) + f64::from(cells)));
        push(&mut average, cells, per_key(mean.log2() + f64::from(cells)));
        let of_wide = point(bench, way, Functions::Wide, 1, cells, mean)?;
        // Tables have only 65,535 functions, too few where so many are expected, and their number of cells is
        // a power of two.
        let fits = cells.is_power_of_two() && mean < 10_000.0;
        let of_tables = if fits { point(bench, way, Functions::Tables, 1, cells, mean)? } else { None };
        let cell = |point: &Option<Point>| point.map_or_else(String::new, |point| rounded(point.y));
        sheet.rows.push(vec![
            cells.to_string(),
            paper::functions_to_try(cells).to_owned(),
            rounded(mean),
            cell(&of_wide),
            cell(&of_tables),
            format!("{:.1}", mean.log2()),
            bits.to_string(),
            format!("{:.2}", per_key(f64::from(bits) + f64::from(cells))),
        ]);
        wide.points.extend(of_wide);
        narrow.points.extend(of_tables);
    }
    let x = ("cells of the array, m (bits)", Scale::Linear);
    let mut chart = Chart::new(
        "figure-3a",
        "Functions to try for a group of 16 keys",
        x,
        ("mean functions tried", Scale::Decades),
    );
    chart.series = vec![Series::new("formula", Mark::Line, 0, expected), wide, narrow];
    bench.add_chart(chart);
    let mut chart = Chart::new(
        "figure-3b",
        "Bits a key and value bit",
        x,
        ("bits a key, without choices", Scale::Linear),
    );
    chart.series = vec![
        Series::new("array + index", Mark::Line, 0, total),
        Series::new("array", Mark::Dashes, 7, array),
        Series::new("index, 1 group in 10⁶ fails", Mark::Dashes, 1, index),
        Series::new("array + log2 of the mean tried", Mark::Line, 2, average),
    ];
    bench.add_chart(chart);
    Ok(())
}

fn figure_4(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let x = ("cells of each array, m", Scale::Linear);
    let title = "One function for a value, or one for each of its bits";
    let mut tried = Chart::new("figure-4a", title, x, ("mean functions tried, all bits", Scale::Decades));
    let mut space = Chart::new("figure-4b", title, x, ("bits a key, without choices", Scale::Linear));
    let across = ("bits a key, without choices", Scale::Linear);
    let mut both = Chart::new("figure-4c", title, across, ("mean functions tried, all bits", Scale::Decades));
    let mut sheet = PageTable::new(
        "figure-4",
        &[
            "value bits",
            "cells m",
            "one function: tried, formula",
            "measured",
            "bits a key",
            "one a bit: tried, formula",
            "measured",
            "bits a key",
        ],
    );
    for (number, value_bits) in JOINT_BITS.into_iter().enumerate() {
        let mut lines: Vec<Vec<String>> = Vec::new();
        for (place, way) in [FunctionLayout::OneFunction, FunctionLayout::OneABit].into_iter().enumerate() {
            let colour = 2 * number + place;
            let name = format!("{}, {value_bits}-bit values", way.name());
            let (mut expected, mut bits, mut trade) = (Vec::new(), Vec::new(), Vec::new());
            let mut found = measured(&format!("{name}, measured"), colour);
            for (line, cells) in CELLS.enumerate() {
                let mut texts = vec![String::new(); 3];
                if let Some(mean) = way.iterations(value_bits, cells) {
                    push(&mut expected, cells, mean);
                    let got = point(bench, way, Functions::Wide, value_bits, cells, mean)?;
                    found.points.extend(got);
                    texts[0] = rounded(mean);
                    texts[1] = got.map_or_else(String::new, |point| rounded(point.y));
                    if let Some(space) = way.bits_per_key(value_bits, cells) {
                        push(&mut bits, cells, space);
                        trade.push(Point::exact(space, mean));
                        texts[2] = format!("{space:.2}");
                    }
                }
                if lines.len() <= line {
                    lines.push(vec![value_bits.to_string(), cells.to_string()]);
                }
                lines[line].extend(texts);
            }
            let mark = if place == 0 { Mark::Dashes } else { Mark::Line };
            tried.series.push(Series::new(&name, mark, colour, expected));
            tried.series.push(found);
            space.series.push(Series::new(&name, mark, colour, bits));
            both.series.push(Series::new(&name, mark, colour, trade));
        }
        sheet.rows.extend(lines);
    }
    for chart in [tried, space, both] {
        bench.add_chart(chart);
    }
    bench.add_table(sheet);
    Ok(())
}

/// Searches many groups, split into one part per run; `None` if that would take too long.
fn point(
    bench: &mut BenchRun<'_>,
    way: FunctionLayout,
    functions: Functions,
    value_bits: u8,
    cells: u32,
    expected: f64,
) -> Result<Option<Point>, BenchError> {
    if expected > LONGEST {
        return Ok(None);
    }
    bench.check()?;
    let options = bench.options;
    let (runs, groups) = (options.runs() as u64, options.pick(300, 2_000));
    let run = |run: u64| {
        let one = |number| {
            way.search(&Group::new(number, KEYS_PER_GROUP, value_bits), functions, value_bits, cells)
        };
        let add = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
        let all = (run * groups..(run + 1) * groups).into_par_iter().map(one);
        let (tried, found) = all.map(|(tried, found)| (tried, found.into())).reduce(|| (0, 0), add);
        // A group without a function adds its tries, so that the mean is that of an infinite family of
        // functions.
        tried as f64 / (found.max(1)) as f64
    };
    let figures = Summary::of(&(0..runs).map(run).collect::<Vec<_>>());
    let family = if functions == Functions::Wide { "32-bit index" } else { "16-bit index" };
    let mut case = bench.case("search", u64::from(KEYS_PER_GROUP) * groups);
    case.value_bits = Some(value_bits);
    case.variant = Some(format!("{cells} cells, {}, {family}", way.name()));
    bench.add(case, Metric::Iterations, figures);
    Ok(Some(Point::measured(cells.into(), figures, 1.0)))
}

fn measured(name: &str, colour: usize) -> Series {
    Series::new(name, Mark::Dots, colour, Vec::new())
}

fn push(points: &mut Vec<Point>, cells: u32, y: f64) {
    points.push(Point::exact(cells, y));
}

fn per_key(bits: f64) -> f64 {
    bits / f64::from(KEYS_PER_GROUP)
}

/// A number of functions with few digits.
fn rounded(value: f64) -> String {
    match value {
        _ if value < 99.5 => format!("{value:.1}"),
        _ if value < 1e7 => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_a_bit_are_found_sooner() {
        // Twice 16+8, or one function with eight cells of two bits.
        let several = FunctionLayout::OneABit.iterations(2, 8).unwrap();
        let one = FunctionLayout::OneFunction.iterations(2, 8).unwrap();
        assert!(one > 300.0 * several, "{one} and {several}");
        assert!((FunctionLayout::OneABit.bits_per_key(2, 8).unwrap() - 2.75).abs() < 1e-9);
    }

    #[test]
    fn sixteen_keys_take_a_bit_and_a_half_at_most() {
        for cells in 2..=8 {
            assert!(FunctionLayout::OneABit.bits_per_key(1, cells).unwrap() <= 1.5, "{cells}");
        }
    }
}
