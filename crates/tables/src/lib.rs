//! Tables that answer "which node?" and "which flow?".
//!
//! | module | what it holds |
//! |---|---|
//! | [`cuckoo`] | a concurrent exact table of one key and value size |
//! | [`gpt`] | the one interface to "which node?", and what of it every table shares |
//! | [`setsep`] | the compact table behind every GPT: 2 to 13 bits a key, no keys stored |

#![deny(unsafe_code)]

pub mod cuckoo;
pub mod gpt;
mod prefetch;
pub mod setsep;

pub use gpt::{Fib, FibError, FibValue, Gpt, GptReader, KeyBatch};
