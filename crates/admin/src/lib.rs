//! The window into a running node: what it is, what it counts, where it would send a packet, and what passes it.
//!
//! ```text
//! scalebricks status|stats|trace|capture ─▶ client ─HTTP over a unix socket, or TLS─▶ server ─Inspect─▶ the node
//!             flow|cluster                                                             └─Flows─▶ its control plane
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`client`] | asks a node |
//! | [`commands`] | what the command line does with a client |
//! | [`graph`] | what the server asks of a graph of elements, whatever runs it |
//! | [`flow_list`] | lists of flows as text: files, tables, columns |
//! | [`flows`] | what the server asks of a node's control plane, and how that does it |
//! | [`inspect`] | what the server asks of a node: the trait a daemon implements |
//! | [`metrics`] | the counters, for Prometheus |
//! | [`model`] | everything that is said, as JSON and as a schema |
//! | [`server`] | HTTP: where is listened, what is answered, what is refused |
//! | [`tls`] | certificates and keys |
//! | [`trace`] | where a packet would go, for a daemon to call |

#![forbid(unsafe_code)]

pub mod client;
pub mod commands;
pub mod flow_list;
pub mod flows;
pub mod graph;
pub mod inspect;
pub mod metrics;
pub mod model;
pub mod server;
pub mod tls;
pub mod trace;
