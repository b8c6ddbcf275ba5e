//! The record that all agree on.

use super::tenures::Tenures;
use crate::record::DecodeError;
use crate::record::codec::{Reader, put_words};
use crate::version::Version;
use scalebricks_types::{NodeId, PartitionCount, PartitionId};
use std::collections::BTreeMap;

/// The record's form without tenures.
const WITHOUT_TENURES: u16 = 1;

/// The record's form with tenures behind the rest.
const WITH_TENURES: u16 = 2;

/// A node, as the view has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Which of its lives: rises each time it joins.
    pub life: u64,
    /// Whether it is alive.
    pub is_alive: bool,
    /// The newest version that it knows.
    pub knows: Version,
}

/// Who is there, and who owns what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub(super) epoch: u64,
    members: BTreeMap<NodeId, Member>,
    /// By partition; no one before the first node joins and after the last has died.
    owners: Vec<Option<NodeId>>,
    /// Who takes flows, and whose flows go to whom.
    pub(super) tenures: Tenures,
}

/// Why bytes are no view.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the view of the cluster cannot be read: {0}")]
pub struct ViewError(String);

impl From<DecodeError> for ViewError {
    fn from(error: DecodeError) -> Self {
        Self(error.to_string())
    }
}

impl View {
    /// Nobody.
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

    /// Who owns a partition.
    pub fn owner(&self, partition: PartitionId) -> Option<NodeId> {
        self.owners.get(usize::from(partition.0)).copied().flatten()
    }

    /// The partitions of a node, ascending.
    pub fn partitions_of(&self, node: NodeId) -> impl Iterator<Item = PartitionId> {
        let own = self.owners.iter().enumerate().filter(move |(_, owner)| **owner == Some(node));
        own.map(|(at, _)| PartitionId(at as u16)) // at most 2^16
    }

    /// What all understand who are alive, or may come back as they were: whoever is dead and was not forgotten.
    pub fn spoken(&self) -> Version {
        self.members.values().map(|member| member.knows).min().unwrap_or(Version::FIRST)
    }

    /// The next view, without a node that does not come back as it was: what it knew counts no longer. If it comes back, it is a
    /// member as any other. The same view for a node that was never there.
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
        let nobody = Member { life: 0, is_alive: false, knows: Version::FIRST };
        let member = self.member(node).unwrap_or(nobody);
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

    /// Gives every partition an owner, so that no two who are alive differ by more than one, and as few move as can be:
    /// whoever has more than his due gives, and whoever has less takes.
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
        // One more than the others for those who have most already.
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

    /// The view as bytes: version `u16`, epoch, members (number, life, alive, version), owners (number or 256), words little-endian.
    /// Version 2 has the tenures behind these. It is written from the first closure, suspension or lapse on, which software that knows no tenures never
    /// sees: no tenure is closed while such software is a member.
    pub fn encode(&self) -> Vec<u8> {
        let version = if self.tenures == Tenures::default() { WITHOUT_TENURES } else { WITH_TENURES };
        let mut out = version.to_le_bytes().to_vec();
        put_words(&mut out, &[self.epoch, self.members.len() as u64]);
        for (node, member) in &self.members {
            let (number, is_alive) = (u64::from(node.get()), u64::from(member.is_alive));
            put_words(&mut out, &[number, member.life, is_alive, u64::from(member.knows.get())]);
        }
        put_words(&mut out, &[self.owners.len() as u64]);
        for owner in &self.owners {
            let owner = owner.map_or(NOBODY, |node| u16::from(node.get()));
            out.extend_from_slice(&owner.to_le_bytes());
        }
        if version == WITH_TENURES {
            self.tenures.put(&mut out);
        }
        out
    }

    /// The view in exactly these bytes.
    ///
    /// # Errors
    /// [`ViewError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ViewError> {
        let mut reader = Reader::new(bytes);
        let version = u16::from_le_bytes(reader.take()?);
        if ![WITHOUT_TENURES, WITH_TENURES].contains(&version) {
            return Err(ViewError(format!("version {version} is not known here: use newer software")));
        }
        let [epoch, count] = reader.words()?;
        let mut members = BTreeMap::new();
        for _ in 0..count.min(1 << 8) {
            let [node, life, is_alive, knows] = reader.words()?;
            let node = u8::try_from(node).map_err(|_| ViewError(format!("there is no node {node}")))?;
            let knows = u16::try_from(knows).map_or(Version::FIRST, Version::told);
            members.insert(NodeId::new(node), Member { life, is_alive: is_alive != 0, knows });
        }
        let [count] = reader.words()?;
        let mut owners = Vec::new();
        for _ in 0..count.min(1 << 16) {
            let owner = u16::from_le_bytes(reader.take()?);
            owners.push(u8::try_from(owner).ok().map(NodeId::new));
        }
        let tenures: Tenures =
            if version == WITH_TENURES { Tenures::take(&mut reader, epoch)? } else { Tenures::default() };
        let is_alive = |node: &NodeId| members.get(node).is_some_and(|member: &Member| member.is_alive);
        if let Some(node) = tenures.suspensions.nodes().find(|node| !is_alive(node)) {
            Err(ViewError(format!("{node} is suspended, and is not a living member")))
        } else if version == WITH_TENURES && tenures == Tenures::default() {
            Err(ViewError("it says that it has tenures, and has none".to_owned()))
        } else if reader.rest().is_empty() {
            Ok(Self { epoch, members, owners, tenures })
        } else {
            Err(ViewError("it is too long".to_owned()))
        }
    }
}

/// In place of an owner's number.
const NOBODY: u16 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whoever comes and goes: shares are even, all are owned by someone alive, no partition moves between two who stay
        /// unless for one who came, and the record survives.
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

        /// Whoever comes and goes: each dead node has one stand-in, who lives, and keeps it while that one lives and nobody
        /// comes.
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
    fn who_is_forgotten_is_dead_and_holds_nobody_to_what_it_knew() {
        let (old, new, never) = (NodeId::new(0), NodeId::new(1), NodeId::new(2));
        let view = View::empty(PartitionCount::new(4).unwrap());
        let view = view.with(old, 7, Version::FIRST).with(new, 1, Version::NEWEST);
        assert_eq!((view.spoken(), view.without(old).spoken()), (Version::FIRST, Version::FIRST));
        let forgotten = view.forgetting(old);
        assert_eq!(forgotten.spoken(), Version::NEWEST);
        assert_eq!(forgotten.member(old).map(|member| (member.life, member.is_alive)), Some((7, false)));
        assert_eq!(view.forgetting(never), view, "nobody stands in for who was never there");
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
