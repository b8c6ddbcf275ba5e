//! Sets of nodes.

use crate::ids::NodeId;
use borsh::{BorshDeserialize, BorshSerialize};

/// A set of nodes, one bit per node number: 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub struct NodeSet([u64; 4]);

impl NodeSet {
    /// The empty set.
    pub const EMPTY: Self = Self([0; 4]);

    /// The set with these words: bit n of word w is node 64w + n.
    pub const fn from_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    /// The words: bit n of word w is node 64w + n.
    pub const fn words(&self) -> [u64; 4] {
        self.0
    }

    /// Whether the node is in the set.
    pub const fn contains(&self, node: NodeId) -> bool {
        let number = node.get();
        self.0[(number >> 6) as usize] >> (number & 63) & 1 == 1 // below 4
    }

    /// Adds a node.
    pub const fn insert(&mut self, node: NodeId) {
        let number = node.get();
        self.0[(number >> 6) as usize] |= 1 << (number & 63); // below 4
    }

    /// Removes a node.
    pub const fn remove(&mut self, node: NodeId) {
        let number = node.get();
        self.0[(number >> 6) as usize] &= !(1 << (number & 63)); // below 4
    }

    /// Number of nodes in the set.
    pub const fn len(&self) -> u32 {
        self.0[0].count_ones() + self.0[1].count_ones() + self.0[2].count_ones() + self.0[3].count_ones()
    }

    /// Whether no node is in the set.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nodes in the set, ascending. Cost: 256 tests.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + Clone {
        let set = *self;
        (0..=u8::MAX).map(NodeId::new).filter(move |node| set.contains(*node))
    }

    /// The nodes that are in one of the sets or in both.
    #[must_use]
    pub const fn union(&self, other: &Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a | e, b | f, c | g, d | h])
    }

    /// The nodes that are in this set and not in the other.
    #[must_use]
    pub const fn difference(&self, other: &Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a & !e, b & !f, c & !g, d & !h])
    }

    /// The nodes that are in both sets.
    #[must_use]
    pub const fn intersection(&self, other: &Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a & e, b & f, c & g, d & h])
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_set_is_as_one_of_the_standard_library(steps: Vec<(u8, bool)>, others: Vec<u8>) {
            let (mut set, mut twin) = (NodeSet::default(), BTreeSet::new());
            for (number, is_in) in steps {
                let node = NodeId::new(number);
                if is_in {
                    set.insert(node);
                    twin.insert(node);
                } else {
                    set.remove(node);
                    twin.remove(&node);
                }
            }
            prop_assert_eq!(set.len() as usize, twin.len());
            prop_assert_eq!(set.is_empty(), twin.is_empty());
            prop_assert!((0..=255).map(NodeId::new).all(|node| set.contains(node) == twin.contains(&node)));
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), twin.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(NodeSet::from_words(set.words()), set);
            let others: BTreeSet<NodeId> = others.into_iter().map(NodeId::new).collect();
            let other: NodeSet = others.iter().copied().collect();
            let both: NodeSet = twin.intersection(&others).copied().collect();
            prop_assert_eq!(set.intersection(&other), both);
            let (any, only) = (twin.union(&others).copied(), twin.difference(&others).copied());
            prop_assert_eq!(set.union(&other), any.collect::<NodeSet>());
            prop_assert_eq!(set.difference(&other), only.collect::<NodeSet>());
        }
    }
}
