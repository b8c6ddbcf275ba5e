//! Keepers of the control plane's log: what implements [`scalebricks_control::engine::Engine`], and what checks that it
//! keeps its promises.
//!
//! | module | what it holds |
//! |---|---|
//! | [`embedded`] | a local write-ahead log: the engine of one machine, and the default |
//! | [`remote`] | any engine in a process of its own, over a socket: the server, and a client that is an engine |
//! | `nats` | NATS JetStream: the engine of several machines; a feature, on by default |
//! | [`log`] | what follows and writes a log, over any engine |
//! | [`conformance`] | a test for each promise of the interface, for any engine |

#![forbid(unsafe_code)]

pub mod conformance;
pub mod embedded;
mod keys;
pub mod log;
mod mailbox;
#[cfg(feature = "nats")]
pub mod nats;
pub mod remote;
mod writers;
