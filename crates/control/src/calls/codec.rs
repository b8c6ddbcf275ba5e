//! Calls and answers as bytes.
//!
//! All integers little-endian. Request: partition (2), and the calls [as a batch has them](crate::record::encode_calls). Answers:
//! partition (2), their number (4), each: process (8), request's number (8), kind (1), and by kind
//!
//! | kind | reply | content |
//! |---|---|---|
//! | 1 | judged | verdict: position (8), outcome (1: 0, or why it is void), void changes (4), how many are told (1), each: number (4), why (1) |
//! | 2 | not the owner | |
//! | 3 | busy | |
//! | 4 | no room | |
//! | 5 | FIB full | node (1) |
//! | 6 | not logged | length (1), why, in UTF-8 |
//! | 7 | older software | |
//! | 8 | delayed | |

use super::{Answer, Refusal, Reply};
use crate::engine::WriterId;
use crate::partition::Verdict;
use crate::record::codec::{Reader, put_words};
use crate::record::{Call, CallId, DecodeError, EncodeError, Payload, decode_payload, encode_calls};
use scalebricks_types::{NodeId, PartitionId};

mod kind {
    pub(super) const JUDGED: u8 = 1;
    pub(super) const NOT_OWNER: u8 = 2;
    pub(super) const BUSY: u8 = 3;
    pub(super) const NO_ROOM: u8 = 4;
    pub(super) const NODE_FULL: u8 = 5;
    pub(super) const LOG: u8 = 6;
    pub(super) const VERSION: u8 = 7;
    pub(super) const DELAYED: u8 = 8;
}

/// Octets of the shortest answer.
const ANSWER_BYTES: usize = 17;

/// A request as bytes.
///
/// # Errors
/// [`EncodeError`] for more than a batch may have.
pub fn encode_request(partition: PartitionId, calls: &[Call]) -> Result<Vec<u8>, EncodeError> {
    Ok([&partition.0.to_le_bytes()[..], &encode_calls(calls)?].concat())
}

/// The request in exactly these bytes.
///
/// # Errors
/// [`DecodeError`].
pub fn decode_request(bytes: &[u8]) -> Result<(PartitionId, Vec<Call>), DecodeError> {
    let mut reader = Reader::new(bytes);
    let partition = PartitionId(u16::from_le_bytes(reader.take()?));
    match decode_payload(reader.rest())? {
        Payload::Calls(calls) => Ok((partition, calls)),
        Payload::Changes(_) => Err(DecodeError::Malformed(0, "changes where calls should be")),
    }
}

/// Answers as bytes.
pub fn encode_answers(partition: PartitionId, answers: &[Answer]) -> Vec<u8> {
    let mut out = partition.0.to_le_bytes().to_vec();
    out.extend_from_slice(&(answers.len() as u32).to_le_bytes()); // more fit no memory
    for Answer { id, reply } in answers {
        put_words(&mut out, &[id.by.0, id.number]);
        match reply {
            Reply::Judged(verdict) => {
                out.push(kind::JUDGED);
                verdict.put(&mut out);
            }
            Reply::Refused(refusal) => put_refusal(&mut out, refusal),
        }
    }
    out
}

fn put_refusal(out: &mut Vec<u8>, refusal: &Refusal) {
    match refusal {
        Refusal::NotOwner => out.push(kind::NOT_OWNER),
        Refusal::Busy => out.push(kind::BUSY),
        Refusal::NoRoom => out.push(kind::NO_ROOM),
        Refusal::NodeFull(node) => out.extend([kind::NODE_FULL, node.get()]),
        Refusal::Log(why) => {
            let len = (0..=255.min(why.len())).rev().find(|len| why.is_char_boundary(*len)).unwrap_or(0);
            out.extend([kind::LOG, len as u8]); // 255 at the most
            out.extend_from_slice(&why.as_bytes()[..len]);
        }
        Refusal::Version => out.push(kind::VERSION),
        Refusal::Delayed => out.push(kind::DELAYED),
    }
}

/// The answers in exactly these bytes. Allocates no more than a small multiple of what they hold.
///
/// # Errors
/// [`DecodeError`].
pub fn decode_answers(bytes: &[u8]) -> Result<(PartitionId, Vec<Answer>), DecodeError> {
    let mut reader = Reader::new(bytes);
    let partition = PartitionId(u16::from_le_bytes(reader.take()?));
    let count = u32::from_le_bytes(reader.take()?);
    let mut answers = Vec::with_capacity((count as usize).min(reader.rest().len() / ANSWER_BYTES));
    for number in 0..count {
        let [by, request] = reader.words()?;
        let id = CallId { by: WriterId(by), number: request };
        let reply = match reader.take()? {
            [kind::JUDGED] => Reply::Judged(Verdict::take(&mut reader)?),
            [kind] => Reply::Refused(refusal(&mut reader, number, kind)?),
        };
        answers.push(Answer { id, reply });
    }
    match reader.rest().len() {
        0 => Ok((partition, answers)),
        left => Err(DecodeError::Trailing(left)),
    }
}

fn refusal(reader: &mut Reader<'_>, number: u32, kind: u8) -> Result<Refusal, DecodeError> {
    Ok(match kind {
        kind::NOT_OWNER => Refusal::NotOwner,
        kind::BUSY => Refusal::Busy,
        kind::NO_ROOM => Refusal::NoRoom,
        kind::NODE_FULL => {
            let [node] = reader.take()?;
            Refusal::NodeFull(NodeId::new(node))
        }
        kind::LOG => {
            let [len] = reader.take()?;
            let why = std::str::from_utf8(reader.bytes(usize::from(len))?);
            let why = why.map_err(|_| DecodeError::Malformed(number, "a reason that is no text"))?;
            Refusal::Log(why.to_owned())
        }
        kind::VERSION => Refusal::Version,
        kind::DELAYED => Refusal::Delayed,
        _ => return Err(DecodeError::Kind(number, kind)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Void;
    use crate::record::Change;
    use crate::record::codec::tests::key;
    use proptest::prelude::*;
    use scalebricks_types::Position;

    fn verdict() -> impl Strategy<Value = Verdict> {
        let voids = prop::collection::btree_set(any::<u32>(), 0..80);
        (any::<u64>(), voids, any::<bool>()).prop_map(|(position, voids, is_void)| {
            let voids = voids.into_iter().map(|number| (number, Void::Missing)).collect();
            let done = Verdict::done(Position(position), voids);
            if is_void { Verdict::void(Position(position), Void::NoRoom) } else { done }
        })
    }

    fn answer() -> impl Strategy<Value = Answer> {
        let refusal = prop_oneof![
            Just(Refusal::NotOwner),
            Just(Refusal::Busy),
            Just(Refusal::NoRoom),
            Just(Refusal::Version),
            Just(Refusal::Delayed),
            any::<u8>().prop_map(|node| Refusal::NodeFull(NodeId::new(node))),
            "\\PC{0,60}".prop_map(Refusal::Log),
        ];
        let reply = prop_oneof![verdict().prop_map(Reply::Judged), refusal.prop_map(Reply::Refused)];
        (any::<u64>(), any::<u64>(), reply)
            .prop_map(|(by, number, reply)| Answer { id: CallId { by: WriterId(by), number }, reply })
    }

    fn call() -> impl Strategy<Value = Call> {
        let changes = prop::collection::vec(key().prop_map(Change::Delete), 0..5);
        (any::<u64>(), 1..1_u64 << 63, 0..1024_u64, changes).prop_map(|(by, number, below, changes)| Call {
            id: CallId { by: WriterId(by), number },
            oldest: number.saturating_sub(below).max(1),
            changes,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn answers_survive_and_no_part_of_them_does(
            partition: u16, answers in prop::collection::vec(answer(), 0..5), at: prop::sample::Index, octet: u8
        ) {
            let mut bytes = encode_answers(PartitionId(partition), &answers);
            prop_assert_eq!(decode_answers(&bytes), Ok((PartitionId(partition), answers)));
            for len in 0..bytes.len() {
                prop_assert!(decode_answers(&bytes[..len]).is_err());
            }
            let at = at.index(bytes.len());
            bytes[at] = octet;
            if let Ok((partition, answers)) = decode_answers(&bytes) {
                prop_assert_eq!(encode_answers(partition, &answers), bytes);
            }
        }

        #[test]
        fn requests_survive_and_no_part_of_one_does(
            partition: u16, calls in prop::collection::vec(call(), 0..4), at: prop::sample::Index, octet: u8
        ) {
            let mut bytes = encode_request(PartitionId(partition), &calls).unwrap();
            prop_assert_eq!(decode_request(&bytes), Ok((PartitionId(partition), calls)));
            for len in 0..bytes.len() {
                prop_assert!(decode_request(&bytes[..len]).is_err());
            }
            let at = at.index(bytes.len());
            bytes[at] = octet;
            if let Ok((partition, calls)) = decode_request(&bytes) {
                prop_assert_eq!(encode_request(partition, &calls).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn long_reasons_are_cut_between_characters() {
        let answer = |why: String| Answer {
            id: CallId { by: WriterId(1), number: 2 },
            reply: Reply::Refused(Refusal::Log(why)),
        };
        let bytes = encode_answers(PartitionId(3), &[answer("ä".repeat(200))]);
        assert_eq!(decode_answers(&bytes), Ok((PartitionId(3), vec![answer("ä".repeat(127))])));
    }
}
