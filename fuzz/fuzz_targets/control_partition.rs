//! Any bytes decode to a record, message or snapshot, or to an error, and a value encodes to the bytes that it was decoded from. A
//! partition accepts any entry of its version.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_control::agent::Packet;
use scalebricks_control::codec::Encoded;
use scalebricks_control::engine::{Batch, BatchId, Entry, WriterId};
use scalebricks_control::membership::{Beat, Placement, View};
use scalebricks_control::partition::Partition;
use scalebricks_control::record::{
    Call, CallId, Change, Closure, Epoch, Heirs, Payload, Session, encode, encode_calls,
};
use scalebricks_control::shape::Shape;
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
            decode::<Shape>(bytes);
            decode::<View>(bytes);
            decode::<Placement>(bytes);
            decode::<Beat>(bytes);
            decode::<Packet>(bytes);
            decode::<Payload>(bytes);
            let mut partition = empty();
            let Ok(effects) = partition.apply(&entry(1, bytes)) else { return };
            assert_eq!(partition.apply(&entry(2, bytes)).unwrap().is_void(), effects.is_void());
            assert_eq!(Partition::restore(&partition.snapshot(), HASHER).unwrap().snapshot(), partition.snapshot());
        }
        1 => restore(bytes.to_vec()),
        _ => {
            // A good one, edited in places, with its checksum made right again.
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

/// A value encodes to the bytes that it was decoded from.
fn decode<T: Encoded>(bytes: &[u8]) {
    if let Ok(value) = T::decode(bytes) {
        assert_eq!(value.encode(), bytes, "{}", T::NAME);
    }
}

fn restore(bytes: Vec<u8>) {
    if let Ok(partition) = Partition::restore(&bytes, HASHER) {
        let again = partition.snapshot();
        assert_eq!(Partition::restore(&again, HASHER).unwrap().snapshot(), again);
    }
}
