//! Lookups of many keys, with their memory accesses in flight at once.

use super::stages::{GROUP, Group};
use super::store::Store;
use super::version::Versions;
use scalebricks_types::KeyHash;

/// Number of keys that are checked against the clock together. A busy writer disturbs long units more often,
/// and short ones lose time while the stages fill and drain.
pub(super) const UNIT: usize = 256;

/// Keys per step of [`Store::get_in_steps`].
const STEP: usize = 8;

/// Steps from the slots of keys to their entries.
const ENTRY_STEPS: usize = 2;

impl<const K: usize, const V: usize> Store<K, V> {
    /// Looks up the values of up to [`UNIT`] keys. Returns whether one of them may be absent. All slices have
    /// the same length.
    ///
    /// There are three stages per group of [`GROUP`] keys: find the buckets and prefetch their tags; find the slot by its
    /// tag and prefetch the entry; compare the key and read the value. See [`Self::get_groups`] for more than one group, and
    /// [`Self::get_in_steps`] for large tables.
    #[inline]
    pub(super) fn get_unit(
        &self,
        keys: &[[u64; K]],
        hashes: &[KeyHash],
        found: &mut [Option<[u64; V]>],
    ) -> bool {
        let n = keys.len().min(hashes.len()).min(found.len());
        let (keys, hashes, found) = (&keys[..n], &hashes[..n], &mut found[..n]);
        let view = self.view();
        let seen = self.versions.begin();
        let mut missed = if view.has_far_tags() {
            self.get_in_steps(keys, hashes, found)
        } else if n <= GROUP {
            let mut group = Group::new();
            view.find_buckets(hashes, &mut group);
            view.find_slots(n, &mut group);
            self.read_slots(&group.slots, keys, hashes, found)
        } else {
            self.get_groups(keys, hashes, found)
        };
        Versions::end_of_reads();
        if self.versions.quiet(seen) {
            return missed;
        }
        for ((key, &hash), found) in keys.iter().zip(hashes).zip(found) {
            let places = view.places(hash);
            if !self.unchanged(places, seen) {
                *found = self.get_waiting(key, places);
                missed |= found.is_none();
            }
        }
        missed
    }

    /// The three stages for several groups, in turns: the third for one group, the second for the next, the first for the one
    /// after.
    #[inline]
    fn get_groups(&self, keys: &[[u64; K]], hashes: &[KeyHash], found: &mut [Option<[u64; V]>]) -> bool {
        let (view, n, mut missed) = (self.view(), hashes.len(), false);
        let count = n.div_ceil(GROUP);
        let part = |group: usize| group * GROUP..n.min((group + 1) * GROUP);
        // The groups of even and of odd numbers.
        let mut groups = [Group::new(), Group::new()];
        for turn in 0..count + 2 {
            if let Some(read) = turn.checked_sub(2) {
                let part = part(read);
                let (keys, hashes) = (&keys[part.clone()], &hashes[part.clone()]);
                missed |= self.read_slots(&groups[read % 2].slots, keys, hashes, &mut found[part]);
            }
            if let Some(located) = turn.checked_sub(1).filter(|&group| group < count) {
                view.find_slots(part(located).len(), &mut groups[located % 2]);
            }
            if turn < count {
                view.find_buckets(&hashes[part(turn)], &mut groups[turn % 2]);
            }
        }
        missed
    }

    /// The three stages for a few keys at a time: the first for eight keys, the second for the eight before, the third for
    /// those that are two steps further. So the first entries are requested after sixteen keys, and not only after all; while
    /// memory brings them, the next buckets and slots are found.
    #[inline]
    fn get_in_steps(&self, keys: &[[u64; K]], hashes: &[KeyHash], found: &mut [Option<[u64; V]>]) -> bool {
        let (view, n, mut missed) = (self.view(), hashes.len(), false);
        let count = n.div_ceil(STEP);
        let part = |step: usize| step * STEP..n.min((step + 1) * STEP);
        // Key i is at i modulo the group's size, which is more than the keys between the first stage and the third.
        const { assert!(GROUP.is_multiple_of(STEP) && (ENTRY_STEPS + 2) * STEP <= GROUP) };
        let mut group = Group::new();
        for step in 0..count + 1 + ENTRY_STEPS {
            if step < count {
                for key in part(step) {
                    view.find_bucket(hashes[key], key % GROUP, &mut group);
                }
            }
            if let Some(located) = step.checked_sub(1).filter(|&part| part < count) {
                for key in part(located) {
                    view.find_slot(key % GROUP, &mut group);
                }
            }
            if let Some(read) = step.checked_sub(1 + ENTRY_STEPS) {
                let part = part(read);
                let slots = &group.slots[part.start % GROUP..];
                let (keys, hashes) = (&keys[part.clone()], &hashes[part.clone()]);
                missed |= self.read_slots(slots, keys, hashes, &mut found[part]);
            }
        }
        missed
    }

    /// Reads the values of keys in these slots. Returns whether one of them may be absent.
    #[inline(always)]
    fn read_slots(
        &self,
        slots: &[u32],
        keys: &[[u64; K]],
        hashes: &[KeyHash],
        found: &mut [Option<[u64; V]>],
    ) -> bool {
        let (view, mut missed) = (self.view(), false);
        for (((&slot, key), &hash), found) in slots.iter().zip(keys).zip(hashes).zip(found) {
            match view.entry(slot as usize) {
                Some(entry) if entry.is_of(key) => entry.copy_value(found),
                // Another key with the same tag comes first, or is there instead: one lookup in thirty.
                Some(_) => {
                    let places = view.places(hash);
                    *found = self.value_among(key, places, view.candidates(places));
                }
                None => *found = None,
            }
            missed |= found.is_none();
        }
        missed
    }

    /// [`Self::get_unit`] for those keys only that have no value yet, for any number of keys. Returns whether
    /// any key still has no value.
    #[cold]
    pub(super) fn get_missing(
        &self,
        keys: &[[u64; K]],
        hashes: &[KeyHash],
        values: &mut [Option<[u64; V]>],
    ) -> bool {
        let mut missed = false;
        let mut lanes = keys.iter().zip(hashes).zip(values).filter(|(_, value)| value.is_none()).peekable();
        while lanes.peek().is_some() {
            let (mut keys, mut hashes) = ([[0; K]; GROUP], [KeyHash::default(); GROUP]);
            let (mut found, mut places) = ([None; GROUP], [const { None }; GROUP]);
            let mut n = 0;
            for ((&key, &hash), value) in lanes.by_ref().take(GROUP) {
                (keys[n], hashes[n], places[n]) = (key, hash, Some(value));
                n += 1;
            }
            missed |= self.get_unit(&keys[..n], &hashes[..n], &mut found[..n]);
            for (place, found) in places.into_iter().flatten().zip(found) {
                *place = found;
            }
        }
        missed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::CuckooTable;
    use super::super::tests::{TestHasher, hash, key};
    use super::*;

    #[test]
    fn steps_find_what_single_lookups_find() {
        let table = CuckooTable::<2, 2, _>::new(200, 9, TestHasher);
        let held = if cfg!(miri) { 20 } else { 150 };
        for k in (0..held).map(key::<2>) {
            table.insert(&k, hash(&k), &[k[1]; 2]).unwrap();
        }
        let store = &table.current.load().oldest;
        for n in (0..=UNIT as u64).step_by(if cfg!(miri) { 50 } else { 1 }) {
            let keys: Vec<_> = (0..n).map(|i| key(i * 7 % (2 * held))).collect();
            let hashes: Vec<_> = keys.iter().map(hash).collect();
            let mut found = vec![Some([8; 2]); keys.len()];
            let missed = store.get_in_steps(&keys, &hashes, &mut found);
            let single: Vec<_> = keys.iter().map(|k| table.get(k, hash(k))).collect();
            assert_eq!(found, single, "{n} keys");
            assert_eq!(missed, single.contains(&None), "{n} keys");
        }
    }
}
