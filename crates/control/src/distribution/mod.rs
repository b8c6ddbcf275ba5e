//! From a partition's owner to the tables of all nodes, make before break.
//!
//! ```text
//! log ─▶ Owner ─▶ FIB updates ─▶ handling nodes
//!          ▲  └─▶ GPT deltas, once the FIBs they name hold their keys ─▶ all nodes
//!          │  └─▶ "settled up to here", once all nodes have the bits ─▶ all nodes drop what has left them
//!        reports
//! ```
//!
//! Both ends are machines without I/O. Messages may be lost, doubled and overtaken: updates say where they begin and end, a
//! node takes the one that follows what it has, and reports what that is; whatever is missing is sent again. Several owners
//! at once do no harm, as all say the same.

mod codec;
mod images;
mod message;
mod node;
mod owner;
mod parts;
mod rebinding;
mod recent;
mod replica;
mod room;
mod shed;
mod transfer;

pub use message::{Digest, FibPiece, FibWhole, GptPiece, Message, Part, Report, Rewind, Sweep, Target};
pub use owner::{Applied, COMPARE_EVERY, Owner, RESEND};
pub use replica::{FIB_SWEEP_EVERY, Replica, Tables, Trouble};
pub use room::{FibRoom, USED_PERCENT};
pub use transfer::Limits;
