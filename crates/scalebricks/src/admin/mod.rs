//! The window into a running node: what it is, what it counts, where it would send a packet, and what passes it.
//!
//! ```text
//! scalebricks status|stats|trace|capture ─▶ client ─HTTP over a unix socket, or TLS─▶ server ─Inspect─▶ the node
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`inspect`] | what the server asks of a node: the one trait a daemon implements |
//! | [`model`] | everything that is said, as JSON and as a schema |

pub mod inspect;
pub mod model;
