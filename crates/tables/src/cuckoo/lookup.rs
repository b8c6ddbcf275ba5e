//! Lookups of many keys with their memory accesses under way at once.

use super::store::{KeyBuckets, Store};
use super::version::Versions;
use scalebricks_types::KeyHash;

/// Keys between asking for a key's tags and reading them, and again between asking for its entry and reading that. At
/// 1 M keys batches of 64 and 256 are 5 to 8 % faster than with 32, and a third faster than with 16; those of 32 do not care.
const AHEAD: usize = 64;

/// Keys that are checked against the clock together. A busy writer disturbs long units more often, and short ones lose
/// time as the stages fill and drain.
pub(super) const UNIT: usize = 256;

/// No slot has this number.
const ABSENT: u64 = u64::MAX;

/// Keys between the first stage and the last: a power of two.
const RING: usize = 2 * AHEAD;

impl<const K: usize, const V: usize> Store<K, V> {
    /// The values of up to [`UNIT`] keys, and whether one of them may not have been there. All slices have one length.
    ///
    /// Three stages a key, each [`AHEAD`] keys behind the one before: ask for the tags of both buckets; find the slot by
    /// its tag and ask for the entry; compare the key and read the value.
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
        // What is known of a key between the stages: its packed buckets, then the number of its slot. One word each: what
        // is written in parts and read whole stalls the reads.
        let mut ring = [0; RING];
        let mut missed = false;
        let seen = self.versions.begin();
        for (lane, &hash) in ring.iter_mut().zip(hashes).take(AHEAD) {
            let places = view.places(hash);
            view.prefetch_tags(places);
            *lane = places.packed();
        }
        let read = |i: usize, slot: u64, found: &mut Option<[u64; V]>, missed: &mut bool| {
            match view.entry(slot as usize) {
                Some(entry) if entry.is_of(&keys[i]) => entry.copy_value(found),
                // A key with the same tag in front of it, or instead of it: one in thirty.
                Some(_) => *found = self.find_value(&keys[i], hashes[i]),
                None => *found = None,
            }
            *missed |= found.is_none();
        };
        for (i, &hash) in hashes.iter().enumerate() {
            if let Some(behind) = i.checked_sub(AHEAD) {
                read(behind, ring[behind % RING], &mut found[behind], &mut missed);
            }
            let places = KeyBuckets::unpacked(ring[i % RING], view.tag(hash));
            let candidates = view.candidates(places);
            ring[i % RING] = if candidates.none() {
                ABSENT
            } else {
                let slot = places.slot(candidates.lowest()).number();
                view.prefetch_entry(slot);
                slot as u64
            };
            if let Some(&hash) = hashes.get(i + AHEAD) {
                let places = view.places(hash);
                view.prefetch_tags(places);
                ring[(i + AHEAD) % RING] = places.packed();
            }
        }
        for i in n.saturating_sub(AHEAD)..n {
            read(i, ring[i % RING], &mut found[i], &mut missed);
        }
        Versions::end_of_reads();
        if self.versions.quiet(seen) {
            return missed;
        }
        for ((key, &hash), found) in keys.iter().zip(hashes).zip(found) {
            let places = view.places(hash);
            if !self.unchanged(places, seen) {
                *found = self.get_again(key, hash);
                missed |= found.is_none();
            }
        }
        missed
    }

    /// The value of a key whose first candidate is another's; not yet checked against the clock.
    #[cold]
    #[inline(never)]
    fn find_value(&self, key: &[u64; K], hash: KeyHash) -> Option<[u64; V]> {
        self.view().find(key, self.places(hash)).map(|at| self.value(at))
    }

    #[cold]
    #[inline(never)]
    fn get_again(&self, key: &[u64; K], hash: KeyHash) -> Option<[u64; V]> {
        self.get(key, self.places(hash))
    }

    /// [`Self::get_unit`] for those keys only that have no value yet, of any number; whether one still has none.
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
            let (mut keys, mut hashes) = ([[0; K]; AHEAD], [KeyHash::default(); AHEAD]);
            let (mut found, mut places) = ([None; AHEAD], [const { None }; AHEAD]);
            let mut n = 0;
            for ((&key, &hash), value) in lanes.by_ref().take(AHEAD) {
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
