//! Keepers of the control plane's log: what implements [`scalebricks_control::engine::Engine`], and what checks that it
//! keeps its promises.
//!
//! | module | what it holds |
//! |---|---|
//! | [`embedded`] | a local write-ahead log: the engine of one machine, and the default |
//! | [`nats`] | NATS JetStream: the engine of several machines |
//! | [`conformance`] | a test for each promise of the interface, for any engine |

#![forbid(unsafe_code)]

pub mod conformance;
pub mod embedded;
mod keys;
mod mailbox;
pub mod nats;
mod writers;
