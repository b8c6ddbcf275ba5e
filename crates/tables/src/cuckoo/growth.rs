//! Incremental growth.
//!
//! A growing table has two stores: the old one, from which keys move, and a new one, to which they and all
//! new keys go (three, if the new one turns out too small). A step moves the keys of some buckets. When the
//! old store is empty, the new one is the table.
//!
//! # Why no reader misses a key
//!
//! - *A reader reads the stores from old to new, and a key is put into the new store before it is cleared in
//!   the old one.* A reader that did not see the key in the old store, because it saw the clearing, executes
//!   its [`end_of_reads`](super::version::Versions::end_of_reads) after that. The writer's `Release` fence
//!   inside the clearing and this `Acquire` fence synchronise, so the put happens before the reader reads the
//!   new store. Keys never move back.
//! - *A list of stores is published before keys move by it,* and each new list advances the generation
//!   counter. A reader that used an old list can miss a key only if the key has moved to a store that is not
//!   in its list. The reader has then seen a clearing that came after the new list. By the same fences, its
//!   check of the generation, which it makes whenever it has found nothing, sees the advanced counter, and it
//!   looks again with the new list.
//! - *A hit needs none of this*: what a store holds is the current value, because a key is changed in place,
//!   and while it is in two stores for a moment the writer does nothing else.
//!
//! So no thread waits: the writer does not wait for readers (a list that a reader still holds is freed later),
//! and readers do not wait for the writer. The loom model
//! `loom_a_key_that_moves_to_a_newer_table_is_never_missed` checks the argument.
//!
//! # Cost
//!
//! Under one seed, the buckets of a larger store are those of the smaller one scaled, and a key keeps its
//! choice of the two where possible. So the old store's buckets in order fill the new store's nearly in
//! order. Moving a key costs its hash and some stores to lines that are in the cache, a fraction of the cost
//! of a new insert.

use super::store::{KeyBuckets, Slot, Store};
use super::stores::Stores;
use super::writer::Writer;
use super::{DESIGN_LOAD_PERCENT, HashWords, MAX_BUCKETS, buckets_for};
use crate::FibError;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Buckets moved with each insert while the table grows automatically. Growth by half then ends after a
/// sixteenth of the old slots were newly filled, long before the new store is full.
const BUCKETS_AN_INSERT: usize = 4;

/// The load at which a table that has grown automatically grows again. The inserts from here to
/// [`DESIGN_LOAD_PERCENT`] are the most expensive, and no caller requested exactly this table size.
const GROWN_LOAD_PERCENT: usize = 90;

/// Derives a different seed for a store that follows one that was too small.
const NEXT_SEED: u64 = 0xD1B5_4A32_D192_ED03;

impl<const K: usize, const V: usize, H: HashWords<K>> Writer<'_, K, V, H> {
    /// Begins to move all keys to a table of at least `slots` slots (which may be fewer than now). From now
    /// on new keys go there; the others follow by [`Self::grow_step`]. Until all have moved, lookups of keys
    /// that have moved, or are absent, read both tables, and both use memory.
    ///
    /// A table that is already growing then grows to this size.
    ///
    /// Cost: microseconds. The memory of the new table is allocated as it is first written, huge page by huge
    /// page.
    ///
    /// # Errors
    /// [`FibError::Full`] if `slots` is less than the number of keys; the table is then unchanged.
    pub fn grow_begin(&mut self, slots: usize) -> Result<(), FibError> {
        let buckets = buckets_for(slots);
        if buckets * super::store::SLOTS < self.len() {
            return Err(FibError::Full { len: self.len(), slots: buckets * super::store::SLOTS });
        }
        self.add_store(buckets, self.state.stores.newest().seed());
        self.state.load_limit_percent = DESIGN_LOAD_PERCENT;
        Ok(())
    }

    /// Moves the keys of the next `buckets` buckets of the old table. Returns whether the growth is complete;
    /// it is if none was begun. A reader of a moved key may look twice; none waits.
    ///
    /// If the new table does not take all keys (possible if it must hold them at a load of more than
    /// [`DESIGN_LOAD_PERCENT`](super::DESIGN_LOAD_PERCENT)), the table grows to one of an eighth more slots.
    ///
    /// Cost: at most `4 * buckets` moves of a key, each mostly a hash and two or three cached lines. The last
    /// step also frees the old table, or leaves that to a later change if readers still use it.
    ///
    /// # Errors
    /// [`FibError::Full`] if the new table does not take all keys and has the maximum number of slots. All
    /// keys are still in the table; the growth stays incomplete.
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

    /// Whether a growth has begun and is incomplete.
    pub fn is_growing(&self) -> bool {
        self.state.stores.growing()
    }

    /// Moves all keys to a table of at least `slots` slots (which may be fewer than now) while readers
    /// continue: [`Self::grow_begin`], and [`Self::grow_step`] until complete, which also says when the old table is freed.
    ///
    /// # Errors
    /// [`FibError::Full`] if `slots` is less than the number of keys; the table is then unchanged.
    pub fn grow(&mut self, slots: usize) -> Result<(), FibError> {
        self.grow_begin(slots)?;
        self.grow_step(usize::MAX).map(|_| ())
    }

    /// Called after a key was added to a table that grows automatically. Begins to grow if the table now
    /// exceeds its load limit, or continues to grow.
    #[inline]
    pub(super) fn grow_along(&mut self) {
        let slots = self.state.stores.newest().slots();
        // At the maximum size, the table is used until it is full. An error of a step is harmless: what it
        // could not move stays where it was.
        if self.is_growing() {
            let _ = self.grow_step(BUCKETS_AN_INSERT);
        } else if self.len() as u128 * 100 > slots as u128 * self.state.load_limit_percent as u128 {
            let _ = self.grow_by_half(slots);
        }
    }

    /// Begins to grow from this many slots by half. Returns whether there is more room then.
    #[cold]
    pub(super) fn grow_by_half(&mut self, slots: usize) -> bool {
        // A table that was asked to shrink may hold more keys, in its old store, than the new store has
        // slots.
        let more = slots.max(self.len()) + slots.max(self.len()) / 2;
        let begun = buckets_for(more) * super::store::SLOTS > slots && self.grow_begin(more).is_ok();
        self.state.load_limit_percent = if begun { GROWN_LOAD_PERCENT } else { DESIGN_LOAD_PERCENT };
        begun
    }

    fn add_store(&mut self, buckets: usize, seed: u64) {
        let stores = self.state.stores.with(Arc::new(Store::untouched(buckets, seed)));
        self.publish(stores);
    }

    /// Publishes this list of stores. The previous list is freed as soon as no reader holds it.
    fn publish(&mut self, stores: Stores<K, V>) {
        let stores = Arc::new(stores);
        self.state.stores = Arc::clone(&stores);
        let before = self.table.current.swap(stores);
        self.table.generation.fetch_add(1, Ordering::Release);
        self.state.retired.push(before);
        self.free_retired();
    }

    /// Frees the lists that no reader holds any more. So a reader never frees one.
    pub(super) fn free_retired(&mut self) {
        // `swap` has turned every reader's borrow into a counted reference, and no new ones are made.
        self.state.retired.retain(|stores| Arc::strong_count(stores) > 1);
    }

    /// Moves the keys of one bucket of the oldest store to the newest, then clears the bucket in one step.
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

    /// Adds a store of an eighth more slots, for keys that the newest store does not take.
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
