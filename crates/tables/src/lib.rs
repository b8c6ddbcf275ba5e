//! Tables that answer "which node?" and "which flow?".
//!
//! | module | what it holds |
//! |---|---|
//! | [`gpt`] | the one interface to "which node?", and what of it every table shares |

#![deny(unsafe_code)]

pub mod gpt;
#[allow(dead_code, reason = "first used by the batched lookups")]
mod prefetch;

pub use gpt::{Fib, FibError, FibValue, Gpt, GptReader, KeyBatch};
