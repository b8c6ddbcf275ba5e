//! Engines and logs keep the promises of their interface.

#![forbid(unsafe_code)]

mod check;
mod conformance;
mod crash;
mod damage;
mod faults;
mod log;
#[cfg(feature = "nats")]
mod nats_servers;
mod remote;
mod stress;
