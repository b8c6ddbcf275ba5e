//! A node dies: how long until another has noticed, and until the last of its flows is forwarded elsewhere. It starts anew:
//! how long until it has caught up.

use super::flows::{Flow, HASHER, node};
use super::gpts;
use super::rig::{NAME, PATIENCE, Rig, name};
use scalebricks_bench::{BenchError, BenchRun, Metric};
use scalebricks_cluster::local::LocalCluster;
use scalebricks_console::machine;
use scalebricks_control::record::Heirs;
use scalebricks_report::stats::Summary;
use scalebricks_tables::compact::{Reader, Structure};
use scalebricks_types::{KeyHash, NodeId};
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Bytes of memory that a flow takes at each node, and once more for its owner, about.
const BYTES_PER_FLOW: u64 = 500;

/// Measures all sizes.
pub(super) fn measure(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    let nodes = options.nodes(&[4], &[4]);
    for nodes in nodes.into_iter().filter(|nodes| *nodes > 1) {
        for flows in options.keys(&[10_000, 100_000], &[10_000, 100_000, 1_000_000]) {
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
    let metrics = [Metric::DetectionTime, Metric::RepinTime, Metric::RecoveryTime, Metric::JoinTime];
    let mut figures: [Vec<f64>; 4] = Default::default();
    for _ in 0..bench.options.runs() {
        bench.check()?;
        // A cluster for each run: who died has no flows after it.
        let rig = Rig::new(bench, nodes, threads, flows, gpt)?;
        let _busy = bench.busy("killing a node, and starting it anew");
        let times = run(rig, nodes)?;
        for (figures, time) in figures.iter_mut().zip(times) {
            figures.push(time.as_secs_f64() * 1e9);
        }
    }
    for (metric, figures) in metrics.into_iter().zip(figures) {
        let case = bench.case(name(bench), flows).format(gpt.name()).threads(threads).nodes(nodes);
        bench.add(case, metric, Summary::of(&figures));
    }
    Ok(())
}

/// Detection, the rest, both together; joining.
fn run(mut rig: Rig, nodes: usize) -> Result<[Duration; 4], BenchError> {
    let victim = node(nodes - 1);
    let orphans = rig.flows.iter().filter(|(_, session)| session.node == victim);
    let orphans: Vec<KeyHash> = orphans.map(|(key, _)| HASHER.hash(key)).collect();
    let began = Instant::now();
    rig.cluster.kill(victim);
    let (detected, recovered) = rig.runtime.block_on(watch(&rig, victim, &orphans, began))?;
    adopt(&mut rig.flows, victim, nodes)?;
    // Make before break: the named node holds the flow. All keys are checked.
    rig.check()?;

    let began = Instant::now();
    let Rig { cluster, runtime, .. } = &mut rig;
    runtime.block_on(cluster.start(victim)).map_err(|error| BenchError::of(NAME, error))?;
    let has_joined =
        |cluster: &LocalCluster| cluster.node(victim).is_some_and(|node| node.plane.has_caught_up());
    if !runtime.block_on(cluster.wait(PATIENCE, has_joined)) {
        return Err(BenchError::check(NAME, "the node that started has not caught up"));
    }
    let joined = began.elapsed();
    rig.check()?;
    Ok([detected, recovered.saturating_sub(detected), recovered, joined])
}

/// Looks at the others until they have given the node up, and until none of their tables names it for its flows. A flow that
/// a table names another for stays so: each is looked at until then, and not again before the end.
async fn watch(
    rig: &Rig,
    victim: NodeId,
    orphans: &[KeyHash],
    began: Instant,
) -> Result<(Duration, Duration), BenchError> {
    let others = || rig.cluster.nodes().map(|(_, node)| node);
    let mut tables: Vec<(Reader, usize)> = others().map(|node| (node.tables.reader(), 0)).collect();
    let mut detected = None;
    loop {
        let is_given_up = || others().any(|node| node.plane.view().alive().all(|alive| alive != victim));
        if detected.is_none() && is_given_up() {
            detected = Some(began.elapsed());
        }
        for (reader, at) in &mut tables {
            *at += orphans[*at..].iter().take_while(|hash| reader.get(**hash) != victim.get()).count();
        }
        if let Some(detected) = detected
            && tables.iter().all(|(_, at)| *at == orphans.len())
        {
            return Ok((detected, began.elapsed()));
        }
        if began.elapsed() > PATIENCE {
            return Err(BenchError::check(NAME, "a dead node's flows are not forwarded elsewhere"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Where the flows of the node that died are to be now.
fn adopt(flows: &mut [Flow], victim: NodeId, nodes: usize) -> Result<(), BenchError> {
    let heirs = Heirs::new((0..nodes).map(node).filter(|heir| *heir != victim));
    let heirs = heirs.map_err(|error| BenchError::of(NAME, error))?;
    for (_, session) in flows.iter_mut().filter(|(_, session)| session.node == victim) {
        let heir = heirs.of_flow(session.flow(), |_| true);
        session.node = heir.ok_or_else(|| BenchError::check(NAME, "a flow has no heir"))?;
    }
    Ok(())
}
