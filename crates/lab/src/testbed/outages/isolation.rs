//! Failure isolation: one node dies, and nobody takes its flows. What is lost between nodes that live, beside hash partition, where a
//! third node has to be asked where a packet goes.

use super::loads::Loads;
use super::results::Isolation;
use super::track::{Damage, Moments};
use super::{BEYOND, CALM, WARM};
use crate::testbed::LabError;
use crate::testbed::probes;
use crate::testbed::session::Lab;
use scalebricks_apps::gateway::Architecture;
use scalebricks_console::{Console, Interrupt};
use scalebricks_types::NodeId;
use std::thread;
use std::time::Duration;

/// How long the node is dead.
const DEAD: Duration = Duration::from_secs(5);

/// The architectures, each with flows from a file: the control plane feeds only one of them.
const ARCHITECTURES: [Architecture; 2] = [Architecture::ScaleBricks, Architecture::HashPartition];

/// Kills a node with each architecture.
///
/// # Errors
/// [`LabError`].
pub fn run(lab: &mut Lab<'_>, console: &Console, interrupt: &Interrupt) -> Result<Vec<Isolation>, LabError> {
    let is_controlled = std::mem::replace(&mut lab.plan.is_controlled, false);
    let done =
        ARCHITECTURES.into_iter().map(|architecture| one(lab, architecture, console, interrupt)).collect();
    lab.plan.is_controlled = is_controlled;
    done
}

fn one(
    lab: &mut Lab<'_>,
    architecture: Architecture,
    console: &Console,
    interrupt: &Interrupt,
) -> Result<Isolation, LabError> {
    lab.stop()?;
    lab.start(architecture)?;
    console.note("a node dies, and nobody takes its flows");
    let node = lab.plan.size.nodes().last().unwrap_or(NodeId::new(0));
    let loads = Loads::start(lab.processes(), BEYOND)?;
    thread::sleep(WARM);
    let from = probes::now();
    thread::sleep(CALM);
    let at = probes::now();
    if let Some(process) = lab.nodes.remove(&node) {
        process.kill_at_once();
    }
    thread::sleep(DEAD);
    let moments = Moments { from, at, undone: probes::now() };
    let loads = loads.finish(&lab.plan, interrupt)?;
    let (mut between_living, mut through_it) = (Damage::default(), Damage::default());
    for track in loads.tracks {
        let damage = track.damage(moments);
        // What was sent before tells of the machine.
        let sent = track.packets.iter().filter(|(sent, _)| *sent >= moments.first_at_risk()).count() as u64;
        let part = if track.route.meets(node) { &mut through_it } else { &mut between_living };
        *part = part.and(Damage { sent, ..damage });
    }
    Ok(Isolation::of(architecture.name(), between_living, through_it))
}
