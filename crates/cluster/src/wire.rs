//! Messages between nodes, other than heartbeats.

use super::repins::RepinNotice;
use super::verify::Verdict;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_control::agent::Packet;
use scalebricks_control::calls::Answer;
use scalebricks_control::codec::Encoded;
use scalebricks_control::courier::{self, Count};
use scalebricks_control::record::{Call, Session};
use scalebricks_types::{FlowKey, NodeId, PartitionId, Teid};

/// A message and how it travels. A relayed message cannot contain another, so none is relayed twice.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Envelope {
    /// From the sender to the receiver.
    Direct(Message),
    /// To a third node, which the receiver passes it on to.
    Relay(NodeId, Message),
    /// From a third node, which asked the sender to pass it on.
    Relayed(NodeId, Message),
}

impl Encoded for Envelope {
    const NAME: &'static str = "message of a node";
}

/// What a node sends to another.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// A packet of the agent: owner and replicas of a partition.
    Packet(Packet),
    /// Asks a partition's owner for the session of a key. Questions are numbered by the sender.
    Question(u64, FlowKey),
    /// The answer to a [`Message::Question`] of this number.
    Answer(u64, Option<Session>),
    /// A packet of the courier.
    Counts(courier::Packet),
    /// Asks a flow's handling node for its counters.
    Tally(u64, Teid),
    /// The answer to a [`Message::Tally`] of this number.
    Tallied(u64, Option<Count>),
    /// Asks for a comparison of the receiver's tables with the logs, with at most so many differences in the answer.
    Verify(u64, u32),
    /// The answer to a [`Message::Verify`] of this number.
    Verdict(u64, Verdict),
    /// A node's flows go to others.
    Repinned(RepinNotice),
    /// Changes for a partition that the receiver owns.
    Calls(PartitionId, Vec<Call>),
    /// Answers to [`Message::Calls`].
    Answers(PartitionId, Vec<Answer>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_control::calls::{Refusal, Reply};
    use scalebricks_control::engine::WriterId;
    use scalebricks_control::partition;
    use scalebricks_control::record::{CallId, Change};
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
        fn envelopes_survive_and_no_part_of_one_does(
            number: u64, teid in 1..u32::MAX, node: u8, value: [u64; 2], at: prop::sample::Index, octet: u8
        ) {
            let session = Session::new(NodeId::new(node), value);
            for message in [
                Message::Question(number, FlowKey::teid(Teid::new(teid))),
                Message::Answer(number, Some(session)),
                Message::Answer(number, None),
                Message::Tally(number, Teid::new(teid)),
                Message::Tallied(number, None),
                Message::Tallied(number, Some(Count([number, value[0], 0, value[1]]))),
                Message::Counts(courier::Packet::Hello(courier::ProcessId(number))),
                Message::Verify(number, teid),
                Message::Verdict(number, verdict(teid.into())),
                Message::Repinned(notice(teid.into())),
                Message::Calls(PartitionId(node.into()), vec![call(number, teid)]),
                Message::Answers(PartitionId(node.into()), answers(number, teid)),
                Message::Packet(Packet::Reports(Vec::new())),
            ] {
                let node = NodeId::new(node);
                let envelopes = [Envelope::Direct(message.clone()), Envelope::Relay(node, message.clone()), Envelope::Relayed(node, message)];
                for envelope in envelopes {
                    let mut bytes = envelope.encode();
                    prop_assert_eq!(Envelope::decode(&bytes), Ok(envelope));
                    for len in 0..bytes.len() {
                        prop_assert!(Envelope::decode(&bytes[..len]).is_err());
                    }
                    let at = at.index(bytes.len());
                    bytes[at] = octet;
                    if let Ok(envelope) = Envelope::decode(&bytes) {
                        prop_assert_eq!(envelope.encode(), bytes);
                    }
                }
            }
        }

        #[test]
        fn any_bytes_are_an_envelope_or_an_error(body in prop::collection::vec(any::<u8>(), 0..80)) {
            let bytes = [&[4, 0][..], &body].concat();
            if let Ok(envelope) = Envelope::decode(&bytes) {
                prop_assert_eq!(envelope.encode(), bytes);
            }
        }
    }
}
