//! The switch as its users have it: configurations, replays, a switch that runs, and several by one log.

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
