//! The record that all agree on.

use super::tenures::Tenures;
use crate::codec::{Encoded, checked};
use crate::record::Epoch;
use crate::version::Version;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::{NodeId, PartitionCount, PartitionId};
use std::collections::BTreeMap;
use std::io::{self, Read};

/// A node, as the view has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Member {
    /// Which of its lives: rises each time it joins.
    pub life: u64,
    /// Whether it is alive.
    pub is_alive: bool,
    /// The newest version that it knows.
    pub knows: Version,
}

/// The members, and the owners of partitions.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct View {
    pub(super) epoch: u64,
    members: BTreeMap<NodeId, Member>,
    /// By partition; no one before the first node joins and after the last has died.
    owners: Vec<Option<NodeId>>,
    /// Tenures, suspensions and closures.
    pub(super) tenures: Tenures,
}

impl Encoded for View {
    const NAME: &'static str = "view of the cluster";
}

impl BorshDeserialize for View {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |(epoch, members, owners, tenures): (_, BTreeMap<_, Member>, _, Tenures)| {
            let is_alive = |node: &NodeId| members.get(node).is_some_and(|member| member.is_alive);
            if !tenures.suspensions.nodes().all(|node| is_alive(&node)) {
                Err("a suspended node is not a living member")
            } else if tenures.closures.newest() > Epoch::of_view(epoch) {
                Err("a closure is newer than the view")
            } else {
                Ok(Self { epoch, members, owners, tenures })
            }
        })
    }
}

impl View {
    /// A view without members.
    pub fn empty(partitions: PartitionCount) -> Self {
        let owners = vec![None; partitions.get() as usize];
        Self { epoch: 0, members: BTreeMap::new(), owners, tenures: Tenures::default() }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.owners.len()
    }

    /// Counts the changes.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A node, if it was ever there.
    pub fn member(&self, node: NodeId) -> Option<Member> {
        self.members.get(&node).copied()
    }

    /// All that were ever there, ascending.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, Member)> {
        self.members.iter().map(|(node, member)| (*node, *member))
    }

    /// Those alive, ascending.
    pub fn alive(&self) -> impl Iterator<Item = NodeId> {
        self.members.iter().filter(|(_, member)| member.is_alive).map(|(node, _)| *node)
    }

    /// Whether a node is a member and alive.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.member(node).is_some_and(|member| member.is_alive)
    }

    /// The owner of a partition.
    pub fn owner(&self, partition: PartitionId) -> Option<NodeId> {
        self.owners.get(usize::from(partition.0)).copied().flatten()
    }

    /// The partitions of a node, ascending.
    pub fn partitions_of(&self, node: NodeId) -> impl Iterator<Item = PartitionId> {
        let own = self.owners.iter().enumerate().filter(move |(_, owner)| **owner == Some(node));
        own.map(|(at, _)| PartitionId(at as u16)) // at most 2^16
    }

    /// The next view, without a node that does not come back: its version no longer counts. If it does come back, it joins like any
    /// other. The same view for a node that was never a member.
    #[must_use]
    pub fn forgetting(&self, node: NodeId) -> Self {
        let Some(member) = self.member(node) else { return self.clone() };
        self.changed(node, Member { is_alive: false, knows: Version::NEWEST, ..member })
    }

    /// The next view, with a node that is alive in this life, and knows this version. Its share of the partitions comes to it,
    /// and no other moves.
    #[must_use]
    pub fn with(&self, node: NodeId, life: u64, knows: Version) -> Self {
        self.changed(node, Member { life, is_alive: true, knows })
    }

    /// The next view, without a node. Its partitions are spread over the others, and no other moves.
    #[must_use]
    pub fn without(&self, node: NodeId) -> Self {
        let absent = Member { life: 0, is_alive: false, knows: Version::FIRST };
        let member = self.member(node).unwrap_or(absent);
        self.changed(node, Member { is_alive: false, ..member })
    }

    fn changed(&self, node: NodeId, member: Member) -> Self {
        let mut next = self.clone();
        next.epoch += 1;
        let before = next.members.insert(node, member);
        if before.is_some_and(|before| before.is_alive && (before.life != member.life || !member.is_alive)) {
            next.end_life(node);
        }
        next.spread();
        next
    }

    /// Gives every partition an owner, so that the shares of living nodes differ by at most one and as few partitions as possible
    /// move: a node above its share gives, and one below takes.
    fn spread(&mut self) {
        let mut shares: BTreeMap<NodeId, usize> = self.alive().map(|node| (node, 0)).collect();
        if shares.is_empty() {
            return self.owners.fill(None);
        }
        for owner in &mut self.owners {
            match owner.and_then(|node| shares.get_mut(&node)) {
                Some(share) => *share += 1,
                None => *owner = None,
            }
        }
        // One more for the nodes that have most already.
        let mut richest: Vec<(NodeId, usize)> = shares.into_iter().collect();
        richest.sort_by_key(|(node, share)| (std::cmp::Reverse(*share), *node));
        let (each, more) = (self.owners.len() / richest.len(), self.owners.len() % richest.len());
        let due = |place: usize| each + usize::from(place < more);
        let mut over: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut takers = Vec::new();
        for (place, (node, share)) in richest.into_iter().enumerate() {
            over.insert(node, share.saturating_sub(due(place)));
            takers.extend(std::iter::repeat_n(node, due(place).saturating_sub(share)));
        }
        for owner in &mut self.owners {
            let gives = match owner {
                None => true,
                Some(node) => over.get_mut(node).is_some_and(|over| {
                    let gives = *over > 0;
                    *over -= usize::from(gives);
                    gives
                }),
            };
            if gives && let Some(taker) = takers.pop() {
                *owner = Some(taker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// For any joins and deaths: shares are even, all owners are alive, a partition moves between two staying nodes only to a node
        /// that joined, and the record survives encoding.
        #[test]
        fn shares_stay_even_and_little_moves(changes in prop::collection::vec((0..20_u8, any::<bool>()), 1..60), few: bool) {
            let partitions = PartitionCount::new(if few { 4 } else { 64 }).unwrap();
            let mut view = View::empty(partitions);
            for (at, (node, joins)) in changes.into_iter().enumerate() {
                let node = NodeId::new(node);
                let was_alive = view.member(node).is_some_and(|member| member.is_alive);
                let next = if joins { view.with(node, at as u64 + 1, Version::NEWEST) } else { view.without(node) };
                prop_assert_eq!(next.epoch(), at as u64 + 1);
                let shares: Vec<usize> = next.alive().map(|node| next.partitions_of(node).count()).collect();
                if let (Some(most), Some(least)) = (shares.iter().max(), shares.iter().min()) {
                    prop_assert!(most - least <= 1, "{:?}", shares);
                    prop_assert_eq!(shares.iter().sum::<usize>(), partitions.get() as usize);
                }
                for partition in (0..partitions.get()).map(|at| PartitionId(at as u16)) {
                    let (before, after) = (view.owner(partition), next.owner(partition));
                    if before != after {
                        let for_who_came = joins && !was_alive && after == Some(node);
                        let from_who_left = before == Some(node) || before.is_none();
                        prop_assert!(for_who_came || from_who_left, "{:?} to {:?}", before, after);
                    }
                }
                prop_assert_eq!(View::decode(&next.encode()), Ok(next.clone()));
                view = next;
            }
        }

        /// For any joins and deaths: each dead node has one living stand-in, and keeps it while that node lives and no node joins.
        #[test]
        fn a_dead_node_has_one_stand_in(changes in prop::collection::vec((0..20_u8, any::<bool>()), 1..60)) {
            let mut view = View::empty(PartitionCount::new(16).unwrap());
            for (at, (node, joins)) in changes.into_iter().enumerate() {
                let node = NodeId::new(node);
                let next = if joins { view.with(node, at as u64 + 1, Version::NEWEST) } else { view.without(node) };
                let living: Vec<NodeId> = next.alive().collect();
                for other in (0..20).map(NodeId::new) {
                    let stand_in = next.stand_in(other);
                    let is_dead = next.member(other).is_some_and(|member| !member.is_alive);
                    prop_assert_eq!(stand_in.is_some(), is_dead && !living.is_empty());
                    prop_assert!(stand_in.is_none_or(|stand_in| living.contains(&stand_in)));
                    let before = view.stand_in(other).filter(|before| *before != node);
                    let moved = is_dead && before.is_some() && before != stand_in;
                    prop_assert!(!moved || joins && stand_in == Some(node));
                }
                view = next;
            }
        }

        #[test]
        fn any_bytes_are_a_view_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(view) = View::decode(&bytes) {
                let _ = view.with(NodeId::new(1), 1, Version::NEWEST);
            }
        }
    }

    #[test]
    fn a_forgotten_node_is_dead_and_its_version_does_not_count() {
        let (old, new, never) = (NodeId::new(0), NodeId::new(1), NodeId::new(2));
        let view = View::empty(PartitionCount::new(4).unwrap());
        let view = view.with(old, 7, Version::FIRST).with(new, 1, Version::NEWEST);
        let forgotten = view.forgetting(old);
        assert_eq!(forgotten.member(old).map(|member| (member.life, member.is_alive)), Some((7, false)));
        assert_eq!(view.forgetting(never), view, "no node stands in for one that was never a member");
    }

    #[test]
    fn stand_ins_of_many_dead_are_spread() {
        let all = (0..=255).map(NodeId::new);
        let view = all.clone().fold(View::empty(PartitionCount::new(16).unwrap()), |view, node| {
            view.with(node, 1, Version::NEWEST)
        });
        // Four of them go on.
        let view = all.clone().skip(4).fold(view, |view, node| view.without(node));
        let mut shares = [0; 4];
        for dead in all.skip(4) {
            shares[view.stand_in(dead).unwrap().index()] += 1;
        }
        assert!(shares.iter().all(|share| (43..=83).contains(share)), "{shares:?}");
    }
}
