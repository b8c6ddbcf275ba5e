//! The first two of the three stages of a batched lookup, for a group of keys: which buckets, and which slot.
//!
//! The definition of both is here, key by key. The vector form, [`avx512`], does sixteen keys at a time and leaves the
//! rest of a group to this one. Both fill a [`Group`] alike.

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod avx512;

use super::store::{KeyBuckets, StoreView};
use super::tags::{self, SlotMask, Tag};
use scalebricks_types::KeyHash;

/// Number of keys that a stage does before the next stage begins, and so between prefetching a key's memory and
/// reading it. At 1 M keys, calls of 64 keys are a fifth slower in groups of 32 on a Zen 5.
pub(super) const GROUP: usize = 64;

/// Tags of at least this many bytes are far: then entries that are requested sooner save more time than long stages do. See
/// [`StoreView::has_far_tags`].
const FAR_TAG_BYTES: usize = 8 << 20;

/// The number of no slot: there are fewer, see [`MAX_BUCKETS`](super::MAX_BUCKETS).
const ABSENT: u32 = u32::MAX;

/// What the stages know of the keys of a group. The arrays of a structure instead of an array of structures, as
/// vectors need them. Four cache lines each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(align(64))]
pub(super) struct Group {
    first: [u32; GROUP],
    second: [u32; GROUP],
    /// The tag of each key, in all four bytes.
    tags: [u32; GROUP],
    /// The first slot with the key's tag, or [`ABSENT`].
    pub(super) slots: [u32; GROUP],
}

impl Group {
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { first: [0; GROUP], second: [0; GROUP], tags: [0; GROUP], slots: [0; GROUP] }
    }

    /// Where the key with this number may be.
    #[inline(always)]
    fn places(&self, key: usize) -> KeyBuckets {
        KeyBuckets { first: self.first[key], second: self.second[key], tag: Tag::of(self.tags[key] as u8) }
    }
}

impl<const K: usize, const V: usize> StoreView<'_, K, V> {
    /// Whether keys are looked up step by step instead of group by group. With the portable stages on a Zen 3 that is faster
    /// at 16 M keys, as fast at 8 M and 64 M, and slower at 4 M (ADR 57). With vectors it is slower on an Intel Xeon.
    #[inline(always)]
    pub(super) fn has_far_tags(self) -> bool {
        self.isa.isa() < crate::isa::Isa::Avx512 && size_of_val(self.tags) >= FAR_TAG_BYTES
    }

    /// Finds the buckets and tags of at most [`GROUP`] keys, and prefetches the tags of the buckets.
    #[inline]
    pub(super) fn find_buckets(self, hashes: &[KeyHash], group: &mut Group) {
        #[cfg_attr(any(loom, not(target_arch = "x86_64")), allow(unused_mut, reason = "no vectors there"))]
        let mut done = 0;
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        #[allow(unsafe_code, reason = "enters the vector form")]
        if self.isa.isa() >= crate::isa::Isa::Avx512 {
            // SAFETY: the processor has the instructions of this level and of those below.
            done = unsafe { avx512::find_buckets(self, hashes, group) };
        }
        for (key, &hash) in hashes.iter().enumerate().skip(done) {
            self.find_bucket(hash, key, group);
        }
    }

    /// The same for one key, which gets this number.
    #[inline(always)]
    pub(super) fn find_bucket(self, hash: KeyHash, key: usize, group: &mut Group) {
        let places = self.places(hash);
        self.prefetch_tags(places);
        (group.first[key], group.second[key]) = (places.first, places.second);
        group.tags[key] = tags::in_all_slots(places.tag);
    }

    /// Finds the first slot with the tag of each of the first `keys` keys, whose buckets were found, and prefetches its
    /// entry. Where two slots have the tag, which is one key in thirty, both entries are prefetched: the key is in either.
    #[inline]
    pub(super) fn find_slots(self, keys: usize, group: &mut Group) {
        #[cfg_attr(any(loom, not(target_arch = "x86_64")), allow(unused_mut, reason = "no vectors there"))]
        let mut done = 0;
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        #[allow(unsafe_code, reason = "enters the vector form")]
        if self.isa.isa() >= crate::isa::Isa::Avx512 {
            // SAFETY: the processor has the instructions of this level and of those below.
            done = unsafe { avx512::find_slots(self, keys, group) };
        }
        for key in done..keys {
            self.find_slot(key, group);
        }
    }

    /// The same for one key, by its number.
    #[inline(always)]
    pub(super) fn find_slot(self, key: usize, group: &mut Group) {
        let places = group.places(key);
        let candidates = self.candidates(places);
        group.slots[key] = if candidates.none() {
            ABSENT
        } else {
            let slot = places.slot(candidates.lowest()).number();
            self.prefetch_entry(slot);
            self.prefetch_first_of(places, candidates.without_lowest());
            slot as u32 // there are fewer, see `MAX_BUCKETS`
        };
    }

    /// Prefetches the entry of the first of these slots, if there is one.
    #[inline(always)]
    fn prefetch_first_of(self, places: KeyBuckets, slots: SlotMask) {
        if !slots.none() {
            self.prefetch_entry(places.slot(slots.lowest()).number());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::store::Store;
    use super::*;
    use crate::isa::{AvailableIsa, Isa};
    use crate::mix::mix64;

    /// A store of few different tags, so that no, one and several slots match.
    fn store(buckets: usize) -> Store<2, 2> {
        let store = Store::new(buckets, mix64(buckets as u64));
        for (bucket, cell) in store.view().tags.iter().enumerate() {
            let word = mix64(bucket as u64);
            let kept = [0, 0xFF, 0xFF00, 0xFF00_FF00, u32::MAX][bucket % 5];
            cell.store(word as u32 & 0x0303_0303 & kept, crate::reclaim::sync::Ordering::Relaxed);
        }
        store
    }

    /// Hashes of all kinds; half of them with tags as small as those of the store.
    fn hashes(view: StoreView<'_, 2, 2>, count: usize) -> Vec<KeyHash> {
        let all = (0..).map(|number| KeyHash::new(mix64(number)));
        let ends = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63].map(KeyHash::new);
        let some = all.filter(|&hash| tags::in_all_slots(view.tag(hash)) < 0x0404_0404).take(count / 2);
        ends.into_iter().chain(some).chain((0..).map(|n| KeyHash::new(mix64(!n)))).take(count).collect()
    }

    #[test]
    fn vectors_find_what_the_definition_finds() {
        let (mut none, mut several) = (0, 0);
        let sizes: &[usize] = if cfg!(miri) { &[3] } else { &[2, 3, 64, 1000, (1 << 16) + 1] };
        for &buckets in sizes {
            let store = store(buckets);
            let view = store.view();
            let mut plain = view;
            plain.isa = AvailableIsa::new(Isa::Portable);
            let hashes = hashes(view, 3 * GROUP);
            for keys in (0..=GROUP).step_by(if cfg!(miri) { GROUP / 2 } else { 1 }) {
                for hashes in hashes
                    .windows(keys.max(1))
                    .step_by(if cfg!(miri) { GROUP } else { 7 })
                    .map(|part| &part[..keys])
                {
                    let [mut fast, mut slow] = [Group::new(), Group::new()];
                    for (view, group) in [(view, &mut fast), (plain, &mut slow)] {
                        view.find_buckets(hashes, group);
                        view.find_slots(keys, group);
                    }
                    assert_eq!(fast, slow, "{buckets} buckets, {keys} keys");
                    for (key, &hash) in hashes.iter().enumerate() {
                        let candidates: Vec<u32> = view.candidates(view.places(hash)).each().collect();
                        let first =
                            candidates.first().map(|&lane| view.places(hash).slot(lane).number() as u32);
                        assert_eq!(slow.slots[key], first.unwrap_or(ABSENT));
                        none += u32::from(candidates.is_empty());
                        several += u32::from(candidates.len() > 1);
                    }
                }
            }
        }
        assert!(
            cfg!(miri) || (none > 1000 && several > 1000),
            "{none} without, {several} with several slots"
        );
    }
}
