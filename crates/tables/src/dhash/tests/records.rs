//! The arrays of records.

use super::super::*;
use super::{fixed, session};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Several elements share one lookup, and each sees its own value.
#[test]
fn each_element_has_an_array_of_its_own_type() {
    let mut records = Records::new();
    let (bytes, state, owned) =
        (records.reserve::<u64>(), records.reserve::<Option<u8>>(), records.reserve::<Vec<u8>>());
    let mut table = DHash::<Key4>::new(&fixed(2, 4), records).unwrap();
    let one = table.find_or_add(&session(1)).unwrap().record;
    let two = table.find_or_add(&session(2)).unwrap().record;
    table.column_mut(bytes)[one] += 60;
    table.column_mut(state)[two] = Some(3);
    table.column_mut(owned)[one].push(9);
    let arrays = table.records_mut();
    assert_eq!((arrays.column(bytes)[one], arrays.column(bytes)[two]), (60, 0));
    assert_eq!((arrays.column(state)[one], arrays.column(state)[two]), (None, Some(3)));
    arrays.column(bytes).prefetch(one);
    assert!(table.delete(one) && !table.delete(one));
    assert_eq!((table.column(bytes)[one], table.column(owned)[one].len()), (0, 0));
    assert_eq!((table.key(one), table.key(two)), (None, Some(&session(2))));
}

/// Values are dropped when their session is deleted, and with the table.
#[test]
fn values_are_dropped_once() {
    let shared = Arc::new(());
    let mut records = Records::new();
    let holders = records.reserve::<Option<Arc<()>>>();
    let mut table = DHash::<Key4>::new(&Config { is_promoting: true, ..fixed(1, 10) }, records).unwrap();
    for number in 0..20 {
        let record = table.find_or_add(&session(number)).unwrap().record;
        table.column_mut(holders)[record] = Some(Arc::clone(&shared));
    }
    assert_eq!(Arc::strong_count(&shared), 21);
    assert!((0..7).all(|number| table.remove(&session(number))));
    assert_eq!(Arc::strong_count(&shared), 14);
    drop(table);
    assert_eq!(Arc::strong_count(&shared), 1);
}

#[test]
fn records_and_columns_of_others_are_refused() {
    let mut mine = Records::new();
    let column = mine.reserve::<u64>();
    let mut other = Records::new();
    let foreign = other.reserve::<u64>();
    let mut table = DHash::<Key4>::new(&fixed(1, 1), mine).unwrap();
    let record = table.find_or_add(&session(1)).unwrap().record;
    assert_eq!(table.column(column)[record], 0);
    assert!(catch_unwind(AssertUnwindSafe(|| table.column(foreign)[record])).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| table.column_mut(foreign)[record])).is_err());
    // A record of a larger table names none of this one.
    let mut larger = DHash::<Key4>::new(&fixed(3, 1), other).unwrap();
    let beyond = (0..25).map(|number| larger.find_or_add(&session(number)).unwrap().record).max().unwrap();
    assert_eq!(table.key(beyond), None);
    assert!(!table.delete(beyond));
    assert!(catch_unwind(AssertUnwindSafe(|| table.column(column)[beyond])).is_err());
}

#[test]
#[cfg_attr(miri, ignore = "the interpreter has no such limit")]
fn address_space_that_is_not_there_is_an_error() {
    let pool = Pool { entries: 0, max_entries: u32::MAX - 16 };
    let mut records = Records::new();
    let _: Column<[Option<[u64; 4096]>; 32]> = records.reserve(); // 2^32 records of 1 MiB: 2^52 bytes
    let error = DHash::<Key4>::new(&Config { pool, ..fixed(1, 0) }, records).unwrap_err();
    assert!(matches!(error, ConfigError::OutOfMemory { bytes } if bytes > 1 << 35), "{error}");
}
