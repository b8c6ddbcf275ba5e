//! Load of groups: keys hashed directly to groups, and through buckets that choose a group (§4.4).

use super::loads::{self, Loads};
use super::{paper, theory};
use crate::bench_run::BenchRun;
use crate::benches::build;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::pin;
use crate::row::{Metric, Row};
use crate::structures::{BuildConfig, Product, Structure};
use scalebricks_console::quantity::{count, short_count};
use scalebricks_report::exhibit::{Chart, Mark, PageTable, Point, Scale, Series};
use scalebricks_report::stats::Summary;
use scalebricks_tables::setsep::{Format, GROUPS};

/// Maximum bytes per key while building a control structure.
const KEY_BYTES: u64 = 24 + 72;

/// Keys per table. Computing loads is fast, and the paper's numbers are for 16 M keys.
const SIZES: [u64; 2] = [1_000_000, 16_000_000];

/// The formats with different group sizes.
const FORMATS: [Format; 3] = [Format::Paper16x8, Format::Linear, Format::Dense];

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let mut sheet = PageTable::new(
        "group-load",
        &[
            "keys",
            "groups",
            "mean",
            "paper's fullest",
            "fullest",
            "fullest, simulated",
            "keys in the fallback at 8+16, formula",
            "at 16+8, formula",
        ],
    );
    let sizes = bench.options.keys(&SIZES, &SIZES);
    let last = sizes.len().saturating_sub(1);
    for (number, keys) in sizes.into_iter().enumerate() {
        if bench.fits(keys, KEY_BYTES)? {
            one(bench, keys, &mut sheet, number == last)?;
        }
    }
    bench.add_table(sheet);
    conclude(bench);
    Ok(())
}

/// States the fullest groups of the largest table.
fn conclude(bench: &mut BenchRun<'_>) {
    let rows = || bench.rows().iter().filter(|row| row.metric == Metric::MaxGroupLoad);
    let Some(keys) = rows().map(|row| row.case.keys).max() else { return };
    let of = |format: Option<&str>, variant: Option<&str>| {
        let is = |row: &&Row| {
            let of = &row.case;
            (of.keys, of.format, of.variant.as_deref()) == (keys, format, variant)
        };
        rows().find(is).map(|row| row.median)
    };
    let ours = of(Some(Format::Paper16x8.name()), None);
    let straight = of(None, Some("hashed straight to groups"));
    let (Some(ours), Some(straight)) = (ours, straight) else { return };
    let sentence = format!(
        "At {} keys the fullest group has {ours:.0} keys by way of buckets and {straight:.0} hashed straight; the paper has {} and over {} \
         at 16 M.",
        short_count(keys),
        paper::MAX_GROUP_LOAD,
        paper::MAX_GROUP_LOAD_DIRECT,
    );
    bench.add_conclusion("group-load-conclusion", sentence);
}

fn one(bench: &mut BenchRun<'_>, keys: u64, sheet: &mut PageTable, drawn: bool) -> Result<(), BenchError> {
    let busy = bench.busy("filling groups");
    let set = KeySet::new(keys, 1);
    let straight = loads::direct(&set.hashes, paper::KEYS_PER_GROUP.into());
    let title = format!("Groups by their keys, {} keys", count(keys));
    let mut chart = Chart::new(
        "group-load",
        &title,
        ("keys in a group", Scale::Linear),
        ("share of the groups", Scale::Decades),
    );
    chart.series.push(series("16 a group, hashed straight", 7, &straight));
    let case = bench.case("simulation", keys).variant("hashed straight to groups".to_owned());
    bench.add(case, Metric::MaxGroupLoad, Summary::exact(straight.max() as f64));
    let paper_size = keys == 16_000_000;
    let of_paper = |text: String| if paper_size { text } else { String::new() };
    sheet.rows.push(vec![
        short_count(keys),
        "hashed straight".to_owned(),
        paper::KEYS_PER_GROUP.to_string(),
        of_paper(format!("over {}", paper::MAX_GROUP_LOAD_DIRECT)),
        straight.max().to_string(),
        String::new(),
        percent(lost(&straight, 16, 255.0)),
        percent(lost(&straight, 8, 65_535.0)),
    ]);
    for (colour, format) in FORMATS.into_iter().enumerate() {
        bench.check()?;
        let mean = format.keys_per_block() / GROUPS as u64;
        let simulated = loads::balanced(&set.hashes, mean);
        let make =
            BuildConfig { format, threads: pin::cores(), product: Product::Control, ..BuildConfig::table() };
        let mut prepared = Structure::SetSep.prepare(&set, make)?;
        let (table, _) = build::build(&mut prepared, make.threads)?;
        let fullest = table.fill().max_group_load.unwrap_or(0);
        let case = bench.case(Structure::SetSep.name(), keys).format(format.name());
        bench.add(case.clone(), Metric::MaxGroupLoad, Summary::exact(fullest.into()));
        let case = case.variant("simulated".to_owned());
        bench.add(case, Metric::MaxGroupLoad, Summary::exact(simulated.max() as f64));
        let is_paper = format == Format::Paper16x8;
        let of_format = |text: String| if is_paper { text } else { String::new() };
        sheet.rows.push(vec![
            short_count(keys),
            format!("by bucket, {format}"),
            mean.to_string(),
            of_format(of_paper(paper::MAX_GROUP_LOAD.to_string())),
            fullest.to_string(),
            simulated.max().to_string(),
            of_format(percent(lost(&simulated, 16, 255.0))),
            of_format(percent(lost(&simulated, 8, 65_535.0))),
        ]);
        chart.series.push(series(&format!("{mean} a group, by bucket ({format})"), colour, &simulated));
    }
    drop(busy);
    if drawn {
        bench.add_chart(chart);
    }
    Ok(())
}

/// The share of keys in groups for which none of `functions` functions into `cells` cells works.
fn lost(loads: &Loads, cells: u32, functions: f64) -> f64 {
    loads.keys_lost(|load| theory::failures(load as u32, 1, cells, functions))
}

fn series(name: &str, colour: usize, loads: &Loads) -> Series {
    let points = loads.shares().map(|(load, share)| Point::exact(load as u32, share)).collect();
    Series::new(name, Mark::Dotted, colour, points)
}

fn percent(share: f64) -> String {
    if share >= 1e-4 { format!("{:.2} %", share * 100.0) } else { format!("{share:.0e}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn the_fallback_of_8_16_is_one_key_in_a_hundred() {
        let hashes: Vec<_> = (0..1 << 18).map(keys::hash).collect();
        let share = lost(&loads::balanced(&hashes, 16), 16, 255.0);
        assert!((0.005..0.02).contains(&share), "{share}");
        assert!(lost(&loads::direct(&hashes, 16), 8, 65_535.0) > 0.02);
    }
}
