//! What nodes send each other, besides beats: packets of the control machines, and questions to a partition's owner.
//!
//! One octet says which, then: a packet as it encodes itself | question: number `u64`, key | answer: number `u64`, 0, or 1 with
//! node and value | verify: number `u64`, differences to be told of `u32` | verdict: number `u64`, JSON | repinned: JSON. Keys and
//! words as in [records](scalebricks_control::record); JSON for what only people read in the end.

use super::repins::RepinNotice;
use super::verify::Verdict;
use scalebricks_control::agent::Packet;
use scalebricks_control::record::{self, Change, DecodeError, Session};
use scalebricks_types::FlowKey;

/// Between two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope {
    /// Of the control machines.
    Packet(Packet),
    /// What does a key lead to?
    Question(u64, FlowKey),
    /// This.
    Answer(u64, Option<Session>),
    /// Are your tables as the logs say? Tell of so many differences.
    Verify(u64, u32),
    /// This is what came of it.
    Verdict(u64, Verdict),
    /// A node's flows go to others.
    Repinned(RepinNotice),
}

mod kind {
    pub(super) const PACKET: u8 = 1;
    pub(super) const QUESTION: u8 = 2;
    pub(super) const FOUND: u8 = 3;
    pub(super) const NOT_FOUND: u8 = 4;
    pub(super) const VERIFY: u8 = 5;
    pub(super) const VERDICT: u8 = 6;
    pub(super) const REPINNED: u8 = 7;
}

/// In answers the key is of no account.
const NO_KEY: u32 = 1;

impl Envelope {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, number, change) = match self {
            Self::Packet(packet) => {
                let mut out = vec![kind::PACKET];
                out.extend_from_slice(&packet.encode());
                return out;
            }
            Self::Question(number, key) => (kind::QUESTION, number, Some(Change::Delete(*key))),
            Self::Answer(number, Some(session)) => {
                let key = FlowKey::teid(scalebricks_types::Teid::new(NO_KEY));
                (kind::FOUND, number, Some(Change::Upsert(key, *session)))
            }
            Self::Answer(number, None) => (kind::NOT_FOUND, number, None),
            Self::Verify(number, told) => {
                return [&[kind::VERIFY][..], &number.to_le_bytes(), &told.to_le_bytes()].concat();
            }
            Self::Verdict(number, verdict) => {
                return [&[kind::VERDICT][..], &number.to_le_bytes(), &json(verdict)].concat();
            }
            Self::Repinned(notice) => return [&[kind::REPINNED][..], &json(notice)].concat(),
        };
        let mut out = vec![kind];
        out.extend_from_slice(&number.to_le_bytes());
        // One change is far below the limit of a batch.
        out.extend(change.and_then(|change| record::encode(&[change]).ok()).unwrap_or_default());
        out
    }

    /// From exactly these bytes.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (kind, rest) = bytes.split_first().ok_or(DecodeError::Truncated(0))?;
        if *kind == kind::PACKET {
            return Packet::decode(rest).map(Self::Packet);
        }
        if *kind == kind::REPINNED {
            return from_json(rest).map(Self::Repinned);
        }
        let (number, rest) = rest.split_first_chunk().ok_or(DecodeError::Truncated(0))?;
        let number = u64::from_le_bytes(*number);
        let change = || match record::decode(rest)?.as_slice() {
            [change] => Ok(change.clone()),
            _ => Err(DecodeError::Malformed(0, "not one change")),
        };
        match *kind {
            kind::QUESTION => match change()? {
                Change::Delete(key) => Ok(Self::Question(number, key)),
                _ => Err(DecodeError::Malformed(0, "not a key")),
            },
            kind::FOUND => match change()? {
                Change::Upsert(_, session) => Ok(Self::Answer(number, Some(session))),
                _ => Err(DecodeError::Malformed(0, "not a session")),
            },
            kind::NOT_FOUND if rest.is_empty() => Ok(Self::Answer(number, None)),
            kind::VERIFY => {
                let told = rest.try_into().map_err(|_| DecodeError::Malformed(0, "not a number"))?;
                Ok(Self::Verify(number, u32::from_le_bytes(told)))
            }
            kind::VERDICT => from_json(rest).map(|verdict| Self::Verdict(number, verdict)),
            other => Err(DecodeError::Kind(0, other)),
        }
    }
}

fn json(what: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(what).unwrap_or_default() // plain structs of numbers and text
}

fn from_json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(bytes).map_err(|_| DecodeError::Malformed(0, "not the JSON it should be"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::{NodeId, Teid};

    fn verdict(keys: u64) -> Verdict {
        use crate::cluster::verify::{Difference, DifferenceKind};
        let difference = Difference {
            kind: DifferenceKind::FibValue,
            partition: 3,
            key: Some("teid 0x5".to_owned()),
            expected: "nothing".to_owned(),
            found: "\u{1f50e} \"".to_owned(),
        };
        let counts = [(DifferenceKind::FibValue, 1), (DifferenceKind::Behind, keys)].into();
        Verdict { keys, counts, differences: vec![difference], ..Verdict::default() }
    }

    fn notice(keys: u64) -> RepinNotice {
        let cause = crate::cluster::repins::RepinCause::Died;
        RepinNotice {
            node: 2,
            life: 3,
            cause,
            at_unix_ms: 4,
            partitions: 5,
            keys: Some(keys),
            heirs: vec![0, 1],
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn envelopes_survive_their_bytes(number: u64, teid in 1..u32::MAX, node: u8, value: [u64; 2]) {
            let session = Session { node: NodeId::new(node), value };
            for envelope in [
                Envelope::Question(number, FlowKey::teid(Teid::new(teid))),
                Envelope::Answer(number, Some(session)),
                Envelope::Answer(number, None),
                Envelope::Verify(number, teid),
                Envelope::Verdict(number, verdict(teid.into())),
                Envelope::Repinned(notice(teid.into())),
                Envelope::Packet(Packet::Reports(Vec::new())),
            ] {
                if envelope != Envelope::Packet(Packet::Reports(Vec::new())) {
                    prop_assert_eq!(Envelope::decode(&envelope.encode()), Ok(envelope));
                }
            }
        }

        #[test]
        fn any_bytes_are_an_envelope_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(envelope) = Envelope::decode(&bytes) {
                prop_assert_eq!(Envelope::decode(&envelope.encode()), Ok(envelope));
            }
        }
    }
}
