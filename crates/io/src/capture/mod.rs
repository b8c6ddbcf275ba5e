//! Reads and writes capture files: pcap and pcapng, plain or gzipped.
//!
//! The format of a file is detected by its first bytes, not by its name. Files are read as streams: the memory needed is
//! limited by [`MAX_FRAME_BYTES`] and the options of a block, whatever the file claims and however far it inflates.
//! Every frame is converted to Ethernet; see [`LinkType`].
//!
//! Files are written by the `pcap-file` crate (2.0). Of its readers, only those of the pcap header and of raw pcap
//! records are used, after a check of the length. The others refuse or misread valid files (version 2.0.0):
//! - They refuse pcap frames whose original length exceeds the snapshot length.
//! - They read pcapng time stamps as nanoseconds, whatever `if_tsresol` says (the default is microseconds).
//! - They refuse `if_tzone` options, option lists without an end marker, and comments that are not UTF-8.
//! - They return the padding of simple packets as data, and swap the halves of the time in obsolete packet blocks.
//! - They ask for more input on a truncated option, so that an 8 MB buffer is filled before the error is found.

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

/// Largest frame that is read or written, in bytes: the largest snapshot length that common programs accept.
pub const MAX_FRAME_BYTES: usize = 256 * 1024;

/// One frame of a capture file, as Ethernet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Time since 1970-01-01 UTC, with the precision of the file.
    pub timestamp: Duration,
    /// The captured bytes, from the destination MAC address.
    pub data: Vec<u8>,
    /// Length of the frame on the wire, with the converted header; at least `data.len()`.
    pub original_len: u32,
    /// The link type in the file, before the conversion to Ethernet.
    pub link: LinkType,
}

/// An error of reading or writing a capture file. A record has the number of the frame that it contains or precedes,
/// from 1, as in packet analyzers.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened or created.
    #[error("{}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is neither pcap nor pcapng, plain or gzipped.
    #[error("{}: neither a pcap nor a pcapng file, plain or gzipped", path.display())]
    NotACapture {
        /// The file.
        path: PathBuf,
    },
    /// The name of the file to write does not end in `.pcap`, `.pcapng`, `.pcap.gz` or `.pcapng.gz`.
    #[error("{}: a capture file's name ends in .pcap or .pcapng, with or without .gz", path.display())]
    UnknownExtension {
        /// The file.
        path: PathBuf,
    },
    /// Reading or decompressing failed.
    #[error("record {record}: {source}")]
    Read {
        /// The record.
        record: u64,
        /// The error.
        source: io::Error,
    },
    /// The file ends inside a record. All frames before it were returned.
    #[error("record {record}: the file ends in the middle of it")]
    Truncated {
        /// The record.
        record: u64,
    },
    /// A record is larger than a frame can be.
    #[error("record {record}: {bytes} bytes claimed, over the limit of {MAX_FRAME_BYTES} a frame")]
    TooLarge {
        /// The record.
        record: u64,
        /// Its length.
        bytes: u64,
    },
    /// A record is malformed.
    #[error("record {record}: {what}")]
    Malformed {
        /// The record.
        record: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The link type is not supported. In a pcapng file, reading may continue with the next frame.
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
    /// Whether the message contains the name of the file; errors about a record do not.
    pub const fn names_its_file(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::NotACapture { .. } | Self::UnknownExtension { .. })
    }
}
