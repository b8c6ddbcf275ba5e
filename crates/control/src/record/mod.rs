//! Contents of a partition's log: changes to its sessions.
//!
//! A session has at least one key per direction. The keys hash into different partitions, and each partition records its own keys.
//! The node that accepts a session splits it, and answers when all partitions have logged their part.
//!
//! A batch is a list of [`Call`]s, or of changes that the owner makes itself. Each call of a batch is judged on its own, and its
//! verdict is kept in the partition's state, so a repeated call is not executed twice.

use borsh::{BorshDeserialize, BorshSerialize};
mod calls;
mod closure;
mod codec;

pub use calls::{Call, CallId, WINDOW};
pub use closure::{Closure, Closures, Epoch, FlowId, MAX_CLOSURES};
pub use codec::{EncodeError, Payload, encode, encode_calls};

use crate::codec::checked;
use crate::rendezvous;
use scalebricks_tables::FibValue;
use scalebricks_tables::compact::Params;
use scalebricks_types::{FlowKey, NodeId, NodeSet};
use std::io::{self, Read, Write};

/// The state of a key: where its packets are handled, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
pub struct Session {
    /// The handling node.
    pub node: NodeId,
    /// An epoch of the view in which the node took flows: with the node it names the tenure that the key is pinned in. The control
    /// plane sets it when it accepts a session; callers leave it [`Epoch::UNKNOWN`].
    pub epoch: Epoch,
    /// The value in the node's FIB; opaque here except for [`Session::flow`].
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

    /// Whether both sessions have the same FIB entry at the same node.
    pub fn is_handled_as(&self, other: &Self) -> bool {
        (self.node, self.value) == (other.node, other.value)
    }
}

/// One change. Those of a batch are made one after the other.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Change {
    /// The key has this state, whether it was there before or not.
    Upsert(FlowKey, Session),
    /// Sets the state of an existing key.
    Move(FlowKey, Session),
    /// Deletes an existing key.
    Delete(FlowKey),
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
            Self::Close(_) | Self::Reshape(_) => None,
        }
    }
}

/// More blocks, other value bits, another seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Reshape {
    /// Which of the cluster's changes it is: a record that comes late, or twice, changes nothing.
    pub number: u32,
    /// The shape.
    pub to: Params,
}

/// One to 256 nodes, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heirs(Vec<NodeId>);

/// A list of heirs is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no node can take the keys")]
pub struct NoHeirs;

/// A bit for each node, as in a [`NodeSet`].
impl BorshSerialize for Heirs {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        self.0.iter().copied().collect::<NodeSet>().serialize(writer)
    }
}

impl BorshDeserialize for Heirs {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        checked(reader, |nodes: NodeSet| Self::new(nodes.iter()).map_err(|_| "no heirs"))
    }
}

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

    /// The nodes, ascending.
    pub fn nodes(&self) -> &[NodeId] {
        &self.0
    }

    /// The heir of a flow, among those that `can_be` one: the same for all keys of the flow. `None` if no heir can be.
    pub fn of_flow(&self, flow: FlowId, can_be: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let name = rendezvous::mix(flow.0);
        self.0.iter().copied().filter(|heir| can_be(*heir)).max_by_key(|heir| rendezvous::weight(name, *heir))
    }
}
