//! Programs built on the data plane's element graph.
//!
//! | module | contents |
//! |---|---|
//! | [`click`] | configurations in the Click language: checked, built and run |
//! | [`directory`] | the elements and handlers of a running graph, on all workers |
//! | [`flows`] | trackers of flows on several cores: which core receives, and which tracks |
//! | [`gateway`] | the mobile gateway: nodes, their tables, in-memory clusters |
//! | [`router`] | the IP router: one server, or a cluster of servers |
//! | [`switch`] | the switch for flat names, as a graph between its ports |

#![forbid(unsafe_code)]

pub mod click;
pub mod directory;
pub mod flows;
pub mod gateway;
pub mod router;
pub mod switch;
