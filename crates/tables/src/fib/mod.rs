//! The FIB of one node: the flows pinned there and their state, in exact tables, one for each key size.
//!
//! Short keys (16 bytes) and long keys (40 bytes) are stored in two [`CuckooTable`]s, so that IPv4 flows do
//! not pay for the size of IPv6 flows: 34.7 bytes per short flow at load 0.95 including its 16 bytes of
//! state, 68.4 per long flow. A lookup touches one line of flows, and two of tags, which stay in the cache. A
//! lookup of an absent flow mostly touches only tags. Without long keys there is no table for them. Source:
//! `ScaleBricks` (SIGCOMM 2015) §5.2.

mod apply;
mod digest;
mod ops;

pub use digest::FibDigest;
pub use ops::{FibOp, OPS_VERSION, OpsTooLarge, encode_ops};

use crate::cuckoo::{CuckooTable, HashWords, Writer};
use crate::{Fib, FibError, FibValue, KeyBatch};
use apply::Positions;
use scalebricks_types::{FlowKey, KeyHash, KeyHasher, PartitionCount};
use std::sync::OnceLock;

type Table<const K: usize> = CuckooTable<K, 2>;

/// Number of keys that are grouped by size and looked up together.
const LANES: usize = 64;

/// Seeds of the two tables. They are not secret, because the key hash is keyed.
const SEEDS: [u64; 2] = [0x5C41_EB21_C450_0001, 0x5C41_EB21_C450_0002];

/// Slots of a table of long keys that was not configured but is needed.
const LONG_SLOTS: usize = 64;

/// The configuration of a [`PartialFib`]. Begin with [`FibConfig::new`].
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct FibConfig {
    hasher: KeyHasher,
    partitions: PartitionCount,
    short_slots: usize,
    long_slots: usize,
    grow_when_full: bool,
}

impl FibConfig {
    /// A FIB without room, for keys hashed by `hasher`, updated by one stream.
    pub const fn new(hasher: KeyHasher) -> Self {
        let partitions = PartitionCount::ONE;
        Self { hasher, partitions, short_slots: 0, long_slots: 0, grow_when_full: false }
    }

    /// Room for this many short keys at load 0.95.
    pub fn short_keys(self, keys: usize) -> Self {
        Self { short_slots: Table::<2>::slots_for(keys), ..self }
    }

    /// Room for this many long keys at load 0.95.
    pub fn long_keys(self, keys: usize) -> Self {
        Self { long_slots: Table::<5>::slots_for(keys), ..self }
    }

    /// As much room for short keys as fits this memory, and none for long keys.
    pub fn short_keys_within(self, bytes: usize) -> Self {
        Self { short_slots: Table::<2>::slots_within(bytes), long_slots: 0, ..self }
    }

    /// Makes a table with a load above 0.95 grow by half, some buckets with each added key, instead of
    /// refusing keys. While it grows, it uses 2.5 times its memory.
    pub const fn grow_when_full(self) -> Self {
        Self { grow_when_full: true, ..self }
    }

    /// Updated by this many streams, each for one range of the key hash.
    pub const fn partitions(self, partitions: PartitionCount) -> Self {
        Self { partitions, ..self }
    }
}

/// A node's exact flow table, for both key sizes. See the [module](self).
#[derive(Debug)]
pub struct PartialFib {
    short: Table<2>,
    /// Made immediately if long keys were configured, else with the first long key, if the FIB may grow.
    long: OnceLock<Table<5>>,
    hasher: KeyHasher,
    grow_when_full: bool,
    positions: Positions,
}

impl PartialFib {
    /// An empty FIB. Cost: zeroes its memory.
    pub fn new(config: FibConfig) -> Self {
        let long = OnceLock::new();
        let fib = Self {
            short: Table::new(config.short_slots, SEEDS[0], config.hasher),
            long,
            hasher: config.hasher,
            grow_when_full: config.grow_when_full,
            positions: Positions::new(config.partitions),
        };
        if config.long_slots > 0 {
            fib.long.get_or_init(|| Table::new(config.long_slots, SEEDS[1], config.hasher));
        }
        fib
    }

    /// The hasher that computes the hashes passed to this FIB's lookups.
    pub const fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// Number of slots for short keys.
    pub fn short_slots(&self) -> usize {
        self.short.slots()
    }

    /// Number of slots for long keys; 0 while there is no table for them.
    pub fn long_slots(&self) -> usize {
        self.long.get().map_or(0, CuckooTable::slots)
    }

    /// The value of one key. For many keys use [`Fib::lookup_batch`].
    #[inline]
    pub fn get(&self, key: &FlowKey, hash: KeyHash) -> Option<FibValue> {
        match key {
            FlowKey::Short(key) => self.short.get(key.words(), hash),
            FlowKey::Long(key) => self.long.get()?.get(key.words(), hash),
        }
    }

    /// Calls `tell` for each cache line that a lookup of this key reads: see [`CuckooTable::touched`].
    pub fn touched(&self, key: &FlowKey, hash: KeyHash, tell: &mut dyn FnMut(*const u8)) {
        match (key, self.long.get()) {
            (FlowKey::Short(key), _) => self.short.touched(key.words(), hash, tell),
            (FlowKey::Long(key), Some(table)) => table.touched(key.words(), hash, tell),
            (FlowKey::Long(_), None) => {}
        }
    }

    /// Makes room for this total number of keys of each size, at load 0.95, while readers continue. It never
    /// shrinks a table.
    ///
    /// Cost: one insert per key; at the peak the old and the new tables both use memory.
    ///
    /// # Errors
    /// [`FibError::Full`] beyond 4 Gi slots.
    pub fn reserve(&self, short_keys: usize, long_keys: usize) -> Result<(), FibError> {
        let slots = Table::<2>::slots_for(short_keys);
        if slots > self.short.slots() {
            self.short.grow(slots)?;
        }
        let slots = Table::<5>::slots_for(long_keys);
        if slots > self.long_slots() {
            let table = self.long.get_or_init(|| Table::new(slots, SEEDS[1], self.hasher));
            if slots > table.slots() {
                table.grow(slots)?;
            }
        }
        Ok(())
    }

    /// Calls `visit` with each key and value, short keys first. Blocks writers of the keys of that size
    /// meanwhile; `visit` must not write to this FIB.
    pub fn for_each(&self, mut visit: impl FnMut(FlowKey, FibValue)) {
        use scalebricks_types::{Key16, Key40};
        self.short.for_each(|key, value| visit(FlowKey::Short(Key16::from_words(key)), value));
        if let Some(long) = self.long.get() {
            long.for_each(|key, value| visit(FlowKey::Long(Key40::from_words(key)), value));
        }
    }

    /// The table of long keys, for an insert.
    fn long_for_insert(&self) -> Result<&Table<5>, FibError> {
        if let Some(table) = self.long.get() {
            return Ok(table);
        }
        if !self.grow_when_full {
            return Err(FibError::Full { len: 0, slots: 0 });
        }
        Ok(self.long.get_or_init(|| Table::new(LONG_SLOTS, SEEDS[1], self.hasher)))
    }

    fn insert_words<const K: usize>(
        &self,
        writer: &mut Writer<'_, K, 2, KeyHasher>,
        key: &[u64; K],
        hash: KeyHash,
        value: &FibValue,
    ) -> Result<(), FibError>
    where
        KeyHasher: HashWords<K>,
    {
        if self.grow_when_full {
            writer.insert_growing(key, hash, value)
        } else {
            writer.insert(key, hash, value)
        }
    }

    /// Looks up at most [`LANES`] keys of both sizes: gathers each size, looks it up, and scatters the
    /// answers.
    #[cold]
    fn lookup_mixed(&self, keys: &[FlowKey], hashes: &[KeyHash], values: &mut [Option<FibValue>]) {
        let (mut short, mut short_at, mut shorts) = ([[0; 2]; LANES], [0; LANES], 0);
        let (mut long, mut long_at, mut longs) = ([[0; 5]; LANES], [0; LANES], 0);
        for (at, key) in keys.iter().enumerate() {
            match key {
                FlowKey::Short(key) => {
                    (short[shorts], short_at[shorts]) = (*key.words(), at);
                    shorts += 1;
                }
                FlowKey::Long(key) => {
                    (long[longs], long_at[longs]) = (*key.words(), at);
                    longs += 1;
                }
            }
        }
        scatter(&self.short, &short[..shorts], &short_at[..shorts], hashes, values);
        match self.long.get() {
            Some(table) => scatter(table, &long[..longs], &long_at[..longs], hashes, values),
            None => long_at[..longs].iter().for_each(|&at| values[at] = None),
        }
    }
}

/// Looks up `keys`, whose hashes and answers are at the indices `at`.
fn scatter<const K: usize>(
    table: &Table<K>,
    keys: &[[u64; K]],
    at: &[usize],
    hashes: &[KeyHash],
    values: &mut [Option<FibValue>],
) where
    KeyHasher: HashWords<K>,
{
    let (mut own_hashes, mut found) = ([KeyHash::default(); LANES], [None; LANES]);
    for (own, &at) in own_hashes.iter_mut().zip(at) {
        *own = hashes[at];
    }
    table.get_batch(keys, &own_hashes[..keys.len()], &mut found[..keys.len()]);
    for (&at, value) in at.iter().zip(found) {
        values[at] = value;
    }
}

impl Fib for PartialFib {
    /// A batch without long keys, the common case, takes no branch on a key's size.
    fn lookup_batch(&self, keys: KeyBatch<'_>, values: &mut [Option<FibValue>]) {
        let values = &mut values[..keys.len()];
        let lanes = keys.keys().chunks(LANES).zip(keys.hashes().chunks(LANES)).zip(values.chunks_mut(LANES));
        for ((keys, hashes), values) in lanes {
            let mut words = [[0; 2]; LANES];
            let mut longs = 0;
            for (words, key) in words.iter_mut().zip(keys) {
                match key {
                    FlowKey::Short(key) => *words = *key.words(),
                    FlowKey::Long(_) => longs += 1,
                }
            }
            if longs == 0 {
                self.short.get_batch(&words[..keys.len()], hashes, values);
            } else {
                self.lookup_mixed(keys, hashes, values);
            }
        }
    }

    fn insert(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<(), FibError> {
        match key {
            FlowKey::Short(key) => self.insert_words(&mut self.short.write(), key.words(), hash, &value),
            FlowKey::Long(key) => {
                self.insert_words(&mut self.long_for_insert()?.write(), key.words(), hash, &value)
            }
        }
    }

    fn update(&self, key: &FlowKey, hash: KeyHash, value: FibValue) -> Result<FibValue, FibError> {
        match key {
            FlowKey::Short(key) => self.short.update(key.words(), hash, &value),
            FlowKey::Long(key) => self.long.get().ok_or(FibError::Missing)?.update(key.words(), hash, &value),
        }
    }

    fn remove(&self, key: &FlowKey, hash: KeyHash) -> Result<FibValue, FibError> {
        match key {
            FlowKey::Short(key) => self.short.remove(key.words(), hash),
            FlowKey::Long(key) => self.long.get().ok_or(FibError::Missing)?.remove(key.words(), hash),
        }
    }

    fn len(&self) -> usize {
        self.short.len() + self.long.get().map_or(0, CuckooTable::len)
    }

    fn table_bytes(&self) -> usize {
        self.short.table_bytes() + self.long.get().map_or(0, CuckooTable::table_bytes)
    }
}

#[cfg(test)]
mod tests;
