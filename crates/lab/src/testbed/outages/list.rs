//! The outages: their names, failures, the flows that they affect, and the limits.

use super::failure::{CONTROL, Failure, WORKER};
use super::loads::Route;
use crate::testbed::plan::NodePort;
use scalebricks_types::NodeId;
use std::time::Duration;

/// The longest recovery from a single failure.
pub const GOAL: Duration = Duration::from_secs(3);

/// The recovery that is wanted.
pub const WANTED: Duration = Duration::from_millis(1_500);

/// The longest loss where none is expected: on a machine with few cores a process may wait for a core. Also the longest loss after a
/// repair.
pub const HARM: Duration = Duration::from_millis(500);

/// View changes when a node leaves and returns once: it leaves, its partitions are reassigned, it joins, and partitions are
/// reassigned to it, in at most two steps.
const ONCE: u64 = 5;

/// An outage.
#[derive(Debug)]
pub struct Outage {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in the table.
    pub title: &'static str,
    /// How long it lasts, at least.
    pub lasts_s: u64,
    /// Whether the node is killed and restarted before the measurement.
    pub restarts_before: bool,
    /// What fails.
    pub failure: Failure,
    /// Whether it affects the packets of a route. No packets of other routes may be lost.
    pub affects: fn(Place, Route) -> bool,
    /// When affected flows must have recovered.
    pub recovers: Recovers,
    /// Most view changes until the cluster has recovered: `ONCE` for each node that leaves and returns.
    pub view_changes: u64,
    /// What is checked besides lost packets.
    pub check: Check,
    /// The servers of the log that it needs.
    pub log: LogKind,
}

/// The nodes of an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The other node of a failure between two.
    pub peer: NodeId,
}

/// When flows must have recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovers {
    /// So long after the failure, while it lasts.
    Within(Duration),
    /// So long after the repair: the cluster cannot recover earlier.
    OnceRepaired(Duration),
}

/// An additional check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// None.
    Packets,
    /// Both directions of each of the node's flows have one new handling node.
    Takeover,
    /// No packet arrives 10 s after it was sent or later: the node's lease had expired, so it must not forward it.
    Stale,
}

/// The servers of the log that an outage needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// Any number.
    Any,
    /// Several.
    Several,
}

const fn no_route(_: Place, _: Route) -> bool {
    false
}

const fn every_route(_: Place, _: Route) -> bool {
    true
}

fn of_the_node(place: Place, route: Route) -> bool {
    route.meets(place.node)
}

fn between_the_two(place: Place, route: Route) -> bool {
    route.crosses(place.node, place.peer)
}

/// A failure of a node: other nodes take over its flows and addresses, and it returns.
const fn node(name: &'static str, title: &'static str, failure: Failure) -> Outage {
    Outage {
        name,
        title,
        lasts_s: 6,
        restarts_before: false,
        failure,
        affects: of_the_node,
        recovers: Recovers::Within(GOAL),
        view_changes: ONCE,
        check: Check::Packets,
        log: LogKind::Any,
    }
}

/// A failure that no user notices.
const fn unnoticed(name: &'static str, title: &'static str, failure: Failure) -> Outage {
    Outage {
        lasts_s: 8,
        affects: no_route,
        recovers: Recovers::Within(HARM),
        view_changes: 0,
        ..node(name, title, failure)
    }
}

/// All outages, in their order.
pub const ALL: &[Outage] = &[
    unnoticed("control-pair", "control network cut between two nodes", Failure::ControlPair),
    unnoticed(
        "control-one-way",
        "control network cut from one node to another, one way",
        Failure::ControlOneWay,
    ),
    Outage {
        affects: every_route,
        recovers: Recovers::Within(GOAL),
        // Two nodes may leave and return.
        view_changes: 2 * ONCE,
        ..unnoticed("control-split", "control network cut between two halves", Failure::ControlSplit)
    },
    Outage {
        lasts_s: 13,
        ..unnoticed("control-down", "control network down for all, longer than a lease", Failure::ControlDown)
    },
    node("control-link", "control link of a node down", Failure::ControlLink),
    node("fabric-link", "fabric link of a node down", Failure::Link(NodePort::Fabric)),
    Outage {
        affects: between_the_two,
        view_changes: 0,
        ..node("fabric-pair", "fabric cut between two nodes", Failure::FabricPair)
    },
    node("ran-link", "link of a node to base stations down", Failure::Link(NodePort::Ran)),
    node("internet-link", "link of a node to the Internet down", Failure::Link(NodePort::Internet)),
    node("next-hop", "next hop to the Internet gone for a node, its link up", Failure::NextHop),
    Outage {
        affects: every_route,
        // Neighbours that have lost addresses request them once a second.
        recovers: Recovers::OnceRepaired(GOAL),
        view_changes: 0,
        ..node("ran-switch", "switch to base stations dead for all", Failure::RanSwitch)
    },
    Outage { lasts_s: 15, ..node("worker-stopped", "worker of a node stopped", Failure::Threads(WORKER)) },
    Outage {
        lasts_s: 15,
        check: Check::Stale,
        ..node(
            "control-stopped",
            "control plane of a node stopped, its worker not",
            Failure::Threads(CONTROL),
        )
    },
    Outage {
        lasts_s: 30,
        check: Check::Stale,
        ..node("node-stopped", "node stopped, and resumed", Failure::Stopped)
    },
    Outage {
        check: Check::Takeover,
        ..node("node-killed", "node killed, and started again", Failure::Killed)
    },
    Outage {
        recovers: Recovers::Within(HARM),
        check: Check::Takeover,
        ..node("node-drained", "node drained", Failure::Drained)
    },
    Outage {
        lasts_s: 4,
        ..unnoticed("log-stopped", "log stopped while flows are handed over", Failure::LogStopped)
    },
    Outage { lasts_s: 4, ..unnoticed("log-killed", "log killed, and started again", Failure::LogKilled) },
    Outage { lasts_s: 13, ..unnoticed("log-cut", "log cut from one node", Failure::LogCut) },
    Outage {
        lasts_s: 13,
        ..node(
            "log-lost-at-restart",
            "node killed, and started while it cannot reach the log",
            Failure::RestartWithoutLog,
        )
    },
    Outage {
        restarts_before: true,
        ..node("second-death", "node killed within 30 s of its last death", Failure::Killed)
    },
    Outage {
        lasts_s: 1,
        affects: every_route,
        recovers: Recovers::OnceRepaired(Duration::from_secs(15)),
        view_changes: 4 * ONCE,
        ..node("all-restarted", "all nodes killed, and started again", Failure::AllKilled)
    },
    Outage {
        lasts_s: 1,
        log: LogKind::Several,
        ..unnoticed(
            "log-servers",
            "servers of the log killed and started again, one after the other",
            Failure::LogServers,
        )
    },
];

/// The name of the comparison of a node's failure with the same under hash partition.
pub const ISOLATION: &str = "isolation";

/// The outages with these names, in their order; all if there are no names.
///
/// # Errors
/// The first unknown name.
pub fn named(names: &[String]) -> Result<Vec<&'static Outage>, String> {
    let is_unknown = |name: &&String| *name != ISOLATION && ALL.iter().all(|outage| outage.name != **name);
    if let Some(unknown) = names.iter().find(is_unknown) {
        return Err(unknown.clone());
    }
    let wanted = |outage: &&Outage| names.is_empty() || names.iter().any(|name| name == outage.name);
    Ok(ALL.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn outages_are_found_by_their_unique_names() {
        let names: HashSet<&str> = ALL.iter().map(|outage| outage.name).chain([ISOLATION]).collect();
        assert_eq!(names.len(), ALL.len() + 1);
        assert!(ALL.iter().all(|outage| !outage.name.is_empty() && !outage.title.is_empty()));
        let found = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            named(&names).map(|found| found.iter().map(|outage| outage.name).collect::<Vec<_>>())
        };
        assert_eq!(found(&[]).unwrap().len(), ALL.len());
        assert_eq!(found(&["node-killed", "control-pair"]).unwrap(), ["control-pair", "node-killed"]);
        assert_eq!(found(&[ISOLATION]).unwrap(), Vec::<&str>::new());
        assert_eq!(found(&["control-pair", "x"]), Err("x".to_owned()));
    }

    #[test]
    fn a_control_cut_affects_no_flow_and_a_failed_node_only_its_own() {
        let [a, b, c] = [0, 1, 2].map(NodeId::new);
        let place = Place { node: a, peer: b };
        let route = |entry, handling| Route { entry, handling, up: true, down: false };
        let affected = |name: &str, route| {
            ALL.iter().any(|outage| outage.name == name && (outage.affects)(place, route))
        };
        assert!(!affected("control-pair", route(a, b)));
        assert!(affected("node-killed", route(a, c)) && affected("node-killed", route(c, a)));
        assert!(!affected("node-killed", route(b, c)));
        assert!(affected("fabric-pair", route(b, a)) && !affected("fabric-pair", route(a, a)));
        assert!(!affected("fabric-pair", route(a, c)) && affected("ran-switch", route(b, c)));
    }
}
