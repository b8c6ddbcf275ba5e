//! Growth, step by step.
//!
//! A growing table has two stores: the old one, from which keys go, and a new one, to which they and all new keys go
//! (three, should the new one turn out too small). A step moves the keys of some buckets. When the old store is empty,
//! the new one is the table.
//!
//! # Why no reader misses a key
//!
//! - *A reader looks into the stores from old to new, and a key is put into the new one before it is cleared in the
//!   old one.* A reader that did not see it in the old store, because it saw the clearing, has passed its
//!   [`end_of_reads`](super::version::Versions::end_of_reads) after that: the writer's `Release` fence inside the
//!   clearing and this `Acquire` fence synchronise, so the put happens before the reader's look into the new store.
//!   Keys never go back.
//! - *Lists of stores are published before keys move by them,* and with each the generation counter advances. A reader
//!   that used an old list can miss a key only if that has moved on to a store its list does not name. It has then
//!   seen a clearing that came after the new list, and by the same fences its look at the generation, which it takes
//!   whenever it has found nothing, finds it advanced: it looks again with the new list.
//! - *A hit needs none of this*: what a store holds is the value of that moment, for a key is changed where it is, and
//!   while it is in two stores for a moment the writer does nothing else.
//!
//! So nobody waits: the writer not for readers (a list that one still holds is freed later), and readers not for it.
//! The argument is checked by the loom model `loom_a_key_that_moves_to_a_newer_table_is_never_missed`.
//!
//! # Cost
//!
//! Under one seed the buckets of a larger store are those of the smaller one scaled, and a key keeps its choice of the
//! two where it can. So the old store's buckets in order fill the new one's nearly in order: moving a key costs its hash
//! and some stores to lines that are in the cache, a fraction of what a fresh insert costs.

use super::store::{KeyBuckets, Slot, Store};
use super::stores::Stores;
use super::writer::Writer;
use super::{DESIGN_LOAD_PERCENT, HashWords, MAX_BUCKETS, buckets_for};
use crate::FibError;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Buckets moved with each insert while the table grows by itself. Growth by half then ends after a sixteenth of the
/// old slots were filled anew, long before the new store is full.
const BUCKETS_AN_INSERT: usize = 4;

/// The load at which a table that has grown by itself grows on. The inserts from here to [`DESIGN_LOAD_PERCENT`] are the
/// dearest, and nobody has asked this table for just its size.
const GROWN_LOAD_PERCENT: usize = 90;

/// Sets apart the seeds of stores that follow one that was too small.
const NEXT_SEED: u64 = 0xD1B5_4A32_D192_ED03;

impl<const K: usize, const V: usize, H: HashWords<K>> Writer<'_, K, V, H> {
    /// Begins to move all keys to a table of at least `slots` slots (which may be fewer than there are). From now on
    /// new keys go there; the others follow by [`Self::grow_step`]. Until they all have, lookups of keys that have
    /// moved, or are not there, look into both tables, and the memory of both is there.
    ///
    /// A table that grows already then grows to this size.
    ///
    /// Cost: microseconds. The memory of the new table comes as it is first written, huge page by huge page.
    ///
    /// # Errors
    /// [`FibError::Full`] if that is fewer slots than keys; the table is then as it was.
    pub fn grow_begin(&mut self, slots: usize) -> Result<(), FibError> {
        let buckets = buckets_for(slots);
        if buckets * super::store::SLOTS < self.len() {
            return Err(FibError::Full { len: self.len(), slots: buckets * super::store::SLOTS });
        }
        self.add_store(buckets, self.state.stores.newest().seed());
        self.state.load_limit_percent = DESIGN_LOAD_PERCENT;
        Ok(())
    }

    /// Moves the keys of the next `buckets` buckets of the old table; whether the growth is done, as it is if none was
    /// begun. Readers of a moved key may look twice; none waits.
    ///
    /// Should the new table not take all keys (one that was asked to hold them at a load of more than
    /// [`DESIGN_LOAD_PERCENT`](super::DESIGN_LOAD_PERCENT) may not), the table grows to one of an eighth more slots.
    ///
    /// Cost: at most `4 * buckets` moves of a key, each a hash and two or three cached lines, mostly. The last step also
    /// frees the old table, or leaves that to a later change if readers still use it.
    ///
    /// # Errors
    /// [`FibError::Full`] if the new table does not take all keys and has the most slots there can be. All keys are
    /// there still; the growth stays unfinished.
    pub fn grow_step(&mut self, buckets: usize) -> Result<bool, FibError> {
        let mut left = buckets;
        while self.is_growing() {
            let old = Arc::clone(&self.state.stores.oldest);
            let end = old.buckets().min(self.state.moved_buckets.saturating_add(left));
            left -= end - self.state.moved_buckets;
            while self.state.moved_buckets < end {
                self.move_bucket(&old, self.state.moved_buckets as u32)?; // below MAX_BUCKETS
                self.state.moved_buckets += 1;
            }
            if end < old.buckets() {
                return Ok(false);
            }
            drop(old);
            self.state.moved_buckets = 0;
            if let Some(rest) = self.state.stores.without_oldest() {
                self.publish(rest);
            }
        }
        Ok(true)
    }

    /// Whether a growth was begun and is not done.
    pub fn is_growing(&self) -> bool {
        self.state.stores.growing()
    }

    /// Moves all keys to a table of at least `slots` slots (which may be fewer than there are) while readers go on:
    /// [`Self::grow_begin`] and [`Self::grow_step`] to the end. Then waits for the last batch of a reader on the old
    /// table and frees that, so the memory is never freed by a reader.
    ///
    /// # Errors
    /// [`FibError::Full`] if that is fewer slots than keys; the table is then as it was.
    pub fn grow(&mut self, slots: usize) -> Result<(), FibError> {
        self.grow_begin(slots)?;
        self.grow_step(usize::MAX)?;
        while !self.free_retired() {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// After a key was added to a table that grows by itself: begins to grow if that brought it beyond
    /// the load it may have, or goes on growing.
    #[inline]
    pub(super) fn grow_along(&mut self) {
        let slots = self.state.stores.newest().slots();
        // At the greatest size there is, the table goes on until it is full. No error of a step is lost: what it could
        // not move is where it was.
        if self.is_growing() {
            let _ = self.grow_step(BUCKETS_AN_INSERT);
        } else if self.len() as u128 * 100 > slots as u128 * self.state.load_limit_percent as u128 {
            let _ = self.grow_by_half(slots);
        }
    }

    /// Begins to grow from this many slots by half; whether there is more room then.
    #[cold]
    pub(super) fn grow_by_half(&mut self, slots: usize) -> bool {
        // A table that was asked to shrink may hold more keys, in its old store, than the new one has slots.
        let more = slots.max(self.len()) + slots.max(self.len()) / 2;
        let begun = buckets_for(more) * super::store::SLOTS > slots && self.grow_begin(more).is_ok();
        self.state.load_limit_percent = if begun { GROWN_LOAD_PERCENT } else { DESIGN_LOAD_PERCENT };
        begun
    }

    fn add_store(&mut self, buckets: usize, seed: u64) {
        let stores = self.state.stores.with(Arc::new(Store::untouched(buckets, seed)));
        self.publish(stores);
    }

    /// Makes this the list of stores. The list before is freed as soon as no reader holds it.
    fn publish(&mut self, stores: Stores<K, V>) {
        let stores = Arc::new(stores);
        self.state.stores = Arc::clone(&stores);
        let before = self.table.current.swap(stores);
        self.table.generation.fetch_add(1, Ordering::Release);
        self.state.retired.push(before);
        self.free_retired();
    }

    /// Frees the lists that no reader holds any more; whether that was all.
    pub(super) fn free_retired(&mut self) -> bool {
        // `swap` has turned every reader's hold into a counted one, and no new ones are made.
        self.state.retired.retain(|stores| Arc::strong_count(stores) > 1);
        self.state.retired.is_empty()
    }

    /// Moves the keys of one bucket of the oldest store to the newest, and then clears them here, all at once.
    fn move_bucket(&mut self, old: &Store<K, V>, bucket: u32) -> Result<(), FibError> {
        let mut moved = false;
        for (at, key, value) in old.entries_of(bucket) {
            let hash = self.table.hasher.hash_words(&key);
            let old_places = old.places(hash);
            loop {
                let state = &mut *self.state;
                let new = state.stores.newest();
                let places = new.places(hash);
                let slot = same_choice(new, at, old_places, places);
                if let Some(slot) = slot.or_else(|| state.room.make(new, places, &self.table.hasher)) {
                    new.put(slot, places.tag, &key, &value);
                    break;
                }
                self.add_larger()?;
            }
            moved = true;
        }
        if moved {
            old.clear_bucket(bucket);
        }
        Ok(())
    }

    /// Adds a store of an eighth more slots, for keys that the newest does not take.
    #[cold]
    fn add_larger(&mut self) -> Result<(), FibError> {
        let newest = self.state.stores.newest();
        let (slots, seed) = (newest.slots(), newest.seed());
        let buckets = buckets_for(slots + slots / 8);
        if newest.buckets() == MAX_BUCKETS {
            return Err(self.full());
        }
        self.add_store(buckets, seed.wrapping_add(NEXT_SEED));
        Ok(())
    }
}

/// A free slot in the bucket of `places` that corresponds to the one where the key was.
#[inline]
fn same_choice<const K: usize, const V: usize>(
    store: &Store<K, V>,
    was: Slot,
    old: KeyBuckets,
    places: KeyBuckets,
) -> Option<Slot> {
    store.free_slot_in(if was.bucket == old.first { places.first } else { places.second })
}
