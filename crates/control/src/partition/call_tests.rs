//! Batches of calls: each is judged on its own, once.

use super::tests::{HASHER, MINE, PARTITIONS, Twin, change, empty, keys, params_of};
use super::*;
use crate::codec::DecodeError;
use crate::engine::{Batch, BatchId, WriterId};
use crate::record::{Call, encode_calls};
use proptest::prelude::*;
use scalebricks_tables::compact::{Reader, Structure, Table};
use scalebricks_types::PartitionCount;
use std::collections::BTreeMap;

fn entry(position: u64, calls: &[Call]) -> Entry {
    // The batch id is irrelevant: a batch of another owner may have the same calls.
    let id = BatchId { writer: WriterId(1), number: 1 };
    let payload = encode_calls(calls).unwrap().into();
    Entry { position: Position(position), batch: Batch { id, payload } }
}

fn call(by: u64, number: u64, changes: Vec<Change>) -> Call {
    Call { id: CallId { by: WriterId(by), number }, oldest: 1.max(number.saturating_sub(1_000)), changes }
}

fn upserts(keys: &[FlowKey], node: u8) -> Vec<Change> {
    keys.iter().map(|key| Change::Upsert(*key, Session::new(NodeId::new(node), [1, 2]))).collect()
}

/// A simple model: what the partition should hold, and the verdicts of all calls.
struct Model {
    twin: Twin,
    verdicts: BTreeMap<CallId, (u64, Vec<u32>)>,
}

impl Model {
    /// The call's position and its void changes, as they were at first.
    fn execute(&mut self, position: u64, call: &Call) -> (u64, Vec<u32>) {
        if let Some(known) = self.verdicts.get(&call.id) {
            return known.clone();
        }
        let changes = (0..).zip(&call.changes);
        let voids = changes.filter(|(_, change)| !self.twin.make(Position(position), change));
        let voids: Vec<u32> = voids.map(|(number, _)| number).collect();
        self.verdicts.insert(call.id, (position, voids.clone()));
        (position, voids)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any calls in any batches, repeated or not: the partition agrees with a map, each call keeps its first verdict, deltas lead
    /// a table to the bits, and a partition restored from a snapshot behaves the same.
    #[test]
    fn calls_agree_with_a_model(
        structure in prop::sample::select(Structure::ALL.to_vec()),
        batches in prop::collection::vec(
            prop::collection::vec((1..4_u64, 1..40_u64, prop::collection::vec(change(12), 0..4)), 0..5), 1..40),
        restored_at: prop::sample::Index,
    ) {
        let mut first = BTreeMap::new();
        let empty = || Partition::new(MINE, params_of(structure), HASHER);
        let (mut partition, mut other, mut model) = (empty(), empty(), Model {
            twin: Twin::new(params_of(structure)),
            verdicts: BTreeMap::new(),
        });
        let table = Table::new(params_of(structure));
        let restored_at = restored_at.index(batches.len());
        for (position, batch) in (1..).zip(&batches) {
            // A repeated call gets the same verdict.
            let calls: Vec<Call> = batch.iter().map(|(by, number, changes)| {
                first.entry((*by, *number)).or_insert_with(|| call(*by, *number, changes.clone())).clone()
            }).collect();
            let entry = entry(position, &calls);
            let effects = partition.apply(&entry).unwrap();
            if position as usize == restored_at {
                other = Partition::restore(&other.snapshot(), HASHER).unwrap();
            }
            prop_assert_eq!(&effects, &other.apply(&entry).unwrap());
            for call in &calls {
                let wanted = model.execute(position, call);
                let told = effects.calls.iter().filter(|(id, _)| *id == call.id);
                let told: Vec<&Verdict> = told.map(|(_, verdict)| verdict).collect();
                prop_assert_eq!(told.len(), 1);
                let voids: Vec<u32> = told[0].voids.iter().map(|(number, _)| *number).collect();
                prop_assert_eq!((told[0].position.0, &voids), (wanted.0, &wanted.1));
                prop_assert_eq!(told[0].outcome, Outcome::Done);
                let (verdict, told) = (partition.verdict(call.id), told[0].clone());
                prop_assert_eq!(verdict, Some(told));
            }
            if let Some(delta) = &effects.gpt {
                let _ = table.apply(delta).unwrap();
            }
        }
        let held: Vec<(FlowKey, Session)> = partition.sessions().collect();
        let wanted: Vec<_> = model.twin.sessions.into_values().map(|(key, session, _)| (key, session)).collect();
        prop_assert_eq!(&held, &wanted);
        let mut reader = Reader::new(&table);
        for (key, session) in &held {
            prop_assert_eq!(reader.get(HASHER.hash(key)), session.node.get());
        }
        prop_assert_eq!(partition.snapshot(), other.snapshot());
    }
}

/// One call that is too large for the room does not take along those that share its batch.
#[test]
fn a_call_without_room_leaves_the_others_of_its_batch_alone() {
    Structure::ALL.into_iter().for_each(is_left_alone);
}

fn is_left_alone(structure: Structure) {
    let small = Params::for_keys(structure, 1_000, 3, PartitionCount::new(PARTITIONS).unwrap()).unwrap();
    let mut partition = Partition::new(MINE, small, HASHER);
    let keys = keys(8_000);
    let _ = partition.apply(&entry(1, &[call(1, 1, upserts(&keys[..50], 1))])).unwrap();
    let table = Table::new(small);
    let _ = table.apply(&partition.gpt().unwrap()).unwrap();

    let too_large = call(2, 1, upserts(&keys[60..7_900], 2));
    let mixed = vec![Change::Move(keys[55], Session::new(NodeId::new(3), [0; 2]))];
    let batch = [
        call(1, 2, upserts(&keys[50..55], 3)),
        too_large.clone(),
        call(3, 1, upserts(&keys[55..60], 4)),
        call(1, 3, mixed),
        call(4, 1, upserts(&keys[45..46], 5)),
    ];
    let effects = partition.apply(&entry(2, &batch)).unwrap();
    let outcomes: Vec<Outcome> = effects.calls.iter().map(|(_, verdict)| verdict.outcome).collect();
    let wanted = [Outcome::Done, Outcome::Void(Void::NoRoom), Outcome::Done, Outcome::Done, Outcome::Done];
    assert_eq!(outcomes, wanted, "{structure}");
    assert_eq!(partition.len(), 60);
    for (key, node) in
        keys[..60].iter().zip([vec![1; 45], vec![5], vec![1; 4], vec![3; 5], vec![3], vec![4; 4]].concat())
    {
        assert_eq!(partition.session(key).map(|(session, _)| session.node.get()), Some(node));
    }

    // The whole bits lead on from the previous position, and to the next.
    let delta = effects.gpt.unwrap();
    assert_eq!((delta.previous, delta.position), (Position(1), Position(2)));
    let _ = table.apply(&delta).unwrap();
    let effects = partition.apply(&entry(3, &[call(1, 4, upserts(&keys[..1], 6))])).unwrap();
    let _ = table.apply(&effects.gpt.unwrap()).unwrap();
    let mut reader = Reader::new(&table);
    assert!(partition.sessions().all(|(key, session)| reader.get(HASHER.hash(&key)) == session.node.get()));
    assert_eq!(table.digest(MINE), Some((Position(3), partition.digest().unwrap())));

    // Its verdict stays, also after a restore.
    let mut restored = Partition::restore(&partition.snapshot(), HASHER).unwrap();
    for partition in [&mut partition, &mut restored] {
        let again = partition.apply(&entry(4, std::slice::from_ref(&too_large))).unwrap();
        assert_eq!(again.calls, [(too_large.id, Verdict::void(Position(2), Void::NoRoom))]);
    }
}

#[test]
fn a_request_of_a_process_that_was_forgotten_is_void() {
    let mut partition = empty();
    let keys = keys(2);
    for by in 2..MAX_REQUESTERS as u64 + 3 {
        let _ = partition.apply(&entry(partition.position().0 + 1, &[call(by, 1, Vec::new())])).unwrap();
    }
    let position = partition.position().0 + 1;
    let effects = partition.apply(&entry(position, &[call(1, 1, upserts(&keys[..1], 1))])).unwrap();
    assert_eq!(effects.calls[0].1, Verdict::void(Position(position), Void::WriterRetired));
    assert!(effects.calls[0].1.is_forgotten() && partition.is_empty());
}

/// Of calls with many changes that do nothing, a snapshot keeps some.
#[test]
fn few_void_changes_are_remembered_and_all_are_counted() {
    let mut partition = empty();
    let deletes = keys(300)[..300].iter().map(|key| Change::Delete(*key)).collect();
    let effects = partition.apply(&entry(1, &[call(1, 1, deletes)])).unwrap();
    let verdict = &effects.calls[0].1;
    assert_eq!((verdict.void_changes, verdict.voids.len(), effects.voids.len()), (300, MAX_VOIDS, 300));
    let restored = Partition::restore(&partition.snapshot(), HASHER).unwrap();
    assert_eq!(restored.verdict(effects.calls[0].0).as_ref(), Some(verdict));
}

#[test]
fn snapshots_of_other_versions_are_refused() {
    let mut bytes = empty().snapshot();
    for found in [1, 2, 5] {
        bytes[8] = found as u8;
        let error = DecodeError::Version { what: "snapshot of a partition", found };
        assert_eq!(Partition::restore(&bytes, HASHER).err(), Some(SnapshotError::Decode(error)));
    }
}
