//! Interleaved measurements, A B C A B C …, so that a disturbance of the machine affects all of them. Runs
//! with impossible results, which a disturbed clock can produce, are repeated.

use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::row::{Case, Metric};
use scalebricks_report::stats::Summary;
use std::time::Duration;

/// Result of one run.
#[derive(Debug, Clone, Default)]
pub struct RunResult {
    /// One figure for each row of the measurement.
    pub figures: Vec<f64>,
    /// Bytes of the table, if known only after the run.
    pub table_bytes: Option<u64>,
}

impl From<f64> for RunResult {
    fn from(figure: f64) -> Self {
        vec![figure].into()
    }
}

impl From<Vec<f64>> for RunResult {
    fn from(figures: Vec<f64>) -> Self {
        Self { figures, table_bytes: None }
    }
}

/// Performs one run.
pub type Measure<'a, S> = Box<dyn FnMut(&mut S) -> Result<RunResult, BenchError> + 'a>;

/// A measurement that is interleaved with others. `S` is the state they share.
pub struct Measurement<'a, S> {
    rows: Vec<(Case, Metric)>,
    measure: Measure<'a, S>,
}

impl<'a, S> Measurement<'a, S> {
    /// A measurement with one figure per run.
    pub fn new(
        case: Case,
        metric: Metric,
        measure: impl FnMut(&mut S) -> Result<RunResult, BenchError> + 'a,
    ) -> Self {
        Self::several(vec![(case, metric)], measure)
    }

    /// A measurement with several figures per run.
    pub fn several(
        rows: Vec<(Case, Metric)>,
        measure: impl FnMut(&mut S) -> Result<RunResult, BenchError> + 'a,
    ) -> Self {
        Self { rows, measure: Box::new(measure) }
    }
}

/// Tries before a benchmark gives up on a run. A busy machine can need many.
const TRIES: usize = 16;

/// Rejected tries that are repeated at once; before each further try there is a pause.
const AT_ONCE: usize = 3;

/// The first pause, and the longest; each is twice as long as the one before.
const PAUSES: (Duration, Duration) = if cfg!(test) {
    (Duration::ZERO, Duration::ZERO)
} else {
    (Duration::from_secs(1), Duration::from_secs(30))
};

/// How much faster than N times N threads may appear, to allow for errors of clocks on an undisturbed
/// machine.
const TOLERANCE: f64 = 1.1;

/// Seconds per thread by which a disturbance may lengthen the single-threaded run unnoticed: a few time
/// slices of a busy system.
const SLICES: f64 = 0.05;

/// The pause after this many rejected tries. Other virtual machines can take most of the caches' and the memory's
/// bandwidth for minutes.
fn pause_after(tries: usize) -> Duration {
    let Some(doubled) = tries.checked_sub(AT_ONCE) else { return Duration::ZERO };
    PAUSES.1.min(PAUSES.0 * (1 << doubled.min(16)))
}

/// Performs a run, and repeats and counts it while it is rejected, at last with pauses.
///
/// # Errors
/// [`BenchError::Rejected`] after sixteen tries; any other error at once.
pub fn retry_rejected<T>(
    bench: &BenchRun<'_>,
    mut run: impl FnMut() -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    for tries in 1.. {
        bench.check()?;
        match run() {
            Err(BenchError::Rejected { what, why, .. }) => {
                bench.reject();
                bench.console.note(&format!("{what}: run rejected: {why}"));
                if tries == TRIES {
                    return Err(BenchError::Rejected { what, why, tries });
                }
                bench.pause(pause_after(tries))?;
            }
            done => return done,
        }
    }
    unreachable!("there is a last try")
}

/// A measurement with the figures of its runs so far, by row.
struct Series<'a, S> {
    turn: Measurement<'a, S>,
    figures: Vec<Vec<f64>>,
}

impl<S> Series<'_, S> {
    /// Performs one run.
    fn run(&mut self, bench: &BenchRun<'_>, state: &mut S) -> Result<(), BenchError> {
        let Measurement { rows, measure } = &mut self.turn;
        let found = retry_rejected(bench, || {
            let found = measure(state)?;
            let mut told = rows.iter().zip(&found.figures);
            match told.find(|((_, metric), figure)| !can_be(*metric, **figure)) {
                Some(((case, metric), figure)) => {
                    Err(BenchError::rejected(&name(case), format!("a {} of {figure}", metric.name())))
                }
                None => Ok(found),
            }
        })?;
        for ((figures, figure), row) in self.figures.iter_mut().zip(found.figures).zip(rows) {
            figures.push(figure);
            row.0.table_bytes = found.table_bytes.or(row.0.table_bytes);
        }
        Ok(())
    }

    /// Repeats the last run.
    fn again(&mut self, bench: &BenchRun<'_>, state: &mut S) -> Result<(), BenchError> {
        for figures in &mut self.figures {
            figures.pop();
        }
        self.run(bench, state)
    }
}

/// Whether a metric can have this value: rates are finite, and times are positive.
fn can_be(metric: Metric, figure: f64) -> bool {
    match metric.unit() {
        "ns" => figure.is_finite() && figure > 0.0,
        "1/s" => figure.is_finite() && figure >= 0.0,
        _ => figure.is_finite(),
    }
}

/// The name of a case in errors.
fn name(case: &Case) -> String {
    let threads = case.threads.map(|threads| format!("{threads} threads"));
    let parts = [Some(case.structure.clone()), case.format.map(str::to_owned), case.variant.clone(), threads];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Two measurements that differ only in their threads: one, and several.
struct ThreadScaling {
    one: usize,
    several: usize,
    row: usize,
    threads: usize,
}

impl ThreadScaling {
    /// All such pairs among the measurements that build or look up all keys.
    fn among<S>(all: &[Series<'_, S>]) -> Vec<Self> {
        let alone = |row: &(Case, Metric)| (row.0.clone().threads(1), row.1);
        let mut found = Vec::new();
        for (several, series) in all.iter().enumerate() {
            for (row, of) in series.turn.rows.iter().enumerate() {
                let (Some(threads @ 2..), Metric::BuildRate | Metric::LookupRate) = (of.0.threads, of.1)
                else {
                    continue;
                };
                let is_one = |series: &Series<'_, S>| series.turn.rows.get(row) == Some(&alone(of));
                found.extend(all.iter().position(is_one).map(|one| Self { one, several, row, threads }));
            }
        }
        found
    }

    /// What is wrong with the last runs of the two, if several threads were faster than possible.
    fn fault<S>(&self, all: &[Series<'_, S>]) -> Option<String> {
        let rate = |turn: usize| all[turn].figures[self.row].last().copied();
        let (one, several) = (rate(self.one)?, rate(self.several)?);
        let keys = all[self.one].turn.rows[self.row].0.keys as f64;
        let most = self.threads as f64 * (TOLERANCE * keys / several + SLICES);
        let times = several / one;
        (keys / one > most).then(|| format!("{times:.2} times as fast as one thread"))
    }
}

/// Performs all runs of all measurements, round by round, and adds their rows to the bench.
///
/// Impossible runs are repeated up to fifteen times: a run that took no time, and a run of N threads that was
/// more than N times as fast as the single-threaded run of the same round, together with the latter.
///
/// # Errors
/// The error of the first run that fails; [`BenchError::Rejected`] if every try of a run was rejected; an
/// interrupt between two runs.
pub fn interleave<S>(
    bench: &mut BenchRun<'_>,
    state: &mut S,
    turns: Vec<Measurement<'_, S>>,
) -> Result<(), BenchError> {
    interleave_up_to(usize::MAX, bench, state, turns)
}

/// As [`interleave`] with at most this many runs.
///
/// # Errors
/// As [`interleave`].
pub fn interleave_up_to<S>(
    most: usize,
    bench: &mut BenchRun<'_>,
    state: &mut S,
    turns: Vec<Measurement<'_, S>>,
) -> Result<(), BenchError> {
    let runs = bench.options.runs().min(most);
    let bar = bench.progress(turns.len() * runs);
    let all = turns.into_iter();
    let mut all: Vec<Series<'_, S>> =
        all.map(|turn| Series { figures: vec![Vec::with_capacity(runs); turn.rows.len()], turn }).collect();
    let pairs = ThreadScaling::among(&all);
    for _ in 0..runs {
        for series in &mut all {
            series.run(bench, state)?;
            bar.add(1);
        }
        for pair in &pairs {
            let mut is_first = true;
            retry_rejected(bench, || {
                if !std::mem::take(&mut is_first) {
                    all[pair.one].again(bench, state)?;
                    all[pair.several].again(bench, state)?;
                }
                let what = name(&all[pair.several].turn.rows[pair.row].0);
                pair.fault(&all).map_or(Ok(()), |fault| Err(BenchError::rejected(&what, fault)))
            })?;
        }
    }
    bar.finish();
    for Series { turn, figures } in all {
        for (figures, (case, metric)) in figures.iter().zip(turn.rows) {
            bench.add(case, metric, Summary::of(figures));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn turns_alternate_and_every_figure_is_kept() {
        let mut bench = BenchRun::for_test("test", Options::default());
        let turn = |name: &'static str, step: usize| {
            let case = bench.case(name, 1);
            let rows = vec![(case.clone(), Metric::InsertRate), (case, Metric::Loss)];
            Measurement::several(rows, move |order: &mut Vec<&str>| {
                order.push(name);
                let figure = (order.len() * step) as f64;
                Ok(RunResult { figures: vec![figure, -figure], table_bytes: Some(9) })
            })
        };
        let (turns, mut order) = (vec![turn("a", 1), turn("b", 10)], Vec::new());
        interleave(&mut bench, &mut order, turns).unwrap();
        assert_eq!(order, ["a", "b"].repeat(5));
        let rows = bench.rows();
        assert_eq!(rows.len(), 4);
        assert_eq!((rows[0].median, rows[0].min, rows[0].max, rows[0].runs), (5.0, 1.0, 9.0, 5));
        assert_eq!((rows[3].metric, rows[3].median), (Metric::Loss, -60.0));
        assert!(rows.iter().all(|row| row.case.table_bytes == Some(9)));
    }

    /// Interleaves measurements that return these figures, the last one forever; returns rows, runs made and
    /// runs rejected.
    fn turns_of(keys: u64, turns: &[(usize, &[f64])]) -> (Result<Vec<f64>, BenchError>, usize, usize) {
        let options = Options { runs: Some(1), ..Options::default() };
        let mut bench = BenchRun::for_test("test", options);
        let turn = |&(threads, figures): &(usize, &[f64])| {
            let case = bench.case("a", keys).threads(threads);
            let mut left = figures.to_vec();
            Measurement::new(case, Metric::LookupRate, move |made: &mut usize| {
                *made += 1;
                Ok(if left.len() > 1 { left.remove(0) } else { left[0] }.into())
            })
        };
        let turns = turns.iter().map(turn).collect();
        let mut made = 0;
        let done = interleave(&mut bench, &mut made, turns);
        let rates = bench.rows().iter().map(|row| row.median).collect();
        (done.map(|()| rates), made, bench.rejected())
    }

    #[test]
    fn threads_that_are_faster_than_they_can_be_are_measured_again() {
        let keys = 100_000_000;
        let (rates, made, rejected) = turns_of(keys, &[(1, &[1e8, 3e8]), (2, &[5e8, 6e8])]);
        assert_eq!((rates.unwrap(), made, rejected), (vec![3e8, 6e8], 4, 1));
        let (error, made, rejected) = turns_of(keys, &[(1, &[1e8]), (2, &[3.1e8])]);
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("a, 2 threads: rejected 16 times: 3.10 times as fast"), "{error}");
        assert_eq!((made, rejected), (2 * TRIES, TRIES));
    }

    #[test]
    fn a_short_run_may_be_disturbed() {
        let (rates, made, rejected) = turns_of(1000, &[(1, &[1e6]), (2, &[5e6]), (4, &[2e6])]);
        assert_eq!((rates.unwrap().len(), made, rejected), (3, 3, 0));
        assert!(made_of_none(&[(1, &[1e8]), (4, &[4.3e8])]));
    }

    fn made_of_none(turns: &[(usize, &[f64])]) -> bool {
        turns_of(100_000_000, turns).2 == 0
    }

    #[test]
    fn a_rate_without_end_is_rejected() {
        let (rates, made, rejected) = turns_of(10, &[(1, &[f64::INFINITY, f64::NAN, -1.0, 7.0])]);
        assert_eq!((rates.unwrap(), made, rejected), (vec![7.0], 4, 3));
        assert!(turns_of(10, &[(1, &[f64::INFINITY])]).0.is_err());
        assert!(
            !can_be(Metric::PacketTime, 0.0) && can_be(Metric::UpdateRate, 0.0) && can_be(Metric::Loss, -1.0)
        );
    }
}
