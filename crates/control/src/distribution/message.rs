//! What owners and nodes tell each other.

use crate::partition::FibUpdate;
use scalebricks_tables::FibValue;
use scalebricks_types::{Delta, FlowKey, PartitionId, Position};

/// From an owner to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The next change of the node's FIB.
    Fib(FibUpdate),
    /// All that the node's FIB holds of a partition.
    FibWhole(FibWhole),
    /// New bits, in order, the next of them first.
    Gpt(Vec<Delta>),
    /// Where the node is to be.
    Target(Target),
    /// What its bits are to be.
    Digest(Digest),
    /// What the node has comes from entries that the log does not have.
    Rewind(Rewind),
}

impl Message {
    /// The partition it is about; `None` for no deltas.
    pub fn partition(&self) -> Option<PartitionId> {
        match self {
            Self::Fib(update) => Some(update.partition),
            Self::FibWhole(whole) => Some(whole.partition),
            Self::Gpt(deltas) => deltas.first().map(|delta| delta.partition),
            Self::Target(target) => Some(target.partition),
            Self::Digest(digest) => Some(digest.partition),
            Self::Rewind(rewind) => Some(rewind.partition),
        }
    }
}

/// What an owner tells a node of its partition again and again: where all are, and where this one is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Keys it holds; 0 from nodes that speak version 1.
    pub keys: u64,
    /// The number of the last change of shape that all nodes have this partition's bits in; 0 from nodes that speak version 1.
    pub shapes: u32,
}

/// The bits of a partition: whoever is at this position and has others has gone astray.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    /// The partition.
    pub partition: PartitionId,
    /// The last entry that changed them.
    pub gpt: Position,
    /// Of the table's bits there.
    pub digest: u32,
}

/// The log of a partition ends before a position that the node has reported: an older log took its place. The node drops its
/// positions and is given all of the FIB and all bits again; what its tables hold stays until then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewind {
    /// The partition.
    pub partition: PartitionId,
    /// The life of the node that this is about.
    pub life: u64,
    /// [`Report::again`] of the report that was ahead of the log: a node that has begun anew since then passes this over.
    pub again: u32,
    /// Where the log ended.
    pub last: Position,
}

/// The keys of one partition that one node handles, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FibWhole {
    /// The partition.
    pub partition: PartitionId,
    /// The last entry that meant something for this node.
    pub position: Position,
    /// The keys with their values.
    pub entries: Vec<(FlowKey, FibValue)>,
}

/// From a node to an owner: where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The partition.
    pub partition: PartitionId,
    /// Which of the node's lives this is about: a node that starts anew draws a higher number, as it has forgotten all.
    pub life: u64,
    /// The last FIB update applied.
    pub fib: Position,
    /// The last [`FibWhole`] applied. Keys that came and left before it may never have been in this FIB.
    pub whole: Position,
    /// The last GPT delta applied.
    pub gpt: Position,
    /// How often the node found its bits to be wrong in this life, or was [rewound](Rewind), and began anew; 0 from nodes that
    /// speak version 1. Positions may be lower than those of reports with a lower number.
    pub again: u32,
}

impl Report {
    /// The furthest position in it.
    pub fn furthest(&self) -> Position {
        self.fib.max(self.whole).max(self.gpt)
    }

    /// Whether the node began anew and waits for all of its FIB.
    pub fn needs_whole_fib(&self) -> bool {
        self.again > 0 && self.fib == Position(0)
    }
}
