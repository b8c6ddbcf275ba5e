//! Members that are alive and take no flows, as they cannot do their work: agreed in the view.
//!
//! A *suspended* member's tenure is closed, and another node answers for its addresses. It is still a member in all other respects: it owns
//! partitions, and its reports count. The member lifts its suspension itself. Why, and why it cannot swing:
//! `docs/adr/0030-unfit-members-are-suspended.md`.

use super::fitness::Fitness;
use super::view::View;
use crate::codec::checked;
use crate::rendezvous;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

/// Why a member that is alive takes no flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Suspension {
    /// Other members can do what it cannot, for these reasons.
    Unfit(Fitness),
    /// It died again and again, and has not run for long enough since.
    Restarts,
}

impl Suspension {
    /// Names of the reasons, for metrics, JSON and logs.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let (reasons, restarts) = match self {
            Self::Unfit(reasons) => (reasons, None),
            Self::Restarts => (Fitness::FIT, Some("restarts")),
        };
        reasons.reasons().map(super::Unfitness::name).chain(restarts)
    }

    /// The reasons of both. Being unfit outweighs restarts, as the member waits longer for it.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unfit(one), Self::Unfit(other)) => Self::Unfit(one.union(other)),
            (Self::Restarts, other) => other,
            (unfit @ Self::Unfit(_), Self::Restarts) => unfit,
        }
    }
}

/// The names of the reasons, separated by commas.
impl fmt::Display for Suspension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(reasons) => reasons.fmt(f),
            Self::Restarts => f.write_str("restarts"),
        }
    }
}

/// Suspended members, and recent lapses.
#[derive(Debug, Clone, PartialEq, Eq, Default, BorshSerialize)]
pub(super) struct Suspensions {
    suspended: BTreeMap<NodeId, Suspension>,
    /// How often nodes left or were suspended, with less than [`CALM`](super::CALM) between each and the time before.
    lapses: BTreeMap<NodeId, u8>,
}

impl Suspensions {
    pub(super) fn lift(&mut self, node: NodeId) {
        self.suspended.remove(&node);
    }

    fn lapse(&mut self, node: NodeId) {
        let lapses = self.lapses.entry(node).or_default();
        *lapses = lapses.saturating_add(1);
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.suspended.keys().copied()
    }
}

impl BorshDeserialize for Suspensions {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |(suspended, lapses): (BTreeMap<_, Suspension>, BTreeMap<_, u8>)| {
            let is_unknown = |suspension: &Suspension| {
                matches!(suspension, Suspension::Unfit(reasons)
                    if reasons.is_fit() || reasons.reasons().collect::<Fitness>() != *reasons)
            };
            if suspended.values().any(is_unknown) {
                Err("unknown reason of a suspension")
            } else if lapses.values().any(|lapses| *lapses == 0) {
                Err("a node with 0 lapses")
            } else {
                Ok(Self { suspended, lapses })
            }
        })
    }
}

impl View {
    /// Why a member takes no flows though it is alive; `None` for all others.
    pub fn suspension(&self, node: NodeId) -> Option<Suspension> {
        self.tenures.suspensions.suspended.get(&node).copied()
    }

    /// Whether a node is a member, alive, and not suspended.
    pub fn is_able(&self, node: NodeId) -> bool {
        self.is_alive(node) && self.suspension(node).is_none()
    }

    /// How often a node left or was suspended recently: with less than [`CALM`](super::CALM) between each and the time before, as
    /// far as the members could tell.
    pub fn lapses(&self, node: NodeId) -> u8 {
        self.tenures.suspensions.lapses.get(&node).copied().unwrap_or_default()
    }

    /// The stand-in of a node that died or is suspended: the living node that answers for its addresses. All nodes with this view
    /// name the same. When another node dies or returns, a stand-in changes only if it was that node or becomes it. A suspended node
    /// stands in only for dead nodes, and only if all living nodes are suspended. `None` for a node that answers for its own
    /// addresses or was never a member, and if there is no living node.
    ///
    /// The node with the highest hash of both numbers: rendezvous hashing (Thaler and Ravishankar, 1998).
    pub fn stand_in(&self, node: NodeId) -> Option<NodeId> {
        let member = self.member(node)?;
        let weight = |living: &NodeId| rendezvous::weight(u64::from(node.get()), *living);
        let others = || self.alive().filter(|other| *other != node);
        let able = || others().filter(|other| self.suspension(*other).is_none()).max_by_key(weight);
        if member.is_alive {
            able().filter(|_| self.suspension(node).is_some())
        } else {
            able().or_else(|| others().max_by_key(weight))
        }
    }

    /// Whether a node answers for its own addresses: it is alive and has no stand-in.
    pub fn answers_for_itself(&self, node: NodeId) -> bool {
        self.is_alive(node) && self.stand_in(node).is_none()
    }

    /// The next view, in which a member is suspended for this reason, in addition to earlier ones. The same view
    /// if it is not alive, or is suspended for that reason.
    #[must_use]
    pub fn with_suspended(&self, node: NodeId, suspension: Suspension) -> Self {
        let before = self.suspension(node);
        let suspension = before.map_or(suspension, |before| before.and(suspension));
        if !self.is_alive(node) || before == Some(suspension) {
            return self.clone();
        }
        let mut next = self.joined_suspended(node, suspension);
        next.epoch += 1;
        if before.is_none() {
            next.tenures.suspensions.lapse(node);
        }
        next
    }

    /// This view, in which a node that joined by it is suspended from the beginning.
    #[must_use]
    pub(super) fn joined_suspended(&self, node: NodeId, suspension: Suspension) -> Self {
        let mut next = self.clone();
        next.tenures.suspensions.suspended.insert(node, suspension);
        next
    }

    /// The next view, in which a member is not suspended. The same view if it is not.
    #[must_use]
    pub fn without_suspension(&self, node: NodeId) -> Self {
        let mut next = self.clone();
        if next.tenures.suspensions.suspended.remove(&node).is_some() {
            next.epoch += 1;
        }
        next
    }

    /// The same view, without the lapses of nodes that have been [able](View::is_able) for long enough.
    #[must_use]
    pub(super) fn forgiving(mut self, is_calm: impl Fn(NodeId) -> bool) -> Self {
        self.tenures.suspensions.lapses.retain(|node, _| !is_calm(*node));
        self
    }

    /// A node's life ends: its suspension does, and the life counts as a lapse.
    pub(super) fn end_life(&mut self, node: NodeId) {
        self.tenures.suspensions.lift(node);
        self.tenures.suspensions.lapse(node);
    }
}

#[cfg(test)]
mod tests {
    use super::super::fitness::Unfitness;
    use super::*;
    use crate::codec::{DecodeError, Encoded};
    use crate::version::Version;
    use proptest::prelude::*;
    use scalebricks_types::PartitionCount;

    const UNFIT: Suspension = Suspension::Unfit(Fitness::FIT.with(Unfitness::RanLink));

    fn node(number: u8) -> NodeId {
        NodeId::new(number)
    }

    fn together(nodes: u8) -> View {
        let empty = View::empty(PartitionCount::new(4).unwrap());
        (0..nodes).fold(empty, |view, number| view.with(node(number), 1, Version::NEWEST))
    }

    #[test]
    fn a_suspended_member_is_alive_and_others_answer_for_it() {
        let (view, one) = (together(4), node(1));
        let suspended = view.with_suspended(one, UNFIT);
        assert_eq!((suspended.epoch(), suspended.lapses(one)), (view.epoch() + 1, 1));
        assert!(!suspended.is_open(one) && !suspended.answers_for_itself(one) && suspended.is_able(node(2)));
        assert_eq!(suspended.partitions_of(one).count(), 1, "it owns its share of the partitions");
        assert_eq!(suspended.stand_in(one), view.without(one).stand_in(one));
        // One more reason is no other lapse, and the same reason is no change.
        assert_eq!(suspended.with_suspended(one, UNFIT), suspended);
        let worker = Fitness::FIT.with(Unfitness::Worker);
        let more = suspended.with_suspended(one, Suspension::Unfit(worker));
        assert_eq!(more.suspension(one).unwrap().to_string(), "worker, ran_link");
        assert_eq!((more.epoch(), more.lapses(one)), (suspended.epoch() + 1, 1));
        let lifted = more.without_suspension(one);
        assert!(lifted.is_open(one) && lifted.answers_for_itself(one) && lifted.lapses(one) == 1);
        assert_eq!(lifted.without_suspension(one), lifted);
        assert_eq!(lifted.clone().forgiving(|node| node != one), lifted);
        assert_eq!(lifted.forgiving(|_| true).tenures, view.tenures);
    }

    #[test]
    fn a_suspension_ends_with_the_life() {
        let (suspended, one) = (together(3).with_suspended(node(1), UNFIT), node(1));
        for next in
            [suspended.without(one), suspended.with(one, 2, Version::NEWEST), suspended.forgetting(one)]
        {
            assert_eq!((next.suspension(one), next.lapses(one)), (None, 2));
        }
        let dead = suspended.without(one);
        assert_eq!(dead.with(one, 2, Version::NEWEST).lapses(one), 2, "to return is no lapse");
        assert_eq!(dead.with_suspended(one, UNFIT), dead, "who is dead is not suspended");
    }

    #[test]
    fn a_suspended_node_stands_in_only_where_nobody_else_is_left() {
        let view = together(2).with_suspended(node(0), UNFIT);
        assert_eq!((view.stand_in(node(0)), view.stand_in(node(1))), (Some(node(1)), None));
        let alone = view.without(node(1));
        assert_eq!((alone.stand_in(node(0)), alone.stand_in(node(1))), (None, Some(node(0))));
        assert!(alone.answers_for_itself(node(0)));
    }

    #[test]
    fn malformed_suspensions_are_refused() {
        let bytes = together(3).with_suspended(node(1), UNFIT).encode();
        // One suspended node, one with a lapse, no closures and the placement's revision.
        let at = bytes.len() - (4 + 3) - (4 + 2) - 4 - 8;
        assert_eq!(bytes[at..at + 13], [1, 0, 0, 0, 1, 0, 32, 1, 0, 0, 0, 1, 1]);
        let refused = |at: usize, octet: u8, more: &[u8]| -> DecodeError {
            let mut bytes = bytes.clone();
            bytes[at] = octet;
            let rest = bytes.split_off(at + 1);
            bytes.extend(more.iter().chain(&rest));
            View::decode(&bytes).unwrap_err()
        };
        assert!(refused(at + 6, 0x80, &[]).to_string().contains("unknown reason"));
        assert!(refused(at + 6, 0, &[]).to_string().contains("unknown reason"));
        assert!(refused(at + 4, 9, &[]).to_string().contains("is not a living member"));
        assert!(refused(at + 12, 0, &[]).to_string().contains("0 lapses"));
        refused(at + 1, 2, &[]);
        refused(at, 2, &[0, 0, 0, 1, 0, 32]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// For any joins, deaths and suspensions: each member answers for itself or has one stand-in, and the record survives encoding.
        #[test]
        fn each_node_has_one_node_that_answers_for_it(steps in prop::collection::vec((0..5_u8, 0..5_u8, any::<u8>()), 1..60)) {
            let mut view = together(3);
            for (at, (number, what, bits)) in steps.into_iter().enumerate() {
                let node = node(number);
                let suspension = match Fitness::from_bits(bits & 0x7f) {
                    Fitness::FIT => Suspension::Restarts,
                    reasons => Suspension::Unfit(reasons),
                };
                view = match what {
                    0 => view.with(node, at as u64 + 2, Version::NEWEST),
                    1 => view.without(node),
                    2 => view.without_suspension(node),
                    _ => view.with_suspended(node, suspension),
                };
                let able: Vec<NodeId> = view.alive().filter(|node| view.is_able(*node)).collect();
                for (node, member) in view.members() {
                    let stand_in = view.stand_in(node);
                    prop_assert!(stand_in.is_none_or(|other| other != node && view.answers_for_itself(other)));
                    let answers = member.is_alive && (view.is_able(node) || able.is_empty());
                    prop_assert_eq!(view.answers_for_itself(node), answers);
                    prop_assert_eq!(stand_in.is_some(), !answers && view.alive().next().is_some());
                    prop_assert!(stand_in.is_none_or(|other| able.is_empty() || able.contains(&other)));
                }
                prop_assert_eq!(View::decode(&view.encode()), Ok(view.clone()));
            }
        }
    }
}
