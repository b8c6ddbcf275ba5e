//! What the log of a partition says: changes to its sessions, and what the cluster does to all of them.
//!
//! A session has several keys: one for each direction at least. They hash into partitions of their own, and each of those
//! has a record of its key. Whoever accepts a session has to split it, and to answer when all partitions have logged their part.
//!
//! Since version 3 a batch is a list of [`Call`]s: changes with the name of the request that they come from. Each call of a batch
//! is judged on its own, and its verdict is kept in the partition's state, so a request that is repeated is not executed twice.

mod calls;
pub(crate) mod codec;

pub use calls::{Call, CallId, WINDOW};
pub use codec::{DecodeError, EncodeError, Payload, decode, decode_payload, encode, encode_calls};

use scalebricks_tables::FibValue;
use scalebricks_tables::compact::Params;
use scalebricks_types::{FlowKey, NodeId, Position};

/// The state a key leads to: where its packets are handled, and what is done with them there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    /// The handling node.
    pub node: NodeId,
    /// What the node's FIB holds; opaque here.
    pub value: FibValue,
}

/// One change. Those of a batch are made one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key has this state, whether it was there before or not.
    Upsert(FlowKey, Session),
    /// The key, which is there, gets this state.
    Move(FlowKey, Session),
    /// The key, which is there, goes.
    Delete(FlowKey),
    /// The keys of a node go to others.
    Repin(Repin),
    /// The partition's bits get another shape. Alone in its batch.
    Reshape(Reshape),
}

impl Change {
    /// Whether it does nothing in one batch with others.
    pub const fn is_alone(&self) -> bool {
        matches!(self, Self::Reshape(_))
    }

    /// The key it is about, if it is about one.
    pub const fn key(&self) -> Option<&FlowKey> {
        match self {
            Self::Upsert(key, _) | Self::Move(key, _) | Self::Delete(key) => Some(key),
            Self::Repin(_) | Self::Reshape(_) => None,
        }
    }
}

/// More blocks, other value bits, another seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reshape {
    /// Which of the cluster's changes it is: a record that comes late, or twice, changes nothing.
    pub number: u32,
    /// The shape.
    pub to: Params,
}

/// What becomes of the keys of a node that died or is to be emptied. One record a partition says it, and every owner works
/// the same new places out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repin {
    /// The node.
    pub from: NodeId,
    /// Only keys that the entries up to this one pinned there: a record that comes late, or twice, leaves alone what a node
    /// that returned was given since.
    pub upto: Position,
    /// Who gets its keys, spread evenly by their hashes. The node itself may be among them: then some stay.
    pub heirs: Heirs,
}

/// One to 256 nodes, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heirs(Vec<NodeId>);

/// There is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody is there to take a node's keys")]
pub struct NoHeirs;

impl Heirs {
    /// These nodes, each of them once.
    ///
    /// # Errors
    /// [`NoHeirs`] if there are none.
    pub fn new(nodes: impl IntoIterator<Item = NodeId>) -> Result<Self, NoHeirs> {
        let mut nodes: Vec<NodeId> = nodes.into_iter().collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() { Err(NoHeirs) } else { Ok(Self(nodes)) }
    }

    /// They.
    pub fn nodes(&self) -> &[NodeId] {
        &self.0
    }

    /// The one who gets a key with this hash. The hash's high bits name the partition, so all of it is mixed: each
    /// partition is spread over all heirs.
    pub fn of(&self, hash: scalebricks_types::KeyHash) -> NodeId {
        let mixed = u128::from(hash.get().wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let at = (mixed * self.0.len() as u128) >> 64;
        self.0[at as usize] // below the length, which is not 0
    }
}
