//! The format of a segment: a header, then groups of frames. All numbers are little-endian.
//!
//! | part | fields |
//! |---|---|
//! | segment header, 36 bytes | magic 8, version u16, reserved u16, sequence u32, number of the first group u64, salt u64, checksum u32 |
//! | group header, 24 bytes | magic 4, bytes of frames u32, number u64, frames u32, checksum u32 |
//! | frame | checksum u32, bytes of body u32, kind u8, body |
//!
//! One fsync makes one *group* durable. A crash can tear only the last group, as the next is written only when the last
//! is durable. Groups are numbered through the whole log, so a missing one is detected.
//!
//! Checksums (CRC-32) of groups and frames also cover the segment's salt and sequence and their own offset: bytes that
//! were written elsewhere, or are part of a payload, are never taken for a group.

use crc32fast::Hasher;
use scalebricks_control::engine::{BatchId, MAX_BATCH_BYTES, Revision, WriterId};
use scalebricks_types::{PartitionId, Position};

/// Version of the format.
pub(super) const LOG_VERSION: u16 = 1;
pub(super) const SEGMENT_HEADER_BYTES: usize = 36;
pub(super) const GROUP_HEADER_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 9;

/// Maximum bytes of one group's frames.
pub(super) const MAX_GROUP_BYTES: u32 = 16 << 20;

/// Maximum bytes of a frame besides its payload.
pub(super) const FRAME_OVERHEAD_BYTES: usize = 192;

const SEGMENT_MAGIC: [u8; 8] = *b"SBRKSLOG";
pub(super) const GROUP_MAGIC: [u8; 4] = *b"SGRP";

/// Removes a number's bytes from the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>()?;
    *bytes = tail;
    Some(*head)
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

/// Whether a checksum is correct. When fuzzing, 0 is accepted too.
fn is_sum(stored: u32, right: u32) -> bool {
    stored == right || (cfg!(fuzzing) && stored == 0)
}

/// Header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// Number of the segment, from 1.
    pub sequence: u32,
    /// Number of its first group, written or not.
    pub first_group: u64,
    /// Random, so that no payload can look like a group.
    pub salt: u64,
}

/// Why a segment header cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// Too short, wrong magic, or wrong checksum.
    Broken(&'static str),
    /// Intact, and of another version.
    Version(u16),
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&SEGMENT_MAGIC);
        out[8..10].copy_from_slice(&LOG_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..24].copy_from_slice(&self.first_group.to_le_bytes());
        out[24..32].copy_from_slice(&self.salt.to_le_bytes());
        let sum = crc32fast::hash(&out[..32]);
        out[32..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the header at the front of these bytes. All versions have this layout.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let header =
            bytes.first_chunk::<SEGMENT_HEADER_BYTES>().ok_or(HeaderError::Broken("short header"))?;
        let mut rest = &header[..];
        let broken = HeaderError::Broken("header");
        if take(&mut rest) != Some(SEGMENT_MAGIC) {
            return Err(HeaderError::Broken("no segment of a log"));
        }
        let version = take(&mut rest).map(u16::from_le_bytes).ok_or(broken)?;
        let reserved = take::<2>(&mut rest).ok_or(broken)?;
        let sequence = take(&mut rest).map(u32::from_le_bytes).ok_or(broken)?;
        let first_group = take_u64(&mut rest).ok_or(broken)?;
        let salt = take_u64(&mut rest).ok_or(broken)?;
        let sum = take(&mut rest).map(u32::from_le_bytes).ok_or(broken)?;
        if !is_sum(sum, crc32fast::hash(&header[..32])) {
            return Err(HeaderError::Broken("checksum of the header"));
        }
        if version != LOG_VERSION || reserved != [0; 2] {
            return Err(HeaderError::Version(version));
        }
        Ok(Self { sequence, first_group, salt })
    }

    /// The initial value of checksums in this segment.
    pub(super) fn seal(&self) -> Seal {
        let mut hasher = Hasher::new();
        hasher.update(&self.salt.to_le_bytes());
        hasher.update(&self.sequence.to_le_bytes());
        Seal(hasher.finalize())
    }
}

/// The initial value of checksums, from salt and sequence of the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seal(u32);

impl Seal {
    fn sum(self, offset: u64, bytes: &[u8]) -> u32 {
        let mut hasher = Hasher::new_with_initial(self.0);
        hasher.update(&offset.to_le_bytes());
        hasher.update(bytes);
        hasher.finalize()
    }
}

/// Header of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupHeader {
    /// Bytes of its frames.
    pub len: u32,
    /// Number of the group.
    pub number: u64,
    /// Number of its frames.
    pub frames: u32,
}

impl GroupHeader {
    fn encode(self, seal: Seal, offset: u64) -> [u8; GROUP_HEADER_BYTES] {
        let mut out = [0; GROUP_HEADER_BYTES];
        out[..4].copy_from_slice(&GROUP_MAGIC);
        out[4..8].copy_from_slice(&self.len.to_le_bytes());
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..20].copy_from_slice(&self.frames.to_le_bytes());
        let sum = seal.sum(offset, &out[..20]);
        out[20..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the header at the front of these bytes, which are at this offset; `None` if it is damaged.
    pub(super) fn decode(bytes: &[u8], seal: Seal, offset: u64) -> Option<Self> {
        let header = bytes.first_chunk::<GROUP_HEADER_BYTES>()?;
        let mut rest = &header[..];
        if take(&mut rest)? != GROUP_MAGIC {
            return None;
        }
        let len = u32::from_le_bytes(take(&mut rest)?);
        let number = take_u64(&mut rest)?;
        let frames = u32::from_le_bytes(take(&mut rest)?);
        let sum = u32::from_le_bytes(take(&mut rest)?);
        (is_sum(sum, seal.sum(offset, &header[..20])) && len <= MAX_GROUP_BYTES).then_some(Self {
            len,
            number,
            frames,
        })
    }
}

/// A frame of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A batch of a partition.
    Entry { partition: PartitionId, position: Position, id: BatchId, payload: &'a [u8] },
    /// A record's newest value; `None`: it was deleted.
    Record { key: &'a str, revision: Revision, value: Option<&'a [u8]> },
    /// A partition's entries below a position are trimmed.
    Trim { partition: PartitionId, below: Position },
    /// The newest revision of records.
    Revisions { newest: Revision },
    /// The segments before this one are not needed.
    Begin { segment: u32 },
    /// The log was closed.
    Close,
}

impl<'a> Frame<'a> {
    const ENTRY: u8 = 1;
    const RECORD: u8 = 2;
    const TRIM: u8 = 3;
    const REVISIONS: u8 = 4;
    const BEGIN: u8 = 5;
    const CLOSE: u8 = 6;

    const fn kind(&self) -> u8 {
        match self {
            Self::Entry { .. } => Self::ENTRY,
            Self::Record { .. } => Self::RECORD,
            Self::Trim { .. } => Self::TRIM,
            Self::Revisions { .. } => Self::REVISIONS,
            Self::Begin { .. } => Self::BEGIN,
            Self::Close => Self::CLOSE,
        }
    }

    /// Appends the frame, whose first byte is at `offset` in the segment.
    fn encode(&self, out: &mut Vec<u8>, seal: Seal, offset: u64) {
        let start = out.len();
        out.extend_from_slice(&[0; 8]);
        out.push(self.kind());
        match *self {
            Self::Entry { partition, position, id, payload } => {
                out.extend_from_slice(&partition.0.to_le_bytes());
                out.extend_from_slice(&position.0.to_le_bytes());
                out.extend_from_slice(&id.writer.0.to_le_bytes());
                out.extend_from_slice(&id.number.to_le_bytes());
                out.extend_from_slice(payload);
            }
            Self::Record { key, revision, value } => {
                out.extend_from_slice(&revision.0.to_le_bytes());
                out.push(u8::from(value.is_some()));
                out.push(key.len() as u8); // keys have at most MAX_KEY_BYTES
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(value.unwrap_or_default());
            }
            Self::Trim { partition, below } => {
                out.extend_from_slice(&partition.0.to_le_bytes());
                out.extend_from_slice(&below.0.to_le_bytes());
            }
            Self::Revisions { newest } => out.extend_from_slice(&newest.0.to_le_bytes()),
            Self::Begin { segment } => out.extend_from_slice(&segment.to_le_bytes()),
            Self::Close => {}
        }
        let body = (out.len() - start - FRAME_HEADER_BYTES) as u32; // limits of payloads are far below 4 GiB
        out[start + 4..start + 8].copy_from_slice(&body.to_le_bytes());
        let sum = seal.sum(offset, &out[start + 4..]);
        out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Decodes the frame at the front of these bytes, which are at `offset` in a segment; also returns its length.
    ///
    /// # Errors
    /// What is wrong. Allocates nothing.
    pub(super) fn decode(bytes: &'a [u8], seal: Seal, offset: u64) -> Result<(Self, usize), &'static str> {
        let mut rest = bytes;
        let sum = take(&mut rest).map(u32::from_le_bytes).ok_or("short frame")?;
        let body = take(&mut rest).map(u32::from_le_bytes).ok_or("short frame")? as usize;
        let len = FRAME_HEADER_BYTES.checked_add(body).ok_or("length of a frame")?;
        let frame = bytes.get(..len).ok_or("length of a frame")?;
        if !is_sum(sum, seal.sum(offset, &frame[4..])) {
            return Err("checksum of a frame");
        }
        Ok((Self::decode_body(frame[8], &frame[FRAME_HEADER_BYTES..]).ok_or("body of a frame")?, len))
    }

    fn decode_body(kind: u8, mut body: &'a [u8]) -> Option<Self> {
        let rest = &mut body;
        let frame = match kind {
            Self::ENTRY => {
                let partition = PartitionId(u16::from_le_bytes(take(rest)?));
                let position = Position(take_u64(rest)?);
                let id = BatchId { writer: WriterId(take_u64(rest)?), number: take_u64(rest)? };
                let payload = std::mem::take(rest);
                (payload.len() <= MAX_BATCH_BYTES).then_some(())?;
                Self::Entry { partition, position, id, payload }
            }
            Self::RECORD => {
                let revision = Revision(take_u64(rest)?);
                let [has_value, key_len] = take(rest)?;
                let (key, value) = rest.split_at_checked(usize::from(key_len))?;
                *rest = &[];
                let value = match has_value {
                    0 if value.is_empty() => None,
                    1 => Some(value),
                    _ => return None,
                };
                Self::Record { key: std::str::from_utf8(key).ok()?, revision, value }
            }
            Self::TRIM => Self::Trim {
                partition: PartitionId(u16::from_le_bytes(take(rest)?)),
                below: Position(take_u64(rest)?),
            },
            Self::REVISIONS => Self::Revisions { newest: Revision(take_u64(rest)?) },
            Self::BEGIN => Self::Begin { segment: u32::from_le_bytes(take(rest)?) },
            Self::CLOSE => Self::Close,
            _ => return None,
        };
        rest.is_empty().then_some(frame)
    }
}

/// Builds a group for a given offset of a segment.
#[derive(Debug)]
pub(super) struct GroupBuilder {
    bytes: Vec<u8>,
    frames: u32,
    seal: Seal,
    offset: u64,
}

impl GroupBuilder {
    /// An empty group that will begin at `offset`.
    pub(super) fn new(mut buffer: Vec<u8>, seal: Seal, offset: u64) -> Self {
        buffer.clear();
        buffer.resize(GROUP_HEADER_BYTES, 0);
        Self { bytes: buffer, frames: 0, seal, offset }
    }

    /// Adds a frame.
    pub(super) fn push(&mut self, frame: &Frame<'_>) {
        let offset = self.offset + self.bytes.len() as u64;
        frame.encode(&mut self.bytes, self.seal, offset);
        self.frames += 1;
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no frames.
    pub(super) fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// The encoded group, with its number.
    pub(super) fn finish(mut self, number: u64) -> Vec<u8> {
        let len = (self.bytes.len() - GROUP_HEADER_BYTES) as u32; // writers stop far below MAX_GROUP_BYTES
        let header = GroupHeader { len, number, frames: self.frames }.encode(self.seal, self.offset);
        self.bytes[..GROUP_HEADER_BYTES].copy_from_slice(&header);
        self.bytes
    }
}

/// A frame, its offset in the segment, and its length.
pub(super) type PlacedFrame<'a> = (Frame<'a>, u64, u32);

/// Decodes the frames of a group.
///
/// # Errors
/// Offset and description of the damage.
pub(super) fn frames(
    header: GroupHeader,
    body: &[u8],
    seal: Seal,
    offset: u64,
) -> Result<Vec<PlacedFrame<'_>>, (u64, &'static str)> {
    let mut frames = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let place = offset + at as u64;
        let (frame, len) = Frame::decode(&body[at..], seal, place).map_err(|what| (place, what))?;
        frames.push((frame, place, len as u32)); // a group is shorter than 4 GiB
        at += len;
    }
    if frames.len() == header.frames as usize { Ok(frames) } else { Err((offset, "number of frames")) }
}

#[cfg(test)]
mod tests;
