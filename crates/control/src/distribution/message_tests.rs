use super::*;
use crate::agent::Packet;
use crate::codec::Encoded;
use proptest::prelude::*;
use scalebricks_tables::fib::FibOp;
use scalebricks_types::{Key16, TableKind};

fn key() -> impl Strategy<Value = FlowKey> {
    any::<[u64; 2]>().prop_map(|[a, b]| FlowKey::Short(Key16::from_words([a | 1, b])))
}

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
            let (fib, gpt, newest) = (Position(fib), Position(gpt), Position(gpt ^ keys));
            let again = shapes / 2;
            Message::Target(Target { partition, life, settled, fib, gpt, room, keys, shapes, again, newest })
        }),
    ]
}

fn packet() -> impl Strategy<Value = Packet> {
    let report = (any::<u16>(), any::<[u64; 12]>(), any::<[u32; 3]>()).prop_map(
        |(partition, words, [again, wholes, number])| {
            let [life, fib, whole, gpt, at, let_go, a, b, c, d, e, f] = words;
            let part = |[at, since, have]: [u64; 3]| Part { at: Position(at), since: Position(since), have };
            let (fib, whole, gpt, let_go) = (Position(fib), Position(whole), Position(gpt), Position(let_go));
            let (fib_part, gpt_part) = (part([a, b, c]), part([d, e, f]));
            let room = FibRoom { used: a, capacity: b, shed: c };
            let sweep = Sweep { number, at: Position(at), digest: FibDigest::default() };
            let new = Report::new(PartitionId(partition), life);
            Report { fib, whole, gpt, again, wholes, fib_part, gpt_part, sweep, room, let_go, ..new }
        },
    );
    prop_oneof![
        4 => message().prop_map(Packet::Message),
        1 => prop::collection::vec(report, 0..4).prop_map(Packet::Reports),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_survive_and_no_part_of_one_is_one(packet in packet(), at: prop::sample::Index, octet: u8) {
        let mut bytes = packet.encode();
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
        for len in 0..bytes.len() {
            prop_assert!(Packet::decode(&bytes[..len]).is_err(), "cut to {} of {}", len, bytes.len());
        }
        let at = at.index(bytes.len());
        bytes[at] = octet;
        if let Ok(packet) = Packet::decode(&bytes) {
            prop_assert_eq!(packet.encode(), bytes);
        }
    }
}

#[test]
fn golden_bytes() {
    let delete = FibOp::Delete(FlowKey::Short(Key16::from_words([5, 0x1122_3344])));
    let (partition, position, previous) = (PartitionId(3), Position(9), Position(7));
    let update = FibUpdate { partition, position, previous, ops: vec![delete] };
    #[rustfmt::skip]
    let bytes = [
        4, 0, 0, 0, 3, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
        1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0,
    ];
    assert_eq!(Packet::Message(Message::Fib(update)).encode(), bytes);
}

#[test]
fn hostile_counts_are_refused() {
    for kind in 0..=u8::MAX {
        let bytes = [&[4, 0, 0, kind][..], &[0xff; 60]].concat();
        assert!(Packet::decode(&bytes).is_err());
    }
}
