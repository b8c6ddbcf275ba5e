//! Flows of packets: what a middlebox knows of a conversation from its packets alone.
//!
//! Pure logic without I/O. Time is an argument: the time since any fixed moment, which must not run backwards by more
//! than the shortest timeout.
//!
//! | module | contents |
//! |---|---|
//! | [`tcp`] | the state of a TCP connection, tracked passively: which segments to believe (RFC 9293, RFC 5961, RFC 7323) |
//! | [`reassembly`] | one direction of a connection as a stream of bytes, in order, with gaps announced |
//! | [`fragments`] | IPv4 and IPv6 packets from their fragments (RFC 791, RFC 8200, RFC 5722) |
//! | [`simple`] | flows of UDP, ICMP, SCTP and other protocols, by timeouts |
//! | [`tracker`] | all of it behind one lookup per packet in a flow table |
//! | [`nat`] | translation of IPv4 addresses and ports, on the tracker's records |
//! | [`named`] | events with names, and their counters |
//!
//! No input makes a function panic. Memory is bounded by configuration; whatever exceeds a bound has a counter.

#![forbid(unsafe_code)]

pub mod fragments;
pub mod named;
pub mod nat;
pub mod reassembly;
pub mod simple;
pub mod tcp;
pub mod tracker;

pub use named::{EventSet, Named, Tally};
pub use scalebricks_tables::dhash::Direction;
pub use tracker::{Ended, Sink, Tracked, Tracker};
