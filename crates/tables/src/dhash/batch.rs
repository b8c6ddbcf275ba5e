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
            self.hash_unit(keys, &mut hashes);
            compare::run(self.isa, FindUnit { table: self, keys, hashes: &hashes, found });
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
            self.prefetch_buckets(hashes);
            compare::run(self.isa, FindUnit { table: self, keys, hashes, found });
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
        self.hash_unit(keys, &mut hashes);
        self.find_or_add_unit(keys, &hashes[..keys.len()], added);
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
        self.prefetch_buckets(hashes);
        self.find_or_add_unit(keys, hashes, added);
    }

    fn find_or_add_unit(&mut self, keys: &[K], hashes: &[FlowHash], added: &mut [Result<Added, AddError>]) {
        assert_eq!(keys.len(), added.len(), "one result per key");
        self.grow_for(keys.len());
        let mut found = [None; UNIT];
        let found = &mut found[..keys.len()];
        compare::run(self.isa, FindUnit { table: &*self, keys, hashes, found });
        for (((key, &hash), found), added) in keys.iter().zip(hashes).zip(found).zip(added) {
            // An earlier packet of the unit may have added the session.
            *added = match found.or_else(|| self.find_hashed(key, hash)) {
                Some(Found { record, direction }) => Ok(Added { record, direction, is_new: false }),
                None => self.add_absent(key, hash),
            };
        }
    }

    #[inline(always)]
    fn hash_unit(&self, keys: &[K], hashes: &mut [FlowHash; UNIT]) {
        for (key, hash) in keys.iter().zip(hashes) {
            *hash = self.hash(key);
            self.prefetch_bucket(*hash);
        }
    }

    fn prefetch_buckets(&self, hashes: &[FlowHash]) {
        for &hash in hashes {
            self.prefetch_bucket(hash);
        }
    }

    #[inline(always)]
    fn prefetch_bucket(&self, hash: FlowHash) {
        prefetch_item(&self.lines, self.place.bucket(hash));
    }
}

/// The lookups of a unit whose lines were prefetched.
struct FindUnit<'a, K> {
    table: &'a DHash<K>,
    keys: &'a [K],
    hashes: &'a [FlowHash],
    found: &'a mut [Option<Found>],
}

impl<K: FlowKey> Work for FindUnit<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(self) {
        let Self { table, keys, hashes, found } = self;
        let mut candidates = [NO_CANDIDATE; UNIT];
        for (candidate, &hash) in candidates.iter_mut().zip(&hashes[..keys.len()]) {
            let (bucket, start) = (table.place.bucket(hash), table.start(hash));
            let equal = in_order(table.candidates::<C>(bucket, hash), start);
            if equal == 0 {
                prefetch_item(&table.heads, bucket);
            } else {
                let record = slot_record(bucket, first_slot(equal, start));
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
