//! Throughput and latency of whole clusters according to RFC 2544 (§26.1 and §26.2), with shorter trials.
//!
//! The paper's Figure 10 has six approaches that its text does not list. Here they are full duplication, hash
//! partitioning and `ScaleBricks`, each with two kinds of exact table, plus VLB of its Figure 2. Each is
//! measured at shares of its own throughput and at rates common to all.

use super::cluster::TestCluster;
use super::rfc2544::throughput;
use super::tables::{ExactTable, Placement};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::pin;
use crate::row::Metric;
use scalebricks_console::Interrupt;
use scalebricks_report::stats::Summary;
use scalebricks_types::ClusterSize;
use std::time::Duration;

/// Maximum flows; latencies depend on hops and queues.
const MAX_FLOWS: u64 = 250_000;

/// Loads in percent of the approach's own throughput.
const OWN_LOADS: [u32; 5] = [10, 50, 80, 90, 100];

/// Common loads in percent of the lowest throughput.
const EQUAL_LOADS: [u32; 2] = [50, 90];

/// Minimum searches for the throughput.
const SEARCHES: usize = 3;

/// Parameters of the measurement.
#[derive(Debug, Clone, Copy)]
struct Method {
    searches: usize,
    /// Duration of a trial in a search.
    search: Duration,
    /// Trials per latency.
    trials: usize,
    /// Duration of each trial.
    trial: Duration,
}

impl Method {
    /// RFC 2544 requires the mean of 20 latency trials.
    fn of(bench: &BenchRun<'_>) -> Self {
        let options = bench.options;
        let [search, trial] = options.pick([20, 10], [200, 50]).map(Duration::from_millis);
        Self { searches: options.runs().max(SEARCHES), search, trials: options.pick(3, 20), trial }
    }
}

/// The approaches.
fn approaches() -> Vec<(Placement, ExactTable)> {
    let other = if cfg!(feature = "dpdk") { ExactTable::RteHash } else { ExactTable::Chained };
    let ways = [Placement::FullDuplication, Placement::HashPartition, Placement::ScaleBricks];
    let six = [other, ExactTable::Cuckoo].into_iter().flat_map(|exact| ways.map(|way| (way, exact)));
    six.chain([(Placement::Vlb, ExactTable::Cuckoo)]).collect()
}

/// A load: its name, and its rate for each candidate.
struct Load {
    name: String,
    rates: Vec<f64>,
}

/// A row: index of the candidate, load, metric and figures.
struct LatencyRow {
    candidate: usize,
    variant: String,
    metric: Metric,
    figures: Vec<f64>,
}

/// Measures throughput and latencies by load for all approaches.
///
/// # Errors
/// [`BenchError`], also for a cluster that loses packets at any rate.
pub fn measure(bench: &mut BenchRun<'_>, asked: u64, size: ClusterSize) -> Result<(), BenchError> {
    let count = asked.min(MAX_FLOWS);
    let busy = bench.busy("measuring latencies");
    let candidates: Result<Vec<TestCluster>, BenchError> = approaches()
        .into_iter()
        .map(|(spread, exact)| TestCluster::new(spread, exact, count, size))
        .collect();
    let mut candidates = candidates?;
    let (method, interrupt) = (Method::of(bench), bench.interrupt);
    // On a pinned thread, as all timed work.
    let found = std::thread::scope(|scope| {
        let measured = scope.spawn(|| {
            pin::to_core(0);
            all(&mut candidates, method, interrupt)
        });
        measured.join().map_err(|_| BenchError::Threads("a measuring thread panicked".to_owned()))?
    })?;
    drop(busy);
    for LatencyRow { candidate, variant, metric, figures } in found {
        let candidate = &candidates[candidate];
        let case = candidate
            .tables()
            .describe(bench.case(candidate.name(), count))
            .variant(variant)
            .threads(1)
            .nodes(size.get());
        bench.add(case, metric, Summary::of(&figures));
    }
    bench.check()
}

fn all(
    candidates: &mut [TestCluster],
    method: Method,
    interrupt: &Interrupt,
) -> Result<Vec<LatencyRow>, BenchError> {
    let mut searches = vec![Vec::new(); candidates.len()];
    for _ in 0..method.searches {
        for (candidate, rates) in candidates.iter_mut().zip(&mut searches) {
            let rate = throughput(|rate| {
                interrupt.check()?;
                Ok::<_, BenchError>(candidate.offer(rate, method.search).lost())
            })?;
            rates.push(
                rate.ok_or_else(|| BenchError::check(candidate.name(), "it loses packets at any rate"))?,
            );
        }
    }
    let own: Vec<f64> = searches.iter().map(|rates| Summary::of(rates).median).collect();
    let mut found: Vec<LatencyRow> = (0..)
        .zip(searches)
        .map(|(candidate, figures)| LatencyRow {
            candidate,
            variant: "throughput".to_owned(),
            metric: Metric::PacketRate,
            figures,
        })
        .collect();
    for load in loads(&own) {
        found.extend(at_load(candidates, &load, method, interrupt)?);
    }
    Ok(found)
}

/// The loads, derived from the candidates' throughputs.
fn loads(own: &[f64]) -> Vec<Load> {
    let share = |percent: u32, rate: f64| rate * f64::from(percent) / 100.0;
    let least = own.iter().copied().fold(f64::INFINITY, f64::min);
    let of_own = OWN_LOADS.map(|percent| Load {
        name: format!("at {percent} % of its throughput"),
        rates: own.iter().map(|&rate| share(percent, rate)).collect(),
    });
    let equal = EQUAL_LOADS.map(|percent| {
        let rate = share(percent, least);
        Load { name: format!("at {:.2} Mpps", rate / 1e6), rates: vec![rate; own.len()] }
    });
    of_own.into_iter().chain(equal).collect()
}

/// Interleaves the trials of all candidates at one load.
fn at_load(
    candidates: &mut [TestCluster],
    load: &Load,
    method: Method,
    interrupt: &Interrupt,
) -> Result<Vec<LatencyRow>, BenchError> {
    const METRICS: [Metric; 6] = [
        Metric::PacketRate,
        Metric::LatencyMean,
        Metric::LatencyP50,
        Metric::LatencyP99,
        Metric::LatencyMax,
        Metric::PacketLoss,
    ];
    let mut figures = vec![[const { Vec::new() }; METRICS.len()]; candidates.len()];
    for _ in 0..method.trials {
        for ((candidate, figures), &rate) in candidates.iter_mut().zip(&mut figures).zip(&load.rates) {
            interrupt.check()?;
            let trial = candidate.offer(rate, method.trial);
            let of_trial =
                [rate, trial.mean(), trial.at(0.5), trial.at(0.99), trial.at(1.0), trial.lost_share()];
            figures.iter_mut().zip(of_trial).for_each(|(figures, figure)| figures.push(figure));
        }
    }
    let rows = figures.into_iter().enumerate().flat_map(|(candidate, figures)| {
        METRICS.into_iter().zip(figures).map(move |(metric, figures)| LatencyRow {
            candidate,
            variant: load.name.clone(),
            metric,
            figures,
        })
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_shares_of_each_ones_own_and_of_the_least() {
        let loads = loads(&[2e6, 4e6]);
        assert_eq!(loads.len(), OWN_LOADS.len() + EQUAL_LOADS.len());
        assert_eq!(
            (loads[2].name.as_str(), &loads[2].rates[..]),
            ("at 80 % of its throughput", &[1.6e6, 3.2e6][..])
        );
        assert_eq!((loads[6].name.as_str(), &loads[6].rates[..]), ("at 1.80 Mpps", &[1.8e6, 1.8e6][..]));
    }

    #[test]
    fn six_approaches_and_vlb() {
        let approaches = approaches();
        assert_eq!(approaches.len(), 7);
        assert_eq!(approaches.iter().filter(|(spread, _)| *spread == Placement::HashPartition).count(), 2);
    }
}
