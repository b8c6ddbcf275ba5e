//! The memory of a table: buckets of keys, the values beside them, and how both are read under the version counters.

use super::version::{self, Versions, wait};
use crate::prefetch::prefetch_read;
use scalebricks_types::KeyHash;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots in a bucket.
pub(super) const SLOTS: usize = 4;

/// Keys looked up together: enough to cover a memory access with the work of the others.
pub(super) const LANES: usize = 32;

/// Words of a key that are compared in all slots of a bucket before any other is read: the first cache line.
const HEAD: usize = 2;

/// An odd number without pattern (2^64 over the golden ratio).
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Four keys, word by word: the first words of all, then the second words of all, and so on. So the first line
/// holds the first two words of each key, and a key of two words is a bucket of exactly one line. An all-zero key
/// is an empty slot.
#[derive(Debug)]
#[repr(C, align(64))]
struct Bucket<const K: usize> {
    words: [[AtomicU64; SLOTS]; K],
}

impl<const K: usize> Bucket<K> {
    fn empty() -> Self {
        Self { words: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))) }
    }

    /// The slots that hold `key`, as bits. Without branches for keys of up to two words.
    #[inline]
    fn matches(&self, key: &[u64; K]) -> u32 {
        let mut mask = 0;
        for slot in 0..SLOTS {
            let mut differ = 0;
            for (row, word) in self.words.iter().zip(key).take(HEAD) {
                differ |= row[slot].load(Ordering::Relaxed) ^ word;
            }
            mask |= u32::from(differ == 0) << slot;
        }
        if K > HEAD && mask != 0 {
            for slot in 0..SLOTS {
                let differ =
                    (HEAD..K).any(|word| self.words[word][slot].load(Ordering::Relaxed) != key[word]);
                mask &= !(u32::from(differ) << slot);
            }
        }
        mask
    }

    #[inline]
    fn key(&self, slot: usize) -> [u64; K] {
        std::array::from_fn(|word| self.words[word][slot].load(Ordering::Relaxed))
    }
}

/// No slot has this number.
const ABSENT: usize = usize::MAX;

#[inline]
fn load<const V: usize>(words: &[AtomicU64; V]) -> [u64; V] {
    std::array::from_fn(|word| words[word].load(Ordering::Relaxed))
}

/// The two buckets a key may be in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    pub(super) first: u32,
    pub(super) second: u32,
}

/// One slot of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) bucket: u32,
    pub(super) slot: u32,
}

impl Slot {
    #[inline]
    const fn number(self) -> usize {
        self.bucket as usize * SLOTS + self.slot as usize
    }
}

/// Keys, values and version counters. Never moves and never changes its size; a grown table is another store.
#[derive(Debug)]
pub(super) struct Store<const K: usize, const V: usize> {
    buckets: Box<[Bucket<K>]>,
    values: Box<[[AtomicU64; V]]>,
    versions: Versions,
    seed: u64,
}

impl<const K: usize, const V: usize> Store<K, V> {
    /// An empty store of this many buckets.
    pub(super) fn new(buckets: usize, seed: u64) -> Self {
        Self {
            buckets: (0..buckets).map(|_| Bucket::empty()).collect(),
            values: (0..buckets * SLOTS).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
            versions: Versions::for_buckets(buckets),
            seed,
        }
    }

    pub(super) const fn bytes_for(buckets: usize) -> usize {
        buckets * (size_of::<Bucket<K>>() + SLOTS * V * size_of::<u64>())
    }

    pub(super) fn bytes(&self) -> usize {
        Self::bytes_for(self.buckets.len()) + version::bytes_for(self.buckets.len())
    }

    pub(super) const fn slots(&self) -> usize {
        self.values.len()
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    /// The two buckets of a key with this hash, never the same one. The whole hash is mixed anew under the table's seed,
    /// because the tables of one node see hashes that share their top bits; each half of the folded product then picks
    /// a bucket.
    #[inline]
    pub(super) fn places(&self, hash: KeyHash) -> Places {
        let product = u128::from(hash.get() ^ self.seed) * u128::from(MULTIPLIER);
        let mixed = (product >> 64) as u64 ^ product as u64;
        let buckets = self.buckets.len() as u64; // 2 to 2^30, see `buckets_for`
        let first = ((mixed & 0xFFFF_FFFF) * buckets) >> 32;
        let among_others = ((mixed >> 32) * (buckets - 1)) >> 32;
        let second = among_others + u64::from(among_others >= first);
        Places { first: first as u32, second: second as u32 }
    }

    #[inline]
    pub(super) fn prefetch(&self, places: Places) {
        prefetch_read(&self.buckets[places.first as usize]);
        prefetch_read(&self.buckets[places.second as usize]);
    }

    #[inline]
    pub(super) fn prefetch_bucket(&self, bucket: u32) {
        prefetch_read(&self.buckets[bucket as usize]);
    }

    /// Where `key` is. For readers a guess, until the versions are found unchanged.
    #[inline]
    pub(super) fn find(&self, key: &[u64; K], places: Places) -> Option<Slot> {
        let first = self.buckets[places.first as usize].matches(key);
        let second = self.buckets[places.second as usize].matches(key);
        let mask = first | second << SLOTS;
        if mask == 0 || *key == [0; K] {
            return None;
        }
        // Which bucket it is in is a coin toss that a branch would lose every other time: compute it.
        let lane = mask.trailing_zeros();
        let in_second = (lane / SLOTS as u32).wrapping_neg();
        let bucket = places.first ^ ((places.first ^ places.second) & in_second);
        Some(Slot { bucket, slot: lane % SLOTS as u32 })
    }

    #[inline]
    pub(super) fn key(&self, at: Slot) -> [u64; K] {
        self.buckets[at.bucket as usize].key(at.slot as usize)
    }

    #[inline]
    pub(super) fn value(&self, at: Slot) -> [u64; V] {
        load(&self.values[at.number()])
    }

    /// The first empty slot of a bucket. For the writer.
    #[inline]
    pub(super) fn free_slot(&self, bucket: u32) -> Option<Slot> {
        let free = self.buckets[bucket as usize].matches(&[0; K]);
        (free != 0).then(|| Slot { bucket, slot: free.trailing_zeros() })
    }

    /// The value of a key. Waits while the writer changes one of its two stripes.
    #[inline]
    pub(super) fn get(&self, key: &[u64; K], places: Places) -> Option<[u64; V]> {
        let mut tries = 0;
        loop {
            let seen = self.begin(places);
            let found = self.find(key, places).map(|at| self.value(at));
            Versions::end_of_reads();
            if self.unchanged(places, seen) {
                return found;
            }
            wait(&mut tries);
        }
    }

    /// The values of up to [`LANES`] keys in three passes over them: ask for the buckets, find the slots and ask for
    /// the values, read the values. All slices have one length.
    #[inline]
    pub(super) fn get_lanes(&self, keys: &[[u64; K]], hashes: &[KeyHash], found: &mut [Option<[u64; V]>]) {
        let n = keys.len().min(LANES).min(hashes.len()).min(found.len());
        let (keys, hashes, found) = (&keys[..n], &hashes[..n], &mut found[..n]);
        let mut places = [Places { first: 0, second: 0 }; LANES];
        let (mut seen_first, mut seen_second) = ([0; LANES], [0; LANES]);
        // Slot numbers, one word each: an `Option<Slot>` is written in parts and read whole, which stalls the reads.
        let mut slots = [ABSENT; LANES];
        for (places, &hash) in places.iter_mut().zip(hashes) {
            *places = self.places(hash);
            self.prefetch(*places);
        }
        for i in 0..n {
            (seen_first[i], seen_second[i]) = self.begin(places[i]);
            if let Some(at) = self.find(&keys[i], places[i]) {
                slots[i] = at.number();
                prefetch_read(&self.values[slots[i]]);
            }
        }
        for (found, &slot) in found.iter_mut().zip(&slots) {
            *found = self.values.get(slot).map(load);
        }
        Versions::end_of_reads();
        for i in 0..n {
            if !self.unchanged(places[i], (seen_first[i], seen_second[i])) {
                found[i] = self.get_again(&keys[i], places[i]);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn get_again(&self, key: &[u64; K], places: Places) -> Option<[u64; V]> {
        self.get(key, places)
    }

    #[inline]
    fn begin(&self, places: Places) -> (u64, u64) {
        (self.versions.begin(places.first), self.versions.begin(places.second))
    }

    #[inline]
    fn unchanged(&self, places: Places, seen: (u64, u64)) -> bool {
        self.versions.unchanged(places.first, seen.0) & self.versions.unchanged(places.second, seen.1)
    }

    /// Puts a key and its value into an empty slot. For the writer.
    pub(super) fn put(&self, at: Slot, key: &[u64; K], value: &[u64; V]) {
        self.versions.change(at.bucket, at.bucket, || {
            self.store_value(at, value);
            self.store_key(at, key);
        });
    }

    /// Replaces the value in a slot. For the writer.
    pub(super) fn put_value(&self, at: Slot, value: &[u64; V]) {
        self.versions.change(at.bucket, at.bucket, || self.store_value(at, value));
    }

    /// Empties a slot. For the writer.
    pub(super) fn clear(&self, at: Slot) {
        self.versions.change(at.bucket, at.bucket, || self.store_key(at, &[0; K]));
    }

    /// Moves a key and its value to an empty slot. For the writer.
    pub(super) fn shift(&self, from: Slot, to: Slot) {
        let (key, value) = (self.key(from), self.value(from));
        self.versions.change(from.bucket, to.bucket, || {
            self.store_value(to, &value);
            self.store_key(to, &key);
            self.store_key(from, &[0; K]);
        });
    }

    #[inline]
    fn store_key(&self, at: Slot, key: &[u64; K]) {
        for (row, &word) in self.buckets[at.bucket as usize].words.iter().zip(key) {
            row[at.slot as usize].store(word, Ordering::Relaxed);
        }
    }

    #[inline]
    fn store_value(&self, at: Slot, value: &[u64; V]) {
        for (word, &new) in self.values[at.number()].iter().zip(value) {
            word.store(new, Ordering::Relaxed);
        }
    }

    /// Every key and value, in slot order. For the writer: nothing changes meanwhile.
    pub(super) fn entries(&self) -> impl Iterator<Item = ([u64; K], [u64; V])> + '_ {
        (0..self.buckets.len() as u32)
            .flat_map(|bucket| (0..SLOTS as u32).map(move |slot| Slot { bucket, slot }))
            .map(|at| (self.key(at), self.value(at)))
            .filter(|(key, _)| *key != [0; K])
    }
}
