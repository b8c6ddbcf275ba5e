//! Figure 7: builds from names and actions, by number of names.

use super::fibs::{self, Fib};
use super::{has_default_sizing, met, millions, names, paper};
use crate::bench_run::BenchRun;
use crate::benches::build;
use crate::error::BenchError;
use crate::names::population::{Kind, Population};
use crate::rounds::{Measurement, interleave};
use crate::row::{Metric, Row, SelectRows};
use crate::sheet::{Sheet, chart};
use crate::structures::{BuildConfig, Product, Structure};
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::Scale;
use scalebricks_tables::othello::Sizing;

/// Bytes per name: names twice, a build, and the retained control structure.
const NAME_BYTES: u64 = 60 + 90;
/// Up to this many names, single-graph sizings, where every access is a cache miss, and filters are built as
/// well.
const FEW: u64 = 4_000_000;
/// Variants by product.
const ALONE: &str = "table alone";
const WITH_CONTROL: &str = "with control structure";

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    for names in bench.sizes(&[65_536, 262_144], &[262_144, 1_000_000, 4_000_000, 16_000_000], NAME_BYTES)? {
        one(bench, names, bench.options.first_value_bits(8))?;
    }
    let rows: Vec<Row> = bench.rows().iter().metric(Metric::BuildRate).cloned().collect();
    show(bench, &rows);
    conclude(bench, &rows);
    Ok(())
}

/// The structures to build, with sizing and product.
fn makes(names: u64) -> Vec<(Structure, BuildConfig)> {
    let table = BuildConfig::table();
    let mut makes = vec![(Structure::SetSep, table), (Structure::Cuckoo, table)];
    let sizings = Sizing::ALL.into_iter().filter(|&sizing| sizing == Sizing::Sharded || names <= FEW);
    makes.extend(sizings.map(|sizing| (Structure::Othello, BuildConfig { sizing, ..table })));
    makes.push((Structure::Othello, BuildConfig { product: Product::Control, ..table }));
    let cores = pin::cores();
    let mut parallel = makes.clone();
    parallel.retain(|(structure, make)| {
        cores > 1 && structure.builds_in_parallel() && make.sizing == Sizing::Sharded
    });
    makes.extend(parallel.into_iter().map(|(of, make)| (of, BuildConfig { threads: cores, ..make })));
    makes
}

fn one(bench: &mut BenchRun<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let busy = bench.busy("making names");
    let set = Population::of(Kind::Mac, names, value_bits);
    let narrow = set.narrow();
    drop(busy);
    let case = |structure: &str, variant: &str, threads: usize| {
        bench.case(structure, names).variant(variant.to_owned()).value_bits(value_bits).threads(threads)
    };
    let mut turns = Vec::new();
    for (structure, make) in makes(names) {
        let Some(narrow) = &narrow else { continue };
        let product = if make.product == Product::Control { WITH_CONTROL } else { ALONE };
        let sizing = (structure == Structure::Othello).then(|| make.sizing.name());
        let case = case(structure.name(), product, make.threads).format(sizing);
        turns.push(build::turn(&case, structure, make, narrow, false, |(): &mut (), _| ()));
    }
    for fib in [Fib::Buffalo, Fib::Orthogonal].into_iter().filter(|_| names <= FEW) {
        let set = &set;
        let case = case(fib.name(), ALONE, 1);
        turns.push(Measurement::new(case, Metric::BuildRate, move |(): &mut ()| {
            let (table, seconds) = timing::pinned(|| fib.build(set, 1))?;
            let (table, asked) = (table?, set.len().min(10_000));
            let mut answers = vec![0; asked];
            table.reader()(&set.hashes[..asked], &mut answers);
            fibs::check(fib.name(), &*table, &set.hashes[..asked], (&set.actions[..asked], &answers))?;
            Ok((set.len() as f64 / seconds).into())
        }));
    }
    interleave(bench, &mut (), turns)
}

/// What the paper says about a build, in million names per second.
fn stated(row: &Row) -> String {
    match (row.case.structure.as_str(), row.case.keys) {
        ("othello", 4_000_000) if row.case.is_variant(WITH_CONTROL) => format!("{} (1 s)", paper::BUILD),
        ("setsep", 1_000_000) => format!("{} (10 s)", paper::SETSEP_BUILD),
        ("othello" | "cuckoo" | "buffalo", _) => paper::PLOTTED.to_owned(),
        _ => paper::NOT_GIVEN.to_owned(),
    }
}

/// The structure with its sizing.
fn structure(row: &Row) -> String {
    [Some(row.case.structure.as_str()), row.case.format].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn show(bench: &mut BenchRun<'_>, rows: &[Row]) {
    let sheet = Sheet::new("concise-figure-7", rows.iter())
        .column("names", names)
        .column("structure", |row| structure(row))
        .column("what", |row| row.case.variant_text().to_owned())
        .column("threads", |row| row.case.threads.unwrap_or(1))
        .column("paper, M/s", |row| stated(row))
        .column("M/s", |row| millions(row))
        .column("seconds", |row| format!("{:.3}", row.case.keys as f64 / row.median));
    bench.add_table(sheet);
    let draw = |name, title, is_drawn: &dyn Fn(&&Row) -> bool| {
        let points = rows.iter().threads(1).filter(is_drawn).map(|row| {
            let suffix = if row.case.is_variant(WITH_CONTROL) { ", control" } else { "" };
            (structure(row) + suffix, row.point(row.case.keys as f64, 1e6))
        });
        let (x, y) = (("names", Scale::Doublings), ("million names a second", Scale::Decades));
        chart(name, title, x, y, points)
    };
    let structures = draw("concise-figure-7", "Names built a second, one core", &has_default_sizing);
    let sizings = draw("concise-figure-7-sizings", "Othello by sizing, one core", &|row| {
        row.case.structure == "othello" && !row.case.is_variant(WITH_CONTROL)
    });
    bench.add_chart(structures);
    bench.add_chart(sizings);
}

/// States the build with the control structure at the size nearest to the paper's four million names.
fn conclude(bench: &mut BenchRun<'_>, rows: &[Row]) {
    let one = || rows.iter().threads(1);
    let ours = one().structure("othello").variant(WITH_CONTROL).nearest(4_000_000);
    let Some(ours) = ours else { return };
    let others = ["cuckoo", "buffalo", "orthogonal", "setsep"].iter().filter_map(|name| {
        let row = one().structure(name).keys(ours.case.keys).next()?;
        Some(format!("{name} {:.1}", row.median / 1e6))
    });
    let sentence = format!(
        "{} names take {:.2} s on one core with the control structure, {:.1} M/s (paper: 1 s for 4 M, {} M/s: {}); alone on a core, in M/s: \
         {}. In the paper cuckoo tables and BUFFALO are built faster than Concise.",
        short_count(ours.case.keys),
        ours.case.keys as f64 / ours.median,
        ours.median / 1e6,
        paper::BUILD,
        met(ours.median / 1e6 >= paper::BUILD),
        others.collect::<Vec<_>>().join(", "),
    );
    bench.add_conclusion("concise-figure-7-conclusion", sentence);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn all_are_built_and_checked() {
        let options = Options { keys: Some(vec![3000]), quick: true, runs: Some(1), ..Options::default() };
        let mut bench = BenchRun::for_test("concise", options);
        run(&mut bench).unwrap();
        let control = |row: &&Row| row.case.is_variant("with control structure");
        assert!(bench.rows().iter().filter(control).count() >= 1);
        for structure in ["othello", "setsep", "cuckoo", "buffalo", "orthogonal"] {
            assert!(bench.rows().iter().any(|row| row.case.structure == structure), "{structure}");
        }
    }
}
