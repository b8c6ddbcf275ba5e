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
    let delta = (any::<u16>(), any::<u32>(), 1..100_u64, prop::collection::vec(any::<u8>(), 0..40)).prop_map(
        |(partition, previous, step, payload)| Delta {
            kind: TableKind::SetSep,
            partition: PartitionId(partition),
            position: Position(u64::from(previous) + step),
            previous: Position(u64::from(previous)),
            payload,
        },
    );
    prop_oneof![
        (place(), any::<u64>(), prop::collection::vec(op, 0..9)).prop_map(
            |((partition, position), previous, ops)| {
                Message::Fib(FibUpdate { partition, position, previous: Position(previous), ops })
            }
        ),
        (place(), prop::collection::vec((key(), any::<[u64; 2]>()), 0..9)).prop_map(
            |((partition, position), entries)| Message::FibWhole(FibWhole { partition, position, entries })
        ),
        prop::collection::vec(delta, 0..4).prop_map(Message::Gpt),
        (place(), any::<[u64; 2]>(), any::<u32>(), prop::collection::vec((key(), any::<[u64; 2]>()), 0..9))
            .prop_map(|((partition, position), [keys, first], wrong, entries)| {
                Message::FibPiece(FibPiece { partition, position, keys, first, wrong, entries })
            }),
        (place(), any::<[u64; 3]>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(
            |((partition, position), [previous, bytes, first], part)| {
                let previous = Position(previous);
                Message::GptPiece(GptPiece { partition, position, previous, bytes, first, part })
            }
        ),
        (place(), any::<u32>())
            .prop_map(|((partition, gpt), digest)| { Message::Digest(Digest { partition, gpt, digest }) }),
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
                again: Some(shapes / 2),
                newest: Position(gpt ^ keys),
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
    fn reports_survive(partition: u16, words: [u64; 12], again: u32, wholes: u32, number: u32) {
        let [life, fib, whole, gpt, at, digest, parts @ ..] = words;
        let part = |[at, since, have]: [u64; 3]| Part { at: Position(at), since: Position(since), have };
        let [a, b, c, d, e, f] = parts;
        let first = Report {
            fib: Position(fib), whole: Position(whole), gpt: Position(gpt), ..Report::new(PartitionId(partition), life)
        };
        let second = Report { again, ..first };
        let room = FibRoom { used: a, capacity: b, shed: c };
        let sweep = Sweep { number, at: Position(at), digest: FibDigest::from_u64(digest) };
        let third = Report { wholes, fib_part: part([a, b, c]), gpt_part: part([d, e, f]), sweep, room, let_go: Position(f), ..second };
        for (version, said) in [(Version::FIRST, first), (Version::RESHAPES, second), (Version::PIECES, third)] {
            let bytes = third.encode(version);
            prop_assert_eq!(Report::len(&bytes), Some(bytes.len()));
            prop_assert_eq!(Report::decode(&bytes), Ok(said));
            prop_assert_eq!(Report::decode(&bytes[..bytes.len() - 1]), Err(DecodeError::Truncated(0)));
            prop_assert!(Message::decode(&bytes).is_err());
        }
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
        again: Some(2),
        newest: gpt,
    };
    let old = Message::Target(target).encode(Version::FIRST);
    assert_eq!(old.len(), 4 + 2 + 5 * 8);
    assert_eq!(
        Message::decode(&old),
        Ok(Message::Target(Target { keys: 0, shapes: 0, again: None, ..target }))
    );
    let digest = Message::Digest(Digest { partition, gpt, digest: 1 });
    assert_eq!(Message::decode(&digest.encode(Version::FIRST)), Ok(Message::Gpt(Vec::new())));
    let mut forged = digest.encode(Version::NEWEST);
    forged[0] = 1;
    assert_eq!(Message::decode(&forged), Err(DecodeError::Kind(0, kind::DIGEST)));
    let rewind = Message::Rewind(Rewind { partition, life: 1, again: 2, last: gpt });
    assert_eq!(Message::decode(&rewind.encode(Version::RESHAPES)), Ok(Message::Gpt(Vec::new())));
    let piece = FibPiece { partition, position: gpt, keys: 1, first: 0, wrong: 0, entries: Vec::new() };
    let bytes = Message::FibPiece(piece.clone()).encode(Version::RESHAPES);
    assert_eq!(Message::decode(&bytes), Ok(Message::Gpt(Vec::new())));
    let mut forged = Message::FibPiece(piece).encode(Version::PIECES);
    forged[0] = 2;
    assert_eq!(Message::decode(&forged), Err(DecodeError::Kind(0, kind::FIB_PIECE)));
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
    for kind in [kind::FIB_WHOLE, kind::GPT, kind::FIB_PIECE, kind::GPT_PIECE] {
        let mut bytes = start(kind, Version::PIECES);
        bytes.extend([0xff; 40]);
        assert!(Message::decode(&bytes).is_err());
    }
}
