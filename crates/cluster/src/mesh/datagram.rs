//! Encoding and authentication of datagrams.

use super::keys::{self, MAC_BYTES};
use borsh::{BorshDeserialize, BorshSerialize};
use ring::hmac::Key;
use scalebricks_types::NodeId;

/// Most bytes of a heartbeat's payload.
pub const BEAT_BYTES: usize = 1200;

/// First byte of all datagrams.
const VERSION: u8 = 2;

/// Bytes before the payload: version, kind, sender, receiver, session, counter, two tickets.
const HEAD_BYTES: usize = 4 + 16 + 8 + 16 + 16;

/// Most bytes of a datagram.
pub(super) const DATAGRAM_BYTES: usize = HEAD_BYTES + BEAT_BYTES + MAC_BYTES;

/// One start of a node, drawn at random.
pub(super) type SessionId = [u8; 16];

/// A value that a receiver wants to see again.
pub(super) type Ticket = [u8; 16];

/// The ticket of a sender that has not heard the receiver.
pub(super) const NO_TICKET: Ticket = [0; 16];

/// The kind of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
#[borsh(use_discriminant = true)]
pub(super) enum Kind {
    /// A heartbeat, with a payload.
    Beat = 1,
    /// Tickets only.
    Greeting = 2,
}

/// The header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(super) struct Head {
    pub(super) kind: Kind,
    pub(super) sender: NodeId,
    pub(super) receiver: NodeId,
    pub(super) session: SessionId,
    /// Rises with each datagram of a session to this receiver.
    pub(super) counter: u64,
    /// The ticket that the sender wants to see.
    pub(super) gives: Ticket,
    /// The ticket that the receiver wanted to see.
    pub(super) bears: Ticket,
}

/// Why a datagram was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Malformed,
    WrongKey,
}

/// The datagram's bytes. The payload is at most [`BEAT_BYTES`] long.
pub(super) fn encode(key: &Key, head: &Head, payload: &[u8]) -> Vec<u8> {
    // Writing to memory does not fail.
    let mut bytes = borsh::to_vec(&(VERSION, head)).unwrap_or_default();
    bytes.extend_from_slice(payload);
    let mac = keys::mac(key, &[&bytes]);
    bytes.extend_from_slice(&mac);
    bytes
}

/// Decodes a datagram, if its sender has the key.
pub(super) fn decode<'a>(key: &Key, bytes: &'a [u8]) -> Result<(Head, &'a [u8]), Refusal> {
    if bytes.len() > DATAGRAM_BYTES {
        return Err(Refusal::Malformed);
    }
    let (said, mac) = bytes.split_last_chunk::<MAC_BYTES>().ok_or(Refusal::Malformed)?;
    let (head, payload) = parse(said).ok_or(Refusal::Malformed)?;
    if !keys::is_same(mac, &keys::mac(key, &[said])) {
        return Err(Refusal::WrongKey);
    }
    Ok((head, payload))
}

fn parse(mut said: &[u8]) -> Option<(Head, &[u8])> {
    let (version, head) = <(u8, Head)>::deserialize(&mut said).ok()?;
    let is_valid = version == VERSION && (head.kind == Kind::Beat || said.is_empty());
    is_valid.then_some((head, said))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::config::ClusterKey;
    use crate::mesh::keys::Keys;
    use proptest::prelude::*;

    fn key() -> Key {
        Keys::new("test", &ClusterKey::new(&[9; 32]).unwrap()).datagrams
    }

    fn heads() -> impl Strategy<Value = (Head, Vec<u8>)> {
        let numbers = (any::<u8>(), any::<u8>(), any::<u64>());
        let blobs = (any::<SessionId>(), any::<Ticket>(), any::<Ticket>());
        (any::<bool>(), numbers, blobs, prop::collection::vec(any::<u8>(), 0..=BEAT_BYTES)).prop_map(
            |(is_beat, (sender, receiver, counter), (session, gives, bears), payload)| {
                let kind = if is_beat { Kind::Beat } else { Kind::Greeting };
                let (sender, receiver) = (NodeId::new(sender), NodeId::new(receiver));
                let head = Head { kind, sender, receiver, session, counter, gives, bears };
                (head, if is_beat { payload } else { Vec::new() })
            },
        )
    }

    proptest! {
        #[test]
        fn datagrams_survive_encoding((head, payload) in heads()) {
            let bytes = encode(&key(), &head, &payload);
            prop_assert!(bytes.len() <= DATAGRAM_BYTES);
            prop_assert_eq!(decode(&key(), &bytes), Ok((head, &payload[..])));
        }

        #[test]
        fn altered_or_cut_datagrams_are_refused((head, payload) in heads(), at: prop::sample::Index, bit in 0_u32..8) {
            let bytes = encode(&key(), &head, &payload);
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= 1_u8 << bit;
            prop_assert!(decode(&key(), &changed).is_err());
            prop_assert!(decode(&key(), &bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert!(decode(&key(), &bytes).is_err());
        }
    }

    #[test]
    fn the_form_does_not_change() {
        let (sender, receiver) = (NodeId::new(3), NodeId::new(4));
        let (session, gives, bears) = ([5; 16], [7; 16], [8; 16]);
        let head = Head { kind: Kind::Beat, sender, receiver, session, counter: 6, gives, bears };
        let bytes = encode(&key(), &head, b"hi");
        let said =
            [&[2, 1, 3, 4][..], &[5; 16], &[6, 0, 0, 0, 0, 0, 0, 0], &[7; 16], &[8; 16], b"hi"].concat();
        assert_eq!(bytes[..62], said);
        assert_eq!(bytes.len(), 94);
        let other = Keys::new("other", &ClusterKey::new(&[9; 32]).unwrap()).datagrams;
        assert_eq!(decode(&other, &bytes), Err(Refusal::WrongKey));
    }
}
