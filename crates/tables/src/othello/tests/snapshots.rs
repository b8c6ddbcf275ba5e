//! Snapshots: a round trip restores the table, and every corruption is detected.

use super::*;
use std::io::Read;

fn small() -> OthelloControl {
    let count = if cfg!(miri) { 10 } else { 40 };
    let params = Params::new(partitions(2), 2, [16, 8], 3).unwrap();
    OthelloBuilder::new(params).build(&entries(count, 3, 1)).unwrap()
}

#[test]
fn both_structures_come_back_and_go_on() {
    let mut control = small();
    let stats = control.stats();
    assert_eq!(OthelloControl::read_snapshot(&control_bytes(&control)[..]).unwrap().stats(), stats);
    come_back_and_go_on(&mut control, 1);
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn every_damage_is_noticed() {
    damage_is_noticed(&small());
}

#[test]
fn impossible_parameters_are_named() {
    let mut wide = bytes_of(&small().export());
    wide[12] = 17;
    assert!(matches!(
        Othello::read_snapshot(&wide[..]),
        Err(SnapshotError::Params(error)) if error.downcast_ref() == Some(&ParamsError::ValueBits(17))
    ));
}

/// A correct checksum does not make invalid contents valid.
#[test]
fn a_wrong_value_under_a_right_checksum_is_noticed() {
    let mut bytes = control_bytes(&small());
    let first_value = 8 + 4 + 32 + 1 + 2 * 8 + 1 + 5 + 8;
    bytes[first_value] ^= 1;
    let end = bytes.len() - 4;
    let sum = crc32fast::hash(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.to_le_bytes());
    let read = OthelloControl::read_snapshot(&bytes[..]);
    assert!(matches!(read, Err(SnapshotError::Corrupt("bits that do not follow from their names"))));
}

/// A header that declares 512 MiB, in a stream that ends early: memory use must follow the data, not the
/// header.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_promise_of_much_costs_nothing() {
    let huge = Params::new(partitions(8), 1, [1 << 27; 2], 1).unwrap();
    let header = |magic: &[u8; 8]| [&magic[..], &1u32.to_le_bytes()[..], &huge.encode()].concat();
    let stream = |magic| std::io::Cursor::new(header(magic)).chain(std::io::repeat(0).take(1 << 20));
    assert!(matches!(Othello::read_snapshot(stream(b"SBOthelo")), Err(SnapshotError::Io(_))));
    let read = OthelloControl::read_snapshot(stream(b"SBOthCtl").chain(std::io::empty()));
    assert!(read.is_err() || read.unwrap().is_empty());
}
