//! Programs on the data plane's graph of elements.
//!
//! | module | what it holds |
//! |---|---|
//! | [`click`] | configurations in the Click language: checked, built and run |
//! | [`switch`] | the switch for flat names, as a graph between its ports |

#![forbid(unsafe_code)]

pub mod click;
pub mod switch;
