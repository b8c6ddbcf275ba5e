//! Distributes a partition's state from its owner to the tables of all nodes, make before break.
//!
//! ```text
//! log ─▶ Owner ─▶ FIB updates ─▶ handling nodes
//!          ▲  └─▶ GPT deltas, once the FIBs they name hold their keys ─▶ all nodes
//!          │  └─▶ "settled up to here", once all nodes have the bits ─▶ all nodes drop keys that left them
//!        reports
//! ```
//!
//! Both ends are state machines without I/O. Messages may be lost, duplicated and reordered: each update names the positions
//! where it begins and ends; a node applies the update that follows its position, and reports its position; the owner repeats
//! what is missing. Several owners at once do no harm, as they send the same updates.

mod bulk;
mod message;
mod node;
mod overflow;
mod owner;
mod reassembly;
mod rebinding;
mod recent;
mod replica;
mod room;
mod transfer;

pub use message::{Digest, FibPiece, GptPiece, Message, Part, Report, Rewind, Sweep, Target};
pub use owner::{Applied, COMPARE_EVERY, Owner, RESEND};
pub use replica::{FIB_SWEEP_EVERY, Replica, ReplicaError, Tables};
pub use room::{FibRoom, USED_PERCENT};
pub use transfer::Limits;
