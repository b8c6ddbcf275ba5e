//! Tests all structures against maps.

use super::*;
use crate::names::population::Kind;
use std::collections::HashMap;

const ALL: [Fib; 10] = [
    Fib::OTHELLO,
    Fib::Othello(Sizing::Option2, 0),
    Fib::Othello(Sizing::Sharded, 7),
    Fib::Filtered,
    Fib::SetSep,
    Fib::Cuckoo,
    Fib::Buffalo,
    Fib::BuffaloApart,
    Fib::Orthogonal,
    Fib::Sorted,
];

#[test]
fn every_structure_answers_what_a_map_does() {
    let names = Population::of(Kind::Mac, 3000, 3);
    let map: HashMap<KeyHash, u16> = names.pairs().into_iter().collect();
    for fib in ALL {
        let table = fib.build(&names, 1).unwrap();
        for batch in [1, 7, BATCH] {
            let (mut reader, mut answers) = (table.reader(), vec![0; names.len()]);
            for (names, answers) in names.hashes.chunks(batch).zip(answers.chunks_mut(batch)) {
                reader(names, answers);
            }
            let right: Vec<u16> = names.hashes.iter().map(|name| map[name]).collect();
            let wrong = check(fib.name(), &*table, &names.hashes, (&right, &answers)).unwrap();
            assert!(wrong < 10, "{}", fib.label());
        }
    }
}

#[test]
fn sixteen_bits_are_taken_by_all_but_setsep() {
    let names = Population::of(Kind::Ipv4, 500, 16);
    for fib in [Fib::OTHELLO, Fib::Cuckoo, Fib::Orthogonal, Fib::Sorted] {
        let table = fib.build(&names, 1).unwrap();
        let mut answers = vec![0; names.len()];
        table.reader()(&names.hashes, &mut answers);
        check(fib.name(), &*table, &names.hashes, (&names.actions, &answers)).unwrap();
    }
    assert!(Fib::SetSep.build(&names, 1).is_err());
}

#[test]
fn the_cuckoo_table_knows_no_other_name_and_takes_none_twice() {
    let names = Population::of(Kind::Mac, 1000, 8);
    let others = Kind::Mac.hashes(1000, 2000);
    let mut answers = vec![0; others.len()];
    Fib::Cuckoo.build(&names, 1).unwrap().reader()(&others, &mut answers);
    assert!(answers.iter().all(|&answer| answer == UNKNOWN));
    let twice = Population::new([0, 1, 0].map(|at| others[at]).to_vec(), 8);
    assert!(Fib::Cuckoo.build(&twice, 1).is_err());
}

#[test]
fn wide_tables_are_cut_into_partitions() {
    let bytes = |check_bits| {
        let params = params(16_000_000, Sizing::Sharded, (8, check_bits)).unwrap();
        (params.partitions().get(), params.width())
    };
    assert_eq!(bytes(0), (1, 8));
    assert_eq!(bytes(8), (2, 16));
    assert!(params(1000, Sizing::Sharded, (16, 9)).is_err(), "no table has 25 bits");
}

#[test]
fn a_wrong_answer_is_told() {
    let names = Population::of(Kind::Mac, 100, 2);
    let table = Fib::Sorted.build(&names, 1).unwrap();
    let mut answers = names.actions.clone();
    answers[57] ^= 1;
    assert!(check("sorted", &*table, &names.hashes, (&names.actions, &answers)).is_err());
}

#[test]
fn tables_tell_the_lines_of_every_name_and_filters_none() {
    let names = Population::of(Kind::Mac, 3000, 3);
    for fib in ALL {
        let table = fib.build(&names, 1).unwrap();
        let mut counts = vec![0; names.len()];
        table.touched(&names.hashes, &mut |place, _| counts[place] += 1);
        let (least, most) = match fib {
            // A directory and two slots, which may share a line or cross lines; a filter adds one line.
            Fib::Othello(..) => (2, 5),
            Fib::Filtered => (3, 6),
            Fib::SetSep | Fib::Cuckoo => (2, 6),
            _ => (0, 0),
        };
        assert!(counts.iter().all(|count| (least..=most).contains(count)), "{}: {counts:?}", fib.label());
        assert_eq!(replay(&*table, &names.hashes).is_some(), least > 0, "{}", fib.label());
    }
}
