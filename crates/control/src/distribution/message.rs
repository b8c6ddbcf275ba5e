//! Messages between owners and nodes.

use super::room::FibRoom;
use crate::partition::FibUpdate;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_tables::FibValue;
use scalebricks_tables::fib::FibDigest;
use scalebricks_types::{Delta, FlowKey, PartitionId, Position};
use std::cmp::Reverse;

/// From an owner to a node.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// The next change of the node's FIB.
    Fib(FibUpdate),
    /// New bits, in order, the next of them first.
    Gpt(Vec<Delta>),
    /// The positions that the node should reach.
    Target(Target),
    /// The digest of the partition's bits.
    Digest(Digest),
    /// A part of a whole FIB.
    FibPiece(FibPiece),
    /// Some of the bytes of a delta that is too long for one message.
    GptPiece(GptPiece),
    /// The node's state comes from entries that the log does not have.
    Rewind(Rewind),
}

impl Message {
    /// The partition it is about; `None` for no deltas.
    pub fn partition(&self) -> Option<PartitionId> {
        match self {
            Self::Fib(update) => Some(update.partition),
            Self::Gpt(deltas) => deltas.first().map(|delta| delta.partition),
            Self::Target(target) => Some(target.partition),
            Self::Digest(digest) => Some(digest.partition),
            Self::FibPiece(piece) => Some(piece.partition),
            Self::GptPiece(piece) => Some(piece.partition),
            Self::Rewind(rewind) => Some(rewind.partition),
        }
    }
}

/// The positions of a partition, which its owner sends each node repeatedly: those of all nodes and those that this node should
/// reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Target {
    /// The partition.
    pub partition: PartitionId,
    /// The life of the node that this is about.
    pub life: u64,
    /// All nodes have the bits of the entries up to here.
    pub settled: Position,
    /// The last update there is for the node's FIB.
    pub fib: Position,
    /// The last bits that the node is to have.
    pub gpt: Position,
    /// Keys that the partition has room for beyond those it holds.
    pub room: u64,
    /// Keys it holds.
    pub keys: u64,
    /// The number of the last change of shape that all nodes have this partition's bits in.
    pub shapes: u32,
    /// [`Report::again`] of the report that this answers. A node that has restarted the partition since then ignores the target: its
    /// positions may be of entries that the log has lost.
    pub again: u32,
    /// The last bits that the owner knows of, including those that may not go out yet.
    pub newest: Position,
}

/// The digest of a partition's bits. A node at this position with another digest has wrong bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Digest {
    /// The partition.
    pub partition: PartitionId,
    /// The last entry that changed them.
    pub gpt: Position,
    /// Of the table's bits there.
    pub digest: u32,
}

/// The log of a partition ends before a position that the node has reported: an older log replaced it. The node drops its
/// positions and is sent the whole FIB and all bits again; its tables keep their contents until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Rewind {
    /// The partition.
    pub partition: PartitionId,
    /// The life of the node that this is about.
    pub life: u64,
    /// [`Report::again`] of the report that was ahead of the log: a node that has restarted the partition since then ignores this.
    pub again: u32,
    /// Where the log ended.
    pub last: Position,
}

/// Some of the keys of one partition that one node handles, in the order of their hashes. All pieces of a position
/// together hold all keys of the partition that the node handles at that position.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct FibPiece {
    /// The partition.
    pub partition: PartitionId,
    /// The last entry that meant something for this node. The same for all pieces of an image.
    pub position: Position,
    /// Keys in all pieces.
    pub keys: u64,
    /// Keys in the pieces before this one.
    pub first: u64,
    /// The number of the node's [`Sweep`] that shows that its entries are wrong: the image replaces entries of the same position.
    /// 0 if the node is only behind.
    pub wrong: u32,
    /// The keys with their values.
    pub entries: Vec<(FlowKey, FibValue)>,
}

/// Some of the bytes of an encoded delta.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct GptPiece {
    /// The partition.
    pub partition: PartitionId,
    /// The position that the delta brings a table to.
    pub position: Position,
    /// The position from which on it carries every change.
    pub previous: Position,
    /// Bytes of the encoded delta.
    pub bytes: u64,
    /// Bytes in the pieces before this one.
    pub first: u64,
    /// The bytes.
    pub part: Vec<u8>,
}

/// How much a node has of an image that comes in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub struct Part {
    /// The image's position; 0 if none is being transferred.
    pub at: Position,
    /// The position from which on it carries every change; 0 for all keys or bits.
    pub since: Position,
    /// Keys of a FIB, or bytes of a delta, from the first on.
    pub have: u64,
}

impl Part {
    /// Whether both are about the same image.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        (self.at, self.since) == (other.at, other.since)
    }

    /// The later one: a node advances to images of higher positions, to one that contains more, and within an image.
    pub(super) fn later(self, other: Self) -> Self {
        let order = |part: &Self| (part.at, Reverse(part.since), part.have);
        std::cmp::max_by_key(self, other, order)
    }
}

/// The result of reading all entries of the node's FIB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, BorshSerialize, BorshDeserialize)]
pub struct Sweep {
    /// Rises with each sweep in the node's process; 0 if there was none.
    pub number: u32,
    /// The last FIB update that had been applied then.
    pub at: Position,
    /// Of the entries of the partition, without keys that have left and are still held.
    pub digest: FibDigest,
}

/// A node's positions, sent to an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Report {
    /// The partition.
    pub partition: PartitionId,
    /// The node's life that this is about: a restarted node draws a higher number because its memory is empty.
    pub life: u64,
    /// The last FIB update applied.
    pub fib: Position,
    /// The last whole FIB applied. Keys that came and left before it may never have been in this FIB.
    pub whole: Position,
    /// The last GPT delta applied.
    pub gpt: Position,
    /// How often in this life the node restarted the partition because its bits were wrong or it was [rewound](Rewind). Positions may
    /// be lower than those of reports with a lower number.
    pub again: u32,
    /// Whole FIBs of the partition that were applied in this life.
    pub wholes: u32,
    /// How much the node has of a whole FIB.
    pub fib_part: Part,
    /// How much the node has of a GPT delta in pieces.
    pub gpt_part: Part,
    /// The newest sweep.
    pub sweep: Sweep,
    /// How full the node's FIB is, of all partitions.
    pub room: FibRoom,
    /// The node's FIB holds no key that entries up to here removed, as far as owners have reported in this life.
    pub let_go: Position,
}

impl Report {
    /// A node that has nothing of a partition, in this life.
    pub fn new(partition: PartitionId, life: u64) -> Self {
        let start = Position(0);
        Self {
            partition,
            life,
            fib: start,
            whole: start,
            gpt: start,
            again: 0,
            wholes: 0,
            fib_part: Part::default(),
            gpt_part: Part::default(),
            sweep: Sweep::default(),
            room: FibRoom::UNLIMITED,
            let_go: start,
        }
    }
}

impl Report {
    /// The furthest position in it.
    pub fn furthest(&self) -> Position {
        self.fib.max(self.whole).max(self.gpt).max(self.fib_part.at).max(self.gpt_part.at)
    }

    /// Whether the node restarted the partition and waits for a whole FIB.
    pub fn needs_whole_fib(&self) -> bool {
        self.again > 0 && self.fib == Position(0)
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
