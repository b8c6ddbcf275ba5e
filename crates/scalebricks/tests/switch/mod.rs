//! The switch as users run it: configurations, replays, a running switch, and several with one log.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod admin;
mod config;
#[cfg(feature = "dpdk")]
mod dpdk;
mod log;
mod lost;
mod metrics;
mod program;
mod replay;
pub mod shared;
mod tls;
mod unreadable;
