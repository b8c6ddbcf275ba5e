//! The envelope of a table update: who it is for and where in its stream it stands, around an opaque payload.
//!
//! A delta holds the *absolute* state, at `position`, of everything its partition changed since `previous`. So a
//! replica at position `p` may apply it iff `previous ≤ p < position`: what overlaps is harmless, what is old is
//! skipped, and a hole is noticed. What the payload means is the table kind's affair.

use crate::{PartitionId, Position};
use borsh::{BorshDeserialize, BorshSerialize};
use std::io::{self, Read};

/// Version of the envelope's encoding.
pub const DELTA_VERSION: u16 = 1;

/// Largest payload accepted from the wire, in bytes: several rebuilt partitions of the largest tables.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;

/// Which structure a delta is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, BorshSerialize, BorshDeserialize)]
#[borsh(use_discriminant = true)]
#[repr(u8)]
pub enum TableKind {
    /// SetSep, any group format (the payload names it).
    SetSep = 1,
    /// An exact copy of all keys with the node in the value.
    FullCopy = 2,
    /// The node computed from the hash alone.
    HashPartition = 3,
    /// Othello.
    Othello = 4,
    /// A handling node's exact FIB.
    Fib = 5,
}

impl TableKind {
    /// The kind with this number.
    pub const fn from_u8(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => Self::SetSep,
            2 => Self::FullCopy,
            3 => Self::HashPartition,
            4 => Self::Othello,
            5 => Self::Fib,
            _ => return None,
        })
    }
}

/// One update to one partition of one table.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize)]
pub struct Delta {
    /// The structure it is for.
    pub kind: TableKind,
    /// The range of the key hash it changes.
    pub partition: PartitionId,
    /// The stream position it brings a replica to.
    pub position: Position,
    /// The position from which on it carries every change.
    pub previous: Position,
    /// The changes, in the table kind's own encoding.
    pub payload: Vec<u8>,
}

impl BorshDeserialize for Delta {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Self> {
        let (kind, partition, position, previous, payload) = BorshDeserialize::deserialize_reader(reader)?;
        let delta = Self { kind, partition, position, previous, payload };
        if delta.previous < delta.position && delta.payload.len() <= MAX_PAYLOAD_BYTES {
            Ok(delta)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "invalid positions or length of a delta"))
        }
    }
}

/// Why bytes are no delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// Shorter than its header or than its header says.
    #[error("delta truncated: {have} bytes of {need}")]
    Truncated {
        /// Bytes present.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// Made by another version of the software.
    #[error("delta version {0} is not {DELTA_VERSION}")]
    Version(u16),
    /// No such table kind.
    #[error("unknown table kind {0}")]
    Kind(u8),
    /// Positions must advance.
    #[error("delta goes from position {previous} to {position}")]
    Order {
        /// Position named as previous.
        previous: u64,
        /// Position named as reached.
        position: u64,
    },
    /// More payload than any table makes.
    #[error("delta payload of {0} bytes is over the limit of {MAX_PAYLOAD_BYTES}")]
    TooLarge(usize),
    /// Bytes behind the end.
    #[error("{0} bytes behind the end of the delta")]
    Trailing(usize),
}

/// What applying a delta did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Applied {
    /// The table is now at the delta's position.
    Advanced,
    /// The table was there already; nothing changed.
    Stale,
}

/// Why a delta was not applied. The table is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The delta is for another kind of table.
    #[error("delta for {got:?} offered to {want:?}")]
    Kind {
        /// The table's kind.
        want: TableKind,
        /// The delta's kind.
        got: TableKind,
    },
    /// The table has no such partition.
    #[error("partition {0:?} does not exist here")]
    Partition(PartitionId),
    /// Changes are missing in between: fetch them from the owner, or load a snapshot.
    #[error("gap: the table is at {have:?}, the delta starts at {previous:?}")]
    Gap {
        /// Where the table is.
        have: Position,
        /// Where the delta starts.
        previous: Position,
    },
    /// The payload is not what its kind encodes; says what.
    #[error("malformed delta payload: {0}")]
    Malformed(&'static str),
    /// The table has no room for what the delta adds.
    #[error("no room: {0}")]
    Full(&'static str),
}

/// version u16, kind u8, reserved u8, partition u16, reserved u16, position u64, previous u64, payload length u32;
/// all little-endian.
const HEADER_BYTES: usize = 28;

impl Delta {
    /// Whether a replica at position `have` may apply this delta: `Ok(true)` yes, `Ok(false)` it is stale.
    ///
    /// # Errors
    /// [`ApplyError::Gap`] if changes before it are missing.
    pub fn follows(&self, have: Position) -> Result<bool, ApplyError> {
        if self.position <= have {
            Ok(false)
        } else if self.previous > have {
            Err(ApplyError::Gap { have, previous: self.previous })
        } else {
            Ok(true)
        }
    }

    /// The delta as bytes: a header of 28 and the payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.payload.len());
        out.extend_from_slice(&DELTA_VERSION.to_le_bytes());
        out.extend_from_slice(&[self.kind as u8, 0]);
        out.extend_from_slice(&self.partition.0.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.position.0.to_le_bytes());
        out.extend_from_slice(&self.previous.0.to_le_bytes());
        out.extend_from_slice(&(self.payload.len() as u32).to_le_bytes()); // tables stay below MAX_PAYLOAD_BYTES
        out.extend_from_slice(&self.payload);
        out
    }

    /// The delta in exactly these bytes.
    ///
    /// # Errors
    /// [`DeltaError`], naming what is wrong. Allocates no more than `bytes` holds.
    pub fn decode(bytes: &[u8]) -> Result<Self, DeltaError> {
        let truncated = |need| DeltaError::Truncated { have: bytes.len(), need };
        let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(truncated(HEADER_BYTES))?;
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let (position, previous) = (u64_at(8), u64_at(16));
        let &[v0, v1, kind, _, p0, p1, _, _, .., l0, l1, l2, l3] = header;
        let version = u16::from_le_bytes([v0, v1]);
        if version != DELTA_VERSION {
            return Err(DeltaError::Version(version));
        }
        let kind = TableKind::from_u8(kind).ok_or(DeltaError::Kind(kind))?;
        if previous >= position {
            return Err(DeltaError::Order { previous, position });
        }
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if len > MAX_PAYLOAD_BYTES {
            return Err(DeltaError::TooLarge(len));
        }
        if payload.len() < len {
            return Err(truncated(HEADER_BYTES + len));
        }
        if payload.len() > len {
            return Err(DeltaError::Trailing(payload.len() - len));
        }
        Ok(Self {
            kind,
            partition: PartitionId(u16::from_le_bytes([p0, p1])),
            position: Position(position),
            previous: Position(previous),
            payload: payload.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn delta(previous: u64, position: u64, payload: Vec<u8>) -> Delta {
        let (position, previous) = (Position(position), Position(previous));
        Delta { kind: TableKind::SetSep, partition: PartitionId(7), position, previous, payload }
    }

    proptest! {
        #[test]
        fn round_trip(previous in 0u64..u64::MAX, payload: Vec<u8>) {
            let d = delta(previous, previous + 1, payload);
            prop_assert_eq!(Delta::decode(&d.encode()), Ok(d));
        }

        #[test]
        fn any_bytes_decode_or_fail_by_name(bytes: Vec<u8>) {
            if let Ok(d) = Delta::decode(&bytes) {
                prop_assert!(d.previous < d.position);
            }
        }

        #[test]
        fn every_truncation_is_noticed(payload: Vec<u8>, cut in 0usize..1000) {
            let bytes = delta(1, 2, payload).encode();
            let short = &bytes[..cut % bytes.len()];
            prop_assert!(matches!(Delta::decode(short), Err(DeltaError::Truncated { .. })), "cut to {}", short.len());
        }
    }

    #[test]
    fn a_delta_follows_what_it_overlaps() {
        let d = delta(5, 8, vec![]);
        assert_eq!(d.follows(Position(5)), Ok(true));
        assert_eq!(d.follows(Position(7)), Ok(true));
        assert_eq!(d.follows(Position(8)), Ok(false));
        assert_eq!(d.follows(Position(4)), Err(ApplyError::Gap { have: Position(4), previous: Position(5) }));
    }
}
