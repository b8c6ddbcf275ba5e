//! What nodes send each other, besides beats: packets of the control machines, questions to a partition's owner and to a flow's
//! handling node, and counts of flows.
//!
//! One octet says which, then: a packet, of the agent or the courier, as it encodes itself | question: number `u64`, key | answer: number `u64`, 0, or 1 with
//! node and value | question for a flow's counts: number `u64`, uplink TEID `u32` | answer: number `u64`, four counters `u64`, or
//! nothing | verify: number `u64`, differences to be told of `u32` | verdict: number `u64`, JSON | repinned: JSON | calls, and answers to them, as [they encode themselves](scalebricks_control::calls) | relay: node to
//! pass it on to `u8`, message | relayed: node that sent it `u8`, message (both from version 3 on). Keys and words as in
//! [records](scalebricks_control::record); JSON for what only people read in the end.

use super::repins::RepinNotice;
use super::verify::Verdict;
use scalebricks_control::agent::Packet;
use scalebricks_control::calls::{self, Answer};
use scalebricks_control::courier::{self, Count};
use scalebricks_control::record::{self, Call, Change, DecodeError, Session};
use scalebricks_control::version::Version;
use scalebricks_types::{FlowKey, NodeId, PartitionId, Teid};

/// Between two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope {
    /// Of the control machines.
    Packet(Packet),
    /// What does a key lead to?
    Question(u64, FlowKey),
    /// This.
    Answer(u64, Option<Session>),
    /// Of the couriers.
    Counts(courier::Packet),
    /// What has a flow counted?
    Tally(u64, Teid),
    /// This.
    Tallied(u64, Option<Count>),
    /// Are your tables as the logs say? Tell of so many differences.
    Verify(u64, u32),
    /// This is what came of it.
    Verdict(u64, Verdict),
    /// A node's flows go to others.
    Repinned(RepinNotice),
    /// Make these changes in a partition.
    Calls(PartitionId, Vec<Call>),
    /// What became of such.
    Answers(PartitionId, Vec<Answer>),
    /// Pass this on to another node.
    Relay(NodeId, Vec<u8>),
    /// Another node sent this: it was passed on once, and goes no further.
    Relayed(NodeId, Vec<u8>),
}

mod kind {
    pub(super) const PACKET: u8 = 1;
    pub(super) const QUESTION: u8 = 2;
    pub(super) const FOUND: u8 = 3;
    pub(super) const NOT_FOUND: u8 = 4;
    pub(super) const COUNTS: u8 = 5;
    pub(super) const TALLY: u8 = 6;
    pub(super) const TALLIED: u8 = 7;
    pub(super) const NOT_TALLIED: u8 = 8;
    pub(super) const VERIFY: u8 = 9;
    pub(super) const VERDICT: u8 = 10;
    pub(super) const REPINNED: u8 = 11;
    pub(super) const CALLS: u8 = 12;
    pub(super) const ANSWERS: u8 = 13;
    pub(super) const RELAY: u8 = 14;
    pub(super) const RELAYED: u8 = 15;
}

/// In answers the key is of no account.
const NO_KEY: u32 = 1;

impl Envelope {
    /// As bytes, as nodes of this version understand it.
    pub fn encode(&self, version: Version) -> Vec<u8> {
        let (kind, number, change) = match self {
            Self::Packet(packet) => {
                return [&[kind::PACKET], &packet.encode(version)[..]].concat();
            }
            Self::Counts(packet) => {
                return [&[kind::COUNTS], &packet.encode()[..]].concat();
            }
            Self::Tally(number, flow) => {
                let (number, flow) = (number.to_le_bytes(), flow.get().to_le_bytes());
                return [&[kind::TALLY], &number[..], &flow].concat();
            }
            Self::Tallied(number, None) => return [&[kind::NOT_TALLIED], &number.to_le_bytes()[..]].concat(),
            Self::Tallied(number, Some(Count(counters))) => {
                let words = std::iter::once(number).chain(counters).flat_map(|word| word.to_le_bytes());
                return std::iter::once(kind::TALLIED).chain(words).collect();
            }
            Self::Question(number, key) => (kind::QUESTION, number, Some(Change::Delete(*key))),
            Self::Answer(number, Some(session)) => {
                let key = FlowKey::teid(Teid::new(NO_KEY));
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
            Self::Relay(to, bytes) => return [&[kind::RELAY, to.get()][..], bytes].concat(),
            Self::Relayed(from, bytes) => return [&[kind::RELAYED, from.get()][..], bytes].concat(),
            Self::Calls(partition, calls) => {
                // A message has no more changes than a batch takes.
                let request = calls::encode_request(*partition, calls).unwrap_or_default();
                return [&[kind::CALLS][..], &request].concat();
            }
            Self::Answers(partition, answers) => {
                return [&[kind::ANSWERS][..], &calls::encode_answers(*partition, answers)].concat();
            }
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
        match *kind {
            kind::PACKET => return Packet::decode(rest).map(Self::Packet),
            kind::COUNTS => return courier::Packet::decode(rest).map(Self::Counts),
            kind::RELAY | kind::RELAYED => {
                let (node, inner) = rest.split_first().ok_or(DecodeError::Truncated(0))?;
                if matches!(inner.first(), None | Some(&(kind::RELAY | kind::RELAYED))) {
                    return Err(DecodeError::Malformed(
                        0,
                        "a relayed message that is none, or relayed itself",
                    ));
                }
                let (node, inner) = (NodeId::new(*node), inner.to_vec());
                let is_first = *kind == kind::RELAY;
                return Ok(if is_first { Self::Relay(node, inner) } else { Self::Relayed(node, inner) });
            }
            kind::CALLS => {
                return calls::decode_request(rest).map(|(partition, calls)| Self::Calls(partition, calls));
            }
            kind::ANSWERS => {
                let answers = calls::decode_answers(rest);
                return answers.map(|(partition, answers)| Self::Answers(partition, answers));
            }
            _ => {}
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
            kind::TALLY => {
                let flow = rest.try_into().map_err(|_| DecodeError::Malformed(0, "not a TEID"))?;
                Ok(Self::Tally(number, Teid::new(u32::from_le_bytes(flow))))
            }
            kind::TALLIED => match rest.as_chunks() {
                (&[a, b, c, d], []) => {
                    Ok(Self::Tallied(number, Some(Count([a, b, c, d].map(u64::from_le_bytes)))))
                }
                _ => Err(DecodeError::Malformed(0, "not four counters")),
            },
            kind::NOT_TALLIED if rest.is_empty() => Ok(Self::Tallied(number, None)),
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
    use scalebricks_control::calls::{Refusal, Reply};
    use scalebricks_control::engine::WriterId;
    use scalebricks_control::partition;
    use scalebricks_control::record::CallId;
    use scalebricks_types::Position;

    fn call(by: u64, number: u32) -> Call {
        let id = CallId { by: WriterId(by), number: number.into() };
        Call { id, oldest: number.into(), changes: vec![Change::Delete(FlowKey::teid(Teid::new(number)))] }
    }

    fn answers(by: u64, number: u32) -> Vec<Answer> {
        let id = CallId { by: WriterId(by), number: number.into() };
        let judged = partition::Verdict::done(Position(by), vec![(number, partition::Void::Missing)]);
        let replies = [Reply::Judged(judged), Reply::Refused(Refusal::Log("full".to_owned()))];
        replies.into_iter().map(|reply| Answer { id, reply }).collect()
    }

    fn verdict(keys: u64) -> Verdict {
        use crate::verify::{Difference, DifferenceKind};
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
        let cause = crate::repins::RepinCause::Died;
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
            let session = Session::new(NodeId::new(node), value);
            for envelope in [
                Envelope::Question(number, FlowKey::teid(Teid::new(teid))),
                Envelope::Answer(number, Some(session)),
                Envelope::Answer(number, None),
                Envelope::Tally(number, Teid::new(teid)),
                Envelope::Tallied(number, None),
                Envelope::Tallied(number, Some(Count([number, value[0], 0, value[1]]))),
                Envelope::Counts(courier::Packet::Hello(courier::ProcessId(number))),
                Envelope::Verify(number, teid),
                Envelope::Verdict(number, verdict(teid.into())),
                Envelope::Repinned(notice(teid.into())),
                Envelope::Calls(PartitionId(node.into()), vec![call(number, teid)]),
                Envelope::Answers(PartitionId(node.into()), answers(number, teid)),
                Envelope::Relay(NodeId::new(node), vec![kind::TALLY, node]),
                Envelope::Relayed(NodeId::new(node), vec![kind::PACKET]),
                Envelope::Packet(Packet::Reports(Vec::new())),
            ] {
                if envelope != Envelope::Packet(Packet::Reports(Vec::new())) {
                    prop_assert_eq!(Envelope::decode(&envelope.encode(Version::NEWEST)), Ok(envelope));
                }
            }
        }

        /// Nobody has a message passed on twice.
        #[test]
        fn what_was_relayed_is_not_relayed_again(a: u8, b: u8, bytes: Vec<u8>) {
            let (a, b) = (NodeId::new(a), NodeId::new(b));
            let inner = [Envelope::Relay(a, bytes.clone()), Envelope::Relayed(a, bytes)];
            for inner in inner.map(|inner| inner.encode(Version::NEWEST)) {
                for outer in [Envelope::Relay(b, inner.clone()), Envelope::Relayed(b, inner.clone())] {
                    prop_assert!(Envelope::decode(&outer.encode(Version::NEWEST)).is_err());
                }
            }
        }

        #[test]
        fn any_bytes_are_an_envelope_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(envelope) = Envelope::decode(&bytes) {
                prop_assert_eq!(Envelope::decode(&envelope.encode(Version::NEWEST)), Ok(envelope));
            }
        }
    }
}
