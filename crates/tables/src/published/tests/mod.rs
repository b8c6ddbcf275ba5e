//! Code that the tests of both structures share.

mod formats;
pub(crate) mod replica;
pub(crate) mod reshape;
pub(crate) mod stress;

use super::key_store::ControlStructure;
use super::{Control, Op, Reader, SnapshotError, Table, Units};
use crate::mix::mix64;
use scalebricks_types::{Applied, KeyHash};
use std::sync::Arc;

/// A structure as the shared tests see it.
pub(crate) trait Tested: ControlStructure<Value: PartialEq + Send + Sync, Keys: Send> {
    /// The value with these low bits.
    fn value(bits: u64) -> Self::Value;

    /// Builds a control structure from keys.
    fn build(params: Self::Params, entries: &[(KeyHash, Self::Value)]) -> Control<Self>;

    /// The keys of a control structure.
    fn held(control: &Control<Self>) -> Vec<(KeyHash, Self::Value)>;
}

/// Distinct keys spread over the whole range, with values that use all bits.
pub(crate) fn entries<S: Tested>(count: u64, value_bits: u8, salt: u64) -> Vec<(KeyHash, S::Value)> {
    (0..count).map(|i| entry::<S>(i, value_bits, salt)).collect()
}

pub(crate) fn entry<S: Tested>(i: u64, value_bits: u8, salt: u64) -> (KeyHash, S::Value) {
    let hash = mix64(i ^ salt << 40);
    (KeyHash::new(hash), S::value(mix64(!hash) & ((1 << value_bits) - 1)))
}

/// The value with some bits flipped.
pub(crate) fn flipped<S: Tested>(value: S::Value, bits: u16) -> S::Value {
    S::value((value.into() ^ bits).into())
}

/// Looks up all entries in a batch, and some one by one.
pub(crate) fn assert_answers<S: Tested>(table: &Arc<Table<S>>, entries: &[(KeyHash, S::Value)]) {
    let mut reader = Reader::new(Arc::clone(table));
    let hashes: Vec<KeyHash> = entries.iter().map(|entry| entry.0).collect();
    let mut values = vec![S::Value::default(); hashes.len()];
    reader.lookup_batch(&hashes, &mut values);
    let wrong = entries.iter().zip(&values).filter(|(entry, value)| entry.1 != **value).count();
    assert_eq!(wrong, 0, "wrong answers of {}", entries.len());
    let pin = reader.pin();
    for &(hash, value) in entries.iter().step_by(7) {
        assert_eq!(pin.get(hash), value);
    }
}

/// The snapshot of a table.
pub(crate) fn bytes_of<S: Units>(table: &Table<S>) -> Vec<u8> {
    let mut bytes = Vec::new();
    table.write_snapshot(&mut bytes).unwrap();
    bytes
}

/// The snapshot of a control structure.
pub(crate) fn control_bytes<S: ControlStructure>(control: &Control<S>) -> Vec<u8> {
    let mut bytes = Vec::new();
    control.write_snapshot(&mut bytes).unwrap();
    bytes
}

/// A control structure and its table are restored from their snapshots, and continue unchanged.
pub(crate) fn come_back_and_go_on<S: ControlStructure>(control: &mut Control<S>, value: S::Value) {
    let (bits, keys) = (bytes_of(&control.export()), control_bytes(control));
    let table = Table::<S>::read_snapshot(&bits[..]).unwrap();
    let mut again = Control::<S>::read_snapshot(&keys[..]).unwrap();
    assert!(bytes_of(&table) == bits && control_bytes(&again) == keys);
    assert_eq!(again.len(), control.len());
    // The stream ends with the checksum: the bytes after it are left to the caller.
    let mut longer = &[&bits[..], b"next"].concat()[..];
    Table::<S>::read_snapshot(&mut longer).unwrap();
    assert_eq!(longer, b"next");
    let insert = [Op::Insert(KeyHash::new(1 << 60), value)];
    let delta = control.batch(&insert).unwrap_or_default().pop().unwrap();
    assert_eq!(again.batch(&insert).unwrap_or_default().pop().unwrap(), delta);
    assert_eq!(table.apply(&delta), Ok(Applied::Advanced));
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}

/// Every truncation and every flipped bit of both snapshots is detected, and so is the snapshot of the other
/// structure or of another version.
pub(crate) fn damage_is_noticed<S: ControlStructure>(control: &Control<S>) {
    let (bits, keys) = (bytes_of(&control.export()), control_bytes(control));
    every_damage_is_noticed(&bits, |bytes| Table::<S>::read_snapshot(bytes).map(drop));
    every_damage_is_noticed(&keys, |bytes| Control::<S>::read_snapshot(bytes).map(drop));
    assert!(matches!(Table::<S>::read_snapshot(&keys[..]), Err(SnapshotError::Magic)));
    assert!(matches!(Control::<S>::read_snapshot(&bits[..]), Err(SnapshotError::Magic)));
    let mut newer = bits;
    newer[8] += 1;
    let Err(SnapshotError::Version { found, expected }) = Table::<S>::read_snapshot(&newer[..]) else {
        panic!("another version: accepted");
    };
    assert_eq!((found, expected), (S::SNAPSHOT_VERSION + 1, S::SNAPSHOT_VERSION));
}

fn every_damage_is_noticed(bytes: &[u8], read: impl Fn(&[u8]) -> Result<(), SnapshotError>) {
    for cut in 0..bytes.len() {
        match read(&bytes[..cut]) {
            Err(SnapshotError::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof),
            Err(error) => panic!("cut to {cut}: {error}"),
            Ok(()) => panic!("cut to {cut}: accepted"),
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
