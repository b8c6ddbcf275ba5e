//! Graphs as a whole.

#![allow(missing_docs, reason = "test elements document themselves by `element!`")]

mod builder;
mod elements;
mod random;
mod replace;
mod twin;
mod worker;
