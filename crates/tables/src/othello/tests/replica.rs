//! Deltas: replicas end bit-identical even if deltas are lost or repeated, and invalid deltas are refused.

use super::*;
use crate::gpt::{Gpt, KeyBatch};
use crate::published::tests::replica::{self, Churned};
use proptest::prelude::*;
use scalebricks_types::{Applied, FlowKey, NodeHint, PartitionId, Position, TableKind, Teid};

fn churned(params: Params, count: u64, steps: u64) -> Churned<OthelloStructure> {
    replica::churned(params, params.value_bits(), count, steps)
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn lost_deltas_are_gaps_repeated_ones_stale_and_an_export_heals() {
    let churned = churned(params(6000, 3, 4), 6000, 2000);
    assert!(churned.1.stats().reseeded > 0);
    replica::lost_deltas_are_gaps_and_an_export_heals(churned);
}

/// Several switches of one controller: query structures that started at different times follow one stream.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn many_query_structures_follow_one_graph_and_one_may_be_changed_along() {
    let mut control = OthelloBuilder::new(params(4000, 4, 2)).build(&entries(4000, 4, 0)).unwrap();
    let own = control.export();
    let mut followers = vec![control.export()];
    for turn in 0..60 {
        let ops: Vec<Op> = (turn * 20..turn * 20 + 20)
            .flat_map(|i| {
                let (new, other) = (entry(i, 4, 5), entry(i + 2000, 4, 0));
                [Op::Remove(entry(i, 4, 0).0), Op::Insert(new.0, new.1), Op::Update(other.0, 9)]
            })
            .collect();
        let deltas = control.batch_with(&own, &ops).unwrap();
        for follower in &followers {
            for delta in &deltas {
                assert_eq!(follower.apply(delta), Ok(Applied::Advanced));
            }
        }
        if turn % 20 == 0 {
            followers.push(control.export());
        }
    }
    for follower in &followers {
        assert!(bytes_of(follower) == bytes_of(&own));
    }
    let late = Othello::new(*control.params());
    let before = control_bytes(&control);
    let refused = control.batch_with(&late, &[Op::Remove(entry(3900, 4, 0).0)]);
    assert!(matches!(refused, Err(UpdateError::OutOfStep { .. })), "{refused:?}");
    assert!(control_bytes(&control) == before);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn deltas_are_small() {
    let mut control = OthelloBuilder::new(params(20_000, 2, 1)).build(&entries(20_000, 2, 0)).unwrap();
    let changes =
        (0..4000).map(|i| entry(i, 2, 0)).map(|(hash, value)| control.update(hash, value ^ 1).unwrap());
    let bytes: usize = changes.map(|delta| delta.payload.len()).sum();
    assert!(bytes < 4000 * 18, "{bytes} bytes for 4000 changes");
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
        whole: bool,
        random: bool,
    ) {
        let (table, control, deltas) = churned(params(300, 2, 1), 300, 1);
        let mut delta = deltas[0].clone();
        if whole {
            delta = control.export_partition(PartitionId(0)).unwrap();
        }
        let bits = delta.payload.len() * 8;
        if random {
            delta.payload = noise;
        } else {
            for flip in flips {
                let bit = flip.index(bits);
                delta.payload[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let before = bytes_of(&table);
        if table.apply(&delta).is_err() {
            prop_assert!(bytes_of(&table) == before);
        } else {
            prop_assert!(Othello::read_snapshot(&bytes_of(&table)[..]).is_ok());
        }
    }
}

#[test]
fn the_data_plane_sees_hints_and_none_where_a_checksum_tells() {
    let count = if cfg!(miri) { 10 } else { 200 };
    let keys: Vec<FlowKey> = (0..2 * count).map(|i| FlowKey::teid(Teid::new(i))).collect();
    let hashes: Vec<KeyHash> = (0..2 * count).map(|i| KeyHash::new(mix64(i.into()))).collect();
    for checks in [0, 20] {
        let params = params(count.into(), 4, 1).with_check_bits(checks).unwrap();
        let held: Vec<_> = (0..count).map(|i| (hashes[i as usize], (i % 16) as u16)).collect();
        let table = Arc::new(OthelloBuilder::new(params).build(&held).unwrap().export());
        assert_eq!((table.kind(), Gpt::partitions(&*table)), (TableKind::Othello, PartitionCount::ONE));
        assert_eq!(Gpt::position(&*table, PartitionId(0)), Some(Position(1)));
        assert!(Gpt::table_bytes(&*table) > 100);
        let mut reader = table.reader();
        let mut hints = vec![NodeHint::NONE; keys.len()];
        for len in [1, 7, keys.len()] {
            reader.lookup_batch(KeyBatch::new(&keys[..len], &hashes[..len]), &mut hints);
            for (i, hint) in hints.iter().enumerate().take(len.min(count as usize)) {
                assert_eq!(*hint, NodeHint::new((i % 16) as u16));
            }
        }
        let told = hints[count as usize..].iter().filter(|&&hint| hint == NodeHint::NONE).count();
        assert_eq!(told, if checks == 0 { 0 } else { count as usize });
    }
}
