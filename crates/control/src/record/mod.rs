//! What the log of a partition says: changes to its sessions, and what the cluster does to all of them.
//!
//! A session has several keys: one for each direction at least. They hash into partitions of their own, and each of those
//! has a record of its key. Whoever accepts a session has to split it, and to answer when all partitions have logged their part.
//!
//! Since version 3 a batch is a list of [`Call`]s: changes with the name of the request that they come from. Each call of a batch
//! is judged on its own, and its verdict is kept in the partition's state, so a request that is repeated is not executed twice.

mod calls;
mod closure;
pub(crate) mod codec;

pub use calls::{Call, CallId, WINDOW};
pub use closure::{Closure, Closures, Epoch, FlowId, MAX_CLOSURES};
pub use codec::{DecodeError, EncodeError, Payload, decode, decode_payload, encode, encode_calls};

use crate::rendezvous;

use scalebricks_tables::FibValue;
use scalebricks_tables::compact::Params;
use scalebricks_types::{FlowKey, NodeId, Position};

/// The state a key leads to: where its packets are handled, and what is done with them there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    /// The handling node.
    pub node: NodeId,
    /// An epoch of the view in which the node took flows: with the node it names the tenure that the key is pinned in. Whoever
    /// accepts a session sets it; the control plane's callers leave it [`Epoch::UNKNOWN`].
    pub epoch: Epoch,
    /// What the node's FIB holds; opaque here but for [`Session::flow`].
    pub value: FibValue,
}

impl Session {
    /// A session as a controller asks for it.
    pub const fn new(node: NodeId, value: FibValue) -> Self {
        Self { node, epoch: Epoch::UNKNOWN, value }
    }

    /// The flow that the key is one of: the high half of the value's first word, where the data plane's `PinnedState` has the
    /// uplink TEID. All keys of a flow have the same.
    pub const fn flow(&self) -> FlowId {
        FlowId(self.value[0] >> 32)
    }

    /// The same at another node, by a pin of that epoch.
    #[must_use]
    pub const fn at(self, (node, epoch): (NodeId, Epoch)) -> Self {
        Self { node, epoch, ..self }
    }

    /// Whether a FIB that holds this for a key has it as the other says.
    pub fn is_handled_as(&self, other: &Self) -> bool {
        (self.node, self.value) == (other.node, other.value)
    }
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
    /// The keys of a node go to others, each by its own hash. Written only while a member knows no newer version than 2: a flow's
    /// keys may go to two nodes.
    Repin(Repin),
    /// A tenure of a node is closed: the keys pinned in it, and those that are logged later and name it, go to the flow's heir.
    Close(Closure),
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
            Self::Repin(_) | Self::Close(_) | Self::Reshape(_) => None,
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

    /// The one who gets a key with this hash, by a [`Repin`]. The hash's high bits name the partition, so all of it is mixed: each
    /// partition is spread over all heirs.
    pub fn of(&self, hash: scalebricks_types::KeyHash) -> NodeId {
        let mixed = u128::from(hash.get().wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let at = (mixed * self.0.len() as u128) >> 64;
        self.0[at as usize] // below the length, which is not 0
    }

    /// The heir of a flow, among those that `can_be` one: the same for all keys of the flow. `None` if no heir can be.
    pub fn of_flow(&self, flow: FlowId, can_be: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let name = rendezvous::mix(flow.0);
        self.0.iter().copied().filter(|heir| can_be(*heir)).max_by_key(|heir| rendezvous::weight(name, *heir))
    }
}
