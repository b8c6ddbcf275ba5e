//! Writes pcapng into memory, with several interfaces, directions and comments.

use super::writer::{NANOSECONDS, write_error};
use super::{CaptureError, MAX_FRAME_BYTES};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// The direction of a frame (`epb_flags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamDirection {
    /// Unknown.
    Unknown = 0,
    /// Received.
    Inbound = 1,
    /// Sent.
    Outbound = 2,
}

/// A frame to write.
#[derive(Debug, Clone, Copy)]
pub struct StreamFrame<'a> {
    /// The number of the interface, in order of their descriptions.
    pub interface: u32,
    /// Time since 1970-01-01 UTC.
    pub timestamp: Duration,
    /// The captured bytes.
    pub data: &'a [u8],
    /// Length of the whole frame.
    pub original_len: u32,
    /// The direction.
    pub direction: StreamDirection,
    /// A comment for readers.
    pub comment: Option<&'a str>,
}

/// A pcapng section of Ethernet frames that is written into memory, with time stamps in nanoseconds.
/// [`take`](Self::take) removes what was written, which is always whole blocks.
pub struct PcapNgStream {
    writer: PcapNgWriter<Vec<u8>>,
    interfaces: u32,
}

impl PcapNgStream {
    /// A section whose header names the writing program.
    ///
    /// # Errors
    /// None in practice, as memory accepts all.
    pub fn new(application: &str) -> Result<Self, CaptureError> {
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(Cow::Owned(application.to_owned()))],
            ..SectionHeaderBlock::default()
        };
        let writer = PcapNgWriter::with_section_header(Vec::new(), section).map_err(write_error)?;
        Ok(Self { writer, interfaces: 0 })
    }

    /// Describes an interface with a snapshot length of `snap_bytes`; returns its number.
    ///
    /// # Errors
    /// None in practice, as memory accepts all.
    pub fn interface(&mut self, name: &str, description: &str, snap_bytes: u32) -> Result<u32, CaptureError> {
        let block = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: snap_bytes,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(name.to_owned())),
                InterfaceDescriptionOption::IfDescription(Cow::Owned(description.to_owned())),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        self.writer.write_pcapng_block(block).map_err(write_error)?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// If the interface is not described, the frame is longer than [`MAX_FRAME_BYTES`] or its original length, or the
    /// time does not fit the format.
    pub fn frame(&mut self, frame: &StreamFrame<'_>) -> Result<(), CaptureError> {
        if frame.data.len() > MAX_FRAME_BYTES {
            return Err(CaptureError::Unwritable("longer than a frame can be"));
        }
        if frame.data.len() > frame.original_len as usize {
            return Err(CaptureError::Unwritable("longer than its original length"));
        }
        if frame.interface >= self.interfaces {
            return Err(CaptureError::Unwritable("its interface is not described"));
        }
        let comment = frame.comment.map(|text| EnhancedPacketOption::Comment(Cow::Borrowed(text)));
        let flags = EnhancedPacketOption::Flags(frame.direction as u32);
        ticks(frame.timestamp)?;
        let block = EnhancedPacketBlock {
            interface_id: frame.interface,
            timestamp: frame.timestamp,
            original_len: frame.original_len,
            data: Cow::Borrowed(frame.data),
            options: comment.into_iter().chain([flags]).collect(),
        };
        self.writer.write_pcapng_block(block).map_err(write_error)?;
        Ok(())
    }

    /// Writes how many frames were lost in total (`isb_osdrop`).
    ///
    /// # Errors
    /// If the interface is not described, or the time does not fit the format.
    pub fn lost(&mut self, interface: u32, now: Duration, frames: u64) -> Result<(), CaptureError> {
        if interface >= self.interfaces {
            return Err(CaptureError::Unwritable("its interface is not described"));
        }
        let block = InterfaceStatisticsBlock {
            interface_id: interface,
            // The upper half comes first in the format, but the library writes a little-endian number.
            timestamp: ticks(now)?.rotate_left(32),
            options: vec![InterfaceStatisticsOption::IsbOsDrop(frames)],
        };
        self.writer.write_pcapng_block(block).map_err(write_error)?;
        Ok(())
    }

    /// Removes and returns what was written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.writer.get_mut())
    }

    /// Number of bytes that [`take`](Self::take) would return.
    pub fn waiting_bytes(&self) -> usize {
        self.writer.get_ref().len()
    }
}

fn ticks(time: Duration) -> Result<u64, CaptureError> {
    u64::try_from(time.as_nanos())
        .map_err(|_| CaptureError::Unwritable("pcapng has no nanosecond time stamps after 2554"))
}

impl fmt::Debug for PcapNgStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PcapNgStream").field("interfaces", &self.interfaces).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CaptureReader;

    #[test]
    fn what_is_streamed_is_read_back() {
        let mut stream = PcapNgStream::new("a test").unwrap();
        let (a, b) =
            (stream.interface("a", "first", 65_535).unwrap(), stream.interface("b", "", 60).unwrap());
        let mut bytes = stream.take();
        let time = |n| Duration::from_nanos(1_700_000_000_123_456_789 + n);
        for (n, interface) in [(0u64, a), (1, b), (2, a)] {
            stream
                .frame(&StreamFrame {
                    interface,
                    timestamp: time(n),
                    data: &[n as u8; 61][..60 + n as usize % 2],
                    original_len: 100,
                    direction: StreamDirection::Outbound,
                    comment: (n == 1).then_some("dropped: unknown_flow"),
                })
                .unwrap();
            assert_eq!(stream.waiting_bytes() % 4, 0);
            bytes.extend(stream.take());
        }
        stream.lost(a, time(9), 5).unwrap();
        bytes.extend(stream.take());
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains("dropped: unknown_flow") && text.contains("a test"));
        let frames: Vec<_> = CaptureReader::from_stream(std::io::Cursor::new(bytes), "stream")
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(frames.len(), 3);
        for (n, frame) in (0..).zip(&frames) {
            assert_eq!((frame.timestamp, frame.original_len), (time(n), 100));
            assert_eq!(frame.data, vec![n as u8; 60 + n as usize % 2]);
        }
    }

    #[test]
    fn what_the_format_cannot_say_is_refused() {
        let mut stream = PcapNgStream::new("a test").unwrap();
        let good = StreamFrame {
            interface: 0,
            timestamp: Duration::ZERO,
            data: &[0; 60],
            original_len: 60,
            direction: StreamDirection::Unknown,
            comment: None,
        };
        assert!(stream.frame(&good).is_err(), "no interface yet");
        assert!(stream.lost(0, Duration::ZERO, 1).is_err());
        stream.interface("a", "", 65_535).unwrap();
        assert!(stream.frame(&good).is_ok());
        assert!(stream.frame(&StreamFrame { original_len: 59, ..good }).is_err());
        assert!(stream.frame(&StreamFrame { timestamp: Duration::MAX, ..good }).is_err());
    }
}
