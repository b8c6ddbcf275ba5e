//! What can befall the cluster: each outage with its name, how it is made and undone, whom it concerns, and what is allowed.

use super::acts;
use super::loads::Route;
use super::scene::Scene;
use crate::testbed::LabError;
use scalebricks_types::NodeId;
use std::time::Duration;

/// The longest that any single failure may be felt.
pub const GOAL: Duration = Duration::from_secs(3);

/// What is wanted beyond that.
pub const WANTED: Duration = Duration::from_millis(1_500);

/// The longest that packets may be lost where nothing is to be lost: a machine with few cores may leave a process without one for a
/// while. Also how long the end of an outage may be felt.
pub const HARM: Duration = Duration::from_millis(500);

/// Changes of the view when a node leaves and returns once: it goes, its partitions go, it comes, and partitions come back, in two
/// steps at most.
const ONCE: u64 = 5;

/// An outage.
#[derive(Debug)]
pub struct Outage {
    /// As it is asked for.
    pub name: &'static str,
    /// As the table calls it.
    pub title: &'static str,
    /// How long it lasts, at least.
    pub lasts_s: u64,
    /// What is done before anything is measured.
    pub prepare: Act,
    /// How it is made.
    pub make: Act,
    /// How it is undone.
    pub undo: Act,
    /// Whether the packets of a route are concerned. Those of all others are never to be lost.
    pub concerns: fn(Place, Route) -> bool,
    /// When the flows that are concerned are to go again.
    pub recovers: Recovers,
    /// How often the view may change, from the first until all is as before: `ONCE` for each node that leaves and returns.
    pub view_changes: u64,
    /// What else is looked at while it lasts.
    pub looks_at: LooksAt,
    /// The servers of the log that it needs.
    pub log: LogKind,
}

/// Something that is done to a lab.
pub type Act = fn(&mut Scene<'_, '_>) -> Result<(), LabError>;

/// Whom it befalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// Another, if it is between two.
    pub peer: NodeId,
}

/// When flows are to go again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovers {
    /// So long after it happened, while it lasts.
    Within(Duration),
    /// So long after it was undone: while it lasts, nobody can help.
    OnceUndone(Duration),
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LooksAt {
    /// The packets.
    Packets,
    /// And whether both directions of each of the node's flows are at one node, which is another.
    Heirs,
    /// And whether a packet arrived that was sent 10 s before: the node's lease had run out, so it was not to forward it.
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

const fn nobody(_: Place, _: Route) -> bool {
    false
}

const fn everybody(_: Place, _: Route) -> bool {
    true
}

fn of_the_node(place: Place, route: Route) -> bool {
    route.meets(place.node)
}

fn between_the_two(place: Place, route: Route) -> bool {
    route.crosses(place.node, place.peer)
}

/// A node fails: its flows and addresses go to others, and it returns.
const NODE: Outage = Outage {
    name: "",
    title: "",
    lasts_s: 6,
    prepare: acts::nothing,
    make: acts::nothing,
    undo: acts::nothing,
    concerns: of_the_node,
    recovers: Recovers::Within(GOAL),
    view_changes: ONCE,
    looks_at: LooksAt::Packets,
    log: LogKind::Any,
};

/// Nobody is to feel it.
const UNFELT: Outage =
    Outage { lasts_s: 8, concerns: nobody, recovers: Recovers::Within(HARM), view_changes: 0, ..NODE };

/// All outages, in the order in which they are made.
pub const ALL: &[Outage] = &[
    Outage {
        name: "control-pair",
        title: "control network cut between two nodes",
        make: acts::cut_control_pair,
        undo: acts::heal_control_pair,
        ..UNFELT
    },
    Outage {
        name: "control-one-way",
        title: "control network cut from one node to another, one way",
        make: acts::cut_control_way,
        undo: acts::heal_control_way,
        ..UNFELT
    },
    Outage {
        name: "control-split",
        title: "control network cut between two halves",
        concerns: everybody,
        recovers: Recovers::Within(GOAL),
        // Two may leave, and return.
        view_changes: 2 * ONCE,
        make: acts::split_control,
        undo: acts::heal_split,
        ..UNFELT
    },
    Outage {
        name: "control-down",
        title: "control network down for all, longer than a lease",
        lasts_s: 13,
        make: acts::cut_control_of_all,
        undo: acts::heal_control_of_all,
        ..UNFELT
    },
    Outage {
        name: "control-link",
        title: "control link of a node down",
        make: acts::cut_control_link,
        undo: acts::heal_control_link,
        ..NODE
    },
    Outage {
        name: "fabric-link",
        title: "fabric link of a node down",
        make: acts::cut_fabric_link,
        undo: acts::heal_fabric_link,
        ..NODE
    },
    Outage {
        name: "fabric-pair",
        title: "fabric cut between two nodes",
        concerns: between_the_two,
        view_changes: 0,
        make: acts::cut_fabric_pair,
        undo: acts::heal_fabric_pair,
        ..NODE
    },
    Outage {
        name: "ran-link",
        title: "link of a node to base stations down",
        make: acts::cut_ran_link,
        undo: acts::heal_ran_link,
        ..NODE
    },
    Outage {
        name: "internet-link",
        title: "link of a node to the Internet down",
        make: acts::cut_internet_link,
        undo: acts::heal_internet_link,
        ..NODE
    },
    Outage {
        name: "next-hop",
        title: "next hop to the Internet gone for a node, its link up",
        make: acts::lose_next_hop,
        undo: acts::return_next_hop,
        ..NODE
    },
    Outage {
        name: "ran-switch",
        title: "switch to base stations dead for all",
        concerns: everybody,
        // Neighbours ask for addresses once a second when they have lost them.
        recovers: Recovers::OnceUndone(GOAL),
        view_changes: 0,
        make: acts::lose_ran_switch,
        undo: acts::return_ran_switch,
        ..NODE
    },
    Outage {
        name: "all-links",
        title: "all links of a node down",
        make: acts::cut_all_links,
        undo: acts::heal_all_links,
        ..NODE
    },
    Outage {
        name: "worker-stopped",
        title: "worker of a node stopped",
        lasts_s: 15,
        make: acts::stop_worker,
        undo: acts::let_go,
        ..NODE
    },
    Outage {
        name: "control-stopped",
        title: "control plane of a node stopped, its worker not",
        lasts_s: 15,
        make: acts::stop_control,
        undo: acts::let_go,
        looks_at: LooksAt::Stale,
        ..NODE
    },
    Outage {
        name: "node-stopped",
        title: "node stopped, and resumed",
        lasts_s: 30,
        looks_at: LooksAt::Stale,
        make: acts::stop_node,
        undo: acts::resume_node,
        ..NODE
    },
    Outage {
        name: "node-killed",
        title: "node killed, and started again",
        looks_at: LooksAt::Heirs,
        make: acts::kill_node,
        undo: acts::start_node,
        ..NODE
    },
    Outage {
        name: "node-drained",
        title: "node drained",
        recovers: Recovers::Within(HARM),
        looks_at: LooksAt::Heirs,
        make: acts::drain_node,
        undo: acts::undrain_node,
        ..NODE
    },
    Outage {
        name: "log-stopped",
        title: "log stopped while flows are handed over",
        lasts_s: 4,
        make: acts::stop_log,
        undo: acts::resume_log,
        ..UNFELT
    },
    Outage {
        name: "log-killed",
        title: "log killed, and started again",
        lasts_s: 4,
        make: acts::kill_log,
        undo: acts::start_log,
        ..UNFELT
    },
    Outage {
        name: "log-cut",
        title: "log cut from one node",
        lasts_s: 13,
        make: acts::cut_log,
        undo: acts::heal_log,
        ..UNFELT
    },
    Outage {
        name: "log-lost-at-restart",
        title: "node killed, and started while it cannot reach the log",
        lasts_s: 13,
        make: acts::restart_without_log,
        undo: acts::heal_log,
        ..NODE
    },
    Outage {
        name: "second-death",
        title: "node killed within 30 s of its last death",
        prepare: acts::die_and_return,
        make: acts::kill_node,
        undo: acts::start_node,
        ..NODE
    },
    Outage {
        name: "all-restarted",
        title: "all nodes killed, and started again",
        lasts_s: 1,
        concerns: everybody,
        recovers: Recovers::OnceUndone(Duration::from_secs(15)),
        view_changes: 4 * ONCE,
        make: acts::kill_all,
        undo: acts::start_all,
        ..NODE
    },
    Outage {
        name: "log-servers",
        title: "servers of the log killed and started again, one after the other",
        lasts_s: 1,
        log: LogKind::Several,
        make: acts::kill_servers_in_turn,
        ..UNFELT
    },
];

/// What is asked for beside outages: a node's death beside the same with hash partition.
pub const ISOLATION: &str = "isolation";

/// The outages with these names, in their order; all for none.
///
/// # Errors
/// The first name that nobody has.
pub fn named(names: &[String]) -> Result<Vec<&'static Outage>, String> {
    let is_known =
        |name: &&String| name.as_str() != ISOLATION && ALL.iter().all(|outage| outage.name != **name);
    if let Some(unknown) = names.iter().find(is_known) {
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
    fn outages_are_found_by_their_names_and_no_two_have_the_same() {
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
    fn nobody_feels_a_cut_between_two_and_only_the_nodes_own_flows_feel_its_death() {
        let [a, b, c] = [0, 1, 2].map(NodeId::new);
        let place = Place { node: a, peer: b };
        let route = |entry, handling| Route { entry, handling, up: true, down: false };
        let concerned = |name: &str, route| {
            ALL.iter().any(|outage| outage.name == name && (outage.concerns)(place, route))
        };
        assert!(!concerned("control-pair", route(a, b)));
        assert!(concerned("node-killed", route(a, c)) && concerned("node-killed", route(c, a)));
        assert!(!concerned("node-killed", route(b, c)));
        assert!(concerned("fabric-pair", route(b, a)) && !concerned("fabric-pair", route(a, a)));
        assert!(!concerned("fabric-pair", route(a, c)) && concerned("ran-switch", route(b, c)));
    }
}
