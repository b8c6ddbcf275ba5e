//! The memory of a table: tags by bucket, keys with their values by slot, and how both are read and changed
//! under the version clock.

use super::entry::Entry;
use super::tags::{self, SlotMask, Tag, TagPair};
use super::version::{self, ClockReading, Versions, wait};
use crate::isa::{AvailableIsa, Isa};
use crate::prefetch::prefetch_item;
use crate::reclaim::sync::{AtomicU32, Memory, Ordering};
use crate::touched_lines::LineRecorder;
use scalebricks_types::KeyHash;

/// Slots per bucket.
pub(super) const SLOTS: usize = 4;

/// An odd number without a pattern (2^64 divided by the golden ratio).
pub(super) const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Where a key may be: its two buckets, and its tag.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyBuckets {
    pub(super) first: u32,
    pub(super) second: u32,
    pub(super) tag: Tag,
}

impl KeyBuckets {
    /// The `lane`-th slot of the two buckets. The bucket is computed without a branch, which would be
    /// mispredicted every other time.
    #[inline(always)]
    pub(super) const fn slot(self, lane: u32) -> Slot {
        let in_second = (lane / SLOTS as u32).wrapping_neg();
        let bucket = self.first ^ ((self.first ^ self.second) & in_second);
        Slot { bucket, slot: lane % SLOTS as u32 }
    }
}

/// One slot of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) bucket: u32,
    pub(super) slot: u32,
}

impl Slot {
    /// Its number among all slots: fewer than 2^32, see [`MAX_BUCKETS`](super::MAX_BUCKETS).
    #[inline(always)]
    pub(super) const fn number(self) -> usize {
        self.bucket as usize * SLOTS + self.slot as usize
    }
}

/// Tags, keys, values, clock and stamps. A store never moves and never changes its size; a grown table is
/// another store.
#[derive(Debug)]
pub(super) struct Store<const K: usize, const V: usize> {
    /// The tags of each bucket, with the first slot's tag in the lowest byte.
    tags: Memory<AtomicU32>,
    entries: Memory<Entry<K, V>>,
    pub(super) versions: Versions,
    seed: u64,
    /// What lookups may use.
    isa: AvailableIsa,
}

impl<const K: usize, const V: usize> Store<K, V> {
    /// An empty store of this many buckets.
    pub(super) fn new(buckets: usize, seed: u64) -> Self {
        let (tags, entries) = (Memory::zeroed(buckets), Memory::zeroed(buckets * SLOTS));
        let (versions, isa) = (Versions::for_buckets(buckets), AvailableIsa::new(Isa::best()));
        Self { tags, entries, versions, seed, isa }
    }

    /// As [`Self::new`], but memory is allocated as it is first touched, so the call itself is fast.
    pub(super) fn untouched(buckets: usize, seed: u64) -> Self {
        let (tags, entries) = (Memory::untouched(buckets), Memory::untouched(buckets * SLOTS));
        let (versions, isa) = (Versions::for_buckets(buckets), AvailableIsa::new(Isa::best()));
        Self { tags, entries, versions, seed, isa }
    }

    pub(super) const fn bytes_for(buckets: usize) -> usize {
        buckets * (size_of::<AtomicU32>() + SLOTS * size_of::<Entry<K, V>>())
    }

    pub(super) fn bytes(&self) -> usize {
        Self::bytes_for(self.buckets()) + version::bytes_for(self.buckets())
    }

    pub(super) fn buckets(&self) -> usize {
        self.tags.len()
    }

    pub(super) fn slots(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    /// The part of the store that lookups use, small enough for registers.
    #[inline(always)]
    pub(super) fn view(&self) -> StoreView<'_, K, V> {
        StoreView { tags: &self.tags, entries: &self.entries, seed: self.seed, isa: self.isa }
    }

    /// See [`StoreView::places`].
    #[inline(always)]
    pub(super) fn places(&self, hash: KeyHash) -> KeyBuckets {
        self.view().places(hash)
    }

    #[inline(always)]
    fn entry(&self, at: Slot) -> &Entry<K, V> {
        &self.entries[at.number()]
    }

    #[inline(always)]
    pub(super) fn key(&self, at: Slot) -> [u64; K] {
        self.entry(at).key()
    }

    #[inline(always)]
    pub(super) fn value(&self, at: Slot) -> [u64; V] {
        self.entry(at).value()
    }

    /// An empty slot in the emptier of a key's two buckets. For the writer. It reads only tags. With evenly
    /// filled buckets, buckets become full later: up to load 0.75, hardly any insert has to search for a free
    /// slot.
    #[inline]
    pub(super) fn free_slot(&self, places: KeyBuckets) -> Option<Slot> {
        let free = self.view().tags(places).with(Tag::EMPTY);
        (!free.none()).then(|| places.slot(free.of_fuller_half().lowest()))
    }

    /// The first empty slot of one bucket. For the writer.
    #[inline]
    pub(super) fn free_slot_in(&self, bucket: u32) -> Option<Slot> {
        self.free_slot(KeyBuckets { first: bucket, second: bucket, tag: Tag::EMPTY })
    }

    /// The value of a key. Waits while the writer changes one of its two stripes.
    ///
    /// Only the usual case is compiled into the caller's loop, which doubles the rate in a table of 1 M keys on a Zen 3
    /// (ADR 57).
    #[inline(always)]
    pub(super) fn get(&self, key: &[u64; K], places: KeyBuckets) -> Option<[u64; V]> {
        let seen = self.versions.begin();
        let candidates = self.view().candidates(places);
        let mut found = None;
        if !candidates.none() {
            let first = self.entry(places.slot(candidates.lowest()));
            found = if first.is_of(key) {
                Some(first.value())
            } else {
                self.value_among(key, places, candidates.without_lowest())
            };
        }
        Versions::end_of_reads();
        if self.versions.quiet(seen) || self.unchanged(places, seen) {
            return found;
        }
        self.get_waiting(key, places)
    }

    /// The value of a key in one of these slots of its buckets; not yet checked against the clock. For keys whose first slot
    /// with their tag is another key's: one in thirty.
    #[cold]
    #[inline(never)]
    pub(super) fn value_among(
        &self,
        key: &[u64; K],
        places: KeyBuckets,
        candidates: SlotMask,
    ) -> Option<[u64; V]> {
        let mut entries = candidates.each().map(|lane| self.entry(places.slot(lane)));
        entries.find(|entry| entry.is_of(key)).map(Entry::value)
    }

    /// The value of a key whose buckets the writer has changed meanwhile: waits, and tries again.
    #[cold]
    #[inline(never)]
    pub(super) fn get_waiting(&self, key: &[u64; K], places: KeyBuckets) -> Option<[u64; V]> {
        let mut tries = 0;
        loop {
            wait(&mut tries);
            let seen = self.versions.begin();
            let found = self.view().find(key, places).map(|at| self.value(at));
            Versions::end_of_reads();
            if self.versions.quiet(seen) || self.unchanged(places, seen) {
                return found;
            }
        }
    }

    /// Whether neither of the two buckets has changed since `seen`.
    #[inline]
    pub(super) fn unchanged(&self, places: KeyBuckets, seen: ClockReading) -> bool {
        self.versions.unchanged(places.first, seen) & self.versions.unchanged(places.second, seen)
    }

    /// Puts a key and its value into an empty slot. For the writer.
    #[inline]
    pub(super) fn put(&self, at: Slot, tag: Tag, key: &[u64; K], value: &[u64; V]) {
        let entry = self.entry(at);
        self.versions.change(at.bucket, at.bucket, || {
            entry.set(key, value);
            self.set_tag(at, tag);
        });
    }

    /// Replaces the value in a slot. For the writer.
    #[inline]
    pub(super) fn put_value(&self, at: Slot, value: &[u64; V]) {
        let entry = self.entry(at);
        self.versions.change(at.bucket, at.bucket, || entry.set_value(value));
    }

    /// Empties a slot. For the writer.
    #[inline]
    pub(super) fn clear(&self, at: Slot) {
        self.versions.change(at.bucket, at.bucket, || self.set_tag(at, Tag::EMPTY));
    }

    /// Empties a bucket. For the writer.
    #[inline]
    pub(super) fn clear_bucket(&self, bucket: u32) {
        let tags = &self.tags[bucket as usize];
        self.versions.change(bucket, bucket, || tags.store(0, Ordering::Relaxed));
    }

    /// Moves a key with this tag and its value to an empty slot. For the writer.
    #[inline]
    pub(super) fn shift(&self, from: Slot, to: Slot, tag: Tag) {
        let (key, value) = (self.key(from), self.value(from));
        let entry = self.entry(to);
        self.versions.change(from.bucket, to.bucket, || {
            entry.set(&key, &value);
            self.set_tag(to, tag);
            self.set_tag(from, Tag::EMPTY);
        });
    }

    #[inline(always)]
    fn set_tag(&self, at: Slot, tag: Tag) {
        let tags = &self.tags[at.bucket as usize];
        tags.store(tags::replaced(tags.load(Ordering::Relaxed), at.slot, tag), Ordering::Relaxed);
    }

    /// The keys and values of one bucket. For the writer: nothing changes meanwhile.
    #[inline]
    pub(super) fn entries_of(&self, bucket: u32) -> impl Iterator<Item = (Slot, [u64; K], [u64; V])> + '_ {
        let tags = self.tags[bucket as usize].load(Ordering::Relaxed);
        TagPair::new(tags, 0).used().each().map(move |slot| {
            let at = Slot { bucket, slot };
            (at, self.key(at), self.value(at))
        })
    }

    /// Every key and value, in slot order. For the writer: nothing changes meanwhile.
    pub(super) fn entries(&self) -> impl Iterator<Item = ([u64; K], [u64; V])> + '_ {
        (0..self.buckets() as u32)
            .flat_map(|bucket| self.entries_of(bucket))
            .map(|(_, key, value)| (key, value))
    }
}

/// The parts of a [`Store`] that lookups use. A local copy stays in registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreView<'a, const K: usize, const V: usize> {
    pub(super) tags: &'a [AtomicU32],
    entries: &'a [Entry<K, V>],
    pub(super) seed: u64,
    pub(super) isa: AvailableIsa,
}

impl<'a, const K: usize, const V: usize> StoreView<'a, K, V> {
    /// The two buckets of a key with this hash, which always differ, and its tag. The whole hash is mixed
    /// again with the table's seed, because the tables of one node see hashes with equal top bits. Each half
    /// of the folded product then selects a bucket, and the tag consists of bits that affect the fold only
    /// together with others. With the same seed, the buckets of a larger table are those of a smaller one
    /// scaled, which growth relies on.
    #[inline(always)]
    pub(super) fn places(self, hash: KeyHash) -> KeyBuckets {
        let product = u128::from(hash.get() ^ self.seed) * u128::from(MULTIPLIER);
        let mixed = (product >> 64) as u64 ^ product as u64;
        let buckets = self.tags.len() as u64; // at least 2 and below 2^30, see `buckets_for`
        let first = ((mixed & 0xFFFF_FFFF) * buckets) >> 32;
        let among_others = ((mixed >> 32) * (buckets - 1)) >> 32;
        let second = among_others + u64::from(among_others >= first);
        KeyBuckets { first: first as u32, second: second as u32, tag: self.tag(hash) }
    }

    /// Only the tag.
    #[inline(always)]
    pub(super) const fn tag(self, hash: KeyHash) -> Tag {
        Tag::of(((hash.get() ^ self.seed).wrapping_mul(MULTIPLIER) >> 56) as u8)
    }

    /// Prefetches the tags of both buckets.
    #[inline(always)]
    pub(super) fn prefetch_tags(self, places: KeyBuckets) {
        self.prefetch_tags_of(places.first);
        self.prefetch_tags_of(places.second);
    }

    /// Prefetches the tags of a bucket.
    #[inline(always)]
    pub(super) fn prefetch_tags_of(self, bucket: u32) {
        prefetch_item(self.tags, bucket as usize);
    }

    /// Prefetches the entry of a slot.
    #[inline(always)]
    pub(super) fn prefetch_entry(self, number: usize) {
        prefetch_item(self.entries, number);
    }

    /// Prefetches all entries of a bucket.
    #[inline(always)]
    pub(super) fn prefetch_entries_of(self, bucket: u32) {
        for slot in (0..SLOTS).step_by(if size_of::<Entry<K, V>>() == 32 { 2 } else { 1 }) {
            self.prefetch_entry(bucket as usize * SLOTS + slot);
        }
    }

    #[inline(always)]
    pub(super) fn tags(self, places: KeyBuckets) -> TagPair {
        TagPair::new(self.tags_of(places.first), self.tags_of(places.second))
    }

    /// The tags of a bucket.
    #[inline(always)]
    pub(super) fn tags_of(self, bucket: u32) -> u32 {
        Self::load_tags(&self.tags[bucket as usize])
    }

    /// The same without the check that the bucket exists.
    ///
    /// # Safety
    /// It must exist.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[allow(unsafe_code, reason = "for vectors, which check sixteen at a time")]
    #[inline(always)]
    pub(super) unsafe fn tags_of_unchecked(self, bucket: u32) -> u32 {
        // SAFETY: guaranteed by the caller.
        Self::load_tags(unsafe { self.tags.get_unchecked(bucket as usize) })
    }

    #[inline(always)]
    fn load_tags(cell: &AtomicU32) -> u32 {
        #[cfg(all(test, not(loom)))]
        crate::touched_lines::note(cell, 4);
        cell.load(Ordering::Relaxed)
    }

    /// The slots that may hold the key: those with its tag.
    #[inline(always)]
    pub(super) fn candidates(self, places: KeyBuckets) -> SlotMask {
        self.tags(places).with(places.tag)
    }

    #[inline(always)]
    pub(super) fn entry(self, number: usize) -> Option<&'a Entry<K, V>> {
        self.entries.get(number)
    }

    /// Records the cache lines that a lookup reads: those of the tags of both buckets, and of the entries up
    /// to the key's. Returns whether the key was found.
    pub(super) fn touched(self, key: &[u64; K], hash: KeyHash, lines: &mut LineRecorder<'_>) -> bool {
        let places = self.places(hash);
        lines.read(&self.tags[places.first as usize]);
        lines.read(&self.tags[places.second as usize]);
        let mut slots = self.candidates(places).each().map(|lane| &self.entries[places.slot(lane).number()]);
        slots.any(|entry| {
            lines.read(entry);
            entry.is_of(key)
        })
    }

    /// The slot of `key`. For readers this is only a guess until the versions are found unchanged.
    #[inline(always)]
    pub(super) fn find(self, key: &[u64; K], places: KeyBuckets) -> Option<Slot> {
        let mut slots = self.candidates(places).each().map(|lane| places.slot(lane));
        slots.find(|slot| self.entries[slot.number()].is_of(key))
    }
}
