//! Hashes of keys.

use crate::ffi::{input, output, run, total};
use crate::status::{Failure, sb_status};
use scalebricks_tables::hashing::BatchHasher;
use scalebricks_types::{FlowKey, HashSeed, Key16, KeyHash, KeyHasher};

/// Keys hashed together.
const TOGETHER: usize = 64;

/// Little-endian words of a key.
pub(crate) fn words<const K: usize>(key: &[u8]) -> [u64; K] {
    let mut words = [0; K];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// The hasher with the seed that a parameter points to.
///
/// # Safety
/// Unless the pointer is NULL, it points to two words.
pub(crate) unsafe fn hasher(seed: *const u64) -> Result<KeyHasher, Failure> {
    // SAFETY: the caller's promise.
    let seed = unsafe { input(seed, 2, "seed")? };
    Ok(KeyHasher::new(HashSeed::new(seed[0], seed[1])))
}

/// The hash of each key: SipHash-1-3 under a secret seed of two words. `keys` is an array of `count` keys of
/// `key_bytes` bytes each, one after the other; `hashes` gets `count` hashes.
///
/// GPTs work with these hashes instead of keys. Whoever does not know the seed cannot choose keys that
/// collide. Use the same seed at all nodes. Keys of 16 bytes are hashed side by side where the processor has
/// AVX-512.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sb_hash(
    seed: *const u64,
    keys: *const u8,
    key_bytes: usize,
    count: usize,
    hashes: *mut u64,
) -> sb_status {
    run(|| {
        let bytes = total(count, key_bytes)?;
        // SAFETY: the header promises arrays of these sizes.
        let (hasher, keys, hashes) =
            unsafe { (hasher(seed)?, input(keys, bytes, "keys")?, output(hashes, count, "hashes")?) };
        if key_bytes == 16 {
            hash_short(&hasher, keys, hashes);
        } else if key_bytes == 0 {
            hashes.fill(hasher.hash_bytes(&[]).get());
        } else {
            for (key, hash) in keys.chunks_exact(key_bytes).zip(hashes) {
                *hash = hasher.hash_bytes(key).get();
            }
        }
        Ok(())
    })
}

fn hash_short(hasher: &KeyHasher, keys: &[u8], hashes: &mut [u64]) {
    let batch = BatchHasher::new(*hasher);
    let empty = FlowKey::Short(Key16::from_words([0; 2]));
    for (keys, hashes) in keys.chunks(16 * TOGETHER).zip(hashes.chunks_mut(TOGETHER)) {
        let (mut made, mut found) = ([empty; TOGETHER], [KeyHash::default(); TOGETHER]);
        for (made, key) in made.iter_mut().zip(keys.as_chunks::<16>().0) {
            *made = FlowKey::Short(Key16::from_words(words(key)));
        }
        batch.hash(&made[..hashes.len()], &mut found);
        hashes.iter_mut().zip(found).for_each(|(to, hash)| *to = hash.get());
    }
}
