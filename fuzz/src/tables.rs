//! Targets of SetSep and Othello: one body for both.

use scalebricks_types::{Delta, KeyHash};

/// Keys whose hashes are spread over the whole range, with values below `values`.
pub fn entries<V: TryFrom<u64>>(count: u64, values: u64) -> Vec<(KeyHash, V)> {
    let entry =
        |n: u64| Some((KeyHash::new(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)), V::try_from(n % values).ok()?));
    (1..count).filter_map(entry).collect()
}

/// Overwrites bytes: each edit is two octets of place and one of content.
fn edit(bytes: &mut [u8], edits: &[u8]) {
    for edit in edits.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % bytes.len();
        bytes[at] = edit[2];
    }
}

/// Applies a damaged or invented payload to an empty table, or to one that has applied `full`. If it is refused, the
/// table answers as before, and the good delta still applies.
pub fn damaged_delta(
    bytes: &[u8],
    [full, change]: [&Delta; 2],
    apply: impl Fn(&Delta) -> bool,
    mut values: impl FnMut() -> Vec<u16>,
) {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    let good = if mode & 1 == 0 { full } else { change };
    if mode & 1 == 1 && !apply(full) {
        unreachable!("the sample applies");
    }
    let mut damaged = good.clone();
    if mode & 2 == 0 {
        damaged.payload = bytes.to_vec();
    } else {
        edit(&mut damaged.payload, bytes);
    }
    let before = values();
    if !apply(&damaged) {
        assert_eq!(before, values(), "a refused delta changed the table");
        assert!(apply(good));
    }
}

/// The bytes of an input as a snapshot, or one of two good snapshots with edits; with a right checksum if `mends`, so
/// that what it covers is reached.
pub fn snapshot(bytes: &[u8], samples: &[Vec<u8>; 2], mends: bool) -> Option<Vec<u8>> {
    let (&mode, bytes) = bytes.split_first()?;
    if mode & 1 == 1 {
        return Some(bytes.to_vec());
    }
    let mut snapshot = samples[usize::from(mode >> 1 & 1)].clone();
    edit(&mut snapshot, bytes);
    if mends {
        let end = snapshot.len() - 4;
        let sum = crc32fast::hash(&snapshot[..end]);
        snapshot[end..].copy_from_slice(&sum.to_le_bytes());
    }
    Some(snapshot)
}
