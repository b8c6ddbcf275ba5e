//! Engines: implementations of [`scalebricks_control::engine::Engine`], which store the control plane's log, and the
//! tests of its guarantees.
//!
//! | module | what it holds |
//! |---|---|
//! | [`embedded`] | a local write-ahead log in a directory, for one process |
//! | `nats` | NATS JetStream, for several processes and several machines; a feature, on by default |
//! | [`log`] | follower and writer of a log, over any engine |
//! | [`conformance`] | a test for each guarantee of the interface, for any engine |

#![forbid(unsafe_code)]

pub mod conformance;
pub mod embedded;
mod keys;
pub mod log;
mod mailbox;
#[cfg(feature = "nats")]
pub mod nats;
mod writers;
