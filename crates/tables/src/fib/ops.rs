//! The operations that a delta carries for an exact table: set these keys, delete those.
//!
//! # Encoding
//!
//! All integers are little-endian. A header of 20 bytes: version `u16`, reserved `u16` (0), then four counts
//! `u32`: short keys set, long keys set, short keys deleted, long keys deleted. Then follow the records in
//! that order, each a key (16 or 40 bytes) and, for keys that are set, the value (16 bytes). Within each of
//! the four runs, keys are in strictly ascending order, and no key is both set and deleted. So one set of
//! changes has exactly one encoding. It takes 32 bytes per short key set, 16 per short key deleted, 56 and 40
//! for long keys.

use super::FibValue;
use borsh::{BorshDeserialize, BorshSerialize};
use scalebricks_types::{ApplyError, FlowKey, Key16, Key40, MAX_PAYLOAD_BYTES};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The version of the encoding.
pub const OPS_VERSION: u16 = 1;

const HEADER_BYTES: usize = 20;

/// One change: the state of a key at the delta's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum FibOp {
    /// The key has this value, whether or not it was in the table before.
    Set(FlowKey, FibValue),
    /// The key is not in the table, whether or not it was before.
    Delete(FlowKey),
}

/// The changes exceed the maximum size of a delta: split them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the changes take {0} bytes, a delta carries {MAX_PAYLOAD_BYTES}: split them")]
pub struct OpsTooLarge(pub usize);

impl FibOp {
    /// The key that the change is about.
    pub const fn key(&self) -> &FlowKey {
        match self {
            Self::Set(key, _) | Self::Delete(key) => key,
        }
    }
}

type Changes<const K: usize> = BTreeMap<[u64; K], Option<FibValue>>;

/// The payload of a delta with these changes. Of several changes to one key, the last one counts.
///
/// # Errors
/// [`OpsTooLarge`] over [`MAX_PAYLOAD_BYTES`] (2 M short keys set).
pub fn encode_ops(ops: impl IntoIterator<Item = FibOp>) -> Result<Vec<u8>, OpsTooLarge> {
    let (mut short, mut long) = (Changes::<2>::new(), Changes::<5>::new());
    for op in ops {
        let (key, value) = match op {
            FibOp::Set(key, value) => (key, Some(value)),
            FibOp::Delete(key) => (key, None),
        };
        match key {
            FlowKey::Short(key) => short.insert(*key.words(), value),
            FlowKey::Long(key) => long.insert(*key.words(), value),
        };
    }
    let set = |short: usize, long: usize| short * 32 + long * 56;
    let counts = [
        short.values().flatten().count(),
        long.values().flatten().count(),
        short.values().filter(|value| value.is_none()).count(),
        long.values().filter(|value| value.is_none()).count(),
    ];
    let bytes = HEADER_BYTES + set(counts[0], counts[1]) + counts[2] * 16 + counts[3] * 40;
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(OpsTooLarge(bytes));
    }
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(&OPS_VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    for count in counts {
        out.extend_from_slice(&(count as u32).to_le_bytes()); // below MAX_PAYLOAD_BYTES
    }
    write_set(&mut out, &short);
    write_set(&mut out, &long);
    write_deleted(&mut out, &short);
    write_deleted(&mut out, &long);
    Ok(out)
}

fn write_words(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn write_set<const K: usize>(out: &mut Vec<u8>, changes: &Changes<K>) {
    for (key, value) in changes.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
        write_words(out, key);
        write_words(out, value);
    }
}

fn write_deleted<const K: usize>(out: &mut Vec<u8>, changes: &Changes<K>) {
    for (key, _) in changes.iter().filter(|(_, value)| value.is_none()) {
        write_words(out, key);
    }
}

/// The changes to keys of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyOps<const K: usize> {
    pub(super) set: Vec<([u64; K], FibValue)>,
    pub(super) deleted: Vec<[u64; K]>,
}

/// A decoded payload: well-formed, no zero keys, one change per key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ops {
    pub(super) short: KeyOps<2>,
    pub(super) long: KeyOps<5>,
}

impl Ops {
    pub(super) fn keys(&self) -> impl Iterator<Item = FlowKey> + '_ {
        let short = self.short.set.iter().map(|(key, _)| key).chain(&self.short.deleted);
        let long = self.long.set.iter().map(|(key, _)| key).chain(&self.long.deleted);
        short
            .map(|&key| FlowKey::Short(Key16::from_words(key)))
            .chain(long.map(|&key| FlowKey::Long(Key40::from_words(key))))
    }
}

/// Decodes exactly these bytes. Allocates at most a small multiple of their size.
pub(super) fn decode_ops(payload: &[u8]) -> Result<Ops, ApplyError> {
    let truncated = ApplyError::Malformed("shorter than its header");
    let (header, records) = payload.split_first_chunk::<HEADER_BYTES>().ok_or(truncated)?;
    if header[..2] != OPS_VERSION.to_le_bytes() || header[2..4] != [0; 2] {
        return Err(ApplyError::Malformed("unknown version of FIB changes"));
    }
    let count = |i: usize| u32::from_le_bytes(std::array::from_fn(|byte| header[4 + 4 * i + byte])) as usize;
    let records_bytes = [(count(0), 32), (count(1), 56), (count(2), 16), (count(3), 40)];
    let need: u64 = records_bytes.iter().map(|&(count, bytes)| count as u64 * bytes).sum(); // < 2^32 · 144
    if records.len() as u64 != need {
        return Err(ApplyError::Malformed("length differs from what the counts say"));
    }
    let mut words = records.chunks_exact(8).map(|word| u64::from_le_bytes(std::array::from_fn(|i| word[i])));
    let (set_short, set_long) = (read_set(&mut words, count(0)), read_set(&mut words, count(1)));
    let (deleted_short, deleted_long) = (read_keys(&mut words, count(2)), read_keys(&mut words, count(3)));
    Ok(Ops { short: checked(set_short, deleted_short)?, long: checked(set_long, deleted_long)? })
}

/// The next words; the caller has checked that there are enough.
fn take<const N: usize>(words: &mut impl Iterator<Item = u64>) -> [u64; N] {
    std::array::from_fn(|_| words.next().unwrap_or_default())
}

fn read_set<const K: usize>(
    words: &mut impl Iterator<Item = u64>,
    count: usize,
) -> Vec<([u64; K], FibValue)> {
    (0..count).map(|_| (take(words), take(words))).collect()
}

fn read_keys<const K: usize>(words: &mut impl Iterator<Item = u64>, count: usize) -> Vec<[u64; K]> {
    (0..count).map(|_| take(words)).collect()
}

fn checked<const K: usize>(
    set: Vec<([u64; K], FibValue)>,
    deleted: Vec<[u64; K]>,
) -> Result<KeyOps<K>, ApplyError> {
    let ascending = set.is_sorted_by(|(a, _), (b, _)| a < b) && deleted.is_sorted_by(|a, b| a < b);
    if !ascending {
        return Err(ApplyError::Malformed("keys do not ascend"));
    }
    // A zero key would be the first key of its run.
    if set.first().is_some_and(|(key, _)| *key == [0; K]) || deleted.first().is_some_and(|key| *key == [0; K])
    {
        return Err(ApplyError::Malformed("the all-zero key"));
    }
    let (mut a, mut b) = (0, 0);
    while let (Some((set, _)), Some(deleted)) = (set.get(a), deleted.get(b)) {
        match set.cmp(deleted) {
            Ordering::Less => a += 1,
            Ordering::Greater => b += 1,
            Ordering::Equal => return Err(ApplyError::Malformed("a key both set and deleted")),
        }
    }
    Ok(KeyOps { set, deleted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_types::Teid;

    fn short(n: u32) -> FlowKey {
        FlowKey::teid(Teid::new(n))
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
    fn one_set_of_changes_has_one_encoding_and_the_last_change_counts() {
        let a = [FibOp::Set(short(1), [1, 2]), FibOp::Delete(short(2)), FibOp::Set(short(3), [5, 6])];
        let b = [FibOp::Delete(short(1)), a[2], a[1], a[0]];
        let payload = encode_ops(a).unwrap();
        assert_eq!(payload, encode_ops(b).unwrap());
        assert_eq!(payload.len(), HEADER_BYTES + 2 * 32 + 16);
        let ops = decode_ops(&payload).unwrap();
        assert_eq!(ops.short.set, [([5, 1], [1, 2]), ([5, 3], [5, 6])]);
        assert_eq!(ops.short.deleted, [[5, 2]]);
        assert_eq!(ops.keys().collect::<Vec<_>>(), [short(1), short(3), short(2)]);
    }

    #[test]
    fn what_no_encoder_writes_is_refused_by_name() {
        let record = |payload: &mut Vec<u8>, words: &[u64]| write_words(payload, words);
        let header = |counts: [u32; 4]| {
            let mut out = vec![1, 0, 0, 0];
            out.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
            out
        };
        let malformed = |payload: &[u8]| match decode_ops(payload) {
            Err(ApplyError::Malformed(what)) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(malformed(&[]), "shorter than its header");
        assert_eq!(malformed(&[2; 20]), "unknown version of FIB changes");
        assert_eq!(malformed(&header([u32::MAX; 4])), "length differs from what the counts say");
        let mut zero = header([1, 0, 0, 0]);
        record(&mut zero, &[0, 0, 1, 1]);
        assert_eq!(malformed(&zero), "the all-zero key");
        let mut twice = header([0, 0, 2, 0]);
        record(&mut twice, &[5, 1, 5, 1]);
        assert_eq!(malformed(&twice), "keys do not ascend");
        let mut both = header([1, 0, 1, 0]);
        record(&mut both, &[5, 1, 9, 9, 5, 1]);
        assert_eq!(malformed(&both), "a key both set and deleted");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
        fn round_trip(changes: BTreeMap<u32, Option<FibValue>>, long: BTreeMap<u128, Option<FibValue>>) {
            let op = |key: FlowKey, value: Option<FibValue>| value.map_or(FibOp::Delete(key), |v| FibOp::Set(key, v));
            let long_key = |n: u128| FlowKey::five_tuple_v6(n.into(), 0.into(), 6, 1, 2);
            let ops = changes.iter().map(|(&n, &v)| op(short(n), v));
            let ops: Vec<_> = ops.chain(long.iter().map(|(&n, &v)| op(long_key(n), v))).collect();
            let decoded = decode_ops(&encode_ops(ops.clone()).unwrap()).unwrap();
            prop_assert_eq!(decoded.keys().count(), ops.len());
            let short_key = |k: [u64; 2]| FlowKey::Short(Key16::from_words(k));
            let long_key = |k: [u64; 5]| FlowKey::Long(Key40::from_words(k));
            let again = decoded.short.set.iter().map(|&(k, v)| FibOp::Set(short_key(k), v))
                .chain(decoded.short.deleted.iter().map(|&k| FibOp::Delete(short_key(k))))
                .chain(decoded.long.set.iter().map(|&(k, v)| FibOp::Set(long_key(k), v)))
                .chain(decoded.long.deleted.iter().map(|&k| FibOp::Delete(long_key(k))));
            let again: Vec<_> = again.collect();
            prop_assert_eq!(again.len(), ops.len());
            prop_assert!(ops.iter().all(|op| again.contains(op)));
        }

        #[test]
        #[cfg_attr(miri, ignore = "slow under the interpreter, and nothing unsafe")]
        fn any_bytes_decode_or_fail_by_name(mut bytes: Vec<u8>, versioned: bool) {
            if versioned && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&[1, 0, 0, 0]);
            }
            if let Ok(ops) = decode_ops(&bytes) {
                prop_assert!(ops.keys().count() * 16 <= bytes.len());
            }
        }
    }
}
