//! Programs built on the data plane's element graph.
//!
//! | module | contents |
//! |---|---|
//! | [`click`] | configurations in the Click language: checked, built and run |
//! | [`directory`] | the elements and handlers of a running graph, on all workers |
//! | [`gateway`] | the mobile gateway: nodes, their tables, in-memory clusters |
//! | [`router`] | the cluster router: nodes as one router, and how to judge it |
//! | [`switch`] | the switch for flat names, as a graph between its ports |

#![forbid(unsafe_code)]

pub mod click;
pub mod directory;
pub mod gateway;
pub mod router;
pub mod switch;
