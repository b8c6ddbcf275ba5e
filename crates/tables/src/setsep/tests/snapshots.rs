//! Snapshots: there and back, and every damage noticed.

use super::*;
use std::io::Read;

/// A small table with keys in the fallback.
fn small() -> SetSepControl {
    let params = params_in(Format::Paper8x16, 40, 1, 2);
    let mut control = SetSepBuilder::new(params).build(&entries(40, 1, 1)).unwrap();
    let crowd: Vec<Op> = (0..if cfg!(miri) { 24 } else { 40 })
        .map(|i| Op::Insert(KeyHash::new(i), (mix64(i) & 1) as u8))
        .collect();
    let _ = control.batch(&crowd).unwrap();
    assert!(control.stats().fallback_keys > 0);
    control
}

#[test]
fn both_structures_come_back_and_go_on() {
    let mut control = small();
    let (bits, keys) = (bytes_of(&control.export()), control_bytes(&control));
    let table = SetSep::read_snapshot(&bits[..]).unwrap();
    let mut again = SetSepControl::read_snapshot(&keys[..]).unwrap();
    assert!(bytes_of(&table) == bits && control_bytes(&again) == keys);
    assert_eq!(again.stats(), control.stats());
    // The stream ends with the checksum: what follows is left to the caller.
    let mut longer = &[&bits[..], b"next"].concat()[..];
    SetSep::read_snapshot(&mut longer).unwrap();
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
    every_damage_is_noticed(&bytes_of(&control.export()), |bytes| SetSep::read_snapshot(bytes));
    every_damage_is_noticed(&control_bytes(&control), |bytes| SetSepControl::read_snapshot(bytes));
}

#[test]
fn foreign_files_are_named() {
    let control = small();
    let (bits, keys) = (bytes_of(&control.export()), control_bytes(&control));
    assert!(matches!(SetSep::read_snapshot(&keys[..]), Err(SnapshotError::Magic)));
    assert!(matches!(SetSepControl::read_snapshot(&bits[..]), Err(SnapshotError::Magic)));
    let mut newer = bits.clone();
    newer[8] = 3;
    assert!(matches!(
        SetSep::read_snapshot(&newer[..]),
        Err(SnapshotError::Version { found: 3, expected: 2 })
    ));
    let mut wide = bits;
    wide[13] = 9;
    assert!(matches!(
        SetSep::read_snapshot(&wide[..]),
        Err(SnapshotError::Params(ParamsError::ValueBits(9)))
    ));
}

/// A right checksum does not make wrong contents right.
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

/// A header that promises 2^24 blocks, and a stream that ends soon: memory must follow the data, not the promise.
#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_promise_of_much_costs_nothing() {
    let huge = Params::new(1 << 24, 8, PartitionCount::new(1 << 16).unwrap()).unwrap();
    let header = [b"SBSetSep", &2u32.to_le_bytes()[..], &huge.encode()].concat();
    let table = SetSep::read_snapshot(header.chain(std::io::repeat(0).take(1 << 20)));
    assert!(matches!(table, Err(SnapshotError::Io(_))));
}
