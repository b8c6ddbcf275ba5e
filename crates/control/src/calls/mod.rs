//! Calls: requests for changes, sent to the owner of their partition, which returns verdicts.
//!
//! ```text
//! callers ─▶ CallClient ══ calls ══▶ CallServer ─ room? ─▶ log ─▶ Partition ─ verdicts ─▶ CallServer ══ answers ══▶ CallClient ─▶ callers
//!             └── again, under the same numbers, to the next owner
//! ```
//!
//! A [`CallClient`] is one process's end for one partition, a [`CallServer`] the owner's. The owner checks that there is room before it logs
//! a call, logs each call once, and answers with the result of applying the log. A repeated call is answered with its first
//! verdict by any later owner, because the verdicts of recent calls are part of the partition's state. Two owners at once do no
//! harm: both may log a call, and only the first entry counts.

use borsh::{BorshDeserialize, BorshSerialize};
mod client;
mod server;
#[cfg(test)]
mod tests;

pub use client::{CALL_CHANGES, CallClient, DEADLINE, DELAY, Failure, MESSAGE_CHANGES, RETRY};
pub use server::{CallServer, MAX_CALLS, MAX_CHANGES};

use crate::partition::Verdict;
use crate::record::CallId;
use scalebricks_types::NodeId;

/// An owner's answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Answer {
    /// Which.
    pub id: CallId,
    /// The reply.
    pub reply: Reply,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Reply {
    /// It is in the log, and this is its verdict for good.
    Judged(Verdict),
    /// This owner has not logged it.
    Refused(Refusal),
}

/// Why an owner does not log a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error, BorshSerialize, BorshDeserialize)]
pub enum Refusal {
    /// The partition is another's, or not loaded yet: ask the owner.
    #[error("the partition has another owner")]
    NotOwner,
    /// Too much waits already.
    #[error("too many changes wait for the partition's log; try again soon")]
    Busy,
    /// The GPT has no room for the new keys.
    #[error("the partition has no room for the new keys now; the table grows, try again soon")]
    NoRoom,
    /// The FIB of a handling node has no room for them.
    #[error("the FIB of {0} has no room for new flows: pin the flow to another node")]
    NodeFull(NodeId),
    /// The engine did not take the batch, and will not.
    #[error("the log refused the changes: {0}")]
    Log(String),
    /// A node that was removed may still forward a key of the call for another flow. The caller repeats the call until that node's
    /// lease has expired: see [`crate::lease`].
    #[error("a node that was removed may still forward one of the keys for another flow; try again soon")]
    Delayed,
}
