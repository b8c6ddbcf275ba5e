//! Deltas: replicas end bit-identical even if deltas are lost or repeated, and invalid deltas are refused.

use super::*;
use crate::gpt::{Gpt, KeyBatch};
use crate::published::tests::replica::{self, Churned};
use proptest::prelude::*;
use scalebricks_types::{Applied, ApplyError, FlowKey, NodeHint, PartitionId, Position, TableKind, Teid};

fn churned(params: Params, count: u64, steps: u64) -> Churned<SetSepStructure> {
    replica::churned(params, params.value_bits(), count, steps)
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn lost_deltas_are_gaps_repeated_ones_stale_and_an_export_heals() {
    for format in Format::ALL {
        replica::lost_deltas_are_gaps_and_an_export_heals(churned(params_in(format, 6000, 3, 4), 6000, 2000));
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn an_export_replaces_what_a_replica_held_at_an_older_position() {
    let (start, control, _) = churned(params_in(Format::Paper8x16, 100, 2, 1), 100, 50);
    assert_eq!(start.apply(&control.export_partition(PartitionId(0)).unwrap()), Ok(Applied::Advanced));
    assert!(bytes_of(&start) == bytes_of(&control.export()));
    assert_eq!(SetSepControl::new(params(100, 2, 1)).export_partition(PartitionId(0)), None);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn deltas_for_others_are_refused_by_name() {
    let foreign = churned(params(500, 2, 2).with_seed(8), 500, 1);
    replica::deltas_for_others_are_refused_by_name(&churned(params(500, 2, 2), 500, 3), &foreign);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn every_truncation_of_a_payload_is_refused_and_changes_nothing() {
    replica::every_truncation_is_refused(&churned(params(300, 2, 1), 300, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None,
        ..ProptestConfig::default() })]
    #[test]
    #[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
    fn hostile_payloads_are_refused_or_leave_a_sound_table(
        flips in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        noise: Vec<u8>,
        random: bool,
    ) {
        let params = params_in(Format::Paper8x16, 300, 2, 1);
        let (table, _, mut deltas) = churned(params, 300, 1);
        let before = bytes_of(&table);
        let payload = &mut deltas[0].payload;
        if random {
            payload.truncate(4);
            payload.extend(noise);
        }
        for flip in flips {
            let bit = flip.index(payload.len() * 8);
            payload[bit / 8] ^= 1 << (bit % 8);
        }
        match table.apply(&deltas[0]) {
            Err(ApplyError::Malformed(_) | ApplyError::Full(_)) => prop_assert!(bytes_of(&table) == before),
            Err(error) => prop_assert!(false, "{error}"),
            Ok(_) => prop_assert!(SetSep::read_snapshot(&bytes_of(&table)[..]).is_ok()),
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn the_fallback_has_a_limit_that_replicas_share() {
    // All keys in one bucket: no choice can spread them, and 40 keys of random values have no solution in 8
    // cells.
    let crowd: Vec<_> = (0..40).map(|i| (KeyHash::new(i), (mix64(i) & 3) as u8)).collect();
    let inserts: Vec<Op> = crowd.iter().map(|&(hash, value)| Op::Insert(hash, value)).collect();
    let params = params(4000, 2, 1).with_fallback_lines(7).unwrap();
    let mut control = SetSepControl::new(params);
    let replica = Arc::new(SetSep::new(params));
    for delta in control.batch(&inserts).unwrap() {
        assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
    }
    assert_eq!((control.stats().fallback_keys, control.stats().marked_groups), (40, 1));
    assert_eq!(replica.stats().fallback_keys, 40);
    assert_answers(&replica, &crowd);
    // For a key that was never inserted, the fallback returns 0.
    assert_eq!(SetSepReader::new(Arc::clone(&replica)).pin().get(KeyHash::new(1 << 20)), 0);

    let before = control_bytes(&control);
    let more: Vec<Op> = (0..3).map(|i| Op::Insert(KeyHash::new(100 + i), 1)).collect();
    let full = UpdateError::Full(Full::Fallback { partition: PartitionId(0), need: 8, limit: 7 });
    assert_eq!(control.batch(&more), Err(full));
    assert!(control_bytes(&control) == before);

    // Once enough keys are removed, the group is solved again and leaves the fallback.
    let removals: Vec<Op> = crowd[8..].iter().map(|&(hash, _)| Op::Remove(hash)).collect();
    for delta in control.batch(&removals).unwrap() {
        assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
    }
    assert_eq!((control.stats().fallback_keys, replica.stats().fallback_keys), (0, 0));
    assert_answers(&replica, &crowd[..8]);
    assert!(bytes_of(&replica) == bytes_of(&control.export()));
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_full_block_and_a_foreign_key_are_refused_whole() {
    let params = params(2000, 1, 2);
    let mut control = SetSepControl::for_partitions(params, [PartitionId(0)]);
    let spread = |i: u64| KeyHash::new(mix64(i) >> 1); // in partition 0, one block
    let many: Vec<Op> =
        (0..params.format().block_capacity() as u64).map(|i| Op::Insert(spread(i), 0)).collect();
    assert_eq!(control.batch(&many).map(|deltas| deltas.len()), Ok(1));
    let before = control_bytes(&control);
    let foreign = KeyHash::new(u64::MAX);
    let batches = [
        (
            vec![Op::Remove(spread(3)), Op::Insert(spread(3), 1), Op::Insert(spread(5000), 0)],
            UpdateError::Full(Full::Block { block: 0, need: 1985, limit: 1984 }),
        ),
        (
            vec![Op::Update(spread(1), 1), Op::Insert(foreign, 0)],
            UpdateError::NotHeld { op: 1, partition: PartitionId(1) },
        ),
        (
            vec![Op::Update(spread(1), 1), Op::Update(spread(2), 2)],
            UpdateError::Value { op: 1, value: 2, bits: 1 },
        ),
        (
            vec![Op::Remove(spread(1)), Op::Remove(spread(1)), Op::Insert(foreign, 0)],
            UpdateError::Missing { op: 1 },
        ),
    ];
    for (batch, error) in batches {
        assert_eq!(control.batch(&batch), Err(error));
        assert!(control_bytes(&control) == before, "{error}");
    }
    assert_eq!(control.batch(&[]), Ok(vec![]));
    assert_eq!(control.get(foreign), None);
    assert!(!control.holds(PartitionId(1)) && control.export_partition(PartitionId(1)).is_none());
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn the_table_is_a_gpt() {
    let keys: Vec<FlowKey> = (0..700).map(|i| FlowKey::teid(Teid::new(i))).collect();
    let hashes: Vec<KeyHash> = (0..700).map(|i| entry(i, 2, 0).0).collect();
    let table: Arc<dyn Gpt> =
        Arc::new(SetSepBuilder::new(params(700, 2, 1)).build(&entries(700, 2, 0)).unwrap().export());
    let mut hints = vec![NodeHint::NONE; 700];
    Arc::clone(&table).reader().lookup_batch(KeyBatch::new(&keys, &hashes), &mut hints);
    assert!((0..700).all(|i| hints[i as usize] == NodeHint::new(entry(i, 2, 0).1.into())));
    assert_eq!(table.kind(), TableKind::SetSep);
    assert_eq!(table.position(PartitionId(0)), Some(Position(1)));
    assert!(table.table_bytes() > 440);
}

#[test]
fn deltas_lead_to_the_positions_of_a_log() {
    let params = params_in(Format::default(), 1000, 2, 4);
    let mut control = SetSepControl::new(params);
    let replica = SetSep::new(params);
    let hash = entry(1, 2, 0).0;
    let partition = params.partitions().of(hash);
    let elsewhere =
        (2..99).map(|i| entry(i, 2, 0).0).find(|other| params.partitions().of(*other) != partition).unwrap();
    for (position, previous, op) in
        [(7, 0, Op::Insert(hash, 1)), (8, 7, Op::Update(hash, 2)), (1000, 8, Op::Remove(hash))]
    {
        let delta = control.batch_to(Position(position), &[op]).unwrap().unwrap();
        assert_eq!((delta.position, delta.previous), (Position(position), Position(previous)));
        assert_eq!(replica.apply(&delta).unwrap(), Applied::Advanced);
    }
    assert_eq!(control.batch_to(Position(2000), &[]), Ok(None));
    let taken = control.batch_to(Position(1000), &[Op::Insert(hash, 1)]);
    assert_eq!(taken, Err(UpdateError::Position { partition }));
    let two = control.batch_to(Position(1001), &[Op::Insert(hash, 1), Op::Insert(elsewhere, 1)]);
    assert!(matches!(two, Err(UpdateError::NotHeld { op: 1, .. })), "{two:?}");
    // A refused operation leaves the position unchanged.
    let delta = control.insert(hash, 1).unwrap();
    assert_eq!((delta.position, delta.previous), (Position(1001), Position(1000)));
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_table_begins_anew_under_its_readers() {
    let (small, large) = (params(3000, 2, 2), params(9000, 3, 2));
    let table = Arc::new(SetSepBuilder::new(small).build(&entries(3000, 2, 0)).unwrap().export());
    let mut reader = SetSepReader::new(Arc::clone(&table));
    assert_answers(&table, &entries(3000, 2, 0));
    table.restart(large);
    assert_eq!((table.params(), table.stats().fallback_keys), (large, 0));
    let _any = reader.pin().get(entry(5, 2, 0).0);
    let control = SetSepBuilder::new(large).build(&entries(9000, 3, 1)).unwrap();
    for partition in [0, 1].map(PartitionId) {
        let whole = control.export_partition(partition).unwrap();
        assert_eq!(table.apply(&whole), Ok(Applied::Advanced));
    }
    assert_answers(&table, &entries(9000, 3, 1));
    let (hash, value) = entry(5, 3, 1);
    assert_eq!(reader.pin().get(hash), value, "an old reader, too");
}
