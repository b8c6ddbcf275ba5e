//! Tenures: which nodes take flows, and which nodes inherit the flows of others, agreed in the view.
//!
//! A node's tenure is *closed* by the compare-and-set that declares it dead, that follows its drain in the placement record, or
//! that suspends it. The same change names its heirs. A node that is alive and neither drained nor suspended has an open tenure.

use super::placement::Placement;
use super::suspension::Suspensions;
use super::view::View;
use crate::engine::Revision;
use crate::record::{Closure, Closures, Epoch};
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::NodeId;
use std::collections::BTreeSet;

/// Tenures in a view.
#[derive(Debug, Clone, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub(super) struct Tenures {
    /// Nodes whose tenure is closed and that take no flows.
    closed: BTreeSet<NodeId>,
    /// Suspended members, and recent lapses.
    pub(super) suspensions: Suspensions,
    pub(super) closures: Closures,
    /// The newest revision of the placement that tenures were closed or opened by.
    placed: u64,
}

/// The placement record and its revision.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// The record.
    pub placement: &'a Placement,
    /// Its revision; `None` if there is no record.
    pub revision: Option<Revision>,
}

impl View {
    /// Whether a node takes flows: it is a member, alive, not suspended, and its tenure is open.
    pub fn is_open(&self, node: NodeId) -> bool {
        self.is_able(node) && !self.tenures.closed.contains(&node)
    }

    /// The closures of tenures, the newest at the end.
    pub const fn closures(&self) -> &Closures {
        &self.tenures.closures
    }

    /// The epoch that pins to a node name if they are accepted by this view; `None` if the node takes no flows now.
    pub fn pins_in(&self, node: NodeId) -> Option<Epoch> {
        self.is_open(node).then(|| Epoch::of_view(self.epoch))
    }

    /// The next view, with tenures as lives, suspensions and the placement require: closed, with their heirs, for nodes that are dead,
    /// suspended or drained, and open for all others. `None` if nothing changes.
    ///
    /// `can_be` tells which nodes the table can name. A node without heirs keeps its flows. A placement older than the last one acted
    /// on changes nothing.
    #[must_use]
    pub fn with_tenures(&self, placed: Placed<'_>, can_be: impl Fn(NodeId) -> bool) -> Option<Self> {
        let revision = placed.revision.map_or(0, |revision| revision.0);
        if revision < self.tenures.placed {
            return None;
        }
        let mut tenures = self.tenures.clone();
        let mut ends = Vec::new();
        for (node, _) in self.members() {
            if self.is_able(node) && !placed.placement.is_drained(node) {
                tenures.closed.remove(&node);
            } else if !tenures.closed.contains(&node) {
                ends.push(node);
            }
        }
        let epoch = self.epoch.saturating_add(1);
        for node in ends {
            let Some(heirs) = placed.placement.heirs(node, self, &can_be) else { continue };
            // A drained or suspended node is an heir only where no other is left.
            for heir in heirs.nodes() {
                tenures.closed.remove(heir);
                tenures.suspensions.lift(*heir);
            }
            if tenures.closures.add(Closure { node, epoch: Epoch::of_view(epoch), heirs }) {
                tenures.closed.insert(node);
            }
        }
        if tenures == self.tenures {
            return None;
        }
        tenures.placed = revision;
        let mut next = self.clone();
        (next.epoch, next.tenures) = (epoch, tenures);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Encoded;
    use crate::membership::Standby;
    use crate::version::Version;
    use proptest::prelude::*;
    use scalebricks_types::PartitionCount;

    fn node(number: u8) -> NodeId {
        NodeId::new(number)
    }

    /// Nodes 0 to 3.
    fn four() -> View {
        let empty = View::empty(PartitionCount::new(4).unwrap());
        (0..4).fold(empty, |view, number| view.with(node(number), 1, Version::NEWEST))
    }

    fn settled(view: &View, placement: &Placement, revision: u64) -> Option<View> {
        let placed = Placed { placement, revision: Some(Revision(revision)) };
        view.with_tenures(placed, |_| true)
    }

    fn newest(view: &View) -> (NodeId, Vec<u8>) {
        let closure = view.closures().iter().next_back().unwrap();
        assert_eq!(closure.epoch, Epoch::of_view(view.epoch()));
        (closure.node, closure.heirs.nodes().iter().map(|heir| heir.get()).collect())
    }

    #[test]
    fn a_death_names_heirs_once_and_a_return_opens() {
        let (view, nothing) = (four(), Placement::default());
        assert_eq!(settled(&view, &nothing, 0), None, "all is as it is to be");
        let died = view.without(node(2));
        assert!(!died.is_open(node(2)) && died.is_open(node(1)));
        let closed = settled(&died, &nothing, 0).unwrap();
        assert_eq!(newest(&closed), (node(2), vec![0, 1, 3]));
        assert_eq!(settled(&closed, &nothing, 0), None);
        let back = closed.with(node(2), 2, Version::NEWEST);
        assert_eq!(back.pins_in(node(2)), None, "its tenure is still closed");
        let back = settled(&back, &nothing, 0).unwrap();
        assert_eq!(back.pins_in(node(2)), Some(Epoch::of_view(back.epoch())));
        assert_eq!(back.closures(), closed.closures(), "a return closes nothing");
        let again = settled(&back.without(node(2)), &nothing, 0).unwrap();
        assert_eq!(
            newest(&again),
            (node(2), vec![0, 1, 3]),
            "a second death moves its flows as the first did"
        );
        let placed = Placed { placement: &nothing, revision: None };
        assert_eq!(died.with_tenures(placed, |_| false), None, "no node can be an heir yet");
    }

    #[test]
    fn a_drained_node_s_tenure_is_closed_once_and_by_no_older_record() {
        let mut placement = Placement::default();
        placement.set_drained(node(1), true);
        let drained = settled(&four(), &placement, 5).unwrap();
        assert_eq!(newest(&drained), (node(1), vec![0, 2, 3]));
        let died = drained.without(node(1));
        assert_eq!(settled(&died, &placement, 5), None, "its flows went when it was drained");
        let undrained = settled(&drained, &Placement::default(), 6).unwrap();
        assert!(undrained.is_open(node(1)));
        assert_eq!(settled(&undrained, &placement, 5), None, "the placement is older than the view");
        assert_eq!(settled(&undrained, &placement, 7).map(|view| newest(&view).0), Some(node(1)));
    }

    #[test]
    fn heirs_take_flows_themselves() {
        let mut placement = Placement::default();
        placement.set_drained(node(1), true);
        placement.set_standby(node(0), Standby::One(node(3)));
        let view = settled(&four(), &placement, 1).unwrap();
        let view = settled(&view.without(node(0)).without(node(2)), &placement, 1).unwrap();
        let heirs: Vec<_> = view.closures().iter().map(|closure| closure.heirs.nodes().to_vec()).collect();
        assert_eq!(heirs[1..], [vec![node(3)], vec![node(3)]]);
        // The drained node is all that is left.
        let view = settled(&view.without(node(3)), &placement, 1).unwrap();
        assert_eq!(newest(&view), (node(3), vec![1]));
        assert!(view.is_open(node(1)));
        assert_eq!(settled(&view, &placement, 1), None, "it keeps them while no other node is alive");
        let view = settled(&view.with(node(2), 2, Version::NEWEST), &placement, 1).unwrap();
        assert_eq!(newest(&view), (node(1), vec![2]));
    }

    #[test]
    fn the_largest_view_fits_a_record() {
        let empty = View::empty(PartitionCount::new(16_384).unwrap());
        let mut view = (0..=255).fold(empty, |view, number| view.with(node(number), 1, Version::NEWEST));
        let placement = Placement::default();
        for round in 0..4 {
            for number in 0..200 {
                view = settled(&view.without(node(number)), &placement, 0).unwrap();
            }
            for number in 0..200 {
                view = settled(&view.with(node(number), round, Version::NEWEST), &placement, 0).unwrap();
            }
        }
        assert_eq!(view.closures().len(), crate::record::MAX_CLOSURES);
        let bytes = view.encode();
        assert!(bytes.len() < 64 << 10, "{} bytes", bytes.len());
        assert_eq!(View::decode(&bytes), Ok(view));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// For any joins and deaths: heirs take flows in the epoch in which they become heirs, and the record survives encoding.
        #[test]
        fn tenures_follow_lives_and_the_placement(steps in prop::collection::vec((0..6_u8, 0..4_u8), 1..60)) {
            let (mut view, mut placement) = (four(), Placement::default());
            for (at, (number, what)) in steps.into_iter().enumerate() {
                let node = node(number);
                match what {
                    0 => view = view.with(node, at as u64 + 2, Version::NEWEST),
                    1 => view = view.without(node),
                    _ => placement.set_drained(node, what == 2),
                }
                let Some(next) = settled(&view, &placement, at as u64) else { continue };
                for closure in next.closures().iter().filter(|closure| closure.epoch == Epoch::of_view(next.epoch())) {
                    prop_assert!(closure.heirs.nodes().iter().all(|heir| next.is_open(*heir)), "{:?}", closure);
                    prop_assert!(!next.is_open(closure.node));
                }
                prop_assert_eq!(View::decode(&next.encode()), Ok(next.clone()));
                view = next;
            }
            prop_assert_eq!(settled(&view, &placement, 1_000), None);
        }
    }
}
