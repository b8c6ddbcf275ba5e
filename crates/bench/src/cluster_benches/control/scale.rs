//! `cluster-scale`: many nodes in this process, each with its control plane, its GPT of all flows and the entries of its own, over
//! one log on disk. Every flow is brought by calls of the API; at the end all tables of all nodes are compared with a plain list.
//!
//! Two shapes: all partitions of the key space; and one partition with as many flows, which is what each of 64 partitions
//! holds in a cluster of 64 times as many. Totals of the second times 64 are computed, not measured.

use super::flows::{Flow, brought, flows};
use super::gpts;
use super::rig::{NAME, PARTITIONS, PATIENCE, Rig, TOGETHER, accept, name, plane, shape};
use scalebricks_bench::{BenchError, BenchRun, Metric};
use scalebricks_cluster::ControlPlane;
use scalebricks_cluster::local::MemoryTables;
use scalebricks_console::{Progress, machine};
use scalebricks_report::stats::Summary;
use scalebricks_tables::compact::Structure;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Callers, each with one call at a time.
const CALLERS: usize = 8;

/// Bytes per flow outside the GPT: the plain list, the owner's record, the entry at the handling node.
const BYTES_PER_FLOW: u64 = 500;

/// Bits of a flow in the GPT of each node, at most: tables have room for twice the flows.
const GPT_BITS_PER_FLOW: u64 = 2 * 12;

/// The number of rates that are told of bringing all flows: one for each tenth.
const TENTHS: usize = 10;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub(crate) fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    for nodes in options.nodes(&[8], &[64]) {
        for flows in options.keys(&[100_000], &[16_000_000]) {
            for gpt in gpts(options, &[Structure::SetSep]) {
                let bytes = BYTES_PER_FLOW + GPT_BITS_PER_FLOW * nodes as u64 / 8;
                if bench.fits(flows, bytes)? {
                    one(bench, nodes, flows, PARTITIONS, gpt)?;
                    one(bench, nodes, flows, 1, gpt)?;
                }
            }
        }
    }
    Ok(())
}

fn one(
    bench: &mut BenchRun<'_>,
    nodes: usize,
    count: u64,
    partitions: u32,
    gpt: Structure,
) -> Result<(), BenchError> {
    let threads = machine::cores();
    let mut rig = Rig::empty(bench, nodes, threads, shape(nodes, count, partitions, gpt)?)?;
    rig.flows = flows(count, nodes);
    let epoch = rig.epoch()?;
    let bar = bench.progress(rig.flows.len().div_ceil(TOGETHER));
    let calls = bring(bench, &rig, nodes, &bar)?;
    bar.finish();
    let busy = bench.busy("comparing all tables of all nodes");
    rig.check()?;
    drop(busy);
    if rig.epoch()? != epoch {
        bench.console.note(
            "cluster-scale: nodes were given up for a while, as they were not heard: use a quieter machine",
        );
    }

    let tables = || rig.cluster.nodes().map(|(_, node)| &node.tables);
    let gpt_bytes = tables().map(MemoryTables::gpt_bytes).max().unwrap_or(0);
    let handled: Vec<f64> = tables().map(|tables| tables.len() as f64).collect();
    let case = bench
        .case(name(bench), count)
        .format(gpt.name())
        .variant(match partitions {
            1 => "one partition".to_owned(),
            _ => format!("{partitions} partitions"),
        })
        .threads(threads)
        .nodes(nodes)
        .table_bytes(gpt_bytes as u64);
    bench.add(case.clone(), Metric::UpdateRate, Summary::of(&rates(calls)));
    bench.add_exact(case.clone(), Metric::BitsPerKey, gpt_bytes as f64 * 8.0 / count as f64);
    bench.add(case, Metric::NodeFlows, Summary::of(&handled));
    Ok(())
}

/// Brings all flows by several callers at different nodes, each of which waits until all nodes have applied its call. Returns
/// when each call was over, from the beginning, and its number of flows.
fn bring(
    bench: &BenchRun<'_>,
    rig: &Rig,
    nodes: usize,
    bar: &Progress,
) -> Result<Vec<(Duration, usize)>, BenchError> {
    let (calls, began) = (Mutex::new(Vec::new()), Instant::now());
    let share = rig.flows.len().div_ceil(CALLERS).next_multiple_of(TOGETHER);
    rig.runtime.block_on(async {
        let calls = &calls;
        let callers = rig.flows.chunks(share).enumerate().map(|(number, flows)| async move {
            let plane = plane(&rig.cluster, number % nodes)?;
            for part in flows.chunks(TOGETHER) {
                bench.check()?;
                bring_part(plane, part).await?;
                bar.add(1);
                calls.lock().unwrap_or_else(PoisonError::into_inner).push((began.elapsed(), part.len()));
            }
            Ok::<(), BenchError>(())
        });
        futures_util::future::try_join_all(callers).await.map(drop)
    })?;
    Ok(calls.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Flows per second in each tenth of the calls. A single rate would hide that tables which fill and grow become slower.
fn rates(mut calls: Vec<(Duration, usize)>) -> Vec<f64> {
    calls.sort_unstable();
    let mut before = Duration::ZERO;
    let rate = |calls: &[(Duration, usize)]| {
        let end = calls.last().map_or(before, |call| call.0);
        let time = end.saturating_sub(std::mem::replace(&mut before, end)).max(Duration::from_nanos(1));
        calls.iter().map(|call| call.1).sum::<usize>() as f64 / time.as_secs_f64()
    };
    calls.chunks(calls.len().div_ceil(TENTHS).max(1)).map(rate).collect()
}

async fn bring_part(plane: &ControlPlane, part: &[Flow]) -> Result<(), BenchError> {
    let calling = async {
        let accepted = accept(plane, part.iter().map(brought).collect()).await?;
        if plane.applied(&accepted).await {
            Ok(())
        } else {
            Err(BenchError::check(NAME, "a node has stopped"))
        }
    };
    let late =
        || BenchError::check(NAME, format!("flows have not reached all tables in {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, calling).await.map_err(|_| late())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_its_tenth() {
        // Twenty calls of 100 flows, out of order: ten in the first second, ten in the nine after.
        let at =
            |call: u64| Duration::from_millis(if call <= 10 { call * 100 } else { 1000 + (call - 10) * 900 });
        let rates = rates((1..=20).rev().map(|call| (at(call), 100)).collect());
        assert_eq!(rates.len(), TENTHS);
        assert!(rates[..5].iter().all(|rate| (rate - 1000.0).abs() < 1e-6), "{rates:?}");
        assert!(rates[5..].iter().all(|rate| (rate - 200.0 / 1.8).abs() < 1e-6), "{rates:?}");
    }

    #[test]
    fn few_calls_have_a_rate_each() {
        assert_eq!(rates(vec![(Duration::from_secs(1), 5), (Duration::from_secs(3), 4)]), [5.0, 2.0]);
    }
}
