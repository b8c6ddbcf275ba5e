//! Lookups in three steps, for a caller that works on each packet between the lookups of others: so the misses of some packets
//! pass while others are worked on.

use super::compare::{self, Compare, Work};
use super::key::FlowKey;
use super::records::Record;
use super::signature::FlowHash;
use super::table::{DHash, Found, slot_record};
use crate::prefetch::prefetch_item;

/// A lookup that has begun: the hash of a packet's session, and where the session may be. It is valid in its table only. What
/// it knows of the place is a hint, so sessions may be added and deleted between the steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look {
    hash: FlowHash,
    /// The bucket, then the record.
    place: u32,
}

/// No slot of the bucket has the signature.
const NOWHERE: u32 = u32::MAX;

impl Look {
    /// The hash of the packet's session.
    #[inline(always)]
    pub const fn hash(self) -> FlowHash {
        self.hash
    }
}

impl<K: FlowKey> DHash<K> {
    /// The first step: hashes the packets and prefetches their buckets.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn look(&self, keys: &[K], looks: &mut [Look]) {
        const UNIT: usize = 16;
        assert_eq!(keys.len(), looks.len(), "one lookup per key");
        for (keys, looks) in keys.chunks(UNIT).zip(looks.chunks_mut(UNIT)) {
            let mut hashes = [FlowHash::default(); UNIT];
            self.hasher.hash_batch(keys, &mut hashes);
            for (look, hash) in looks.iter_mut().zip(hashes) {
                *look = Look { hash, place: self.prefetch_bucket(hash) };
            }
        }
    }

    /// The second step, once for each lookup: compares signatures, and prefetches the key of the session. `noted` is called with
    /// the place of a packet and a record: the one whose signature matches, or that of the empty slot that a new session would
    /// take. Prefetch there what the packet needs.
    #[inline]
    pub fn note(&self, looks: &mut [Look], noted: impl FnMut(usize, Record)) {
        compare::run(self.isa, Note { table: self, looks, noted });
    }

    /// The third step: the session of the packet. Equal to [`Self::find`].
    #[inline(always)]
    pub fn find_looked(&self, key: &K, look: Look) -> Option<Found> {
        let place = look.place as usize;
        let is_used = self.lines.as_flattened().get(place).is_some_and(|signature| *signature != 0);
        if is_used && let Some(direction) = self.keys.get(place).and_then(|held| held.direction_of(key)) {
            return Some(Found { record: Record::new(look.place), direction });
        }
        self.find_unseen(key, look.hash)
    }

    /// The session of a packet that is not at its first candidate: in a list, at another slot, moved, or absent.
    #[inline(never)]
    fn find_unseen(&self, key: &K, hash: FlowHash) -> Option<Found> {
        self.find_hashed(key, hash)
    }
}

struct Note<'a, K, N> {
    table: &'a DHash<K>,
    looks: &'a mut [Look],
    noted: N,
}

impl<K: FlowKey, N: FnMut(usize, Record)> Work for Note<'_, K, N> {
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(self) {
        let Self { table, looks, mut noted } = self;
        for (at, look) in looks.iter_mut().enumerate() {
            let (bucket, hash) = (look.place as usize, look.hash);
            look.place = NOWHERE;
            let Some(line) = table.lines.get(bucket) else { continue };
            let equal = table.candidates::<C>(bucket, hash);
            let slots = if equal == 0 { C::equal(line, 0) } else { equal };
            if slots == 0 {
                prefetch_item(&table.heads, bucket);
                continue;
            }
            let record = slot_record(bucket, table.first_of(slots, hash));
            prefetch_item(&table.keys, record.at());
            noted(at, record);
            if equal == 0 {
                prefetch_item(&table.heads, bucket);
            } else {
                look.place = record.get();
            }
        }
    }
}
