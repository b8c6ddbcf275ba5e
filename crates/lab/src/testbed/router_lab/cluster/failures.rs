//! Failures of links and nodes under paced UDP.

use super::nodes::Cluster;
use super::streams::Streams;
use super::{NODES, bridge_port, host, host_name, node_name, pairs, reachable};
use crate::testbed::LabError;
use crate::testbed::context::poll;
use crate::testbed::ends::Verdict;
use crate::testbed::exec::Cmd;
use crate::testbed::outages::track::Moments;
use crate::testbed::plan::Family;
use crate::testbed::probes;
use crate::testbed::router_lab::ScenarioRun;
use crate::testbed::router_lab::machines::Machines;
use scalebricks_types::NodeId;
use std::thread;
use std::time::{Duration, Instant};

/// Time from a failure to the last loss. Hellos are sent every 100 ms, and three must be missed; the rest is for a machine with
/// more busy processes than cores.
const DETECTION_S: f64 = 1.5;

/// How long a failure lasts.
const LASTS: Duration = Duration::from_secs(5);

/// Time after a repair.
const AFTER: Duration = Duration::from_secs(4);

/// Time until routes of a dead node's ports must be withdrawn.
const WITHDRAWN: Duration = Duration::from_secs(3);

/// The node that is killed.
const VICTIM: u8 = 2;

/// Causes each failure, and checks what it does to the streams.
///
/// # Errors
/// [`LabError`] if not all checks could be made.
pub fn check(run: &mut ScenarioRun<'_>, cluster: &mut Cluster<'_>) -> Result<(), LabError> {
    let machines = run.machines;
    let cut = link(machines, || set_link(machines, "down"), || set_link(machines, "up"));
    run.add("link between nodes 0 and 1 down", cut)?;
    let silent = link(machines, || flood(machines, "off"), || flood(machines, "on"));
    run.add("link from node 0 to node 1 loses all silently", silent)?;
    for (check, verdict) in node(machines, cluster)? {
        run.add(check, Ok(verdict))?;
    }
    cluster.check_running()
}

fn set_link(machines: Machines<'_>, state: &str) -> Result<(), LabError> {
    machines.ip(&node_name(0), &format!("link set node1 {state}"))
}

/// Whether the bridge of the link passes frames of node 0 on to node 1.
fn flood(machines: Machines<'_>, state: &str) -> Result<(), LabError> {
    let port = bridge_port(1, 0);
    let line = format!("bridge link set dev {port} flood {state} mcast_flood {state} bcast_flood {state}");
    Cmd::new(&line).inside(&machines.namespace("mesh")).run(machines.0.interrupt).map(drop)
}

fn wait(machines: Machines<'_>, time: Duration) -> Result<(), LabError> {
    let began = Instant::now();
    while began.elapsed() < time {
        machines.0.interrupt.check()?;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Cuts a link and repairs it: all flows lose packets at most until the cut is detected.
fn link(
    machines: Machines<'_>,
    cut: impl Fn() -> Result<(), LabError>,
    repair: impl Fn() -> Result<(), LabError>,
) -> Result<Verdict, LabError> {
    let streams = Streams::start(machines)?;
    wait(machines, Duration::from_secs(1))?;
    let at = probes::now();
    cut()?;
    wait(machines, LASTS)?;
    let repaired = probes::now();
    repair()?;
    wait(machines, AFTER)?;
    let streamed = streams.finish(machines)?;
    let moments = Moments { from: streamed.from, at, repaired };
    let damage = streamed.damage(moments, |_| true);
    let passed =
        damage.lost_before == 0 && damage.recovery_s <= DETECTION_S && damage.return_s <= DETECTION_S;
    let says = format!(
        "{} datagrams, {} lost before, {} within {:.2} s after the cut, {} within {:.2} s after the repair, {} twice",
        damage.sent,
        damage.lost_before,
        damage.lost,
        damage.recovery_s,
        damage.lost_after,
        damage.return_s,
        damage.doubled
    );
    Ok(Verdict::new(passed, says))
}

/// Kills a node and starts it again.
fn node(machines: Machines<'_>, cluster: &mut Cluster<'_>) -> Result<Vec<(&'static str, Verdict)>, LabError> {
    let streams = Streams::start(machines)?;
    wait(machines, Duration::from_secs(1))?;
    let (at, began) = (probes::now(), Instant::now());
    cluster.kill(VICTIM);
    let withdrawn = unreachable(machines)?;
    wait(machines, LASTS.saturating_sub(began.elapsed()))?;
    let repaired = probes::now();
    cluster.restart(VICTIM)?;
    let back = pairs().filter(|(from, to)| *from == VICTIM || *to == VICTIM).collect::<Vec<_>>();
    let mut unreached = Vec::new();
    for family in Family::ALL {
        unreached.extend(reachable(machines, family, &back, Duration::from_secs(30))?);
    }
    let back_s = probes::now() - repaired;
    wait(machines, Duration::from_secs(1))?;
    let streamed = streams.finish(machines)?;
    let moments = Moments { from: streamed.from, at, repaired };
    let others = streamed.damage(moments, |route| !route.meets(NodeId::new(VICTIM)));
    let passed =
        others.lost_before == 0 && others.recovery_s <= DETECTION_S && others.return_s <= DETECTION_S;
    let says = format!(
        "{} datagrams, {} lost before, {} within {:.2} s after the death, {} within {:.2} s after the return",
        others.sent, others.lost_before, others.lost, others.recovery_s, others.lost_after, others.return_s
    );
    let returned = format!("after {back_s:.1} s; not reached: {unreached:?}");
    Ok(vec![
        ("a node dies: its routes are withdrawn", withdrawn),
        ("a node dies: traffic between the others", Verdict::new(passed, says)),
        ("the node returns", Verdict::new(unreached.is_empty(), returned)),
    ])
}

/// Until the other nodes answer that there is no route to the dead node's host.
fn unreachable(machines: Machines<'_>) -> Result<Verdict, LabError> {
    let began = Instant::now();
    let mut left: Vec<(u8, Family)> = (0..NODES)
        .filter(|node| *node != VICTIM)
        .flat_map(|node| Family::ALL.map(|family| (node, family)))
        .collect();
    let limit = WITHDRAWN.saturating_sub(began.elapsed());
    poll(limit, Duration::from_millis(20), machines.0.interrupt, || {
        let mut still = Vec::new();
        for (node, family) in left.drain(..) {
            let line = format!("ping {} -n -c 1 -W 0.2 {}", family.option(), host(VICTIM, family));
            if !machines.ask(&host_name(node), &line)?.to_lowercase().contains("unreachable") {
                still.push((node, family));
            }
        }
        left = still;
        Ok(left.is_empty().then_some(()))
    })?;
    let says = format!("after {:.1} s; still there: {left:?}", began.elapsed().as_secs_f64());
    Ok(Verdict::new(left.is_empty(), says))
}
