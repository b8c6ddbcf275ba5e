//! Placement of flows, as set by the controller: drained nodes, and standbys.

use super::view::View;
use crate::codec::Encoded;
use crate::record::Heirs;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Where the flows of a node go when it dies or is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standby {
    /// All others, evenly.
    All,
    /// This one, while it is alive and not drained; else all.
    One(NodeId),
}

/// The controller's placement of flows: one record, changed by compare-and-set. It only decides which heirs closures name, so
/// nodes that know different records do no harm.
#[derive(Debug, Clone, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub struct Placement {
    drained: BTreeSet<NodeId>,
    /// Nodes whose standby is not [`Standby::All`].
    standbys: BTreeMap<NodeId, NodeId>,
}

impl Encoded for Placement {
    const NAME: &'static str = "placement of nodes";
}

impl Placement {
    /// Whether a node is to get no flows, and to give away those it has.
    pub fn is_drained(&self, node: NodeId) -> bool {
        self.drained.contains(&node)
    }

    /// Drains a node, or ends that.
    pub fn set_drained(&mut self, node: NodeId, is_drained: bool) {
        if is_drained {
            self.drained.insert(node);
        } else {
            self.drained.remove(&node);
        }
    }

    /// Nodes that are to get no flows, ascending.
    pub fn drained(&self) -> impl Iterator<Item = NodeId> {
        self.drained.iter().copied()
    }

    /// Nodes whose flows one other takes, with that one, ascending.
    pub fn standbys(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.standbys.iter().map(|(node, one)| (*node, *one))
    }

    /// The standby of a node.
    pub fn standby(&self, node: NodeId) -> Standby {
        self.standbys.get(&node).map_or(Standby::All, |one| Standby::One(*one))
    }

    /// Sets the standby of a node.
    pub fn set_standby(&mut self, node: NodeId, standby: Standby) {
        match standby {
            Standby::All => self.standbys.remove(&node),
            Standby::One(one) => self.standbys.insert(node, one),
        };
    }

    /// The heirs of a node's flows, among living nodes that `can_be` heirs: its standby, or all that are neither suspended nor
    /// drained. If there is none, a drained node inherits from dead and suspended nodes, and a suspended node from dead ones. Flows
    /// of a node that is only drained stay, since otherwise they would move back next. `None` if there is no heir.
    pub fn heirs(&self, node: NodeId, view: &View, can_be: impl Fn(NodeId) -> bool) -> Option<Heirs> {
        let alive = || view.alive().filter(|other| *other != node && can_be(*other));
        let able = || alive().filter(|other| view.is_able(*other));
        let willing = || able().filter(|other| !self.is_drained(*other));
        if let Standby::One(one) = self.standby(node)
            && willing().any(|other| other == one)
        {
            return Heirs::new([one]).ok();
        }
        let drained = || Heirs::new(able()).ok().filter(|_| !view.is_able(node));
        let suspended = || Heirs::new(alive()).ok().filter(|_| !view.is_alive(node));
        Heirs::new(willing()).ok().or_else(drained).or_else(suspended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::{Fitness, Suspension, Unfitness};
    use crate::version::Version;
    use proptest::prelude::*;
    use scalebricks_types::PartitionCount;

    fn node(number: u8) -> NodeId {
        NodeId::new(number)
    }

    fn heirs(placement: &Placement, of: u8, view: &View) -> Option<Vec<u8>> {
        Some(placement.heirs(node(of), view, |_| true)?.nodes().iter().map(|heir| heir.get()).collect())
    }

    #[test]
    fn heirs_follow_standbys_drains_and_suspensions() {
        let empty = View::empty(PartitionCount::new(4).unwrap());
        let all = (0..4).fold(empty, |view, number| view.with(node(number), 1, Version::NEWEST));
        let mut placement = Placement::default();
        placement.set_standby(node(1), Standby::One(node(3)));
        let dead = all.without(node(1));
        assert_eq!(heirs(&placement, 1, &dead), Some(vec![3]));
        assert_eq!(heirs(&placement, 2, &dead), Some(vec![0, 3]));
        assert_eq!(heirs(&placement, 1, &dead.without(node(3))), Some(vec![0, 2]), "the standby is dead");
        placement.set_drained(node(3), true);
        assert_eq!(heirs(&placement, 1, &dead), Some(vec![0, 2]), "the standby is drained");
        assert_eq!(heirs(&placement, 3, &dead), Some(vec![0, 2]), "its own flows");
        placement.set_drained(node(0), true);
        placement.set_drained(node(2), true);
        assert_eq!(heirs(&placement, 1, &dead), Some(vec![0, 2, 3]), "drained ones rather than none");
        assert_eq!(heirs(&placement, 3, &dead), None, "drained ones do not pass flows round");
        let unfit = Suspension::Unfit(Fitness::FIT.with(Unfitness::Worker));
        let suspended = dead.with_suspended(node(3), unfit);
        assert_eq!(
            heirs(&placement, 3, &suspended),
            Some(vec![0, 2]),
            "drained ones rather than an unfit one"
        );
        assert_eq!(heirs(&placement, 1, &suspended), Some(vec![0, 2]));
        let all_unfit =
            [0, 2].iter().fold(suspended, |view, number| view.with_suspended(node(*number), unfit));
        assert_eq!(heirs(&placement, 3, &all_unfit), None, "unfit ones do not pass flows round");
        assert_eq!(heirs(&placement, 1, &all_unfit), Some(vec![0, 2, 3]), "unfit ones rather than none");
        placement.set_drained(node(3), false);
        assert_eq!(heirs(&placement, 1, &dead), Some(vec![3]));
        assert_eq!(heirs(&placement, 1, &dead.with_suspended(node(3), unfit)), Some(vec![0, 2]));
        placement.set_standby(node(1), Standby::All);
        assert_eq!(placement.standby(node(1)), Standby::All);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_record_survives(drained: Vec<u8>, standbys: Vec<(u8, u8)>) {
            let mut placement = Placement::default();
            for number in drained {
                placement.set_drained(node(number), true);
            }
            for (of, one) in standbys {
                placement.set_standby(node(of), Standby::One(node(one)));
            }
            prop_assert_eq!(Placement::decode(&placement.encode()), Ok(placement));
        }

        #[test]
        fn any_bytes_are_a_placement_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(placement) = Placement::decode(&bytes) {
                prop_assert_eq!(Placement::decode(&placement.encode()), Ok(placement));
            }
        }
    }
}
