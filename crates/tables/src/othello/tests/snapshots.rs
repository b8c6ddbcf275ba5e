//! Snapshots: there and back, and every damage noticed.

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
    let (bits, keys) = (bytes_of(&control.export()), control_bytes(&control));
    let table = Othello::read_snapshot(&bits[..]).unwrap();
    let mut again = OthelloControl::read_snapshot(&keys[..]).unwrap();
    assert!(bytes_of(&table) == bits && control_bytes(&again) == keys);
    assert_eq!(again.stats(), control.stats());
    // The stream ends with the checksum: what follows is left to the caller.
    let mut longer = &[&bits[..], b"next"].concat()[..];
    Othello::read_snapshot(&mut longer).unwrap();
    assert_eq!(longer, b"next");
    // Both go on as if nothing had happened.
    let delta = control.insert(KeyHash::new(1 << 60), 1).unwrap();
    assert_eq!(again.insert(KeyHash::new(1 << 60), 1).unwrap(), delta);
    assert_eq!(table.apply(&delta), Ok(scalebricks_types::Applied::Advanced));
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}

fn every_damage_is_noticed<T>(bytes: &[u8], read: impl Fn(&[u8]) -> Result<T, SnapshotError>) {
    for cut in 0..bytes.len() {
        match read(&bytes[..cut]) {
            Err(SnapshotError::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof),
            Err(error) => panic!("cut to {cut}: {error}"),
            Ok(_) => panic!("cut to {cut}: accepted"),
        }
    }
    let mut bytes = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes).is_err(), "bit {bit} flipped: accepted");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(read(&bytes).is_ok());
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn every_truncation_and_every_flipped_bit_is_noticed() {
    let control = small();
    every_damage_is_noticed(&bytes_of(&control.export()), |bytes| Othello::read_snapshot(bytes));
    every_damage_is_noticed(&control_bytes(&control), |bytes| OthelloControl::read_snapshot(bytes));
}

#[test]
fn foreign_files_are_named() {
    let control = small();
    let (bits, keys) = (bytes_of(&control.export()), control_bytes(&control));
    assert!(matches!(Othello::read_snapshot(&keys[..]), Err(SnapshotError::Magic)));
    assert!(matches!(OthelloControl::read_snapshot(&bits[..]), Err(SnapshotError::Magic)));
    let mut newer = bits.clone();
    newer[8] = 3;
    assert!(matches!(
        Othello::read_snapshot(&newer[..]),
        Err(SnapshotError::Version { found: 3, expected: 1 })
    ));
    let mut wide = bits;
    wide[12] = 17;
    assert!(matches!(
        Othello::read_snapshot(&wide[..]),
        Err(SnapshotError::Params(ParamsError::ValueBits(17)))
    ));
}

/// A right checksum does not make wrong contents right.
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

/// A header that promises 512 MiB, and a stream that ends soon: memory must follow the data, not the promise.
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
