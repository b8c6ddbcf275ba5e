//! Snapshots: a round trip restores the table, and every corruption is detected.

use super::*;
use std::io::Read;

/// A small table with keys in the fallback.
fn small() -> SetSepControl {
    let params = params_in(Format::Paper8x16, 40, 1, 2);
    let mut control = SetSepBuilder::new(params).build(&entries(40, 1, 1)).unwrap();
    let crowd: Vec<Op> = (0..40).map(|i| Op::Insert(KeyHash::new(i), (mix64(i) & 1) as u8)).collect();
    let _ = control.batch(&crowd).unwrap();
    assert!(control.stats().fallback_keys > 0);
    control
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter; Othello's test runs the same code")]
fn both_structures_come_back_and_go_on() {
    let mut control = small();
    let stats = control.stats();
    assert_eq!(SetSepControl::read_snapshot(&control_bytes(&control)[..]).unwrap().stats(), stats);
    come_back_and_go_on(&mut control, 1);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn every_damage_is_noticed() {
    damage_is_noticed(&small());
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
fn impossible_parameters_are_named() {
    let mut wide = bytes_of(&small().export());
    wide[13] = 9;
    assert!(matches!(
        SetSep::read_snapshot(&wide[..]),
        Err(SnapshotError::Params(error)) if error.downcast_ref() == Some(&ParamsError::ValueBits(9))
    ));
}

/// A correct checksum does not make invalid contents valid.
#[test]
fn a_wrong_value_under_a_right_checksum_is_noticed() {
    let control = SetSepBuilder::new(params(40, 1, 1)).build(&entries(40, 1, 1)).unwrap();
    let mut bytes = control_bytes(&control);
    let values = 8 + 4 + 28 + 1 + 8 + 1 + 24 + 2 + 40 * 8;
    bytes[values] ^= 1;
    let end = bytes.len() - 4;
    let sum = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    let read = SetSepControl::read_snapshot(&bytes[..]);
    assert!(matches!(read, Err(SnapshotError::Corrupt("a key that its bits do not answer"))));
}

/// A header that declares 2^24 blocks, in a stream that ends early: memory use must follow the data, not the
/// header.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_promise_of_much_costs_nothing() {
    let huge = Params::new(1 << 24, 8, PartitionCount::new(1 << 16).unwrap()).unwrap();
    let header = [b"SBSetSep", &2u32.to_le_bytes()[..], &huge.encode()].concat();
    let table = SetSep::read_snapshot(header.chain(std::io::repeat(0).take(1 << 20)));
    assert!(matches!(table, Err(SnapshotError::Io(_))));
}
