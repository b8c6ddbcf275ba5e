//! Messages as bytes.
//!
//! All integers little-endian. [Version](crate::version) `u16`, kind `u8`, reserved `u8` (0), and then
//!
//! | kind | message | content |
//! |---|---|---|
//! | 1 | FIB update | partition (2), position (8), previous (8), number of changes (4), each: 1, key and value (16), or 2 and key |
//! | 2 | whole FIB | partition (2), position (8), number of entries (4), each: key and value (16) |
//! | 3 | GPT deltas | their number (4), each: its length (4) and the delta |
//! | 4 | target | partition (2), life, settled, FIB and GPT positions, room (8 each); since version 2 keys (8), shapes (4); since version 3 again (4), 2^32 - 1 for none, and the newest bits (8) |
//! | 5 | report | partition (2), life, FIB, whole and GPT positions (8 each); since version 2 again (4); since version 3 wholes (4), what it has of a FIB and of a delta (24 each), sweep: number (4), position, digest (8 each); keys in the FIB, its capacity, keys shed (8 each) |
//! | 6 | digest, since version 2 | partition (2), GPT position (8), digest (4) |
//! | 7 | FIB piece, since version 3 | partition (2), position, keys, first (8 each), wrong (4), number of entries (4), each: key and value (16) |
//! | 8 | GPT piece, since version 3 | partition (2), position, previous, bytes, first (8 each), length (4), bytes |
//! | 9 | rewind, since version 3 | partition (2), life, last position (8 each), again (4) |
//!
//! A key is its number of words, 2 or 5, in one octet, and the words. One message has one encoding in each version. What a node has of an image is its
//! position, the position that it begins at, and how much (8 each).

use super::message::{Digest, FibPiece, FibWhole, GptPiece, Message, Part, Report, Rewind, Sweep, Target};
use super::room::FibRoom;
use crate::partition::FibUpdate;
use crate::record::DecodeError;
use crate::record::codec::{Reader, put_key, put_words};
use crate::version::Version;
use scalebricks_tables::FibValue;
use scalebricks_tables::fib::{FibDigest, FibOp};
use scalebricks_types::{Delta, FlowKey, PartitionId, Position};

mod kind {
    pub(super) const FIB: u8 = 1;
    pub(super) const FIB_WHOLE: u8 = 2;
    pub(super) const GPT: u8 = 3;
    pub(super) const TARGET: u8 = 4;
    pub(super) const REPORT: u8 = 5;
    pub(super) const DIGEST: u8 = 6;
    pub(super) const FIB_PIECE: u8 = 7;
    pub(super) const GPT_PIECE: u8 = 8;
    pub(super) const REWIND: u8 = 9;
}

const SET: u8 = 1;
const DELETE: u8 = 2;

fn start(kind: u8, version: Version) -> Vec<u8> {
    let [low, high] = version.get().to_le_bytes();
    vec![low, high, kind, 0]
}

fn put_partition(out: &mut Vec<u8>, partition: PartitionId) {
    out.extend_from_slice(&partition.0.to_le_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_le_bytes()); // more would not fit any memory
}

/// Reads version, kind and the reserved octet.
fn open(bytes: &[u8]) -> Result<(u8, Version, Reader<'_>), DecodeError> {
    let mut reader = Reader::new(bytes);
    let version = u16::from_le_bytes(reader.take()?);
    let version = Version::known(version).ok_or(DecodeError::Version(version))?;
    let [kind, reserved] = reader.take()?;
    if reserved == 0 {
        Ok((kind, version, reader))
    } else {
        Err(DecodeError::Malformed(0, "the reserved octet is not 0"))
    }
}

fn close<T>(reader: &Reader<'_>, read: T) -> Result<T, DecodeError> {
    let left = reader.rest().len();
    if left == 0 { Ok(read) } else { Err(DecodeError::Trailing(left)) }
}

fn partition(reader: &mut Reader<'_>) -> Result<PartitionId, DecodeError> {
    Ok(PartitionId(u16::from_le_bytes(reader.take()?)))
}

fn positions<const N: usize>(reader: &mut Reader<'_>) -> Result<[Position; N], DecodeError> {
    Ok(reader.words()?.map(Position))
}

/// A number of things of which each takes `least` octets or more: a hostile one allocates nothing.
fn count(reader: &mut Reader<'_>, least: usize) -> Result<(u32, usize), DecodeError> {
    let count = u32::from_le_bytes(reader.take()?);
    Ok((count, (count as usize).min(reader.rest().len() / least)))
}

impl Message {
    /// The message as bytes, as nodes of this version understand it. What it cannot say is left out; of digests, pieces and
    /// rewinds nothing is left.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        match self {
            Self::Fib(update) => {
                let mut out = start(kind::FIB, version);
                put_partition(&mut out, update.partition);
                put_words(&mut out, &[update.position.0, update.previous.0]);
                put_count(&mut out, update.ops.len());
                for op in &update.ops {
                    put_op(&mut out, op);
                }
                out
            }
            Self::FibWhole(whole) => {
                let mut out = start(kind::FIB_WHOLE, version);
                put_partition(&mut out, whole.partition);
                put_words(&mut out, &[whole.position.0]);
                put_entries(&mut out, &whole.entries);
                out
            }
            Self::Gpt(deltas) => {
                let mut out = start(kind::GPT, version);
                put_count(&mut out, deltas.len());
                for delta in deltas {
                    let bytes = delta.encode();
                    put_count(&mut out, bytes.len());
                    out.extend_from_slice(&bytes);
                }
                out
            }
            Self::Target(Target {
                partition,
                life,
                settled,
                fib,
                gpt,
                room,
                keys,
                shapes,
                again,
                newest,
            }) => {
                let mut out = start(kind::TARGET, version);
                put_partition(&mut out, *partition);
                put_words(&mut out, &[*life, settled.0, fib.0, gpt.0, *room]);
                if version >= Version::RESHAPES {
                    put_words(&mut out, &[*keys]);
                    out.extend_from_slice(&shapes.to_le_bytes());
                }
                if version >= Version::REWINDS {
                    out.extend_from_slice(&again.unwrap_or(u32::MAX).to_le_bytes());
                    put_words(&mut out, &[newest.0]);
                }
                out
            }
            Self::Digest(Digest { partition, gpt, digest }) if version >= Version::RESHAPES => {
                let mut out = start(kind::DIGEST, version);
                put_partition(&mut out, *partition);
                put_words(&mut out, &[gpt.0]);
                out.extend_from_slice(&digest.to_le_bytes());
                out
            }
            Self::FibPiece(piece) if version >= Version::PIECES => {
                let FibPiece { partition, position, keys, first, wrong, entries } = piece;
                let mut out = start(kind::FIB_PIECE, version);
                put_partition(&mut out, *partition);
                put_words(&mut out, &[position.0, *keys, *first]);
                out.extend_from_slice(&wrong.to_le_bytes());
                put_entries(&mut out, entries);
                out
            }
            Self::GptPiece(piece) if version >= Version::PIECES => {
                let GptPiece { partition, position, previous, bytes, first, part } = piece;
                let mut out = start(kind::GPT_PIECE, version);
                put_partition(&mut out, *partition);
                put_words(&mut out, &[position.0, previous.0, *bytes, *first]);
                put_count(&mut out, part.len());
                out.extend_from_slice(part);
                out
            }
            Self::Rewind(Rewind { partition, life, again, last }) if version >= Version::REWINDS => {
                let mut out = start(kind::REWIND, version);
                put_partition(&mut out, *partition);
                put_words(&mut out, &[*life, last.0]);
                out.extend_from_slice(&again.to_le_bytes());
                out
            }
            Self::Digest(_) | Self::FibPiece(_) | Self::GptPiece(_) | Self::Rewind(_) => {
                Self::Gpt(Vec::new()).encode(version)
            }
        }
    }

    /// The message in exactly these bytes. Allocates no more than a small multiple of what they hold.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (kind, version, mut reader) = open(bytes)?;
        let reader = &mut reader;
        let message = match kind {
            kind::FIB => {
                let partition = partition(reader)?;
                let [position, previous] = positions(reader)?;
                let (count, room) = count(reader, 18)?;
                let mut ops = Vec::with_capacity(room);
                for _ in 0..count {
                    ops.push(op(reader)?);
                }
                Self::Fib(FibUpdate { partition, position, previous, ops })
            }
            kind::FIB_WHOLE => {
                let partition = partition(reader)?;
                let [position] = positions(reader)?;
                Self::FibWhole(FibWhole { partition, position, entries: entries(reader)? })
            }
            kind::GPT => {
                let (count, room) = count(reader, 32)?;
                let mut deltas = Vec::with_capacity(room);
                for _ in 0..count {
                    deltas.push(delta(reader)?);
                }
                Self::Gpt(deltas)
            }
            kind::TARGET => {
                let partition = partition(reader)?;
                let [life] = reader.words()?;
                let [settled, fib, gpt] = positions(reader)?;
                let [room] = reader.words()?;
                let (keys, shapes) = if version >= Version::RESHAPES {
                    let [keys] = reader.words()?;
                    (keys, u32::from_le_bytes(reader.take()?))
                } else {
                    (0, 0)
                };
                let (again, newest) = if version >= Version::REWINDS {
                    let again = u32::from_le_bytes(reader.take()?);
                    let [newest] = positions(reader)?;
                    (again, newest)
                } else {
                    (u32::MAX, gpt)
                };
                let again = Some(again).filter(|again| *again != u32::MAX);
                Self::Target(Target { partition, life, settled, fib, gpt, room, keys, shapes, again, newest })
            }
            kind::DIGEST if version >= Version::RESHAPES => {
                let partition = partition(reader)?;
                let [gpt] = positions(reader)?;
                Self::Digest(Digest { partition, gpt, digest: u32::from_le_bytes(reader.take()?) })
            }
            kind::FIB_PIECE if version >= Version::PIECES => {
                let partition = partition(reader)?;
                let [position] = positions(reader)?;
                let [keys, first] = reader.words()?;
                let wrong = u32::from_le_bytes(reader.take()?);
                let entries = entries(reader)?;
                Self::FibPiece(FibPiece { partition, position, keys, first, wrong, entries })
            }
            kind::GPT_PIECE if version >= Version::PIECES => {
                let partition = partition(reader)?;
                let [position, previous] = positions(reader)?;
                let [bytes, first] = reader.words()?;
                let len = u32::from_le_bytes(reader.take()?) as usize;
                let part = reader.bytes(len)?.to_vec();
                Self::GptPiece(GptPiece { partition, position, previous, bytes, first, part })
            }
            kind::REWIND if version >= Version::REWINDS => {
                let partition = partition(reader)?;
                let [life, last] = reader.words()?;
                let again = u32::from_le_bytes(reader.take()?);
                Self::Rewind(Rewind { partition, life, again, last: Position(last) })
            }
            _ => return Err(DecodeError::Kind(0, kind)),
        };
        close(reader, message)
    }
}

fn put_op(out: &mut Vec<u8>, op: &FibOp) {
    match op {
        FibOp::Set(key, value) => {
            out.push(SET);
            put_key(out, key);
            put_words(out, value);
        }
        FibOp::Delete(key) => {
            out.push(DELETE);
            put_key(out, key);
        }
    }
}

fn put_entries(out: &mut Vec<u8>, entries: &[(FlowKey, FibValue)]) {
    put_count(out, entries.len());
    for (key, value) in entries {
        put_key(out, key);
        put_words(out, value);
    }
}

fn entries(reader: &mut Reader<'_>) -> Result<Vec<(FlowKey, FibValue)>, DecodeError> {
    let (count, room) = count(reader, 33)?;
    let mut entries = Vec::with_capacity(room);
    for _ in 0..count {
        entries.push((reader.key()?, reader.words()?));
    }
    Ok(entries)
}

fn put_part(out: &mut Vec<u8>, part: &Part) {
    put_words(out, &[part.at.0, part.since.0, part.have]);
}

fn part(reader: &mut Reader<'_>) -> Result<Part, DecodeError> {
    let [at, since] = positions(reader)?;
    let [have] = reader.words()?;
    Ok(Part { at, since, have })
}

fn op(reader: &mut Reader<'_>) -> Result<FibOp, DecodeError> {
    match reader.take()? {
        [SET] => Ok(FibOp::Set(reader.key()?, reader.words()?)),
        [DELETE] => Ok(FibOp::Delete(reader.key()?)),
        [other] => Err(DecodeError::Kind(0, other)),
    }
}

fn delta(reader: &mut Reader<'_>) -> Result<Delta, DecodeError> {
    let len = u32::from_le_bytes(reader.take()?) as usize;
    let bytes = reader.bytes(len)?;
    let delta = Delta::decode(bytes).map_err(|_| DecodeError::Malformed(0, "not a delta"))?;
    // Octets that a delta does not look at would come back as others.
    if delta.encode() == bytes { Ok(delta) } else { Err(DecodeError::Malformed(0, "not a delta")) }
}

impl Report {
    /// The length of every report that begins like these bytes; `None` if they begin no report.
    pub(crate) fn len(bytes: &[u8]) -> Option<usize> {
        let is_one = bytes.get(2) == Some(&kind::REPORT);
        let version = Version::told(u16::from_le_bytes(*bytes.first_chunk()?));
        let reshapes = if version >= Version::RESHAPES { 4 } else { 0 };
        let pieces = if version >= Version::PIECES { 4 + 2 * 24 + 4 + 2 * 8 } else { 0 };
        let room = if version >= Version::VERDICTS { 4 * 8 } else { 0 };
        is_one.then_some(4 + 2 + 4 * 8 + reshapes + pieces + room)
    }

    /// The report as bytes, as nodes of this version understand it.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        let mut out = start(kind::REPORT, version);
        put_partition(&mut out, self.partition);
        put_words(&mut out, &[self.life, self.fib.0, self.whole.0, self.gpt.0]);
        if version >= Version::RESHAPES {
            out.extend_from_slice(&self.again.to_le_bytes());
        }
        if version >= Version::PIECES {
            out.extend_from_slice(&self.wholes.to_le_bytes());
            put_part(&mut out, &self.fib_part);
            put_part(&mut out, &self.gpt_part);
            out.extend_from_slice(&self.sweep.number.to_le_bytes());
            put_words(&mut out, &[self.sweep.at.0, self.sweep.digest.get()]);
        }
        if version >= Version::VERDICTS {
            let FibRoom { used, capacity, shed } = self.room;
            put_words(&mut out, &[used, capacity, shed, self.let_go.0]);
        }
        out
    }

    /// The report in exactly these bytes.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (kind, version, mut reader) = open(bytes)?;
        if kind != kind::REPORT {
            return Err(DecodeError::Kind(0, kind));
        }
        let partition = partition(&mut reader)?;
        let [life] = reader.words()?;
        let [fib, whole, gpt] = positions(&mut reader)?;
        let mut report = Self { fib, whole, gpt, ..Self::new(partition, life) };
        if version >= Version::RESHAPES {
            report.again = u32::from_le_bytes(reader.take()?);
        }
        if version >= Version::PIECES {
            report.wholes = u32::from_le_bytes(reader.take()?);
            (report.fib_part, report.gpt_part) = (part(&mut reader)?, part(&mut reader)?);
            let number = u32::from_le_bytes(reader.take()?);
            let [at, digest] = reader.words()?;
            report.sweep = Sweep { number, at: Position(at), digest: FibDigest::from_u64(digest) };
        }
        if version >= Version::VERDICTS {
            let [used, capacity, shed, let_go] = reader.words()?;
            (report.room, report.let_go) = (FibRoom { used, capacity, shed }, Position(let_go));
        }
        close(&reader, report)
    }
}

#[cfg(test)]
mod tests;
