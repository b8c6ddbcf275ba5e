//! Finds a slot for a new key: a free slot, or one made free by moving other keys.

use super::HashWords;
use super::store::{KeyBuckets, SLOTS, Slot, Store};
use super::tags::Tag;

/// The maximum number of buckets that an insert searches before it gives up: enough for a load of 0.97. The
/// interpreter (Miri) searches fewer, because its tables are small.
const MAX_SEARCH: usize = if cfg!(miri) { 64 } else { 2048 };

/// "No parent" in the search: the bucket is one of the new key's own.
const ROOT: u32 = u32::MAX;

/// A bucket reached in the search, by moving the key in `slot` of the parent's bucket to its other bucket.
#[derive(Debug, Clone, Copy)]
struct PathStep {
    bucket: u32,
    parent: u32,
    slot: u32,
    tag: Tag,
}

/// The search for a free slot. It is reused to avoid allocating for each insert.
#[derive(Debug, Default)]
pub(super) struct PathSearch {
    steps: Vec<PathStep>,
    /// Number of keys moved so far.
    pub(super) moves: u64,
}

impl PathSearch {
    /// Returns a free slot in one of these buckets, after moving other keys if necessary. Returns `None`,
    /// with nothing moved, if the search finds none.
    #[inline]
    pub(super) fn make<const K: usize, const V: usize>(
        &mut self,
        store: &Store<K, V>,
        places: KeyBuckets,
        hasher: &impl HashWords<K>,
    ) -> Option<Slot> {
        store.free_slot(places).or_else(|| self.search(store, places, hasher))
    }

    #[cold]
    fn search<const K: usize, const V: usize>(
        &mut self,
        store: &Store<K, V>,
        places: KeyBuckets,
        hasher: &impl HashWords<K>,
    ) -> Option<Slot> {
        self.steps.clear();
        for bucket in [places.first, places.second] {
            self.steps.push(PathStep { bucket, parent: ROOT, slot: 0, tag: Tag::EMPTY });
        }
        // Buckets are searched in the order in which they were found, some steps after their tags were
        // prefetched. Their keys are prefetched at that point, and hashed some steps later.
        let mut looked_at = 2; // the roots are known to be full
        for at in 0.. {
            let found = self.steps.len();
            let Some(&PathStep { bucket, .. }) = self.steps.get(at) else { break };
            if found + SLOTS <= MAX_SEARCH {
                for slot in 0..SLOTS as u32 {
                    let places = store.places(hasher.hash_words(&store.key(Slot { bucket, slot })));
                    let other = places.first ^ places.second ^ bucket;
                    store.view().prefetch_tags_of(other);
                    let parent = at as u32; // below MAX_SEARCH
                    self.steps.push(PathStep { bucket: other, parent, slot, tag: places.tag });
                }
            }
            let until = if at == 1 || found == self.steps.len() { self.steps.len() } else { found };
            while looked_at < until {
                let bucket = self.steps[looked_at].bucket;
                if let Some(free) = store.free_slot_in(bucket) {
                    return Some(self.shift_chain(store, looked_at, free));
                }
                store.view().prefetch_entries_of(bucket);
                looked_at += 1;
            }
        }
        None
    }

    /// Moves the keys on the path to step `at` one step each, the last one first, so that every key is in the
    /// table at every moment. Returns the slot that this frees in one of the roots.
    ///
    /// No bucket occurs twice on the path: buckets are found and searched breadth first, so the path through
    /// its first visit is shorter and would have been taken before. So each key is still where the search saw
    /// it.
    fn shift_chain<const K: usize, const V: usize>(
        &mut self,
        store: &Store<K, V>,
        mut at: usize,
        mut free: Slot,
    ) -> Slot {
        loop {
            let step = self.steps[at];
            if step.parent == ROOT {
                return free;
            }
            at = step.parent as usize;
            let from = Slot { bucket: self.steps[at].bucket, slot: step.slot };
            store.shift(from, free, step.tag);
            self.moves += 1;
            free = from;
        }
    }
}
