//! Follows and writes the log of a partition, whatever the engine: the cluster and the switch both use this.
//!
//! | module | what it holds |
//! |---|---|
//! | [`follower`] | reads a snapshot, then entry after entry |
//! | [`snapshot`] | reads the newest snapshot, and checks that it belongs to the log |
//! | [`writer`] | appends one batch after another, and retries until the outcome of each is known |
//!
//! The follower does not interpret entries, so it does not detect batches that were logged twice: the code that applies them
//! does.

pub mod follower;
pub mod snapshot;
pub mod writer;

pub use follower::{Fault, Follower, FollowerOptions, Step};
pub use snapshot::{LoadError, load_snapshot};
pub use writer::{LogWriter, NotLogged, WriterOptions};
