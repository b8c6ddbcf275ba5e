//! Any bytes decode as changes, as a message and as the state of a partition, or give an error; what was decoded
//! encodes to the same bytes. A partition applies any log entry without a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_control::calls::{decode_answers, encode_answers};
use scalebricks_control::distribution::{Message, Report};
use scalebricks_control::engine::{Batch, BatchId, Entry, WriterId};
use scalebricks_control::partition::Partition;
use scalebricks_control::record::{
    Call, CallId, Change, Closure, Epoch, Heirs, Payload, Session, decode_payload, encode, encode_calls,
};
use scalebricks_control::shape::Shape;
use scalebricks_control::version::Version;
use scalebricks_tables::compact::{Params, Structure};
use scalebricks_types::{FlowKey, HashSeed, KeyHasher, NodeId, PartitionCount, PartitionId, Position, Teid};
use std::sync::OnceLock;

const HASHER: KeyHasher = KeyHasher::new(HashSeed::from_u64(5));

fn empty() -> Partition {
    Partition::new(PartitionId(0), Params::for_keys(Structure::SetSep, 100, 2, PartitionCount::ONE).unwrap(), HASHER)
}

fn entry(position: u64, payload: &[u8]) -> Entry {
    let id = BatchId { writer: WriterId(1), number: position };
    Entry { position: Position(position), batch: Batch { id, payload: payload.into() } }
}

fn sample() -> &'static Vec<u8> {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let session = |node| Session::new(NodeId::new(node), [1, 2]);
        let change = |teid: u32| Change::Upsert(FlowKey::teid(Teid::new(teid)), session(teid as u8 % 4));
        let mut changes: Vec<Change> = (1..40).map(change).collect();
        let heirs = Heirs::new([1, 2].map(NodeId::new)).unwrap();
        changes.push(Change::Close(Closure { node: NodeId::new(3), epoch: Epoch::new(5), heirs }));
        let mut partition = empty();
        partition.apply(&entry(1, &encode(&changes).unwrap())).unwrap();
        let call = |number: u64| {
            let id = CallId { by: WriterId(2), number };
            Call { id, oldest: 1, changes: vec![Change::Delete(FlowKey::teid(Teid::new(number as u32 * 30)))] }
        };
        partition.apply(&entry(2, &encode_calls(&[call(1), call(2)]).unwrap())).unwrap();
        partition.snapshot()
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    match mode % 3 {
        0 => {
            if let Ok(shape) = Shape::decode(bytes) {
                assert_eq!(shape.encode(), bytes);
            }
            let version = || Version::known(u16::from_le_bytes([bytes[0], bytes[1]])).unwrap();
            if let Ok(message) = Message::decode(bytes) {
                assert_eq!(message.encode(version()), bytes);
            }
            if let Ok(report) = Report::decode(bytes) {
                assert_eq!(report.encode(version()), bytes);
            }
            match decode_payload(bytes) {
                Ok(Payload::Changes(changes)) => assert_eq!(encode(&changes).unwrap(), bytes),
                Ok(Payload::Calls(calls)) => assert_eq!(encode_calls(&calls).unwrap(), bytes),
                Err(_) => {}
            }
            if let Ok((partition, answers)) = decode_answers(bytes) {
                assert_eq!(encode_answers(partition, &answers), bytes);
            }
            let mut partition = empty();
            let Ok(effects) = partition.apply(&entry(1, bytes)) else { return };
            assert_eq!(partition.apply(&entry(2, bytes)).unwrap().is_void(), effects.is_void());
            assert_eq!(Partition::restore(&partition.snapshot(), HASHER).unwrap().snapshot(), partition.snapshot());
        }
        1 => restore(bytes.to_vec()),
        _ => {
            // A valid snapshot, edited in places, with a corrected checksum.
            let mut snapshot = sample().clone();
            for edit in bytes.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % snapshot.len();
                snapshot[at] = edit[2];
            }
            let body = snapshot.len() - 4;
            let checksum = crc32fast::hash(&snapshot[..body]);
            snapshot[body..].copy_from_slice(&checksum.to_le_bytes());
            restore(snapshot);
        }
    }
});

fn restore(bytes: Vec<u8>) {
    if let Ok(partition) = Partition::restore(&bytes, HASHER) {
        let again = partition.snapshot();
        assert_eq!(Partition::restore(&again, HASHER).unwrap().snapshot(), again);
    }
}
