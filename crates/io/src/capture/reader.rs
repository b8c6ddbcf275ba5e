//! Reads capture files.

use super::pcapng::{Blocks, SECTION_HEADER_BYTES};
use super::window::{Have, Window};
use super::{CaptureError, CapturedFrame, LinkType, MAX_FRAME_BYTES};
use pcap_file::pcap::PcapParser;
use pcap_file::{Endianness, TsResolution};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PCAP_HEADER_BYTES: usize = 24;
const PCAP_RECORD_HEADER_BYTES: usize = 16;
/// The magic numbers of pcap files: either byte order, micro- or nanoseconds.
const PCAP_MAGICS: [[u8; 4]; 4] =
    [[0xa1, 0xb2, 0xc3, 0xd4], [0xd4, 0xc3, 0xb2, 0xa1], [0xa1, 0xb2, 0x3c, 0x4d], [0x4d, 0x3c, 0xb2, 0xa1]];

/// Reads the frames of a capture file.
///
/// ```
/// use scalebricks_io::{CaptureReader, CaptureWriter};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("two.pcap.gz");
/// let mut writer = CaptureWriter::create(&path)?;
/// writer.write_frame(Duration::from_nanos(1), &[0; 60])?;
/// writer.write_frame(Duration::from_nanos(2), &[1; 60])?;
/// writer.finish()?;
///
/// let frames = CaptureReader::open(&path)?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(frames.len(), 2);
/// assert_eq!(frames[1].data, [1; 60]);
/// # Ok(())
/// # }
/// ```
pub struct CaptureReader {
    window: Window,
    format: Format,
    frames: u64,
    is_over: bool,
}

enum Format {
    Pcap { parser: PcapParser, link: LinkType, endianness: Endianness, resolution: TsResolution },
    PcapNg(Blocks),
}

impl CaptureReader {
    /// Opens a pcap or pcapng file, plain or gzipped.
    ///
    /// # Errors
    /// If the file cannot be opened, is not a capture, or is a pcap file of an unsupported link type.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| CaptureError::Open { path: path.to_owned(), source })?;
        Self::from_stream(file, path)
    }

    /// Reads from any stream of bytes; `name` names it in errors.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_stream(
        stream: impl Read + Send + 'static,
        name: impl Into<PathBuf>,
    ) -> Result<Self, CaptureError> {
        let name = name.into();
        let mut window = match Window::open(stream) {
            Ok(window) => window,
            Err(source) => return Err(CaptureError::Open { path: name, source }),
        };
        let format = Self::detect(&mut window, name)?;
        Ok(Self { window, format, frames: 0, is_over: false })
    }

    fn detect(window: &mut Window, path: PathBuf) -> Result<Format, CaptureError> {
        let failed = |source| read_error(1, source);
        if window.fill_to(4).map_err(failed)? != Have::All {
            return Err(CaptureError::NotACapture { path });
        }
        if Blocks::starts_here(window.bytes()) {
            return match window.fill_to(SECTION_HEADER_BYTES).map_err(failed)? {
                Have::All => Ok(Format::PcapNg(Blocks::default())),
                _ => Err(CaptureError::Truncated { record: 1 }),
            };
        }
        if !PCAP_MAGICS.iter().any(|magic| window.bytes().starts_with(magic)) {
            return Err(CaptureError::NotACapture { path });
        }
        if window.fill_to(PCAP_HEADER_BYTES).map_err(failed)? != Have::All {
            return Err(CaptureError::Truncated { record: 1 });
        }
        let Ok((_, parser)) = PcapParser::new(&window.bytes()[..PCAP_HEADER_BYTES]) else {
            return Err(CaptureError::NotACapture { path });
        };
        window.consume(PCAP_HEADER_BYTES);
        let header = parser.header();
        let link = LinkType::from_pcap_header(u32::from(header.datalink));
        if !link.is_supported() {
            return Err(CaptureError::UnsupportedLinkType { record: 1, link });
        }
        Ok(Format::Pcap { parser, link, endianness: header.endianness, resolution: header.ts_resolution })
    }

    /// Number of frames read so far, including those of unsupported link types.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    fn read_frame(&mut self) -> Result<Option<CapturedFrame>, CaptureError> {
        let record = self.frames + 1;
        match &mut self.format {
            Format::Pcap { parser, link, endianness, resolution } => {
                read_pcap_record(&mut self.window, parser, *endianness, *resolution, *link, record)
            }
            Format::PcapNg(blocks) => blocks.next_frame(&mut self.window, record),
        }
    }
}

impl Iterator for CaptureReader {
    type Item = Result<CapturedFrame, CaptureError>;

    /// The next frame. The iterator ends after an error other than [`CaptureError::UnsupportedLinkType`].
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let frame = self.read_frame().transpose();
        match &frame {
            Some(Ok(_) | Err(CaptureError::UnsupportedLinkType { .. })) => self.frames += 1,
            Some(Err(_)) | None => self.is_over = true,
        }
        frame
    }
}

impl fmt::Debug for CaptureReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = match self.format {
            Format::Pcap { .. } => "pcap",
            Format::PcapNg(_) => "pcapng",
        };
        f.debug_struct("CaptureReader")
            .field("format", &format)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}

fn read_pcap_record(
    window: &mut Window,
    parser: &PcapParser,
    endianness: Endianness,
    resolution: TsResolution,
    link: LinkType,
    record: u64,
) -> Result<Option<CapturedFrame>, CaptureError> {
    let failed = |source| read_error(record, source);
    match window.fill_to(PCAP_RECORD_HEADER_BYTES).map_err(failed)? {
        Have::All => {}
        Have::Part => return Err(CaptureError::Truncated { record }),
        Have::Nothing => return Ok(None),
    }
    // Checked before the parser, which would wait for four gigabytes.
    let captured_bytes = read_u32(window.bytes(), 8, endianness);
    if captured_bytes as usize > MAX_FRAME_BYTES {
        return Err(CaptureError::TooLarge { record, bytes: u64::from(captured_bytes) });
    }
    let record_bytes = PCAP_RECORD_HEADER_BYTES + captured_bytes as usize;
    if window.fill_to(record_bytes).map_err(failed)? != Have::All {
        return Err(CaptureError::Truncated { record });
    }
    let Ok((_, packet)) = parser.next_raw_packet(&window.bytes()[..record_bytes]) else {
        return Err(CaptureError::Malformed { record, what: "malformed record" });
    };
    let fraction = match resolution {
        TsResolution::MicroSecond => Duration::from_micros(u64::from(packet.ts_frac)),
        TsResolution::NanoSecond => Duration::from_nanos(u64::from(packet.ts_frac)),
    };
    let timestamp = Duration::from_secs(u64::from(packet.ts_sec)) + fraction;
    let frame = link.to_ethernet(&packet.data, packet.orig_len);
    window.consume(record_bytes);
    let (data, original_len) = frame.ok_or(CaptureError::UnsupportedLinkType { record, link })?;
    Ok(Some(CapturedFrame { timestamp, data, original_len, link }))
}

/// The error of reading. The error of a truncated gzip stream becomes that of a truncated file.
pub(super) fn read_error(record: u64, source: io::Error) -> CaptureError {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => CaptureError::Truncated { record },
        _ => CaptureError::Read { record, source },
    }
}

/// The four bytes at `offset` as a number, 0 beyond the end.
pub(super) fn read_u32(bytes: &[u8], offset: usize, endianness: Endianness) -> u32 {
    let Some(&field) = bytes.get(offset..).and_then(<[u8]>::first_chunk) else { return 0 };
    match endianness {
        Endianness::Big => u32::from_be_bytes(field),
        Endianness::Little => u32::from_le_bytes(field),
    }
}

/// The two bytes at `offset` as a number, 0 beyond the end.
pub(super) fn read_u16(bytes: &[u8], offset: usize, endianness: Endianness) -> u16 {
    let Some(&field) = bytes.get(offset..).and_then(<[u8]>::first_chunk) else { return 0 };
    match endianness {
        Endianness::Big => u16::from_be_bytes(field),
        Endianness::Little => u16::from_le_bytes(field),
    }
}
