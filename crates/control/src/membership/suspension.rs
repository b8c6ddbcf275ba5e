//! Members that are alive and take no flows, as they cannot do their work: agreed in the view.
//!
//! A *suspended* member's tenure is closed, and another node answers for its addresses. It is still a member in all other respects: it owns
//! partitions, and its reports count. The member lifts its suspension itself. Why, and why it cannot swing:
//! `docs/adr/0030-unfit-members-are-suspended.md`.

use super::fitness::Fitness;
use super::view::View;
use crate::record::DecodeError;
use crate::record::codec::Reader;
use crate::rendezvous;
use crate::version::Version;
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::fmt;

/// Why a member that is alive takes no flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspension {
    /// Others can do what it cannot, for these reasons.
    Unfit(Fitness),
    /// It died again and again, and has not run for long enough since.
    Restarts,
}

impl Suspension {
    /// One octet: [`Fitness::bits`], or 0 for [`Suspension::Restarts`].
    const fn octet(self) -> u8 {
        match self {
            Self::Unfit(reasons) => reasons.bits(),
            Self::Restarts => 0,
        }
    }

    /// The suspension with this octet; `None` if a bit of it is not known.
    fn of_octet(octet: u8) -> Option<Self> {
        let reasons = Fitness::from_bits(octet);
        match octet {
            0 => Some(Self::Restarts),
            _ if reasons.reasons().collect::<Fitness>() == reasons => Some(Self::Unfit(reasons)),
            _ => None,
        }
    }

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

/// What a view says of nodes that cannot do their work, or could not of late.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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

    /// The number of suspended nodes (2 octets) and each with its suspension (1 and 1), ascending; then lapses in the same way.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_pairs(out, self.suspended.iter().map(|(node, suspension)| (*node, suspension.octet())));
        put_pairs(out, self.lapses.iter().map(|(node, lapses)| (*node, *lapses)));
    }

    /// Reads what [`Suspensions::put`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub(super) fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut suspensions = Self::default();
        for (node, octet) in take_pairs(reader)? {
            let suspension = Suspension::of_octet(octet);
            let suspension = suspension.ok_or_else(|| reader.malformed("a reason that is not known"))?;
            suspensions.suspended.insert(node, suspension);
        }
        for (node, lapses) in take_pairs(reader)? {
            if lapses == 0 {
                return Err(reader.malformed("a node without lapses among those that have some"));
            }
            suspensions.lapses.insert(node, lapses);
        }
        Ok(suspensions)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.suspended.keys().copied()
    }
}

/// A number (2 octets) of nodes with an octet each.
fn put_pairs(out: &mut Vec<u8>, pairs: impl ExactSizeIterator<Item = (NodeId, u8)>) {
    out.extend_from_slice(&(pairs.len() as u16).to_le_bytes()); // at most 256
    out.extend(pairs.flat_map(|(node, octet)| [node.get(), octet]));
}

/// Reads what [`put_pairs`] wrote, ascending.
fn take_pairs(reader: &mut Reader<'_>) -> Result<Vec<(NodeId, u8)>, DecodeError> {
    let count = usize::from(u16::from_le_bytes(reader.take()?));
    if count > 1 << 8 {
        return Err(reader.malformed("more nodes than there can be"));
    }
    let mut pairs: Vec<(NodeId, u8)> = Vec::with_capacity(count);
    for _ in 0..count {
        let [node, octet] = reader.take()?;
        let node = NodeId::new(node);
        if pairs.last().is_some_and(|(last, _)| *last >= node) {
            return Err(reader.malformed("nodes are not in ascending order"));
        }
        pairs.push((node, octet));
    }
    Ok(pairs)
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

    /// How often a node left or was suspended of late: with less than [`CALM`](super::CALM) between each and the time before, as far
    /// as the members could tell.
    pub fn lapses(&self, node: NodeId) -> u8 {
        self.tenures.suspensions.lapses.get(&node).copied().unwrap_or_default()
    }

    /// Who stands in for a node that died or is suspended: answers for its addresses. All who know this view name the same, one
    /// of the living; of several such nodes each may have another, and nobody else's changes when one more dies or comes back,
    /// but for what that one has. Suspended ones stand in only for the dead, and only if all of the living are suspended. `None` for
    /// a node that answers for its own addresses or was never there, and if nobody is left.
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

    /// Whether a node is to answer for its own addresses: it is alive, and nobody stands in for it.
    pub fn answers_for_itself(&self, node: NodeId) -> bool {
        self.is_alive(node) && self.stand_in(node).is_none()
    }

    /// The next view, in which a member is suspended, for this reason beside those that it is suspended for already. The same view
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

    /// A node's life ends: its suspension does, and the life counts as a lapse. Older software cannot read that.
    pub(super) fn end_life(&mut self, node: NodeId) {
        self.tenures.suspensions.lift(node);
        if self.spoken() >= Version::TENURES {
            self.tenures.suspensions.lapse(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fitness::Unfitness;
    use super::*;
    use crate::membership::ViewError;
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
        let old = together(2).with(node(2), 1, Version::RESHAPES);
        assert_eq!(old.without(one).lapses(one), 0, "older software could not read it");
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
    fn what_no_view_says_of_suspended_nodes_is_refused() {
        let bytes = together(3).with_suspended(node(1), UNFIT).encode();
        // The placement's revision and no closed nodes; then one suspended node, one with a lapse, and no closures.
        let at = bytes.len() - 2 - 4 - 4;
        assert_eq!(bytes[at..], [1, 0, 1, 32, 1, 0, 1, 1, 0, 0]);
        let refused = |at: usize, octet: u8, more: &[u8]| -> ViewError {
            let mut bytes = bytes.clone();
            bytes[at] = octet;
            let rest = bytes.split_off(at + 1);
            bytes.extend(more.iter().chain(&rest));
            View::decode(&bytes).unwrap_err()
        };
        assert!(refused(at + 3, 0x80, &[]).to_string().contains("a reason that is not known"));
        assert!(refused(at + 2, 9, &[]).to_string().contains("is not a living member"));
        assert!(refused(at + 7, 0, &[]).to_string().contains("without lapses"));
        assert!(refused(at + 1, 2, &[]).to_string().contains("more nodes than there can be"));
        assert!(refused(at, 2, &[0, 1, 32]).to_string().contains("ascending order"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whoever comes, goes, is suspended or not: each node that is there answers for itself or has one stand-in, and the
        /// record survives.
        #[test]
        fn somebody_answers_for_each_node(steps in prop::collection::vec((0..5_u8, 0..5_u8, any::<u8>()), 1..60)) {
            let mut view = together(3);
            for (at, (number, what, bits)) in steps.into_iter().enumerate() {
                let node = node(number);
                let suspension = Suspension::of_octet(bits & 0x7f).unwrap();
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
