//! Calls of the API, each of which waits for the log, or for the tables of all nodes; by nodes, callers, and changes a call.

use super::flows::{Flow, moved};
use super::gpts;
use super::rig::{NAME, PATIENCE, Rig, accept, name, plane};
use scalebricks_bench::rounds::{Measurement, RunResult, interleave};
use scalebricks_bench::{BenchError, BenchRun, Metric};
use scalebricks_cluster::ControlPlane;
use scalebricks_console::machine;
use scalebricks_control::record::Change;
use scalebricks_engine::embedded::storage::{Directory, sync_rate};
use scalebricks_tables::compact::Structure;
use std::time::{Duration, Instant};

/// Bytes of memory that a flow takes at each node, and once more for its owner, about.
const BYTES_PER_FLOW: u64 = 500;

/// Bytes of each write that is made durable beside.
const SYNC_BYTES: usize = 4_096;

/// How the API is called.
#[derive(Clone, Copy)]
struct Manner {
    callers: usize,
    /// Changes a call.
    batch: usize,
    /// Whether a call is over when all nodes have applied it, not when it is in the log.
    to_tables: bool,
}

/// One change a call from ever more callers, and many a call from some.
const CALLS: [(usize, usize); 5] = [(1, 1), (64, 1), (1024, 1), (8192, 1), (8, 1000)];

/// Measures all sizes.
pub(super) fn measure(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    for flows in options.keys(&[16_384], &[131_072]) {
        for nodes in options.nodes(&[1, 4], &[1, 2, 4]) {
            for threads in options.threads(&[machine::cores()], &[machine::cores()]) {
                for gpt in gpts(bench.options, &[Structure::SetSep]) {
                    if bench.fits(flows, BYTES_PER_FLOW * (nodes as u64 + 1))? {
                        one(bench, flows, nodes, threads, gpt)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn one(
    bench: &mut BenchRun<'_>,
    flows: u64,
    nodes: usize,
    threads: usize,
    gpt: Structure,
) -> Result<(), BenchError> {
    let mut rig = Rig::new(bench, nodes, threads, flows, gpt)?;
    let epoch = rig.epoch()?;
    let time = bench.options.run_time();
    let disk = bench.case("disk", flows).batch(SYNC_BYTES).nodes(nodes);
    let mut turns =
        vec![Measurement::new(disk, Metric::FsyncRate, move |rig: &mut Rig| syncs(rig, time / 2))];
    for (callers, batch) in CALLS {
        for to_tables in [false, true] {
            let case = bench
                .case(name(bench), flows)
                .format(gpt.name())
                .variant(if to_tables { "to all tables" } else { "to the log" }.to_owned())
                .threads(threads)
                .batch(batch)
                .nodes(nodes)
                .callers(callers);
            let metrics = [Metric::UpdateRate, Metric::LatencyP50, Metric::LatencyP99];
            let rows = metrics.map(|metric| (case.clone(), metric)).to_vec();
            let manner = Manner { callers, batch, to_tables };
            turns.push(Measurement::several(rows, move |rig: &mut Rig| run(rig, nodes, manner, time)));
        }
    }
    interleave(bench, &mut rig, turns)?;
    if rig.epoch()? != epoch {
        bench
            .console
            .note("control: nodes were given up for a while, as they were not heard: use a quieter machine");
    }
    Ok(())
}

fn syncs(rig: &Rig, time: Duration) -> Result<RunResult, BenchError> {
    let path = rig.directory.path().join("syncs");
    let in_use = || std::io::Error::other("another process has the directory");
    let rate = Directory::lock(&path).map_err(|error| error.unwrap_or_else(in_use));
    let rate = rate.and_then(|(directory, _lock)| sync_rate(&directory, SYNC_BYTES, time));
    rate.map(RunResult::from).map_err(|error| BenchError::of("disk", error))
}

/// What a caller did.
struct Called {
    flows: Vec<Flow>,
    changes: usize,
    latencies: Vec<Duration>,
}

/// Calls for some time, each caller with flows of its own, so that it is known what each is to lead to; then all tables are
/// compared with that.
fn run(rig: &mut Rig, nodes: usize, manner: Manner, time: Duration) -> Result<RunResult, BenchError> {
    let flows = std::mem::take(&mut rig.flows);
    let share = flows.len().div_ceil(manner.callers).max(1);
    let mut callers = Vec::new();
    let began = Instant::now();
    for (number, own) in flows.chunks(share).enumerate() {
        let plane = plane(&rig.cluster, number % nodes)?.clone();
        callers.push(rig.runtime.spawn(call(plane, own.to_vec(), nodes, manner, began + time)));
    }
    let (mut changes, mut latencies, mut failed) = (0, Vec::new(), None);
    for caller in callers {
        match rig.runtime.block_on(caller).map_err(|error| BenchError::of(NAME, error))? {
            Ok(called) => {
                rig.flows.extend(called.flows);
                changes += called.changes;
                latencies.extend(called.latencies);
            }
            Err(error) => failed = Some(error),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    failed.map_or(Ok(()), Err)?;
    rig.check()?;
    latencies.sort_unstable();
    let figures = vec![changes as f64 / seconds, percentile(&latencies, 50), percentile(&latencies, 99)];
    Ok(RunResult { figures, table_bytes: None })
}

async fn call(
    plane: ControlPlane,
    mut flows: Vec<Flow>,
    nodes: usize,
    manner: Manner,
    until: Instant,
) -> Result<Called, BenchError> {
    let (mut changes, mut latencies, mut at) = (0, Vec::new(), 0);
    while latencies.is_empty() || Instant::now() < until {
        let mut next = || {
            at = (at + 1) % flows.len();
            moved(&mut flows[at], nodes)
        };
        let moves: Vec<Change> = (0..manner.batch).map(|_| next()).collect();
        changes += moves.len();
        let began = Instant::now();
        let calling = async {
            let accepted = accept(&plane, moves).await?;
            if manner.to_tables && !plane.applied(&accepted).await {
                return Err(BenchError::check(NAME, "a node has stopped"));
            }
            Ok(())
        };
        let called = tokio::time::timeout(PATIENCE, calling).await;
        called.map_err(|_| BenchError::check(NAME, "a call has not come back"))??;
        latencies.push(began.elapsed());
    }
    Ok(Called { flows, changes, latencies })
}

/// Nanoseconds that so many of a hundred took at the most.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e9)
}
