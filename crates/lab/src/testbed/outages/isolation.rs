//! Failure isolation: a node fails and no other takes over its flows. Compares the losses between the other nodes with those under
//! hash partition, where a packet may need a lookup at the failed node.

use super::list::Place;
use super::loads::Loads;
use super::track::{Damage, IN_FLIGHT, Moments};
use crate::testbed::LabError;
use crate::testbed::lab::Lab;
use crate::testbed::probes;
use scalebricks_apps::gateway::Architecture;
use scalebricks_types::NodeId;
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::Duration;

/// How long the node is down.
const DOWN: Duration = Duration::from_secs(5);

/// The architectures, with flows from files: the control plane supports only one of them.
const ARCHITECTURES: [Architecture; 2] = [Architecture::ScaleBricks, Architecture::HashPartition];

/// The losses when a node fails and no other takes over its flows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Isolation {
    /// The nodes' architecture.
    pub architecture: String,
    /// Flows between nodes that did not fail.
    pub between_living: Damage,
    /// Flows whose entry or handling node failed.
    pub through_it: Damage,
}

/// Kills a node with each architecture.
///
/// # Errors
/// [`LabError`].
pub fn run(lab: &mut Lab<'_>) -> Result<Vec<Isolation>, LabError> {
    let is_controlled = std::mem::replace(&mut lab.plan.is_controlled, false);
    let done = ARCHITECTURES.into_iter().map(|architecture| one(lab, architecture)).collect();
    lab.plan.is_controlled = is_controlled;
    done
}

fn one(lab: &mut Lab<'_>, architecture: Architecture) -> Result<Isolation, LabError> {
    lab.stop()?;
    lab.start(architecture)?;
    lab.console.note("killing a node whose flows no other node takes over");
    let node = lab.plan.size.nodes().last().unwrap_or(NodeId::new(0));
    let loads = Loads::start(lab.context(), Duration::ZERO)?;
    let at = probes::now();
    if let Some(process) = lab.nodes.remove(&node) {
        process.kill_at_once();
    }
    thread::sleep(DOWN);
    // Earlier losses have other causes.
    let moments = Moments { from: at - IN_FLIGHT.as_secs_f64(), at, repaired: probes::now() };
    let loads = loads.finish(&lab.plan, lab.interrupt)?;
    let place = Place { node, peer: node };
    let (through_it, between_living) = loads.damage(place, |place, route| route.meets(place.node), moments);
    Ok(Isolation { architecture: architecture.name().to_owned(), between_living, through_it })
}
