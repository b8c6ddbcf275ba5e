//! Reconstructions: a name that would close a cycle forces a rebuild of its range with other seeds. Measures
//! their cost at the owner, and their frequency as names come and go at full load, and compares it with
//! theory.

use super::{conclusions, paper};
use crate::error::BenchError;
use crate::names::population::{Kind, Population};
use crate::pin;
use crate::row::Metric;
use crate::session::Session;
use crate::structures::{BuildConfig, othello_params};
use crate::timing::{self, Clock};
use scalebricks_console::quantity::short_count;
use scalebricks_report::exhibit::PageTable;
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
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let heads = [
        "names",
        "sizing",
        "names a range",
        "additions",
        "paper",
        "made anew, a million additions",
        "theory",
        "paper, ns an addition",
        "ns an addition",
        "median, µs",
        "99 %, µs",
        "most, µs",
    ];
    let mut sheet = PageTable::new("concise-reconstruction", &heads);
    let options = session.options();
    let value_bits = options.first_value_bits(8);
    for names in options.keys(&[65_536], &[1_000_000, 16_000_000]) {
        if !session.fits(names, NAME_BYTES)? {
            continue;
        }
        for sizing in Sizing::ALL {
            if sizing == Sizing::Sharded || names <= options.pick(FEW / 4, FEW) {
                sheet.rows.push(one(session, names, value_bits, sizing)?);
            }
        }
    }
    session.add_table(sheet);
    conclusions::reconstructions(session);
    Ok(())
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
    let of = |error: UpdateError| BenchError::of(NAME, error);
    let built = OthelloBuilder::new(params).threads(pin::cores()).build(&names.pairs());
    let mut control = built.map_err(|error| BenchError::of(NAME, error))?;
    let mut held = names.hashes.clone();
    let mut met = Rebuilds { additions: 0, times: Vec::new() };
    let (done, _) = timing::pinned(|| {
        let clock = Clock::chosen();
        for (&new, place) in fresh.iter().zip((0..held.len()).cycle()) {
            let (old, action) = (held[place], names.actions[place]);
            control.remove(old).map_err(of)?;
            let (before, start) = (control.reseeded(), clock.now());
            let added = control.insert(new, action);
            let passed = clock.now().saturating_sub(start);
            match added {
                Ok(_) => held[place] = new,
                // The range is overfull, so the old name stays.
                Err(UpdateError::Full(_)) => {
                    control.insert(old, action).map_err(of)?;
                    continue;
                }
                Err(error) => return Err(of(error)),
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
    if answers != names.actions {
        return Err(BenchError::check(NAME, "names are missing from the reconstructed tables"));
    }
    Ok(met)
}

/// Measures one line of the table and adds its rows.
fn one(
    session: &mut Session<'_>,
    names: u64,
    value_bits: u8,
    sizing: Sizing,
) -> Result<Vec<String>, BenchError> {
    let busy = session.busy("making names");
    let set = Population::of(Kind::Mac, names, value_bits);
    let fresh = Kind::Mac.hashes(set.len(), session.options().pick(1 << 15, 1 << 21));
    drop(busy);
    let params = othello_params(names, value_bits, BuildConfig { sizing, ..BuildConfig::table() })?;
    let runs = session.options().runs().min(RUNS);
    let bar = session.progress(runs);
    let mut found = Vec::new();
    for run in 0..runs {
        session.check()?;
        found.push(churn(params.with_seed(run as u64), &set, &fresh)?);
        bar.add(1);
    }
    bar.finish();
    let over = |figure: &dyn Fn(&Rebuilds) -> f64| Summary::of(&found.iter().map(figure).collect::<Vec<_>>());
    let share = over(&|met| met.times.len() as f64 / met.additions.max(1) as f64);
    let cost = over(&|met| met.times.iter().fold(0.0, |sum, time| sum + time) / met.additions.max(1) as f64);
    found.retain(|met| !met.times.is_empty());
    let over = |figure: &dyn Fn(&Rebuilds) -> f64| Summary::of(&found.iter().map(figure).collect::<Vec<_>>());
    let times = [(Metric::LatencyP50, 0.5), (Metric::LatencyP99, 0.99), (Metric::LatencyMax, 1.0)];
    let times = times.map(|(metric, share)| (metric, over(&|met| percentile(&met.times, share))));
    let case = session
        .case(NAME, names)
        .format(sizing.name())
        .variant(RECONSTRUCTION.to_owned())
        .value_bits(value_bits)
        .threads(1)
        .batch(1);
    session.add(case.clone(), Metric::ReseedShare, share);
    session.add(case.clone(), Metric::ReseedTime, cost);
    for (metric, time) in times.iter().filter(|(_, time)| time.runs > 0) {
        session.add(case.clone(), *metric, *time);
    }
    let is_theirs = sizing != Sizing::Sharded && names == 1_000_000;
    let mut cells = vec![
        short_count(names),
        sizing.to_string(),
        short_count(names / u64::from(params.ranges())),
        short_count(fresh.len() as u64),
        if is_theirs { paper::RECONSTRUCTION } else { paper::NOT_GIVEN }.to_owned(),
        spread(&share, 1e6),
        theory(&params, names).map_or_else(|| "none".to_owned(), |share| digits(share * 1e6)),
        if is_theirs {
            format!("{:.0} (C14)", paper::REBUILD.0 * paper::REBUILD.1 * 1e9)
        } else {
            paper::NOT_GIVEN.to_owned()
        },
        spread(&cost, 1.0),
    ];
    cells.extend(
        times.iter().map(|(_, time)| if time.runs > 0 { spread(time, 1e-3) } else { "none".to_owned() }),
    );
    Ok(cells)
}

/// The median, with the range of the runs.
fn spread(figures: &Summary, unit: f64) -> String {
    let of = |figure: f64| digits(figure * unit);
    if figures.runs == 1 {
        return of(figures.median);
    }
    format!("{} ({}–{})", of(figures.median), of(figures.min), of(figures.max))
}

fn digits(figure: f64) -> String {
    if figure < 9.95 { format!("{figure:.1}") } else { format!("{figure:.0}") }
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
            let params = othello_params(20_000, 3, BuildConfig { sizing, ..BuildConfig::table() }).unwrap();
            let met = churn(params.with_seed(1), &names, &fresh).unwrap();
            let want = theory(&params, 20_000).unwrap() * met.additions as f64;
            let (got, slack) = (met.times.len() as f64, 5.0 * want.sqrt());
            let is_right = got > least * want - slack && got < want + slack;
            assert!(is_right, "{sizing}: {got} of {}, not {want}", met.additions);
            assert!(met.times.is_sorted() && met.additions > 399_000);
        }
    }
}
