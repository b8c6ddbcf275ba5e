//! Requests for changes, from whoever accepts them to the owner of their partition, and verdicts back.
//!
//! ```text
//! callers ─▶ Lane ══ calls ══▶ Desk ─ room? ─▶ log ─▶ Partition ─ verdicts ─▶ Desk ══ answers ══▶ Lane ─▶ callers
//!             └── again, under the same numbers, to the next owner
//! ```
//!
//! A [`Lane`] is one process's way to one partition. A [`Desk`] is the owner's end: it decides room before anything is logged, has
//! each call logged once, and answers with what applying the log says. A call that comes again is answered with its first
//! verdict, by whoever owns the partition then, as the verdicts of recent calls are part of the partition's state. So two owners
//! at once do no harm: each may log a call, and the log has one first.

mod codec;
mod desk;
mod lane;

pub use codec::{decode_answers, decode_request, encode_answers, encode_request};
pub use desk::{DESK_CALLS, DESK_CHANGES, Desk};
pub use lane::{CALL_CHANGES, DEADLINE, DELAY, Failure, Lane, MESSAGE_CHANGES, RETRY};

use crate::partition::Verdict;
use crate::record::CallId;
use scalebricks_types::NodeId;

/// What an owner says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Which.
    pub id: CallId,
    /// What.
    pub reply: Reply,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is in the log, and this is its verdict for good.
    Judged(Verdict),
    /// This owner has not logged it.
    Refused(Refusal),
}

/// Why an owner does not log a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
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
    #[error("the log did not take the changes: {0}")]
    Log(String),
    /// A node that was removed may still forward a key of the call for another flow. Whoever calls asks again until its lease has
    /// expired: see [`crate::lease`].
    #[error("a node that was removed may still forward one of the keys for another flow; try again soon")]
    Delayed,
    /// A member of the cluster cannot read logged calls.
    #[error("a node runs older software that cannot read the change: upgrade all nodes first")]
    Version,
}
