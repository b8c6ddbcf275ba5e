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
//! | [`named`] | events with names, and their counters |
//!
//! No input makes a function panic. Memory is bounded by configuration; whatever exceeds a bound has a counter.

#![forbid(unsafe_code)]

pub mod fragments;
pub mod named;
pub mod reassembly;
//pub mod simple;
pub mod tcp;

pub use named::{EventSet, Named, Tally};

/// Direction of a packet in its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// From the endpoint that sent the first packet of the flow.
    #[default]
    Forward,
    /// To that endpoint.
    Reverse,
}

impl Direction {
    /// The other direction.
    #[inline]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }

    /// 0 forward, 1 backward.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}
