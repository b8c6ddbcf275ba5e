//! Simulations of the control plane, and its promises one by one.

#![forbid(unsafe_code)]

mod cluster;
mod common;
mod courier;
mod distribution;
mod membership;
mod rebinding;
mod reports;
mod shedding;
