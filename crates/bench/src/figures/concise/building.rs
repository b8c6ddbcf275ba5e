//! Figure 7: from names and actions to a table, by the number of names.

use super::fibs::{self, Fib};
use super::{add_point, millions, paper};
use crate::benches::build::{build, check};
use crate::contestants::{Make, Product, Structure};
use crate::error::BenchError;
use crate::figures::exhibit::{Chart, Scale, Sheet};
use crate::keys::KeySet;
use crate::names::population::{Kind, Population};
use crate::rounds::{Turn, alternate};
use crate::row::{Metric, Row, Subject};
use crate::session::Session;
use crate::{pin, timing};
use scalebricks_console::quantity::short_count;
use scalebricks_tables::othello::Sizing;

/// Bytes a name: names twice over, a build, and the control structure that is kept.
const NAME_BYTES: u64 = 60 + 90;
/// Names up to which one graph of all is built, in which every line is a miss, and a filter an action.
const FEW: u64 = 4_000_000;

/// Measures and draws.
///
/// # Errors
/// [`BenchError`].
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    let value_bits = options.value_bits(&[2], &[2]).first().copied().unwrap_or(2);
    for names in options.keys(&[65_536, 262_144], &[65_536, 262_144, 1_000_000, 4_000_000, 16_000_000]) {
        if session.fits(names, NAME_BYTES)? {
            one(session, names, value_bits)?;
        }
    }
    show(session);
    Ok(())
}

/// What is built by structure: with its sizing and what can be done with it.
fn makes(names: u64) -> Vec<(Structure, Make)> {
    let mut makes = vec![(Structure::SetSep, Make::table()), (Structure::Cuckoo, Make::table())];
    for sizing in Sizing::ALL {
        if sizing == Sizing::Sharded || names <= FEW {
            makes.push((Structure::Othello, Make { sizing, ..Make::table() }));
        }
    }
    makes.push((Structure::Othello, Make { product: Product::Control, ..Make::table() }));
    let cores = pin::cores();
    let all = makes.clone().into_iter().map(|(structure, make)| (structure, Make { threads: cores, ..make }));
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
        let subject = Subject {
            format: is_othello.then(|| make.sizing.name()),
            variant: Some(product.to_owned()),
            value_bits: Some(value_bits),
            threads: Some(make.threads),
            ..session.subject(structure.name(), names)
        };
        let Some(narrow) = &narrow else { continue };
        turns.push(one_make(subject, structure, make, narrow));
    }
    if names <= FEW {
        let subject = Subject {
            variant: Some("table alone".to_owned()),
            value_bits: Some(value_bits),
            threads: Some(1),
            ..session.subject("buffalo", names)
        };
        let set = &set;
        turns.push(Turn::new(subject, Metric::BuildRate, move |(): &mut ()| {
            let (table, seconds) = timing::pinned(|| Fib::Buffalo.build(set, 1))?;
            let (table, asked) = (table?, set.len().min(10_000));
            let mut answers = vec![0; asked];
            table.asker().ask(&set.hashes[..asked], &mut answers);
            fibs::check("buffalo", &*table, &set.hashes[..asked], (&set.actions[..asked], &answers))?;
            Ok((set.len() as f64 / seconds).into())
        }));
    }
    alternate(session, &mut (), turns)
}

/// A turn that builds, and checks what it built first.
fn one_make(subject: Subject, structure: Structure, make: Make, set: &KeySet) -> Turn<'_, ()> {
    let mut is_checked = false;
    Turn::new(subject, Metric::BuildRate, move |(): &mut ()| {
        let mut prepared = structure.prepare(set, make)?;
        structure.warm(set.len());
        let (table, seconds) = build(prepared.as_mut(), make.threads)?;
        if !std::mem::replace(&mut is_checked, true) {
            check(structure, table.as_ref(), set)?;
        }
        Ok((set.len() as f64 / seconds).into())
    })
}

fn show(session: &mut Session<'_>) {
    let heads = ["names", "structure", "what", "threads", "paper, M/s", "M/s", "seconds"];
    let mut sheet = Sheet::new("concise-figure-7", &heads);
    let across = ("names", Scale::Doublings);
    let mut chart = Chart::new(
        "concise-figure-7",
        "Names built a second",
        across,
        ("million names a second", Scale::Decades),
    );
    let rows: Vec<Row> = session.rows().to_vec();
    for row in rows.iter().filter(|row| row.metric == Metric::BuildRate) {
        let of = &row.subject;
        let structure =
            [Some(of.structure.as_str()), of.format].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let (what, threads) = (of.variant.clone().unwrap_or_default(), of.threads.unwrap_or(1));
        let is_paper = of.structure == "othello";
        sheet.rows.push(vec![
            short_count(of.keys),
            structure.clone(),
            what.clone(),
            threads.to_string(),
            if is_paper { paper::BUILD } else { paper::NOT_GIVEN }.to_owned(),
            millions(&row.summary()),
            format!("{:.3}", of.keys as f64 / row.median),
        ]);
        if threads == 1 {
            let control = if what.starts_with("with") { ", control" } else { "" };
            add_point(&mut chart, &format!("{structure}{control}"), of.keys as f64, row, 1e6);
        }
    }
    session.tabulate(sheet);
    session.show(chart);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use scalebricks_console::{Console, Interrupt};

    #[test]
    fn all_are_built_and_checked() {
        let options = Options { keys: Some(vec![3000]), quick: true, runs: Some(1), ..Options::default() };
        let (console, interrupt) = (Console::new(true), Interrupt::default());
        let mut session = Session::new("concise", &options, &console, &interrupt);
        run(&mut session).unwrap();
        let control = |row: &&Row| row.subject.variant.as_deref() == Some("with control structure");
        assert!(session.rows().iter().filter(control).count() >= 1);
        for structure in ["othello", "setsep", "cuckoo", "buffalo"] {
            assert!(session.rows().iter().any(|row| row.subject.structure == structure), "{structure}");
        }
    }
}
