//! Capture files in and out: pcap and pcapng, plain or gzipped.
//!
//! What a file is, is told by its first bytes, never by its name. Reading streams: memory stays below
//! [`MAX_FRAME_BYTES`] and a block's options, whatever the file claims and however far it inflates. Every frame is
//! handed over as Ethernet; see [`LinkType`] for what is converted and how.
//!
//! The container formats are those of the `pcap-file` crate (2.0). Its writers are used as they are. Of its readers
//! only those of the pcap header and of a raw pcap record are, behind a check of the length; the rest of 2.0.0 refuses
//! or misreads legal files:
//! - a pcap frame whose original length exceeds the snapshot length, which is what a snapshot length is for;
//! - pcapng time stamps, taken for nanoseconds whatever `if_tsresol` says (the default is microseconds);
//! - any `if_tzone` option, option lists without an end marker, and comments that are not UTF-8;
//! - padding of simple packets, given out as data; the 64-bit time of the obsolete packet block, halves exchanged;
//! - an option cut short asks for more input, so an 8 MB buffer is filled before the error is seen.

mod link;
mod pcapng;
mod reader;
mod stream;
mod window;
mod writer;

#[cfg(test)]
mod tests;

pub use link::LinkType;
pub use reader::CaptureReader;
pub use stream::{PcapNgStream, StreamDirection, StreamFrame};
pub use writer::CaptureWriter;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Largest frame read or written, in bytes: the largest snapshot length the usual capture programs accept.
pub const MAX_FRAME_BYTES: usize = 256 * 1024;

/// One frame of a capture file, as Ethernet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Time since 1970-01-01 UTC, to the nanosecond if the file has it.
    pub timestamp: Duration,
    /// The bytes captured, from the destination MAC on.
    pub data: Vec<u8>,
    /// Bytes the frame had on the wire, headers converted like the data; at least `data.len()`.
    pub original_len: u32,
    /// What the file says the frame was before it was handed over as Ethernet.
    pub link: LinkType,
}

/// Why a capture file could not be read or written. A record is numbered by the frame it holds or precedes, from 1,
/// as packet analysers number frames.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file could not be opened or made.
    #[error("{}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The first bytes are neither those of pcap nor of pcapng, gzipped or not.
    #[error("{}: neither a pcap nor a pcapng file, plain or gzipped", path.display())]
    NotACapture {
        /// The file.
        path: PathBuf,
    },
    /// The name to write to ends in none of `.pcap`, `.pcapng`, `.pcap.gz`, `.pcapng.gz`.
    #[error("{}: a capture file's name ends in .pcap or .pcapng, with or without .gz", path.display())]
    UnknownExtension {
        /// The file.
        path: PathBuf,
    },
    /// The system or the decompressor gave up.
    #[error("record {record}: {source}")]
    Read {
        /// The record being read.
        record: u64,
        /// What it said.
        source: io::Error,
    },
    /// The file ends inside a record. Every frame before it has been handed over.
    #[error("record {record}: the file ends in the middle of it")]
    Truncated {
        /// The record that is cut.
        record: u64,
    },
    /// A record claims more bytes than a frame can have.
    #[error("record {record}: {bytes} bytes claimed, over the limit of {MAX_FRAME_BYTES} a frame")]
    TooLarge {
        /// The record.
        record: u64,
        /// What it claims.
        bytes: u64,
    },
    /// A record contradicts itself.
    #[error("record {record}: {what}")]
    Malformed {
        /// The record.
        record: u64,
        /// The contradiction.
        what: &'static str,
    },
    /// Frames of this link type are not converted. In a pcapng file it concerns this frame only: reading may go on.
    #[error("record {record}: frames of link type {link} are not supported")]
    UnsupportedLinkType {
        /// The record.
        record: u64,
        /// The link type.
        link: LinkType,
    },
    /// Writing failed.
    #[error("capture file not written: {0}")]
    Write(#[source] io::Error),
    /// The frame cannot be expressed in the format.
    #[error("frame not written: {0}")]
    Unwritable(&'static str),
}

impl CaptureError {
    /// Whether the message says which file it is about; errors about a record only say which record.
    pub const fn names_its_file(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::NotACapture { .. } | Self::UnknownExtension { .. })
    }
}
