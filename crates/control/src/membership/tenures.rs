//! Which nodes take flows, and who takes the flows of those that do not: agreed in the view.
//!
//! A node's tenure is *closed* by the compare-and-set that declares it dead, or that follows the record which says that it is
//! drained. The same change names its heirs. So does the change that suspends a member. A node that is alive and neither drained nor
//! suspended has an open tenure.

use super::placement::Placement;
use super::suspension::Suspensions;
use super::view::View;
use crate::engine::Revision;
use crate::record::codec::{Reader, put_words};
use crate::record::{Closure, Closures, DecodeError, Epoch};
use crate::version::Version;
use scalebricks_types::NodeId;
use std::collections::BTreeSet;

/// What a view says of tenures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tenures {
    /// Nodes whose tenure is closed and that take no flows.
    closed: BTreeSet<NodeId>,
    /// Who is suspended, and who was of late.
    pub(super) suspensions: Suspensions,
    closures: Closures,
    /// The newest revision of the placement that tenures were closed or opened by.
    placed: u64,
}

impl Tenures {
    /// The placement's revision (8 octets), the number of closed nodes (2) and each (1), ascending, what it says of
    /// suspended nodes, and the closures.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_words(out, &[self.placed]);
        out.extend_from_slice(&(self.closed.len() as u16).to_le_bytes()); // at most 256
        out.extend(self.closed.iter().map(|node| node.get()));
        self.suspensions.put(out);
        self.closures.put(out);
    }

    /// Reads what [`Tenures::put`] wrote, in a view of this epoch.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub(super) fn take(reader: &mut Reader<'_>, epoch: u64) -> Result<Self, DecodeError> {
        let [placed] = reader.words()?;
        let count = u16::from_le_bytes(reader.take()?);
        let mut closed = BTreeSet::new();
        for _ in 0..count.min(1 << 8) {
            let [node] = reader.take()?;
            let node = NodeId::new(node);
            if closed.last().is_some_and(|last| *last >= node) {
                return Err(reader.malformed("closed nodes are not in ascending order"));
            }
            closed.insert(node);
        }
        let suspensions = Suspensions::take(reader)?;
        let closures = Closures::take(reader)?;
        if closures.newest() > Epoch::of_view(epoch) {
            return Err(reader.malformed("a closure is newer than the view"));
        }
        Ok(Self { closed, suspensions, closures, placed })
    }
}

/// What the controller says of nodes, and which revision of its record that is.
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

    /// The epoch that pins to a node name if they are accepted by this view; `None` if the node takes no flows now. While a
    /// member does not know of tenures no epoch is named, and nodes that had a tenure closed take no flows: such pins would
    /// follow that closure.
    pub fn pins_in(&self, node: NodeId) -> Option<Epoch> {
        if !self.is_open(node) {
            None
        } else if self.spoken() >= Version::TENURES {
            Some(Epoch::of_view(self.epoch))
        } else {
            (self.closures().newest_of(node) == Epoch::UNKNOWN).then_some(Epoch::UNKNOWN)
        }
    }

    /// The next view, in which the tenures are as lives, suspensions and the placement have them: of nodes that are dead, suspended or
    /// drained closed, with their heirs, and of all others open. `None` if they are so already, and while a member does not know of
    /// tenures.
    ///
    /// `can_be` says which nodes the table can name. A node for which there is no heir keeps its flows. A placement that is older than one that was acted on before changes nothing.
    #[must_use]
    pub fn with_tenures(&self, placed: Placed<'_>, can_be: impl Fn(NodeId) -> bool) -> Option<Self> {
        let revision = placed.revision.map_or(0, |revision| revision.0);
        if self.spoken() < Version::TENURES || revision < self.tenures.placed {
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
            // A drained or suspended node is an heir where nobody else is left.
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
    use crate::membership::Standby;
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
        assert_eq!(died.with_tenures(placed, |_| false), None, "nobody can be an heir yet");
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
        assert_eq!(settled(&undrained, &placement, 5), None, "somebody has not heard yet");
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
        assert_eq!(settled(&view, &placement, 1), None, "it keeps them while nobody else is there");
        let view = settled(&view.with(node(2), 2, Version::NEWEST), &placement, 1).unwrap();
        assert_eq!(newest(&view), (node(1), vec![2]));
    }

    #[test]
    fn while_somebody_knows_no_tenures_none_is_closed() {
        let old = four().with(node(3), 2, Version::RESHAPES);
        assert_eq!(settled(&old.without(node(2)), &Placement::default(), 0), None);
        assert_eq!(old.pins_in(node(2)), Some(Epoch::UNKNOWN));
        assert_eq!(old.encode()[..2], [1, 0]);
        let closed = settled(&four().without(node(2)), &Placement::default(), 0).unwrap();
        assert_eq!(closed.encode()[..2], [2, 0]);
        let back = settled(&closed.with(node(2), 2, Version::NEWEST), &Placement::default(), 0).unwrap();
        let held = back.with(node(3), 2, Version::FIRST);
        assert_eq!((held.pins_in(node(2)), held.pins_in(node(1))), (None, Some(Epoch::UNKNOWN)));
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

        /// Whoever comes and goes: heirs take flows in the epoch in which they become heirs, and the record survives.
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
