//! Reconstructions: a name that would close a cycle forces a rebuild of its range with other seeds. Measures
//! their cost at the owner, and their frequency as names come and go at full load, and compares it with
//! theory.

use super::{met, paper, short};
use crate::bench_run::BenchRun;
use crate::error::{BenchError, OrFail, ensure};
use crate::names::population::{Kind, Population};
use crate::pin;
use crate::row::{Metric, SelectRows};
use crate::sheet::Sheet;
use crate::structures::{self, BuildConfig, Compact};
use crate::timing::{self, Clock};
use scalebricks_console::quantity::short_count;
use scalebricks_report::stats::{Summary, percentile};
use scalebricks_tables::othello::{OthelloBuilder, OthelloReader, Params, Sizing, UpdateError};
use scalebricks_types::KeyHash;
use std::sync::Arc;

/// Variant of the rows.
pub const RECONSTRUCTION: &str = "reconstruction";
/// Bytes per name.
const NAME_BYTES: u64 = 110;
/// Up to this many names, single-graph sizings are measured.
const FEW: u64 = 1_000_000;
/// Maximum runs, each with its own seed.
const RUNS: usize = 3;
const NAME: &str = "othello";

/// Measures cost and frequency.
///
/// # Errors
/// [`BenchError`].
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let mut found = Vec::new();
    for names in bench.sizes(&[65_536], &[1_000_000, 16_000_000], NAME_BYTES)? {
        for sizing in Sizing::ALL {
            if sizing == Sizing::Sharded || names <= options.pick(FEW / 4, FEW) {
                found.push(one(bench, names, options.first_value_bits(8), sizing)?);
            }
        }
    }
    let is_theirs = |of: &Churned| of.sizing != Sizing::Sharded && of.names == 1_000_000;
    let stated = |of: &Churned, text: String| if is_theirs(of) { text } else { paper::NOT_GIVEN.to_owned() };
    let cost = paper::REBUILD.0 * paper::REBUILD.1 * 1e9;
    let sheet = Sheet::new("concise-reconstruction", found)
        .column("names", |of| short_count(of.names))
        .column("sizing", |of| of.sizing.to_string())
        .column("names a range", |of| short_count(of.names / u64::from(of.params.ranges())))
        .column("additions", |of| short_count(of.additions as u64))
        .column("paper", |of| stated(of, paper::RECONSTRUCTION.to_owned()))
        .column("made anew, a million additions", |of| spread(&of.share, 1e6))
        .column("theory", |of| {
            theory(&of.params, of.names).map_or_else(|| "none".to_owned(), |share| digits(share * 1e6))
        })
        .column("paper, ns an addition", |of| stated(of, format!("{cost:.0} (C14)")))
        .column("ns an addition", |of| spread(&of.cost, 1.0))
        .column("median, µs", |of| spread(&of.times[0], 1e-3))
        .column("99 %, µs", |of| spread(&of.times[1], 1e-3))
        .column("most, µs", |of| spread(&of.times[2], 1e-3));
    bench.add_table(sheet);
    conclude(bench);
    Ok(())
}

/// A line of the table.
struct Churned {
    names: u64,
    sizing: Sizing,
    params: Params,
    additions: usize,
    share: Summary,
    cost: Summary,
    /// Median, 99th percentile and maximum of the reconstructions.
    times: [Summary; 3],
}

/// The probability that an addition closes a cycle in a large acyclic random graph: with n names in arrays of
/// a and b slots and c² = n²/(a·b), a graph is acyclic with probability √(1 − c²), so one more name closes a
/// cycle with probability c²/(1 − c²)/n.
fn theory(params: &Params, names: u64) -> Option<f64> {
    let n = names as f64 / f64::from(params.ranges());
    let [a, b] = params.slots().map(f64::from);
    let square = n * n / (a * b);
    (square < 1.0).then(|| square / (1.0 - square) / n)
}

/// The reconstructions of one run.
struct Rebuilds {
    additions: usize,
    /// Duration of each reconstruction in nanoseconds, sorted.
    times: Vec<f64>,
}

/// Replaces the names of a full table one by one, oldest first.
fn churn(params: Params, names: &Population, fresh: &[KeyHash]) -> Result<Rebuilds, BenchError> {
    let mut control = OthelloBuilder::new(params).threads(pin::cores()).build(&names.pairs()).of(NAME)?;
    let mut held = names.hashes.clone();
    let mut met = Rebuilds { additions: 0, times: Vec::new() };
    let (done, _) = timing::pinned(|| {
        let clock = Clock::chosen();
        for (&new, place) in fresh.iter().zip((0..held.len()).cycle()) {
            let (old, action) = (held[place], names.actions[place]);
            control.remove(old).of(NAME)?;
            let (before, start) = (control.reseeded(), clock.now());
            let added = control.insert(new, action);
            let passed = clock.now().saturating_sub(start);
            match added {
                Ok(_) => held[place] = new,
                // The range is overfull, so the old name stays.
                Err(UpdateError::Full(_)) => {
                    control.insert(old, action).of(NAME)?;
                    continue;
                }
                Err(error) => return Err(BenchError::of(NAME, error)),
            }
            met.additions += 1;
            if control.reseeded() != before {
                met.times.push(passed.as_nanos() as f64);
            }
        }
        Ok(())
    })?;
    done?;
    met.times.sort_by(f64::total_cmp);
    let mut answers = vec![0; held.len()];
    OthelloReader::new(Arc::new(control.export())).lookup_batch(&held, &mut answers);
    ensure(answers == names.actions, NAME, || "names are missing from the reconstructed tables")?;
    Ok(met)
}

/// Measures one line of the table and adds its rows.
fn one(bench: &mut BenchRun<'_>, names: u64, value_bits: u8, sizing: Sizing) -> Result<Churned, BenchError> {
    let busy = bench.busy("making names");
    let set = Population::of(Kind::Mac, names, value_bits);
    let fresh = Kind::Mac.hashes(set.len(), bench.options.pick(1 << 15, 1 << 21));
    drop(busy);
    let params =
        structures::Othello::params(names, value_bits, BuildConfig { sizing, ..BuildConfig::table() })?;
    let runs = bench.options.runs().min(RUNS);
    let bar = bench.progress(runs);
    let mut found = Vec::new();
    for run in 0..runs {
        bench.check()?;
        found.push(churn(params.with_seed(run as u64), &set, &fresh)?);
        bar.add(1);
    }
    bar.finish();
    let over = |found: &[Rebuilds], figure: &dyn Fn(&Rebuilds) -> f64| {
        Summary::of(&found.iter().map(figure).collect::<Vec<_>>())
    };
    let share = over(&found, &|met| met.times.len() as f64 / met.additions.max(1) as f64);
    let cost =
        over(&found, &|met| met.times.iter().fold(0.0, |sum, time| sum + time) / met.additions.max(1) as f64);
    found.retain(|met| !met.times.is_empty());
    let times = [0.5, 0.99, 1.0].map(|share| over(&found, &|met| percentile(&met.times, share)));
    let case = bench
        .case(NAME, names)
        .format(sizing.name())
        .variant(RECONSTRUCTION.to_owned())
        .value_bits(value_bits)
        .threads(1)
        .batch(1);
    bench.add(case.clone(), Metric::ReseedShare, share);
    bench.add(case.clone(), Metric::ReseedTime, cost);
    if !found.is_empty() {
        for (metric, time) in
            [Metric::LatencyP50, Metric::LatencyP99, Metric::LatencyMax].into_iter().zip(times)
        {
            bench.add(case.clone(), metric, time);
        }
    }
    Ok(Churned { names, sizing, params, additions: fresh.len(), share, cost, times })
}

/// The median, with the range of the runs.
fn spread(figures: &Summary, unit: f64) -> String {
    let of = |figure: f64| digits(figure * unit);
    match figures.runs {
        0 => "none".to_owned(),
        1 => of(figures.median),
        _ => format!("{} ({}–{})", of(figures.median), of(figures.min), of(figures.max)),
    }
}

fn digits(figure: f64) -> String {
    short(figure, 1, 0)
}

/// States the reconstructions of the default sizing, at the size nearest to a million names.
fn conclude(bench: &mut BenchRun<'_>) {
    let of = |metric| {
        bench
            .rows()
            .iter()
            .metric(metric)
            .structure(NAME)
            .format("sharded")
            .variant(RECONSTRUCTION)
            .nearest(1_000_000)
    };
    let (Some(cost), Some(longest)) = (of(Metric::ReseedTime), of(Metric::LatencyMax)) else { return };
    let theirs = paper::REBUILD.0 * paper::REBUILD.1 * 1e9;
    let sentence = format!(
        "At {} names, reconstructions cost {:.0} ns an addition, and the longest took {:.0} µs; by the paper's numbers they cost {theirs:.0} \
         ns ({}), and one takes {} s ({}).",
        short_count(cost.case.keys),
        cost.median,
        longest.median / 1e3,
        met(cost.median <= theirs),
        paper::REBUILD.1,
        met(longest.median <= paper::REBUILD.1 * 1e9),
    );
    bench.add_conclusion("concise-reconstruction-conclusion", sentence);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theory_says_what_the_paper_does() {
        // 1.3 in a million at a million names, where the fullest table has 3 names per 4 slots of an array.
        let params = Params::new(scalebricks_types::PartitionCount::ONE, 1, [1_333_333; 2], 2).unwrap();
        let share = theory(&params, 1_000_000).unwrap();
        assert!((share - 1.286e-6).abs() < 1e-9, "{share}");
        assert_eq!(theory(&params, 1_333_334), None);
    }

    /// The theory is for large graphs, which agree within five standard deviations. Ranges of 219 names have
    /// somewhat fewer reconstructions.
    #[test]
    fn reconstructions_are_met_as_often_as_theory_says() {
        let names = Population::of(Kind::Mac, 20_000, 3);
        let fresh = Kind::Mac.hashes(names.len(), 400_000);
        for (sizing, least) in [(Sizing::Sharded, 0.6), (Sizing::Tight, 1.0)] {
            let params =
                structures::Othello::params(20_000, 3, BuildConfig { sizing, ..BuildConfig::table() })
                    .unwrap();
            let met = churn(params.with_seed(1), &names, &fresh).unwrap();
            let want = theory(&params, 20_000).unwrap() * met.additions as f64;
            let (got, slack) = (met.times.len() as f64, 5.0 * want.sqrt());
            let is_right = got > least * want - slack && got < want + slack;
            assert!(is_right, "{sizing}: {got} of {}, not {want}", met.additions);
            assert!(met.times.is_sorted() && met.additions > 399_000);
        }
    }
}
