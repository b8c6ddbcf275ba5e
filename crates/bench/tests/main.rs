//! The benchmarks as users run them.

#![forbid(unsafe_code)]

mod bench;
mod pages;
