//! Tracks the flow of every packet with one lookup in a flow table ([`scalebricks_tables::dhash`]).
//!
//! ```text
//! packet ─▶ parse ─▶ defragment ─▶ key ─▶ flow table ─▶ record: Flow │ tcp::Connection │ two reassembly::Streams │ the caller's
//! ```
//!
//! A flow's record is one index into several arrays. The caller reserves arrays of its own in [`Tables`] before it makes a
//! tracker, and finds its values by [`Tracked::record`]: a NAT, a policer and a meter need no lookup.
//!
//! **Exhaustion.** A flow is *young* until its handshake is complete, or until a packet has come back. Young flows have a
//! limit of their own and go first: a new flow replaces the oldest young one, never an established flow. A new flow is
//! refused only if the table is full of established flows.
//!
//! **Several cores** have a tracker each, with private tables, behind a [`Balancer`].
//!
//! ```
//! use scalebricks_flows::tracker::{Config, Tables, Tracker};
//! use scalebricks_types::HashSeed;
//! use std::time::Duration;
//!
//! let mut tracker = Tracker::new(&Config::default(), HashSeed::new(1, 2), Tables::default())?;
//! let syn = [
//!     0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, // IPv4
//!     0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 9, 0, 0, 0, 0, // TCP
//! ];
//! let tracked = tracker.track(&syn, 0, Duration::from_secs(1), &mut ())?;
//! assert!(tracked.is_new);
//! assert_eq!(tracker.flows(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod age;
mod balance;
mod batch;
mod config;
mod expected;
mod family;
mod judge;
mod key;
mod outcome;
mod packet;
mod plain;
mod process;
mod record;
#[cfg(test)]
mod twin;
mod views;

pub use balance::{Balanced, Balancer};
pub use config::Config;
pub use key::{quoted_tuple, tuple};
pub use outcome::{EndCause, Ended, Event, Sink, Tracked, Untracked};
pub use process::{Family, Packet, Tables, Tracker};
pub use record::{Flow, State};
