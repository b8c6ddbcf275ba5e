//! Both tables do what a map does, through the one interface.

use super::{Control, Op, Params, Reader, ReshapeError, Structure, Table};
use crate::huge::HugeSlice;
use crate::huge::guard_pages::{GuardedEnd, between};
use crate::isa::Isa;
use crate::tests::readers::{WatchedKeys, check_beside};
use borsh::BorshDeserialize;
use proptest::prelude::*;
use scalebricks_types::{KeyHash, PartitionCount, PartitionId, Position};
use std::collections::BTreeMap;

const PARTITION: PartitionId = PartitionId(1);

fn params(structure: Structure, keys: u64, bits: u8) -> Params {
    Params::for_keys(structure, keys, bits, PartitionCount::new(4).unwrap()).unwrap()
}

/// The hash of a key of the partition.
fn hash(number: u64) -> KeyHash {
    KeyHash::new(crate::mix::mix64(number) >> 2 | 1 << 62)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "thousands of operations")]
    fn both_answer_as_a_map_does(
        batches in prop::collection::vec(prop::collection::vec((0..300_u64, prop::option::of(0..4_u8)), 1..50), 1..20),
        reshape_at in 0..20_usize,
    ) {
        for structure in Structure::ALL {
            let first = params(structure, 2_000, 2);
            let (mut control, table) = (Control::for_partitions(first, [PARTITION]), Table::new(first));
            let (mut map, mut at) = (BTreeMap::new(), 0);
            for (number, batch) in batches.iter().enumerate() {
                let mut ops = Vec::new();
                for &(key, value) in batch {
                    match (map.get(&key), value) {
                        (None, None) => continue,
                        (None, Some(value)) => ops.push(Op::Insert(hash(key), value)),
                        (Some(_), Some(value)) => ops.push(Op::Update(hash(key), value)),
                        (Some(_), None) => ops.push(Op::Remove(hash(key))),
                    }
                    match value {
                        Some(value) => map.insert(key, value),
                        None => map.remove(&key),
                    };
                }
                at += 1;
                if let Some(delta) = control.batch_to(Position(at), &ops).unwrap() {
                    let _ = table.apply(&delta).unwrap();
                }
                if number == reshape_at {
                    at += 1;
                    let to = first.doubled().unwrap().with_value_bits(5).unwrap();
                    let delta = control.reshape_to(PARTITION, to, Position(at)).unwrap();
                    let _ = table.apply(&delta).unwrap();
                    prop_assert_eq!(control.params(), to);
                }
                let (keys, wanted): (Vec<KeyHash>, Vec<u8>) =
                    map.iter().map(|(&key, &value)| (hash(key), value)).unzip();
                let (mut reader, mut found) = (Reader::new(&table), vec![0; keys.len()]);
                reader.lookup_batch(&keys, &mut found);
                prop_assert_eq!(&found, &wanted);
                let mut is_right = |(&key, &value): (&KeyHash, &u8)| reader.get(key) == value && control.get(key) == Some(value);
                let all_are = keys.iter().zip(&wanted).all(&mut is_right);
                prop_assert!(all_are);
                prop_assert_eq!(control.len(), map.len() as u64);
            }
            let mut bytes = Vec::new();
            control.write_snapshot(&mut bytes).unwrap();
            let again = Control::read_snapshot(&bytes).unwrap();
            prop_assert_eq!(again.digest(PARTITION), control.digest(PARTITION));
            prop_assert_eq!(again.export_partition(PARTITION), control.export_partition(PARTITION));
            if at > 0 && control.position(PARTITION) != Some(Position(0)) {
                prop_assert_eq!(table.digest(PARTITION).map(|(_, digest)| digest), control.digest(PARTITION));
            }
        }
    }

    #[test]
    fn parameters_come_back_from_records(keys in 1..1_000_000_u64, bits in 1..=8_u8, behind: Vec<u8>, cut: prop::sample::Index) {
        for structure in Structure::ALL {
            let params = params(structure, keys, bits);
            let mut record = borsh::to_vec(&params).unwrap();
            prop_assert!(borsh::from_slice::<Params>(&record[..cut.index(record.len())]).is_err());
            record.extend_from_slice(&behind);
            let rest = &mut &record[..];
            prop_assert_eq!(Params::deserialize(rest).unwrap(), params);
            prop_assert_eq!(*rest, &behind[..]);
        }
    }
}

#[test]
fn a_table_stays_what_it_is() {
    let [setsep, othello] = Structure::ALL.map(|structure| params(structure, 100, 2));
    for (from, to) in [(setsep, othello), (othello, setsep)] {
        let mut control = Control::for_partitions(from, [PARTITION]);
        let refused = control.reshape_to(PARTITION, to, Position(1));
        let error = ReshapeError::Structure { from: from.structure(), to: to.structure() };
        assert_eq!(refused, Err(error));
        assert!(!Table::new(from).restart(to) && Table::new(from).restart(from));
    }
    for structure in Structure::ALL {
        assert_eq!(structure.name().parse(), Ok(structure));
    }
    let refused = "bloom".parse::<Structure>().unwrap_err();
    assert_eq!(refused.to_string(), "\"bloom\" is not setsep or othello");
}

/// Either table through the one interface; a dozen keys, few updates and one reshape.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter; both structures have such a test of their own")]
fn a_reader_beside_a_writer() {
    for structure in Structure::ALL {
        let params = params(structure, 12, 2);
        let mut control = Control::for_partitions(params, [PARTITION]);
        let kept: Vec<(KeyHash, u8)> = (0..12_u8).map(|n| (hash(n.into()), n % 4)).collect();
        let ops: Vec<Op> = kept.iter().map(|&(hash, value)| Op::Insert(hash, value)).collect();
        let table = Table::new(params);
        let _ = table.apply(&control.batch_to(Position(1), &ops).unwrap().unwrap()).unwrap();
        let watched = WatchedKeys::new(&kept);
        let reader = || {
            let mut reader = Reader::new(&table);
            move |hashes: &[KeyHash], nodes: &mut [u8]| reader.lookup_batch(hashes, nodes)
        };
        check_beside(&watched, &format!("compact {structure}"), Isa::best(), reader, || {
            for (at, position) in (0..6).zip(2..) {
                let (hash, value) = kept[at];
                let new = value ^ 1;
                watched.change(at, new.into(), || {
                    let delta = control.batch_to(Position(position), &[Op::Update(hash, new)]).unwrap();
                    let _ = table.apply(&delta.unwrap()).unwrap();
                });
            }
            let to = params.doubled().unwrap();
            let _ = table.apply(&control.reshape_to(PARTITION, to, Position(8)).unwrap()).unwrap();
        });
        assert_eq!(table.digest(PARTITION).map(|(_, digest)| digest), control.digest(PARTITION));
    }
}

/// Either table, with its memory, questions and answers at walls.
#[test]
#[cfg_attr(miri, ignore = "there are no walls under the interpreter, which needs none")]
fn no_lookup_leaves_its_memory() {
    const LONGEST: usize = 2 * 256 + 1;
    for (flush, structure) in
        GuardedEnd::BOTH.into_iter().flat_map(|flush| Structure::ALL.map(|s| (flush, s)))
    {
        let params = params(structure, 2_000, 3);
        let (mut control, table) =
            between(flush, || (Control::for_partitions(params, [PARTITION]), Table::new(params)));
        let (mut hashes, mut nodes) =
            between(flush, || (HugeSlice::<KeyHash>::zeroed(LONGEST), HugeSlice::<u8>::zeroed(LONGEST)));
        let ops: Vec<Op> = (0..LONGEST as u64).map(|n| Op::Insert(hash(n), n as u8 & 7)).collect();
        let delta = control.batch_to(Position(1), &ops).unwrap().unwrap();
        let _ = table.apply(&delta).unwrap();
        let mut reader = Reader::new(&table);
        for len in 0..=LONGEST {
            let part = flush.part(LONGEST, len);
            hashes[part.clone()].iter_mut().zip(0..).for_each(|(to, n)| *to = hash(n));
            reader.lookup_batch(&hashes[part.clone()], &mut nodes[part.clone()]);
            assert!(
                nodes[part].iter().zip(0_u64..).all(|(&node, n)| node == n as u8 & 7),
                "{structure} {len} {flush:?}"
            );
        }
    }
}
