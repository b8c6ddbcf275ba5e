//! The admin interface of a running node: its status, counters, packet traces and captures, and its flows.
//!
//! ```text
//! scalebricks status|stats|trace|capture ─▶ client ─HTTP over a unix socket, or TLS─▶ server ─Inspect─▶ the node
//!             flow|cluster|dashboard                                                   └─Flows─▶ its control plane
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`client`] | the HTTP client |
//! | [`commands`] | the commands that use the client |
//! | [`dashboard`] | a page for the browser that shows a cluster |
//! | [`graph`] | the interface to a running graph of elements |
//! | [`flow_list`] | lists of flows as text: files, tables, columns |
//! | [`flows`] | the interface to a node's control plane, and its implementation |
//! | [`inspect`] | the interface to a node: a trait that the daemon implements |
//! | [`metrics`] | counters in the Prometheus format |
//! | [`model`] | all requests and answers as JSON, with their schema |
//! | [`runtime_thread`] | threads with an asynchronous runtime |
//! | [`server`] | the HTTP server: listeners, routes, limits |
//! | [`tls`] | certificates and keys |
//! | [`trace`] | traces the path of a packet |

#![forbid(unsafe_code)]

pub mod client;
pub mod commands;
pub mod dashboard;
pub mod flow_list;
pub mod flows;
pub mod graph;
pub mod inspect;
pub mod metrics;
pub mod model;
pub mod runtime_thread;
pub mod server;
pub mod tls;
pub mod trace;
