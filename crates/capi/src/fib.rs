//! The FIB: an exact table with values of 16 bytes.

use crate::ffi::{given, input, make, output, run, total};
use crate::hash::{hasher, words};
use crate::status::{Failure, sb_status};
use scalebricks_tables::FibError;
use scalebricks_tables::cuckoo::{CuckooTable, HashWords};
use scalebricks_tables::hashing::BatchHasher;
use scalebricks_types::{FlowKey, Key16, Key40, KeyHash, KeyHasher};
use std::mem::MaybeUninit;

/// Bytes of a value.
pub const SB_FIB_VALUE_BYTES: usize = 16;

/// Keys looked up or inserted together.
const TOGETHER: usize = 64;

type Value = [u64; SB_FIB_VALUE_BYTES / 8];

/// An exact table from keys of 16 or 40 bytes to values of 16 bytes.
pub struct sb_fib {
    table: Keys,
    is_growing: bool,
}

/// The table, by the size of its keys.
enum Keys {
    Short(Fib<2>),
    Long(Fib<5>),
}

struct Fib<const K: usize> {
    table: CuckooTable<K, 2>,
    hasher: KeyHasher,
}

/// Runs the same expression for either size of keys.
macro_rules! either {
    ($fib:expr, $it:ident => $act:expr) => {
        match &$fib.table {
            Keys::Short($it) => $act,
            Keys::Long($it) => $act,
        }
    };
}

/// A key of the table as the crate's hasher takes it.
trait Words<const K: usize>: HashWords<K> {
    fn key(words: [u64; K]) -> FlowKey;
}

impl Words<2> for KeyHasher {
    fn key(words: [u64; 2]) -> FlowKey {
        FlowKey::Short(Key16::from_words(words))
    }
}

impl Words<5> for KeyHasher {
    fn key(words: [u64; 5]) -> FlowKey {
        FlowKey::Long(Key40::from_words(words))
    }
}

/// Up to [`TOGETHER`] keys, with their hashes.
struct Batch<const K: usize> {
    keys: [[u64; K]; TOGETHER],
    hashes: [KeyHash; TOGETHER],
    count: usize,
}

impl<const K: usize> Batch<K>
where
    KeyHasher: Words<K>,
{
    /// The keys in these bytes.
    fn read(hasher: &KeyHasher, bytes: &[u8]) -> Self {
        let (mut keys, mut hashes) = ([[0; K]; TOGETHER], [KeyHash::default(); TOGETHER]);
        let mut flows = [<KeyHasher as Words<K>>::key([0; K]); TOGETHER];
        let count = bytes.len() / (K * 8);
        for ((key, flow), bytes) in keys.iter_mut().zip(&mut flows).zip(bytes.chunks_exact(K * 8)) {
            *key = words(bytes);
            *flow = <KeyHasher as Words<K>>::key(*key);
        }
        BatchHasher::new(*hasher).hash(&flows[..count], &mut hashes);
        Self { keys, hashes, count }
    }

    fn keys(&self) -> &[[u64; K]] {
        &self.keys[..self.count]
    }

    fn hashes(&self) -> &[KeyHash] {
        &self.hashes[..self.count]
    }
}

impl<const K: usize> Fib<K>
where
    KeyHasher: Words<K>,
{
    const KEY_BYTES: usize = K * 8;

    fn new(hasher: KeyHasher, capacity: usize) -> Self {
        let slots = CuckooTable::<K, 2, KeyHasher>::slots_for(capacity);
        Self { table: CuckooTable::new(slots, 0, hasher), hasher }
    }

    /// The key in these bytes, and its hash.
    fn key(&self, bytes: &[u8]) -> ([u64; K], KeyHash) {
        let key = words(bytes);
        (key, self.hasher.hash_words(&key))
    }

    /// Adds keys in order. Returns how many were added, and why the next was not.
    fn insert_all(&self, keys: &[u8], values: &[u8], is_growing: bool) -> (usize, Result<(), FibError>) {
        let (mut writer, mut done) = (self.table.write(), 0);
        let runs = keys.chunks(Self::KEY_BYTES * TOGETHER).zip(values.chunks(SB_FIB_VALUE_BYTES * TOGETHER));
        for (keys, values) in runs {
            let batch = Batch::read(&self.hasher, keys);
            let mut made = [Value::default(); TOGETHER];
            for (value, bytes) in made.iter_mut().zip(values.chunks_exact(SB_FIB_VALUE_BYTES)) {
                *value = words(bytes);
            }
            let made = &made[..batch.count];
            let added = if is_growing {
                writer.insert_all_growing(batch.keys(), batch.hashes(), made)
            } else {
                writer.insert_all(batch.keys(), batch.hashes(), made)
            };
            match added {
                Ok(()) => done += batch.count,
                Err(refused) => return (done + refused.at, Err(refused.error)),
            }
        }
        (done, Ok(()))
    }

    /// Looks keys up. Values of keys that are not there become zeros.
    fn lookup(&self, keys: &[u8], values: &mut [u8], found: &mut [u8]) {
        let keys = keys.chunks(Self::KEY_BYTES * TOGETHER);
        let outputs = values.chunks_mut(SB_FIB_VALUE_BYTES * TOGETHER).zip(found.chunks_mut(TOGETHER));
        for (keys, (values, found)) in keys.zip(outputs) {
            let batch = Batch::read(&self.hasher, keys);
            let mut answers = [None; TOGETHER];
            self.table.get_batch(batch.keys(), batch.hashes(), &mut answers[..batch.count]);
            let places = values.chunks_exact_mut(SB_FIB_VALUE_BYTES).zip(found);
            for ((value, found), answer) in places.zip(answers) {
                *found = answer.is_some().into();
                put(answer.unwrap_or_default(), value);
            }
        }
    }
}

/// Writes a value as bytes.
fn put(value: Value, bytes: &mut [u8]) {
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(value) {
        *bytes = word.to_le_bytes();
    }
}

impl sb_fib {
    const fn key_bytes(&self) -> usize {
        match &self.table {
            Keys::Short(_) => Fib::<2>::KEY_BYTES,
            Keys::Long(_) => Fib::<5>::KEY_BYTES,
        }
    }
}

/// An empty table for `capacity` keys of `key_bytes` bytes, 16 or 40. If `grows` is not 0, it grows as keys
/// are inserted, a few buckets with each, while readers go on. `seed` points to the two words of a secret
/// seed: whoever does not know it cannot fill one bucket on purpose.
///
/// Keys of other lengths fit if they are padded with zeros. The key of zeros only cannot be stored.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_fib_new(
    key_bytes: usize,
    capacity: usize,
    grows: u8,
    seed: *const u64,
    out: Option<&mut MaybeUninit<*mut sb_fib>>,
) -> sb_status {
    make(out, || {
        // SAFETY: the header promises two words.
        let hasher = unsafe { hasher(seed)? };
        if capacity > u32::MAX as usize {
            return Err(Failure::argument(format!("capacity is {capacity}, more than 4,294,967,295")));
        }
        let table = match key_bytes {
            16 => Keys::Short(Fib::new(hasher, capacity)),
            40 => Keys::Long(Fib::new(hasher, capacity)),
            other => return Err(Failure::argument(format!("key_bytes is {other}, not 16 or 40"))),
        };
        Ok(sb_fib { table, is_growing: grows != 0 })
    })
}

/// Frees a table.
///
/// Threads: no other function may use it.
#[unsafe(no_mangle)]
pub extern "C" fn sb_fib_free(fib: Option<Box<sb_fib>>) {
    drop(fib);
}

/// Adds a key with a value of 16 bytes.
///
/// Fails with `SB_STATUS_EXISTS`, and with `SB_STATUS_FULL` if the table does not grow.
///
/// Threads: any number; writers wait for one another, lookups do not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_fib_insert(fib: Option<&sb_fib>, key: *const u8, value: *const u8) -> sb_status {
    // SAFETY: the header's promise is the same.
    unsafe { sb_fib_insert_all(fib, key, value, 1, None) }
}

/// Adds `count` keys, in order, faster than one by one. `*inserted` is the number of keys added: all, or
/// those before the one for which the function failed. `inserted` may be NULL.
///
/// Fails as `sb_fib_insert`.
///
/// Threads: as `sb_fib_insert`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_fib_insert_all(
    fib: Option<&sb_fib>,
    keys: *const u8,
    values: *const u8,
    count: usize,
    inserted: Option<&mut MaybeUninit<usize>>,
) -> sb_status {
    run(|| {
        let fib = given(fib, "fib")?;
        let (key_bytes, value_bytes) = (total(count, fib.key_bytes())?, total(count, SB_FIB_VALUE_BYTES)?);
        // SAFETY: the header promises arrays of these sizes.
        let (keys, values) =
            unsafe { (input(keys, key_bytes, "keys")?, input(values, value_bytes, "values")?) };
        let (done, result) = either!(fib, table => table.insert_all(keys, values, fib.is_growing));
        if let Some(inserted) = inserted {
            inserted.write(done);
        }
        result.map_err(|error| {
            let Failure { status, message } = error.into();
            Failure::new(status, format!("key {done}: {message}"))
        })
    })
}

/// Replaces the value of a key.
///
/// Fails with `SB_STATUS_MISSING`.
///
/// Threads: as `sb_fib_insert`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_fib_update(fib: Option<&sb_fib>, key: *const u8, value: *const u8) -> sb_status {
    run(|| {
        let fib = given(fib, "fib")?;
        // SAFETY: the header promises a key and a value.
        let (key, value) =
            unsafe { (input(key, fib.key_bytes(), "key")?, input(value, SB_FIB_VALUE_BYTES, "value")?) };
        either!(fib, table => {
            let (key, hash) = table.key(key);
            table.table.update(&key, hash, &words(value))?
        });
        Ok(())
    })
}

/// Removes a key. Its value is copied to `value`, 16 bytes, which may be NULL.
///
/// Fails with `SB_STATUS_MISSING`.
///
/// Threads: as `sb_fib_insert`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_fib_remove(fib: Option<&sb_fib>, key: *const u8, value: *mut u8) -> sb_status {
    run(|| {
        let fib = given(fib, "fib")?;
        // SAFETY: the header promises a key.
        let key = unsafe { input(key, fib.key_bytes(), "key")? };
        let old = either!(fib, table => {
            let (key, hash) = table.key(key);
            table.table.remove(&key, hash)?
        });
        if !value.is_null() {
            // SAFETY: the header promises a value.
            put(old, unsafe { output(value, SB_FIB_VALUE_BYTES, "value")? });
        }
        Ok(())
    })
}

/// Looks `count` keys up. `found` gets 1 for each key that is in the table, else 0. `values` gets 16 bytes
/// per key, zeros for a key that is not in the table. Each answer is right for a moment during the call.
///
/// Batches hide the latency of memory: use 32 keys or more per call.
///
/// Threads: any number; lookups never wait for writers, except in the few instructions in which a writer
/// stores an entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_fib_lookup(
    fib: Option<&sb_fib>,
    keys: *const u8,
    count: usize,
    values: *mut u8,
    found: *mut u8,
) -> sb_status {
    run(|| {
        let fib = given(fib, "fib")?;
        let (key_bytes, value_bytes) = (total(count, fib.key_bytes())?, total(count, SB_FIB_VALUE_BYTES)?);
        // SAFETY: the header promises arrays of these sizes, which do not overlap.
        let (keys, values, found) = unsafe {
            (
                input(keys, key_bytes, "keys")?,
                output(values, value_bytes, "values")?,
                output(found, count, "found")?,
            )
        };
        either!(fib, table => table.lookup(keys, values, found));
        Ok(())
    })
}

/// Number of keys; 0 for NULL.
///
/// Threads: any number.
#[unsafe(no_mangle)]
pub extern "C" fn sb_fib_len(fib: Option<&sb_fib>) -> usize {
    fib.map_or(0, |fib| either!(fib, table => table.table.len()))
}

/// Bytes of memory that the table takes; 0 for NULL.
///
/// Threads: any number.
#[unsafe(no_mangle)]
pub extern "C" fn sb_fib_bytes(fib: Option<&sb_fib>) -> usize {
    fib.map_or(0, |fib| either!(fib, table => table.table.table_bytes()))
}
