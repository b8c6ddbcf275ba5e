//! Lookups of many packets, with their cache misses in flight at once.

use super::compare::{self, Compare, Work, first_slot, in_order};
use super::key::FlowKey;
use super::records::Record;
use super::signature::FlowHash;
use super::table::{AddError, Added, DHash, Found, slot_record};
use crate::prefetch::prefetch_item;

/// Keys that are looked up together.
pub(super) const UNIT: usize = 64;

/// No slot of the bucket has the signature.
const NO_CANDIDATE: u32 = u32::MAX;

impl<K: FlowKey> DHash<K> {
    /// The sessions of a batch of packets of any length.
    ///
    /// Each unit of 64 packets goes through three steps: hash and prefetch the bucket's line; compare, and prefetch
    /// the key of the first slot with the signature; compare the key. So the misses of 64 packets overlap, and each
    /// waits for about two misses in all.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn find_batch(&self, keys: &[K], found: &mut [Option<Found>]) {
        assert_eq!(keys.len(), found.len(), "one answer per key");
        for (keys, found) in keys.chunks(UNIT).zip(found.chunks_mut(UNIT)) {
            let mut hashes = [FlowHash::default(); UNIT];
            let hashes = &mut hashes[..keys.len()];
            let buckets = self.hash_unit(keys, hashes);
            compare::run(self.isa, FindUnit { table: self, keys, hashes, buckets: &buckets, found });
        }
    }

    /// [`Self::find_batch`] with the hashes that [`Self::hash`] gives.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn find_batch_hashed(&self, keys: &[K], hashes: &[FlowHash], found: &mut [Option<Found>]) {
        assert_eq!(keys.len(), hashes.len(), "one hash per key");
        assert_eq!(keys.len(), found.len(), "one answer per key");
        for ((keys, hashes), found) in keys.chunks(UNIT).zip(hashes.chunks(UNIT)).zip(found.chunks_mut(UNIT))
        {
            let buckets = self.prefetch_buckets(hashes);
            compare::run(self.isa, FindUnit { table: self, keys, hashes, buckets: &buckets, found });
        }
    }

    /// Packets in a call of [`Self::find_or_add_batch`], at most.
    pub const BATCH: usize = UNIT;

    /// The sessions of a batch of packets; adds those that are not there. Equal to [`Self::find_or_add`] of each key
    /// in order, but for the moment of growth: before the first lookup, for as many sessions as there are packets. So
    /// all records that it returns are valid together.
    ///
    /// # Errors
    /// Each packet has its own result.
    ///
    /// # Panics
    /// If the slices differ in length or are longer than [`Self::BATCH`].
    pub fn find_or_add_batch(&mut self, keys: &[K], added: &mut [Result<Added, AddError>]) {
        let mut hashes = [FlowHash::default(); UNIT];
        assert!(keys.len() <= UNIT, "{} keys in a batch of at most {UNIT}", keys.len());
        let hashes = &mut hashes[..keys.len()];
        self.hasher.hash_batch(keys, hashes);
        self.find_or_add_unit(keys, hashes, added);
    }

    /// [`Self::find_or_add_batch`] with the hashes that [`Self::hash`] gives.
    ///
    /// # Panics
    /// As for [`Self::find_or_add_batch`].
    pub fn find_or_add_batch_hashed(
        &mut self,
        keys: &[K],
        hashes: &[FlowHash],
        added: &mut [Result<Added, AddError>],
    ) {
        assert!(keys.len() <= UNIT, "{} keys in a batch of at most {UNIT}", keys.len());
        assert_eq!(keys.len(), hashes.len(), "one hash per key");
        self.find_or_add_unit(keys, hashes, added);
    }

    fn find_or_add_unit(&mut self, keys: &[K], hashes: &[FlowHash], added: &mut [Result<Added, AddError>]) {
        assert_eq!(keys.len(), added.len(), "one result per key");
        self.grow_for(keys.len());
        let mut found = [None; UNIT];
        let found = &mut found[..keys.len()];
        let buckets = self.prefetch_buckets(hashes);
        compare::run(self.isa, FindUnit { table: &*self, keys, hashes, buckets: &buckets, found });
        for (((key, &hash), found), added) in keys.iter().zip(hashes).zip(found).zip(added) {
            // An earlier packet of the unit may have added the session.
            *added = match found.or_else(|| self.find_hashed(key, hash)) {
                Some(Found { record, direction }) => Ok(Added { record, direction, is_new: false }),
                None => self.add_absent(key, hash),
            };
        }
    }

    /// Hashes a unit's keys, and prefetches their buckets, whose numbers it returns.
    #[inline(always)]
    fn hash_unit(&self, keys: &[K], hashes: &mut [FlowHash]) -> [u32; UNIT] {
        self.hasher.hash_batch(keys, hashes);
        self.prefetch_buckets(hashes)
    }

    #[inline(always)]
    fn prefetch_buckets(&self, hashes: &[FlowHash]) -> [u32; UNIT] {
        let mut buckets = [0; UNIT];
        for (bucket, &hash) in buckets.iter_mut().zip(hashes) {
            *bucket = self.prefetch_bucket(hash);
        }
        buckets
    }

    #[inline(always)]
    pub(super) fn prefetch_bucket(&self, hash: FlowHash) -> u32 {
        let bucket = self.place.bucket(hash);
        prefetch_item(&self.lines, bucket);
        bucket as u32 // below 2^28
    }

    /// The first of these slots in the order of a search; there is one.
    #[inline(always)]
    pub(super) fn first_of(&self, slots: u32, hash: FlowHash) -> usize {
        if slots.is_power_of_two() {
            return slots.trailing_zeros() as usize;
        }
        let start = self.start(hash);
        first_slot(in_order(slots, start), start)
    }
}

/// The lookups of a unit whose lines were prefetched.
struct FindUnit<'a, K> {
    table: &'a DHash<K>,
    keys: &'a [K],
    hashes: &'a [FlowHash],
    buckets: &'a [u32; UNIT],
    found: &'a mut [Option<Found>],
}

impl<K: FlowKey> Work for FindUnit<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(self) {
        let Self { table, keys, hashes, buckets, found } = self;
        let mut candidates = [NO_CANDIDATE; UNIT];
        let packets = candidates.iter_mut().zip(&hashes[..keys.len()]).zip(buckets);
        for ((candidate, &hash), &bucket) in packets {
            let bucket = bucket as usize;
            let equal = table.candidates::<C>(bucket, hash);
            if equal == 0 {
                prefetch_item(&table.heads, bucket);
            } else {
                let record = slot_record(bucket, table.first_of(equal, hash));
                prefetch_item(&table.keys, record.at());
                *candidate = record.get();
            }
        }
        for (((key, &hash), candidate), found) in keys.iter().zip(hashes).zip(candidates).zip(found) {
            let direction = match candidate {
                NO_CANDIDATE => None,
                record => table.keys[record as usize].direction_of(key),
            };
            *found = match direction {
                Some(direction) => Some(Found { record: Record::new(candidate), direction }),
                None => table.find_again(key, hash),
            };
        }
    }
}

impl<K: FlowKey> DHash<K> {
    /// The session of a packet that is not at its first candidate: in a list, at another slot, or absent.
    #[cold]
    #[inline(never)]
    fn find_again(&self, key: &K, hash: FlowHash) -> Option<Found> {
        self.find_hashed(key, hash)
    }
}
