//! Programs on the data plane's graph of elements.
//!
//! | module | what it holds |
//! |---|---|
//! | [`click`] | configurations in the Click language: checked, built and run |
//! | [`directory`] | the elements of a graph that runs and their handlers, on all workers |
//! | [`gateway`] | the gateway of a mobile network: nodes, their tables, clusters of them in memory |
//! | [`switch`] | the switch for flat names, as a graph between its ports |

#![forbid(unsafe_code)]

pub mod click;
pub mod directory;
pub mod gateway;
pub mod switch;
