//! Payloads of batches: lists of changes or of calls.

use super::{Call, Change};
use crate::codec::{self, Encoded};
use crate::engine::MAX_BATCH_BYTES;
use borsh::{BorshDeserialize, BorshSerialize};

/// The payload of a batch.
#[derive(Debug, Clone, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Payload {
    /// Changes that the partition's owner makes itself.
    Changes(Vec<Change>),
    /// Calls.
    Calls(Vec<Call>),
}

impl Encoded for Payload {
    const NAME: &'static str = "log record";
}

/// The payload is larger than a batch may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the changes take {0} bytes, a batch has {MAX_BATCH_BYTES}: split them")]
pub struct EncodeError(pub usize);

/// Encodes changes as a [`Payload::Changes`].
///
/// # Errors
/// [`EncodeError`] over [`MAX_BATCH_BYTES`]: about 27 thousand sessions of short keys.
pub fn encode(changes: &[Change]) -> Result<Vec<u8>, EncodeError> {
    bounded(codec::encode(&(0_u8, changes)))
}

/// Encodes calls as a [`Payload::Calls`].
///
/// # Errors
/// [`EncodeError`] over [`MAX_BATCH_BYTES`].
pub fn encode_calls(calls: &[Call]) -> Result<Vec<u8>, EncodeError> {
    bounded(codec::encode(&(1_u8, calls)))
}

fn bounded(payload: Vec<u8>) -> Result<Vec<u8>, EncodeError> {
    if payload.len() <= MAX_BATCH_BYTES { Ok(payload) } else { Err(EncodeError(payload.len())) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::codec::DecodeError;
    use crate::engine::WriterId;
    use crate::record::{CallId, Closure, Epoch, Heirs, Reshape, Session};
    use proptest::prelude::*;
    use scalebricks_tables::compact::{Params, Structure};
    use scalebricks_types::{FlowKey, Key16, Key40, NodeId, PartitionCount};

    /// Any key.
    pub(crate) fn key() -> impl Strategy<Value = FlowKey> {
        prop_oneof![
            any::<[u64; 2]>().prop_map(|[a, b]| FlowKey::Short(Key16::from_words([a | 1, b]))),
            any::<[u64; 5]>().prop_map(|[a, b, c, d, e]| FlowKey::Long(Key40::from_words([
                a | 1,
                b,
                c,
                d,
                e
            ]))),
        ]
    }

    fn change() -> impl Strategy<Value = Change> {
        let epoch = prop_oneof![Just(0), any::<u32>()];
        let session = (any::<u8>(), epoch, any::<[u64; 2]>()).prop_map(|(node, epoch, value)| Session {
            node: NodeId::new(node),
            epoch: Epoch::new(epoch),
            value,
        });
        prop_oneof![
            (key(), session.clone()).prop_map(|(key, session)| Change::Upsert(key, session)),
            (key(), session).prop_map(|(key, session)| Change::Move(key, session)),
            key().prop_map(Change::Delete),
            (any::<u32>(), prop::sample::select(Structure::ALL.to_vec()), 1..100_u64, 1..=8_u8).prop_map(
                |(number, structure, keys, bits)| {
                    let to = Params::for_keys(structure, keys * 1000, bits, PartitionCount::ONE).unwrap();
                    Change::Reshape(Reshape { number, to })
                }
            ),
            (any::<u8>(), 1..=u32::MAX, prop::collection::btree_set(any::<u8>(), 0..256)).prop_map(
                |(node, epoch, heirs)| {
                    let heirs = heirs.into_iter().chain([node.wrapping_add(1)]).filter(|heir| *heir != node);
                    let heirs = Heirs::new(heirs.map(NodeId::new)).unwrap();
                    Change::Close(Closure { node: NodeId::new(node), epoch: Epoch::new(epoch), heirs })
                }
            ),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn payloads_survive_and_no_part_of_one_does(
            changes in proptest::collection::vec(change(), 0..20), by: u64, number in 1..1_u64 << 63, below in 0..1024_u64
        ) {
            let bytes = encode(&changes).unwrap();
            prop_assert_eq!(Payload::decode(&bytes), Ok(Payload::Changes(changes.clone())));
            for len in 0..bytes.len() {
                prop_assert!(Payload::decode(&bytes[..len]).is_err(), "cut to {} of {}", len, bytes.len());
            }
            let id = CallId { by: WriterId(by), number };
            let calls = vec![Call { id, oldest: number.saturating_sub(below).max(1), changes }];
            let bytes = encode_calls(&calls).unwrap();
            prop_assert_eq!(Payload::decode(&bytes), Ok(Payload::Calls(calls)));
            let longer = [&bytes[..], &[0]].concat();
            prop_assert!(Payload::decode(&longer).is_err());
        }

        /// Bytes that decode are the encoding of their value.
        #[test]
        fn each_value_has_one_encoding(changes in proptest::collection::vec(change(), 0..4), at: prop::sample::Index, octet: u8) {
            let mut bytes = encode(&changes).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = octet;
            if let Ok(payload) = Payload::decode(&bytes) {
                prop_assert_eq!(payload.encode(), bytes);
            }
        }
    }

    #[test]
    fn golden_bytes() {
        let value = [0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09];
        let session = Session { node: NodeId::new(3), epoch: Epoch::new(0x0102), value };
        let changes = [
            Change::Move(FlowKey::Short(Key16::from_words([5, 0x1122_3344])), session),
            Change::Close(Closure {
                node: NodeId::new(7),
                epoch: Epoch::new(0x15),
                heirs: Heirs::new([2, 1, 8, 255].map(NodeId::new)).unwrap(),
            }),
        ];
        #[rustfmt::skip]
        let mut bytes = vec![
            4, 0, 0, 2, 0, 0, 0,
            1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0,
            3, 2, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
            3, 7, 0x15, 0, 0, 0, 6, 1,
        ];
        bytes.extend([0; 29]);
        bytes.push(0x80);
        assert_eq!(encode(&changes).unwrap(), bytes);
        assert_eq!(Payload::decode(&bytes), Ok(Payload::Changes(changes.to_vec())));
        let closed_in = bytes.len() - 36..bytes.len() - 32;
        bytes[closed_in].fill(0);
        assert!(matches!(Payload::decode(&bytes), Err(DecodeError::Malformed { .. })), "epoch 0");
    }

    #[test]
    fn other_versions_are_refused() {
        for found in [0, 1, 2, 3, 5, u16::MAX] {
            let bytes = [&found.to_le_bytes()[..], &[0; 5]].concat();
            assert_eq!(Payload::decode(&bytes), Err(DecodeError::Version { what: Payload::NAME, found }));
        }
    }

    #[test]
    fn numbers_that_no_call_has_are_refused() {
        let call = |number, oldest| {
            let call = Call { id: CallId { by: WriterId(1), number }, oldest, changes: Vec::new() };
            Payload::decode(&encode_calls(&[call]).unwrap())
        };
        assert!(call(1, 1).is_ok() && call(1024, 1).is_ok());
        for (number, oldest) in [(0, 0), (1, 0), (1, 2), (1025, 1), (1 << 63, 1 << 63)] {
            assert!(call(number, oldest).is_err(), "{number}, {oldest}");
        }
    }

    #[test]
    fn hostile_counts_allocate_nothing() {
        for tag in [0, 1] {
            assert!(Payload::decode(&[4, 0, tag, 0xff, 0xff, 0xff, 0xff]).is_err());
        }
    }

    #[test]
    fn too_much_is_refused() {
        let change = Change::Delete(FlowKey::Short(Key16::from_words([5, 1])));
        let changes = vec![change; MAX_BATCH_BYTES / 18 + 1];
        assert!(encode(&changes).is_err());
    }
}
