//! The trace, and that wrong answers are found.

use super::chained::Chained;
use super::contender::{ABSENT, BATCH, Contender, SECRET, answer, check, fill, read, record_of, space};
use super::exact::{Cuckoo, HashBrown};
use super::ours::Ours;
use super::trace::{Ids, Trace, direction, key_of};
use scalebricks_tables::dhash::{Direction, FlowHasher, FlowKey, Signature};
use std::collections::HashSet;

#[test]
fn each_round_has_one_packet_of_each_session_and_directions_alternate() {
    for ids in [Ids::Structured, Ids::Random] {
        let trace = Trace::new(5000, ids);
        let sessions: HashSet<[u64; 2]> = trace.keys.iter().map(|key| key.canonical().0).collect();
        assert_eq!(sessions.len(), 5000, "sessions differ in both directions");
        for round in 0..4 {
            let expected = trace.keys.iter().map(|key| if round % 2 == 0 { *key } else { key.reversed() });
            assert!(trace.round(round).iter().map(key_of).eq(expected), "{round}");
        }
    }
    assert_eq!([0, 1, 19].map(direction), [Direction::Forward, Direction::Reverse, Direction::Reverse]);
}

fn tables(sessions: usize) -> Vec<Box<dyn Contender>> {
    vec![
        Box::new(Ours::new(sessions, Signature::Keyed).unwrap()),
        Box::new(Ours::new(sessions, Signature::TwoHalves).unwrap()),
        Box::new(Chained::new(sessions, sessions / 3, false)),
        Box::new(Cuckoo::new(sessions)),
        Box::new(HashBrown::new(sessions)),
    ]
}

/// All tables give the same answers but for the records' numbers: both directions find the record, a deleted session
/// is absent, and a session cannot be added twice.
#[test]
fn all_tables_have_the_same_semantics() {
    let trace = Trace::new(1000, Ids::Structured);
    for (number, mut table) in tables(1000).into_iter().enumerate() {
        let signature = if number == 1 { Signature::TwoHalves } else { Signature::Keyed };
        let hasher = FlowHasher::new(signature, SECRET);
        let (mut keys, mut hashes) = space();
        let mut answers = [0; BATCH];
        {
            let (keys, hashes) = read(&hasher, &trace.round(0)[..BATCH], &mut keys, &mut hashes);
            table.find(keys, hashes, &mut answers);
            assert_eq!(answers, [ABSENT; BATCH], "{}", table.name());
        }
        let records = fill(table.as_mut(), &hasher, trace.round(0)).unwrap();
        assert_eq!(records.iter().collect::<HashSet<_>>().len(), 1000);
        for round in [0, 1] {
            let (keys, hashes) = read(&hasher, &trace.round(round)[..BATCH], &mut keys, &mut hashes);
            table.find(keys, hashes, &mut answers);
            check(table.name(), round, &records[..BATCH], &answers).unwrap();
            assert!(
                check(table.name(), round + 1, &records[..BATCH], &answers).is_err(),
                "the direction counts"
            );
            table.count(&answers);
            assert!(table.add(keys, hashes, &mut [0; BATCH]).is_err(), "{}", table.name());
        }
        assert!(records[..BATCH].iter().all(|&record| table.counted(record) == 2));
        assert_eq!(table.counted(records[BATCH]), 0);
        let (keys, hashes) = read(&hasher, &trace.round(1)[..BATCH], &mut keys, &mut hashes);
        table.remove(keys, hashes, &answers).unwrap();
        table.find(keys, hashes, &mut answers);
        assert_eq!(answers, [ABSENT; BATCH], "{}", table.name());
        assert!(table.table_bytes() > 1000 * 16);
    }
}

#[test]
fn a_wrong_answer_and_a_missing_one_are_found() {
    let right = [answer(7, Direction::Reverse), answer(9, Direction::Reverse)];
    check("x", 1, &[7, 9], &right).unwrap();
    assert_eq!(right.map(record_of), [7, 9]);
    for wrong in [&[right[0], answer(9, Direction::Forward)][..], &[right[0], ABSENT], &right[..1]] {
        assert!(check("x", 1, &[7, 9], wrong).is_err());
    }
}
