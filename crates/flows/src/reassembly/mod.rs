//! One direction of a TCP connection as a stream of bytes.
//!
//! [`Stream`] is the state of one direction: a plain value of 40 bytes, kept beside a flow's record. Segments in order pass
//! through without a copy. [`Reassembler`] keeps the segments of all streams that came too early, within a budget per
//! stream and in total. A stream that exceeds it stops waiting for its first hole: the hole becomes a [`Gap`], which is
//! announced in place and counted, and what waited behind it is delivered. No byte is left out without a gap.
//!
//! ```
//! use scalebricks_flows::reassembly::{Chunk, Config, Reassembler, Stream};
//!
//! let mut reassembler = Reassembler::new(Config::default());
//! let mut stream = Stream::starting_at(u32::MAX);
//! let mut text = Vec::new();
//! for (sequence, bytes) in [(5, "world"), (u32::MAX, "hello ")] {
//!     reassembler.segment(&mut stream, sequence, bytes.as_bytes(), &mut |chunk: Chunk<'_>| match chunk {
//!         Chunk::Data { bytes, .. } => text.extend_from_slice(bytes),
//!         Chunk::Gap(gap) => panic!("{gap:?}"),
//!     });
//! }
//! assert_eq!(text, b"hello world");
//! ```

mod pieces;
mod reassembler;

pub(crate) use reassembler::HOT_FIELDS;
pub use reassembler::{Reassembler, Stream};

use crate::named::named_enum;

/// Which bytes count where a segment overlaps one that waits. Bytes that were delivered never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overlap {
    /// Those that came first: what Windows and most analyzers do.
    #[default]
    FirstWins,
    /// Those that came last.
    LastWins,
}

/// Bounds and policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Which bytes count where segments overlap.
    pub overlap: Overlap,
    /// Most octets that wait in one stream, with [`PIECE_COST`] octets for each piece.
    pub stream_bytes: u32,
    /// Most pieces that wait in one stream: inserting walks them.
    pub stream_pieces: u16,
    /// Most octets that wait in all streams, with [`PIECE_COST`] octets for each piece.
    pub total_bytes: u64,
}

/// What a waiting piece costs besides its data, octets.
pub const PIECE_COST: u32 = 64;

impl Default for Config {
    /// 1 MiB and 1,024 pieces per stream, 64 MiB in total.
    fn default() -> Self {
        Self {
            overlap: Overlap::FirstWins,
            stream_bytes: 1 << 20,
            stream_pieces: 1_024,
            total_bytes: 64 << 20,
        }
    }
}

/// Part of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Bytes in order.
    Data {
        /// Offset of the first byte in the stream; gaps count.
        offset: u64,
        /// The bytes, at least one.
        bytes: &'a [u8],
    },
    /// Bytes are missing here.
    Gap(Gap),
}

/// Missing bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Offset of the first missing byte in the stream.
    pub offset: u64,
    /// Missing bytes, at least one.
    pub len: u64,
    /// Why they were given up.
    pub cause: GapCause,
}

named_enum! {
    /// Why missing bytes were given up.
    pub enum GapCause {
        /// The receiver has acknowledged bytes behind them: it has them, but they were not seen here.
        Acknowledged => "gap_acknowledged",
        /// The stream has reached its limit of waiting bytes or pieces.
        StreamLimit => "gap_stream_limit",
        /// All streams together have reached their limit.
        TotalLimit => "gap_total_limit",
        /// The connection has ended.
        Ended => "gap_ended",
    }
}

named_enum! {
    /// Counted while reassembling. Units are in the names.
    pub enum Event {
        /// Octets delivered.
        Delivered => "delivered_bytes",
        /// Octets of gaps.
        Missing => "missing_bytes",
        /// Octets that were not delivered, because the stream was past them: retransmissions, or too late for their gap.
        Repeated => "repeated_bytes",
        /// Octets that came twice while waiting, equal both times.
        Overlapped => "overlapped_bytes",
        /// Octets that came twice while waiting, with different values: an attack, or a broken sender.
        Conflicting => "conflicting_bytes",
        /// Octets of segments more than 1 GiB ahead of their stream, which no window allows. Not delivered.
        FarAhead => "far_ahead_bytes",
        /// Segments that had to wait.
        Waited => "waited_segments",
    }
}
