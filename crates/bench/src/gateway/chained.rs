//! The paper's first baseline: hashing with chaining. An array of heads, at least as many as entries, leads
//! to linked entries in one array that is allocated once.
//!
//! Batches are looked up in stages with prefetching, as in every other table here, so that only the
//! structures differ. A lock guards the table while it is filled; the measured table is frozen and has no
//! lock.

use super::read_only::{Frozen, Lookup};
use scalebricks_tables::{Fib, FibError, FibValue, KeyBatch, prefetch_read};
use scalebricks_types::{FlowKey, KeyHash};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// No entry.
const NONE: u32 = u32::MAX;

/// Keys looked up together, as many as a node looks up.
const LANES: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: [u64; 2],
    value: FibValue,
    /// Part of the hash, compared before the key.
    tag: u32,
    next: u32,
}

#[derive(Debug)]
struct Chains {
    heads: Vec<u32>,
    entries: Vec<Entry>,
    /// First of the linked free entries.
    free: u32,
    len: usize,
    shift: u32,
}

/// An exact table of 16-byte keys with chaining.
#[derive(Debug)]
pub struct ChainedHash(RwLock<Chains>);

impl ChainedHash {
    /// A table with room for `keys` keys.
    pub fn new(keys: usize) -> Self {
        let heads = keys.next_power_of_two().max(2);
        Self(RwLock::new(Chains {
            heads: vec![NONE; heads],
            entries: Vec::with_capacity(keys),
            free: NONE,
            len: 0,
            shift: 64 - heads.trailing_zeros(),
        }))
    }

    /// The same table, read-only and without the lock.
    pub fn freeze(self) -> impl Fib {
        Frozen(self.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn read(&self) -> RwLockReadGuard<'_, Chains> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Chains> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The words of a short key; this table stores no long keys.
const fn words(key: &FlowKey) -> Option<&[u64; 2]> {
    match key {
        FlowKey::Short(key) => Some(key.words()),
        FlowKey::Long(_) => None,
    }
}

impl Chains {
    /// The chain of a hash, from the top bits of its product with an odd number, independent of other uses of
    /// its bits.
    #[inline]
    const fn bucket(&self, hash: KeyHash) -> usize {
        (hash.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// The index of a key's entry, searched from `at` on.
    #[inline]
    fn find_from(&self, mut at: u32, key: &[u64; 2], hash: KeyHash) -> Option<usize> {
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.tag == hash.get() as u32 && entry.key == *key {
                return Some(at as usize);
            }
            at = entry.next;
        }
        None
    }

    fn find(&self, key: &[u64; 2], hash: KeyHash) -> Option<usize> {
        self.find_from(self.heads[self.bucket(hash)], key, hash)
    }
}

impl Lookup for Chains {
    fn lookup_batch(&self, keys: KeyBatch<'_>, values: &mut [Option<FibValue>]) {
        let values = &mut values[..keys.len()];
        let lanes = keys.keys().chunks(LANES).zip(keys.hashes().chunks(LANES)).zip(values.chunks_mut(LANES));
        for ((keys, hashes), values) in lanes {
            let (mut buckets, mut firsts) = ([0; LANES], [NONE; LANES]);
            for (bucket, &hash) in buckets.iter_mut().zip(hashes) {
                *bucket = self.bucket(hash);
                prefetch_read(&self.heads[*bucket]);
            }
            for (first, &bucket) in firsts.iter_mut().zip(&buckets[..keys.len()]) {
                *first = self.heads[bucket];
                if let Some(entry) = self.entries.get(*first as usize) {
                    prefetch_read(entry);
                }
            }
            for (((key, &hash), &first), value) in keys.iter().zip(hashes).zip(&firsts).zip(values) {
                let found = words(key).and_then(|key| self.find_from(first, key, hash));
                *value = found.map(|at| self.entries[at].value);
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn table_bytes(&self) -> usize {
        self.heads.len() * size_of::<u32>() + self.entries.capacity() * size_of::<Entry>()
    }
}

impl Fib for ChainedHash {
    fn lookup_batch(&self, keys: KeyBatch<'_>, values: &mut [Option<FibValue>]) {
        self.read().lookup_batch(keys, values);
    }

    fn insert(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<(), FibError> {
        let mut chains = self.write();
        let full = FibError::Full { len: chains.len, slots: chains.entries.capacity() };
        let key = *words(key).ok_or(full)?;
        if chains.find(&key, hash).is_some() {
            return Err(FibError::Exists);
        }
        let bucket = chains.bucket(hash);
        let entry = Entry { key, value, tag: hash.get() as u32, next: chains.heads[bucket] };
        let at = chains.free;
        if let Some(place) = chains.entries.get_mut(at as usize) {
            let next = place.next;
            *place = entry;
            chains.free = next;
            chains.heads[bucket] = at;
        } else if chains.entries.len() < NONE as usize {
            chains.heads[bucket] = chains.entries.len() as u32; // below `NONE`
            chains.entries.push(entry);
        } else {
            return Err(full);
        }
        chains.len += 1;
        Ok(())
    }

    fn update(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<FibValue, FibError> {
        let mut chains = self.write();
        let at = words(key).and_then(|key| chains.find(key, hash)).ok_or(FibError::Missing)?;
        Ok(std::mem::replace(&mut chains.entries[at].value, value))
    }

    fn remove(&self, key: &FlowKey, hash: KeyHash) -> Result<FibValue, FibError> {
        let mut chains = self.write();
        let at = words(key).and_then(|key| chains.find(key, hash)).ok_or(FibError::Missing)?;
        let (bucket, next) = (chains.bucket(hash), chains.entries[at].next);
        let mut before = chains.heads[bucket];
        if before as usize == at {
            chains.heads[bucket] = next;
        } else {
            while chains.entries[before as usize].next as usize != at {
                before = chains.entries[before as usize].next;
            }
            chains.entries[before as usize].next = next;
        }
        chains.entries[at].next = chains.free;
        chains.free = at as u32; // was a link
        chains.len -= 1;
        Ok(chains.entries[at].value)
    }

    fn len(&self) -> usize {
        self.read().len
    }

    fn table_bytes(&self) -> usize {
        self.read().table_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::flows::HASHER;
    use scalebricks_types::Teid;
    use std::collections::HashMap;

    /// Applies random changes to a small table with long chains and to a map.
    #[test]
    fn it_is_a_map() {
        let (table, mut map) = (ChainedHash::new(16), HashMap::new());
        for step in 0..20_000_u64 {
            let draw = crate::keys::mix(step);
            let key = FlowKey::teid(Teid::new(draw as u32 % 100));
            let (hash, value) = (HASHER.hash(&key), [draw, step]);
            match draw >> 62 {
                0 => assert_eq!(table.remove(&key, hash).ok(), map.remove(&key)),
                1 => {
                    let old = map.get_mut(&key).map(|held| std::mem::replace(held, value));
                    assert_eq!(table.update(&key, hash, value).ok(), old);
                }
                _ => {
                    let wanted = if map.contains_key(&key) { Err(FibError::Exists) } else { Ok(()) };
                    assert_eq!(table.insert(&key, hash, value), wanted);
                    map.entry(key).or_insert(value);
                }
            }
            assert_eq!(table.len(), map.len());
        }
        let keys: Vec<FlowKey> = (0..120).map(|n| FlowKey::teid(Teid::new(n))).collect();
        let hashes: Vec<KeyHash> = keys.iter().map(|key| HASHER.hash(key)).collect();
        let mut values = vec![None; keys.len()];
        table.lookup_batch(KeyBatch::new(&keys, &hashes), &mut values);
        let wanted: Vec<_> = keys.iter().map(|key| map.get(key).copied()).collect();
        assert_eq!(values, wanted);
    }
}
