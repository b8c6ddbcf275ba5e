//! Figure 7: builds from names and actions, by number of names.

use super::fibs::{self, Fib};
use super::{add_point, conclusions, millions, paper};
use crate::benches::build::{build, check};
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::names::population::{Kind, Population};
use crate::rounds::{Measurement, interleave};
use crate::row::{Case, Metric, Row};
use crate::session::Session;
use crate::structures::{BuildConfig, Product, Structure};
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::{Chart, PageTable, Scale};
use scalebricks_tables::othello::Sizing;

/// Bytes per name: names twice, a build, and the retained control structure.
const NAME_BYTES: u64 = 60 + 90;
/// Up to this many names, single-graph sizings, where every access is a cache miss, and filters are built as
/// well.
const FEW: u64 = 4_000_000;

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let value_bits = options.first_value_bits(8);
    for names in options.keys(&[65_536, 262_144], &[262_144, 1_000_000, 4_000_000, 16_000_000]) {
        if session.fits(names, NAME_BYTES)? {
            one(session, names, value_bits)?;
        }
    }
    show(session);
    Ok(())
}

/// The structures to build, with sizing and product.
fn makes(names: u64) -> Vec<(Structure, BuildConfig)> {
    let mut makes =
        vec![(Structure::SetSep, BuildConfig::table()), (Structure::Cuckoo, BuildConfig::table())];
    for sizing in Sizing::ALL {
        if sizing == Sizing::Sharded || names <= FEW {
            makes.push((Structure::Othello, BuildConfig { sizing, ..BuildConfig::table() }));
        }
    }
    makes.push((Structure::Othello, BuildConfig { product: Product::Control, ..BuildConfig::table() }));
    let cores = pin::cores();
    let all = makes
        .clone()
        .into_iter()
        .map(|(structure, make)| (structure, BuildConfig { threads: cores, ..make }));
    let parallel = all.filter(|(structure, make)| {
        cores > 1 && structure.builds_in_parallel() && make.sizing == Sizing::Sharded
    });
    makes.extend(parallel.collect::<Vec<_>>());
    makes
}

fn one(session: &mut Session<'_>, names: u64, value_bits: u8) -> Result<(), BenchError> {
    let busy = session.busy("making names");
    let set = Population::of(Kind::Mac, names, value_bits);
    let narrow = set.narrow();
    drop(busy);
    let mut turns = Vec::new();
    for (structure, make) in makes(names) {
        let is_othello = structure == Structure::Othello;
        let product = if make.product == Product::Control { "with control structure" } else { "table alone" };
        let case = session
            .case(structure.name(), names)
            .format(is_othello.then(|| make.sizing.name()))
            .variant(product.to_owned())
            .value_bits(value_bits)
            .threads(make.threads);
        let Some(narrow) = &narrow else { continue };
        turns.push(one_make(case, structure, make, narrow));
    }
    if names <= FEW {
        turns.extend([Fib::Buffalo, Fib::Orthogonal].map(|fib| {
            let case = session
                .case(fib.name(), names)
                .variant("table alone".to_owned())
                .value_bits(value_bits)
                .threads(1);
            let set = &set;
            Measurement::new(case, Metric::BuildRate, move |(): &mut ()| {
                let (table, seconds) = timing::pinned(|| fib.build(set, 1))?;
                let (table, asked) = (table?, set.len().min(10_000));
                let mut answers = vec![0; asked];
                table.reader().lookup(&set.hashes[..asked], &mut answers);
                fibs::check(fib.name(), &*table, &set.hashes[..asked], (&set.actions[..asked], &answers))?;
                Ok((set.len() as f64 / seconds).into())
            })
        }));
    }
    interleave(session, &mut (), turns)
}

/// A measurement that builds, and checks the first result.
fn one_make(case: Case, structure: Structure, make: BuildConfig, set: &KeySet) -> Measurement<'_, ()> {
    let mut is_checked = false;
    Measurement::new(case, Metric::BuildRate, move |(): &mut ()| {
        let mut prepared = structure.prepare(set, make)?;
        structure.warm(set.len());
        let (table, seconds) = build(prepared.as_mut(), make.threads)?;
        if !std::mem::replace(&mut is_checked, true) {
            check(structure, table.as_ref(), set)?;
        }
        Ok((set.len() as f64 / seconds).into())
    })
}

/// What the paper says about a build, in million names per second.
fn said(structure: &str, names: u64, is_control: bool) -> String {
    match structure {
        "othello" if names == 4_000_000 && is_control => format!("{} (1 s)", paper::BUILD),
        "setsep" if names == 1_000_000 => format!("{} (10 s)", paper::SETSEP_BUILD),
        "othello" | "cuckoo" | "buffalo" => paper::PLOTTED.to_owned(),
        _ => paper::NOT_GIVEN.to_owned(),
    }
}

fn show(session: &mut Session<'_>) {
    let heads = ["names", "structure", "what", "threads", "paper, M/s", "M/s", "seconds"];
    let mut sheet = PageTable::new("concise-figure-7", &heads);
    let chart = |name, title| {
        Chart::new(name, title, ("names", Scale::Doublings), ("million names a second", Scale::Decades))
    };
    let mut structures = chart("concise-figure-7", "Names built a second, one core");
    let mut sizings = chart("concise-figure-7-sizings", "Othello by sizing, one core");
    let rows: Vec<Row> = session.rows().to_vec();
    for row in rows.iter().filter(|row| row.metric == Metric::BuildRate) {
        let of = &row.case;
        let (what, threads) = (of.variant.clone().unwrap_or_default(), of.threads.unwrap_or(1));
        let is_control = what.starts_with("with");
        let structure =
            [Some(of.structure.as_str()), of.format].into_iter().flatten().collect::<Vec<_>>().join(" ");
        sheet.rows.push(vec![
            short_count(of.keys),
            structure.clone(),
            what,
            threads.to_string(),
            said(&of.structure, of.keys, is_control),
            millions(&row.summary()),
            format!("{:.3}", of.keys as f64 / row.median),
        ]);
        if threads > 1 {
            continue;
        }
        let name = format!("{structure}{}", if is_control { ", control" } else { "" });
        if of.format.is_none_or(|format| format == Sizing::Sharded.name()) {
            add_point(&mut structures, &name, of.keys as f64, row, 1e6);
        }
        if of.structure == "othello" && !is_control {
            add_point(&mut sizings, &name, of.keys as f64, row, 1e6);
        }
    }
    session.add_table(sheet);
    session.add_chart(structures);
    session.add_chart(sizings);
    conclusions::construction(session, &rows);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn all_are_built_and_checked() {
        let options = Options { keys: Some(vec![3000]), quick: true, runs: Some(1), ..Options::default() };
        let mut session = Session::for_test("concise", options);
        run(&mut session).unwrap();
        let control = |row: &&Row| row.case.is_variant("with control structure");
        assert!(session.rows().iter().filter(control).count() >= 1);
        for structure in ["othello", "setsep", "cuckoo", "buffalo", "orthogonal"] {
            assert!(session.rows().iter().any(|row| row.case.structure == structure), "{structure}");
        }
    }
}
