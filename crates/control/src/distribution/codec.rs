//! Messages as bytes.
//!
//! All integers little-endian. [Version](crate::version) `u16`, kind `u8`, reserved `u8` (0), and then
//!
//! | kind | message | content |
//! |---|---|---|
//! | 1 | FIB update | partition (2), position (8), previous (8), number of changes (4), each: 1, key and value (16), or 2 and key |
//! | 2 | whole FIB | partition (2), position (8), number of entries (4), each: key and value (16) |
//! | 3 | GPT deltas | their number (4), each: its length (4) and the delta |
//! | 4 | target | partition (2), life, settled, FIB and GPT positions, room (8 each); since version 2 keys (8), shapes (4) |
//! | 5 | report | partition (2), life, FIB, whole and GPT positions (8 each); since version 2 again (4) |
//! | 6 | digest, since version 2 | partition (2), GPT position (8), digest (4) |
//! | 9 | rewind, since version 3 | partition (2), life, last position (8 each), again (4) |
//!
//! A key is its number of words, 2 or 5, in one octet, and the words. One message has one encoding in each version. A message is as long as
//! what it says: whoever carries it cuts and joins.

use super::message::{Digest, FibWhole, Message, Report, Rewind, Target};
use crate::partition::FibUpdate;
use crate::record::DecodeError;
use crate::record::codec::{Reader, put_key, put_words};
use crate::version::Version;
use scalebricks_tables::fib::FibOp;
use scalebricks_types::{Delta, PartitionId, Position};

mod kind {
    pub(super) const FIB: u8 = 1;
    pub(super) const FIB_WHOLE: u8 = 2;
    pub(super) const GPT: u8 = 3;
    pub(super) const TARGET: u8 = 4;
    pub(super) const REPORT: u8 = 5;
    pub(super) const DIGEST: u8 = 6;
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
    /// The message as bytes, as nodes of this version understand it. What it cannot say is left out; of a digest or a rewind nothing
    /// is left.
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
                put_count(&mut out, whole.entries.len());
                for (key, value) in &whole.entries {
                    put_key(&mut out, key);
                    put_words(&mut out, value);
                }
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
            Self::Target(Target { partition, life, settled, fib, gpt, room, keys, shapes }) => {
                let mut out = start(kind::TARGET, version);
                put_partition(&mut out, *partition);
                put_words(&mut out, &[*life, settled.0, fib.0, gpt.0, *room]);
                if version >= Version::RESHAPES {
                    put_words(&mut out, &[*keys]);
                    out.extend_from_slice(&shapes.to_le_bytes());
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
            Self::Rewind(Rewind { partition, life, again, last }) if version >= Version::REWINDS => {
                let mut out = start(kind::REWIND, version);
                put_partition(&mut out, *partition);
                put_words(&mut out, &[*life, last.0]);
                out.extend_from_slice(&again.to_le_bytes());
                out
            }
            Self::Digest(_) | Self::Rewind(_) => Self::Gpt(Vec::new()).encode(version),
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
                let (count, room) = count(reader, 33)?;
                let mut entries = Vec::with_capacity(room);
                for _ in 0..count {
                    entries.push((reader.key()?, reader.words()?));
                }
                Self::FibWhole(FibWhole { partition, position, entries })
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
                Self::Target(Target { partition, life, settled, fib, gpt, room, keys, shapes })
            }
            kind::DIGEST if version >= Version::RESHAPES => {
                let partition = partition(reader)?;
                let [gpt] = positions(reader)?;
                Self::Digest(Digest { partition, gpt, digest: u32::from_le_bytes(reader.take()?) })
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
        let is_first = bytes.first_chunk() == Some(&Version::FIRST.get().to_le_bytes());
        is_one.then_some(4 + 2 + 4 * 8 + if is_first { 0 } else { 4 })
    }

    /// The report as bytes, as nodes of this version understand it.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        let mut out = start(kind::REPORT, version);
        put_partition(&mut out, self.partition);
        put_words(&mut out, &[self.life, self.fib.0, self.whole.0, self.gpt.0]);
        if version >= Version::RESHAPES {
            out.extend_from_slice(&self.again.to_le_bytes());
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
        let again = if version >= Version::RESHAPES { u32::from_le_bytes(reader.take()?) } else { 0 };
        close(&reader, Self { partition, life, fib, whole, gpt, again })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::codec::tests::key;
    use proptest::prelude::*;
    use scalebricks_types::{FlowKey, Key16, TableKind};

    fn message() -> impl Strategy<Value = Message> {
        let op = prop_oneof![
            (key(), any::<[u64; 2]>()).prop_map(|(key, value)| FibOp::Set(key, value)),
            key().prop_map(FibOp::Delete),
        ];
        let place = || (any::<u16>().prop_map(PartitionId), any::<u64>().prop_map(Position));
        let delta = (any::<u16>(), any::<u32>(), 1..100_u64, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(partition, previous, step, payload)| Delta {
                kind: TableKind::SetSep,
                partition: PartitionId(partition),
                position: Position(u64::from(previous) + step),
                previous: Position(u64::from(previous)),
                payload,
            });
        prop_oneof![
            (place(), any::<u64>(), prop::collection::vec(op, 0..9)).prop_map(
                |((partition, position), previous, ops)| {
                    Message::Fib(FibUpdate { partition, position, previous: Position(previous), ops })
                }
            ),
            (place(), prop::collection::vec((key(), any::<[u64; 2]>()), 0..9)).prop_map(
                |((partition, position), entries)| Message::FibWhole(FibWhole {
                    partition,
                    position,
                    entries
                })
            ),
            prop::collection::vec(delta, 0..4).prop_map(Message::Gpt),
            (place(), any::<u32>()).prop_map(|((partition, gpt), digest)| {
                Message::Digest(Digest { partition, gpt, digest })
            }),
            (place(), any::<u64>(), any::<u32>()).prop_map(|((partition, last), life, again)| {
                Message::Rewind(Rewind { partition, life, again, last })
            }),
            (place(), any::<[u64; 5]>(), any::<u32>()).prop_map(|(place, numbers, shapes)| {
                let ((partition, settled), [life, fib, gpt, room, keys]) = (place, numbers);
                Message::Target(Target {
                    partition,
                    life,
                    settled,
                    fib: Position(fib),
                    gpt: Position(gpt),
                    room,
                    keys,
                    shapes,
                })
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn messages_survive_and_no_part_of_one_is_one(message in message()) {
            let bytes = message.encode(Version::NEWEST);
            prop_assert_eq!(Message::decode(&bytes), Ok(message));
            for len in 0..bytes.len() {
                prop_assert!(Message::decode(&bytes[..len]).is_err(), "cut to {} of {}", len, bytes.len());
            }
        }

        #[test]
        fn one_encoding_each(message in message(), at: prop::sample::Index, octet: u8) {
            let mut bytes = message.encode(Version::NEWEST);
            let at = at.index(bytes.len());
            bytes[at] = octet;
            if let Ok(message) = Message::decode(&bytes) {
                let version = Version::told(u16::from_le_bytes([bytes[0], bytes[1]]));
                prop_assert_eq!(message.encode(version), bytes);
            }
        }

        #[test]
        fn reports_survive(partition: u16, life: u64, fib: u64, whole: u64, gpt: u64, again: u32) {
            let report = Report {
                partition: PartitionId(partition), life, fib: Position(fib), whole: Position(whole), gpt: Position(gpt), again,
            };
            let old = report.encode(Version::FIRST);
            prop_assert_eq!(Report::len(&old), Some(old.len()));
            prop_assert_eq!(Report::decode(&old), Ok(Report { again: 0, ..report }));
            let bytes = report.encode(Version::NEWEST);
            prop_assert_eq!(Report::len(&bytes), Some(bytes.len()));
            prop_assert_eq!(Report::decode(&bytes), Ok(report));
            prop_assert_eq!(Report::decode(&bytes[..bytes.len() - 1]), Err(DecodeError::Truncated(0)));
            prop_assert!(Message::decode(&bytes).is_err());
        }
    }

    /// To older nodes what they know of is said, and nothing else.
    #[test]
    fn the_first_version_leaves_out_what_it_cannot_say() {
        let (partition, gpt) = (PartitionId(3), Position(5));
        let target = Target {
            partition,
            life: 1,
            settled: Position(4),
            fib: Position(6),
            gpt,
            room: 7,
            keys: 8,
            shapes: 9,
        };
        let old = Message::Target(target).encode(Version::FIRST);
        assert_eq!(old.len(), 4 + 2 + 5 * 8);
        assert_eq!(Message::decode(&old), Ok(Message::Target(Target { keys: 0, shapes: 0, ..target })));
        let digest = Message::Digest(Digest { partition, gpt, digest: 1 });
        assert_eq!(Message::decode(&digest.encode(Version::FIRST)), Ok(Message::Gpt(Vec::new())));
        let rewind = Message::Rewind(Rewind { partition, life: 1, again: 2, last: gpt });
        assert_eq!(Message::decode(&rewind.encode(Version::RESHAPES)), Ok(Message::Gpt(Vec::new())));
        let mut forged = digest.encode(Version::NEWEST);
        forged[0] = 1;
        assert_eq!(Message::decode(&forged), Err(DecodeError::Kind(0, kind::DIGEST)));
    }

    #[test]
    fn golden_bytes() {
        let delete = FibOp::Delete(FlowKey::Short(Key16::from_words([5, 0x1122_3344])));
        let update = FibUpdate {
            partition: PartitionId(3),
            position: Position(9),
            previous: Position(7),
            ops: vec![delete],
        };
        #[rustfmt::skip]
        let bytes = [
            1, 0, 1, 0, 3, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
            2, 2, 5, 0, 0, 0, 0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0,
        ];
        assert_eq!(Message::Fib(update).encode(Version::FIRST), bytes);
    }

    #[test]
    fn hostile_counts_allocate_nothing() {
        for kind in [kind::FIB_WHOLE, kind::GPT] {
            let mut bytes = start(kind, Version::FIRST);
            bytes.extend([0xff; 14]);
            assert!(Message::decode(&bytes).is_err());
        }
    }
}
