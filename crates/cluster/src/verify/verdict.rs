//! The result of a node's comparison of its tables with the logs.

use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::PartitionId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What differs.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
    BorshSerialize,
    BorshDeserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// The GPT names another node for a key.
    GptNode,
    /// A key that is pinned here is not in the FIB.
    FibMissing,
    /// The FIB holds another value for a key.
    FibValue,
    /// The FIB holds a key that is not pinned here, and is not about to let go of it.
    FibSurplus,
    /// The tables did not come to where the partition's log was.
    Behind,
}

impl DifferenceKind {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GptNode => "gpt-node",
            Self::FibMissing => "fib-missing",
            Self::FibValue => "fib-value",
            Self::FibSurplus => "fib-surplus",
            Self::Behind => "behind",
        }
    }
}

/// One place where a table is not as the log says.
#[derive(
    Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, BorshSerialize, BorshDeserialize,
)]
pub struct Difference {
    /// What differs.
    pub kind: DifferenceKind,
    /// The partition of the key space.
    pub partition: u16,
    /// The key in words; none where it is about all of the partition.
    pub key: Option<String>,
    /// What the log says.
    pub expected: String,
    /// What the table has.
    pub found: String,
}

impl Difference {
    /// Positions of FIB and GPT that were not reached.
    pub(super) fn behind(partition: PartitionId, expected: (u64, u64), found: (u64, u64)) -> Self {
        let words = |(fib, gpt): (u64, u64)| format!("FIB at {fib}, GPT at {gpt}");
        Self {
            kind: DifferenceKind::Behind,
            partition: partition.0,
            key: None,
            expected: words(expected),
            found: words(found),
        }
    }
}

/// What a node found.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
    BorshSerialize,
    BorshDeserialize,
)]
pub struct Verdict {
    /// Partitions that were compared.
    pub partitions: u64,
    /// Keys of the cluster that were looked up in the GPT.
    pub keys: u64,
    /// Keys that are pinned to the node.
    pub keys_here: u64,
    /// Keys that were left out: they changed again and again while they were compared.
    pub in_flight: u64,
    /// Differences, by what differs.
    pub counts: BTreeMap<DifferenceKind, u64>,
    /// The first of them, partition by partition.
    pub differences: Vec<Difference>,
    /// Why not everything was compared; none if it was.
    pub problem: Option<String>,
}

impl Verdict {
    /// Only a reason.
    pub(super) fn problem(what: impl Into<String>) -> Self {
        Self { problem: Some(what.into()), ..Self::default() }
    }

    /// Whether all was compared, and nothing differs.
    pub fn is_same(&self) -> bool {
        self.problem.is_none() && self.counts.values().all(|count| *count == 0)
    }

    /// Adds a difference; the first `told` are listed.
    pub(super) fn differ(&mut self, told: usize, difference: Difference) {
        *self.counts.entry(difference.kind).or_default() += 1;
        if self.differences.len() < told {
            self.differences.push(difference);
        }
    }
}
