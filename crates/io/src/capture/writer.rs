//! Writes capture files.

use super::{CaptureError, MAX_FRAME_BYTES};
use flate2::Compression;
use flate2::write::GzEncoder;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// The `if_tsresol` option for time stamps in nanoseconds.
pub(super) const NANOSECONDS: u8 = 9;

/// Writes a capture file of Ethernet frames, with time stamps in nanoseconds.
///
/// The name determines the format: `.pcap` or `.pcapng`, gzipped if `.gz` follows. [`finish`](Self::finish) returns
/// errors; a dropped writer completes the file as far as possible.
pub struct CaptureWriter {
    /// `None` once finished.
    format: Option<Format>,
    frames: u64,
}

enum Format {
    Pcap(PcapWriter<Sink>),
    PcapNg(PcapNgWriter<Sink>),
}

enum Sink {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
}

impl CaptureWriter {
    /// Creates the file, or empties an existing one.
    ///
    /// # Errors
    /// If the name has another ending, or the file cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let extension =
            |path: &Path| path.extension().map(|text| text.to_string_lossy().to_ascii_lowercase());
        let is_gzipped = extension(path).as_deref() == Some("gz");
        let stem = if is_gzipped { path.with_extension("") } else { path.to_owned() };
        let is_pcapng = match extension(&stem).as_deref() {
            Some("pcap") => false,
            Some("pcapng") => true,
            _ => return Err(CaptureError::UnknownExtension { path: path.to_owned() }),
        };
        let file =
            File::create(path).map_err(|source| CaptureError::Open { path: path.to_owned(), source })?;
        let file = BufWriter::new(file);
        let sink = if is_gzipped {
            Sink::Gzip(GzEncoder::new(file, Compression::fast()))
        } else {
            Sink::Plain(file)
        };
        let format = if is_pcapng { Format::pcapng(sink) } else { Format::pcap(sink) };
        Ok(Self { format: Some(format.map_err(write_error)?), frames: 0 })
    }

    /// Writes a complete frame.
    ///
    /// # Errors
    /// If the frame is longer than [`MAX_FRAME_BYTES`], the time does not fit the format, or writing fails.
    pub fn write_frame(&mut self, timestamp: Duration, data: &[u8]) -> Result<(), CaptureError> {
        // Longer ones are refused below.
        let original_len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.write_cut_frame(timestamp, data, original_len)
    }

    /// Writes the first bytes of a frame that was `original_len` long.
    ///
    /// # Errors
    /// As [`Self::write_frame`], and if `original_len` is below the length of `data`.
    pub fn write_cut_frame(
        &mut self,
        timestamp: Duration,
        data: &[u8],
        original_len: u32,
    ) -> Result<(), CaptureError> {
        if data.len() > MAX_FRAME_BYTES {
            return Err(CaptureError::Unwritable("longer than a frame can be"));
        }
        if data.len() > original_len as usize {
            return Err(CaptureError::Unwritable("longer than its original length"));
        }
        match &mut self.format {
            Some(Format::Pcap(writer)) => {
                if u32::try_from(timestamp.as_secs()).is_err() {
                    return Err(CaptureError::Unwritable("pcap has no time stamps after 2106"));
                }
                let packet = PcapPacket { timestamp, orig_len: original_len, data: Cow::Borrowed(data) };
                writer.write_packet(&packet).map_err(write_error)?;
            }
            Some(Format::PcapNg(writer)) => {
                if u64::try_from(timestamp.as_nanos()).is_err() {
                    return Err(CaptureError::Unwritable("pcapng has no nanosecond time stamps after 2554"));
                }
                let block = EnhancedPacketBlock {
                    interface_id: 0,
                    timestamp,
                    original_len,
                    data: Cow::Borrowed(data),
                    options: Vec::new(),
                };
                writer.write_pcapng_block(block).map_err(write_error)?;
            }
            None => return Err(CaptureError::Unwritable("the file is finished")),
        }
        self.frames += 1;
        Ok(())
    }

    /// Number of frames written so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If buffered bytes cannot be written.
    pub fn finish(mut self) -> Result<(), CaptureError> {
        self.complete().map_err(CaptureError::Write)
    }

    fn complete(&mut self) -> io::Result<()> {
        let sink = match self.format.take() {
            Some(Format::Pcap(writer)) => writer.into_writer(),
            Some(Format::PcapNg(writer)) => writer.into_inner(),
            None => return Ok(()),
        };
        let mut file = match sink {
            Sink::Plain(file) => file,
            Sink::Gzip(encoder) => encoder.finish()?,
        };
        file.flush()
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        // `finish` returns the error.
        let _ = self.complete();
    }
}

impl fmt::Debug for CaptureWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureWriter").field("frames", &self.frames).finish_non_exhaustive()
    }
}

impl Format {
    fn pcap(sink: Sink) -> Result<Self, PcapError> {
        // The byte order is fixed, so that the file is the same on every machine.
        let header = PcapHeader {
            snaplen: MAX_FRAME_BYTES as u32,
            datalink: DataLink::ETHERNET,
            ts_resolution: TsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        PcapWriter::with_header(sink, header).map(Self::Pcap)
    }

    fn pcapng(sink: Sink) -> Result<Self, PcapError> {
        let mut writer = PcapNgWriter::with_endianness(sink, Endianness::Little)?;
        writer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: MAX_FRAME_BYTES as u32,
            options: vec![InterfaceDescriptionOption::IfTsResol(NANOSECONDS)],
        })?;
        Ok(Self::PcapNg(writer))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Gzip(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Gzip(encoder) => encoder.flush(),
        }
    }
}

pub(super) fn write_error(error: PcapError) -> CaptureError {
    match error {
        PcapError::IoError(source) => CaptureError::Write(source),
        PcapError::InvalidField(what) => CaptureError::Unwritable(what),
        other => CaptureError::Write(io::Error::other(other)),
    }
}
