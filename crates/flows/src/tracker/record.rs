//! What every flow has.

use crate::{simple, tcp};

/// The record of a flow, whatever its protocol: one cache line.
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// Time of the first packet, nanoseconds.
    pub first_ns: u64,
    /// Time of the last packet, nanoseconds.
    pub last_ns: u64,
    /// Packets by direction. A packet in fragments counts once, when it is complete.
    pub packets: [u64; 2],
    /// Octets of IP packets, headers included, by direction.
    pub bytes: [u64; 2],
    /// Number of the flow, from 1, in order of first packets.
    pub serial: u64,
    pub(super) simple: simple::State,
    pub(super) is_young: bool,
    pub(super) protocol: u8,
}

const _: () = assert!(size_of::<Flow>() == 64, "one cache line");

/// State of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A TCP connection.
    Tcp(tcp::State),
    /// Another protocol.
    Simple(simple::State),
}

impl State {
    /// A name: lower case, words joined by `_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp(state) => state.name(),
            Self::Simple(state) => state.name(),
        }
    }
}
