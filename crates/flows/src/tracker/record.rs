//! What flows have.

use crate::reassembly::{HOT_FIELDS, Stream};
use crate::tcp::Connection;
use crate::{simple, tcp};
use scalebricks_tables::dhash::Direction;
use scalebricks_wire::protocol;

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
    /// Second of the last report of a flow that lasts, since 1970; 0 before the first. Wraps in 2106.
    pub(super) reported_s: u32,
    /// State of a flow that is not TCP.
    pub(super) simple: simple::State,
    /// A copy of the connection's state, so that expiry looks at this line only.
    pub(super) tcp: tcp::State,
    pub(super) is_young: bool,
    pub(super) protocol: u8,
}

const _: () = assert!(size_of::<Flow>() == 64, "one cache line");

impl Flow {
    /// The state.
    #[inline]
    pub const fn state(&self) -> State {
        if self.protocol == protocol::TCP { State::Tcp(self.tcp) } else { State::Simple(self.simple) }
    }
}

/// What a TCP flow has besides: three cache lines, of which an expected segment needs [two](EXPECTED_LINES).
#[repr(C, align(64))]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TcpFlow {
    pub(super) connection: Connection,
    /// Puts the hot fields of both streams into the last line.
    unused: [u64; 1],
    /// By direction.
    pub(super) streams: [Stream; 2],
}

/// The lines that an expected segment needs: the sides of the connection, and the hot fields of the streams.
pub(super) const EXPECTED_LINES: [usize; 2] = [0, 2];

const _: () = {
    const STREAMS: usize = std::mem::offset_of!(TcpFlow, streams);
    const LAST: usize = EXPECTED_LINES[1] * 64;
    assert!(size_of::<TcpFlow>() == 192, "three cache lines");
    assert!(STREAMS + HOT_FIELDS.start >= LAST, "the hot fields of the first stream begin in the last line");
    assert!(STREAMS + size_of::<Stream>() + HOT_FIELDS.end <= LAST + 64, "those of the second end there");
};

/// The streams of a direction and of the other one.
#[inline(always)]
pub(super) const fn seen_from(direction: Direction, streams: &mut [Stream; 2]) -> (&mut Stream, &mut Stream) {
    let [forward, reverse] = streams;
    match direction {
        Direction::Forward => (forward, reverse),
        Direction::Reverse => (reverse, forward),
    }
}

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
