//! Programs on the data plane's graph of elements.
//!
//! | module | what it holds |
//! |---|---|
//! | [`click`] | configurations in the Click language: checked, built and run |

#![forbid(unsafe_code)]

pub mod click;
