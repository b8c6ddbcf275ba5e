//! Keys of an attacker.

use super::super::*;
use super::{SECRET, fixed, session};
use scalebricks_types::HashSeed;
use std::collections::HashMap;

/// Sessions in the order of their number that fall into one bucket of a table.
fn of_one_bucket(table: &DHash<Key4>, count: usize) -> Vec<Key4> {
    let bucket = |key: &Key4| table.place.bucket(table.hash(key));
    let wanted = bucket(&session(0));
    (0..).map(session).filter(|key| bucket(key) == wanted).take(count).collect()
}

/// Who knows the secret fills one bucket and its list, and nothing else. Who does not cannot: the same keys spread in
/// a table with another secret.
#[test]
#[cfg_attr(miri, ignore = "too many keys")]
fn an_attack_on_one_bucket_needs_the_secret_and_is_bounded() {
    let config = Config { max_list: 8, ..Config::for_sessions(5000, SECRET) };
    let mut table = DHash::new(&config, Records::new()).unwrap();
    let keys = of_one_bucket(&table, 100);
    let refused = keys.iter().filter(|key| table.add(key) == Err(AddError::ListFull { max_list: 8 })).count();
    assert_eq!((refused, table.len()), (100 - 24, 24));
    let most = keys.iter().map(|key| table.probe(key, table.hash(key)).comparisons).max();
    assert!(most <= Some(24), "a search ends after the bucket and its list");
    assert!(
        (1..2000).map(|number| session(1 << 24 | number)).filter(|key| table.add(key).is_err()).count() < 20
    );

    let config = Config { secret: HashSeed::new(1, 2), ..config };
    let mut table = DHash::new(&config, Records::new()).unwrap();
    assert!(keys.iter().all(|key| table.add(key).is_ok()));
    assert_eq!(table.in_lists(), 0);
    let mut loads = HashMap::new();
    for key in &keys {
        *loads.entry(table.place.bucket(table.hash(key))).or_insert(0) += 1;
    }
    assert!(loads.values().max() < Some(&6));
}

/// Sessions with one signature of the paper's functions still spread over the buckets, and all are told apart.
#[test]
fn sessions_with_one_signature_are_told_apart() {
    let sessions = if cfg!(miri) { 12 } else { 3000 };
    // Equal XOR of addresses and of ports: one signature with functions 1, 2 and 3.
    let key = |number: u32| Key4::new(number.into(), (number ^ 0x00FF_00FF).into(), 6, 7, 9, 0);
    for signature in Signature::ALL {
        let config = Config { signature, ..Config::for_sessions(sessions, SECRET) };
        let mut table = DHash::new(&config, Records::new()).unwrap();
        for number in 1..=sessions {
            assert!(table.add(&key(number)).unwrap().is_some(), "{signature:?} {number}");
        }
        let mut false_positives = 0;
        for number in 1..=sessions {
            let probe = table.probe(&key(number), table.hash(&key(number)));
            assert_eq!(probe.found, table.find(&key(number)));
            assert_eq!(table.key(probe.found.unwrap().record), Some(&key(number)));
            false_positives += probe.false_positives;
        }
        let all_equal = matches!(signature, Signature::Xor | Signature::CrcOfXor | Signature::MirroredCrc);
        assert_eq!(false_positives > sessions, all_equal, "{signature:?}: {false_positives}");
    }
}

/// Ten times as many sessions as the table is for: memory stays, established sessions stay, the rest is refused.
#[test]
#[cfg_attr(miri, ignore = "a minute under the interpreter, and the calls of the model")]
fn a_flood_is_refused_and_established_sessions_stay() {
    let planned = 2000;
    let mut table = DHash::new(&Config::for_sessions(planned, SECRET), Records::new()).unwrap();
    (0..planned).for_each(|number| assert!(table.add(&session(number)).is_ok()));
    let reserved = table.memory().reserved_bytes;
    let mut refused = 0;
    for number in planned..10 * planned {
        refused += u64::from(table.add(&session(number)).is_err());
    }
    let counters = table.counters();
    assert_eq!(counters.pool_full + counters.list_full, refused);
    assert!(refused > u64::from(planned) && table.len() <= table.max_capacity());
    assert_eq!(table.memory().reserved_bytes, reserved);
    assert!((0..planned).all(|number| table.find(&session(number)).is_some()));
}

/// A table of one bucket is a list, and still right.
#[test]
fn everything_in_one_bucket_is_found() {
    let mut table = DHash::new(&Config { max_list: 1000, ..fixed(1, 200) }, Records::new()).unwrap();
    let count = if cfg!(miri) { 24 } else { 200 };
    (0..count).for_each(|number| assert!(table.add(&session(number)).unwrap().is_some()));
    assert!((0..count).all(|number| table.find(&session(number).reversed()).is_some()));
    for number in (0..count).step_by(3) {
        assert!(table.remove(&session(number)));
    }
    assert!((0..count).all(|number| table.find(&session(number)).is_some() == (number % 3 != 0)));
}
