//! Identifiers. Each is a newtype with a checked constructor where not every value is legal.

use borsh::{BorshDeserialize, BorshSerialize};
use std::fmt;

/// Most nodes a cluster can have: a node number is one octet of the fabric's MAC addresses.
pub const MAX_NODES: u16 = 256;

/// A number that is not a legal identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// A cluster has 1 to [`MAX_NODES`] nodes.
    #[error("a cluster has 1 to {MAX_NODES} nodes, not {0}")]
    ClusterSize(usize),
    /// Node numbers run from 0 to the cluster's size less one.
    #[error("node {node} does not exist in a cluster of {size} nodes")]
    Node {
        /// The refused number.
        node: u16,
        /// The size of the cluster.
        size: u16,
    },
    /// A QFI has six bits (TS 38.415 §5.5.3.3).
    #[error("a QFI is 0 to 63, not {0}")]
    Qfi(u8),
    /// The number of partitions is a power of two, at most 65,536.
    #[error("the number of partitions is a power of two up to 65536, not {0}")]
    PartitionCount(u32),
}

/// One node of the cluster. An *exact* answer: who holds a `NodeId` may rely on it (compare [`NodeHint`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct NodeId(u8);

impl NodeId {
    /// The node with this number; every octet is a legal number, whether the node is *live* is the cluster's to say.
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number, 0 to 255.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// What a GPT says of a key: *some* node, right for every key that was inserted, arbitrary for all others.
///
/// A hint becomes a [`NodeId`] only through [`ClusterSize::resolve`], which refuses numbers that name no node
/// (three nodes in two value bits, an unknown key, [`NodeHint::NONE`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeHint(u16);

impl NodeHint {
    /// "No node": given by tables that can tell that they do not hold a key.
    pub const NONE: Self = Self(u16::MAX);

    /// The hint that names this number.
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number hinted at, which may name no node.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The number of nodes in a cluster, 1 to [`MAX_NODES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClusterSize(u16);

impl ClusterSize {
    /// A cluster of `nodes` nodes.
    ///
    /// # Errors
    /// [`IdError::ClusterSize`] outside 1 to [`MAX_NODES`].
    pub fn new(nodes: usize) -> Result<Self, IdError> {
        match u16::try_from(nodes) {
            Ok(n) if (1..=MAX_NODES).contains(&n) => Ok(Self(n)),
            _ => Err(IdError::ClusterSize(nodes)),
        }
    }

    /// The number of nodes.
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// All nodes, in order.
    pub fn nodes(self) -> impl Iterator<Item = NodeId> + Clone {
        (0..self.0).map(|n| NodeId(n as u8)) // n < MAX_NODES = 256
    }

    /// The node a hint names, or `None` if it names no node of this cluster. Cost: one comparison.
    #[inline]
    pub const fn resolve(self, hint: NodeHint) -> Option<NodeId> {
        if hint.0 < self.0 { Some(NodeId(hint.0 as u8)) } else { None }
    }

    /// The node with this number.
    ///
    /// # Errors
    /// [`IdError::Node`] if the cluster has no such node.
    pub fn node(self, number: u16) -> Result<NodeId, IdError> {
        self.resolve(NodeHint(number)).ok_or(IdError::Node { node: number, size: self.0 })
    }

    /// Bits a table needs to tell the nodes apart: ⌈log2 n⌉, at least 1, at most 8.
    pub const fn value_bits(self) -> u8 {
        if self.0 <= 2 { 1 } else { (u16::BITS - (self.0 - 1).leading_zeros()) as u8 }
    }
}

/// Tunnel endpoint identifier of GTP-U (TS 29.281 §5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Teid(u32);

impl Teid {
    /// The tunnel with this identifier. 0 is legal on the wire (path messages, error indication).
    pub const fn new(teid: u32) -> Self {
        Self(teid)
    }

    /// The 32 bits, host order.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// QoS flow identifier, six bits (TS 38.415 §5.5.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Qfi(u8);

impl Qfi {
    /// # Errors
    /// [`IdError::Qfi`] above 63.
    pub const fn new(qfi: u8) -> Result<Self, IdError> {
        if qfi < 64 { Ok(Self(qfi)) } else { Err(IdError::Qfi(qfi)) }
    }

    /// The six bits.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// A flow's place in its handling node's counter array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowIndex(pub u32);

/// A range of the key hash: the unit of ownership and of update streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct PartitionId(pub u16);

/// How many partitions the key hash is cut into: a power of two, so that a partition is a prefix of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PartitionCount(u32);

impl PartitionCount {
    /// One partition: the whole key space.
    pub const ONE: Self = Self(1);

    /// # Errors
    /// [`IdError::PartitionCount`] unless a power of two up to 65,536.
    pub const fn new(partitions: u32) -> Result<Self, IdError> {
        if partitions.is_power_of_two() && partitions <= 1 << 16 {
            Ok(Self(partitions))
        } else {
            Err(IdError::PartitionCount(partitions))
        }
    }

    /// The count.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The partition a hash belongs to: its top log2(count) bits.
    #[inline]
    pub const fn of(self, hash: crate::KeyHash) -> PartitionId {
        PartitionId(((hash.get() as u128 * self.0 as u128) >> 64) as u16)
    }
}

/// A place in one partition's update stream. 0 is "before the first update".
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, BorshSerialize, BorshDeserialize,
)]
pub struct Position(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_bits_are_the_rounded_up_logarithm() {
        let bits = |n| ClusterSize::new(n).unwrap().value_bits();
        let expected =
            [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (64, 6), (65, 7), (255, 8), (256, 8)];
        for (nodes, want) in expected {
            assert_eq!(bits(nodes), want, "{nodes} nodes");
        }
    }

    #[test]
    fn hints_that_name_no_node_do_not_resolve() {
        let three = ClusterSize::new(3).unwrap();
        assert_eq!(three.resolve(NodeHint::new(2)), Some(NodeId::new(2)));
        assert_eq!(three.resolve(NodeHint::new(3)), None);
        assert_eq!(ClusterSize::new(256).unwrap().resolve(NodeHint::NONE), None);
    }

    #[test]
    fn sizes_outside_the_limits_are_refused() {
        assert_eq!(ClusterSize::new(0), Err(IdError::ClusterSize(0)));
        assert_eq!(ClusterSize::new(257), Err(IdError::ClusterSize(257)));
        assert_eq!(Qfi::new(64), Err(IdError::Qfi(64)));
        assert_eq!(PartitionCount::new(0), Err(IdError::PartitionCount(0)));
        assert_eq!(PartitionCount::new(6), Err(IdError::PartitionCount(6)));
    }
}
