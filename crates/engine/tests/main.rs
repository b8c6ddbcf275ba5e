//! Engines and logs keep the guarantees of their interface.

#![forbid(unsafe_code)]

mod check;
mod conformance;
mod crash;
mod damage;
mod faults;
mod kill;
mod log;
#[cfg(feature = "nats")]
mod nats_servers;
mod replaceable;
mod stress;
