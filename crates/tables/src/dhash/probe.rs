//! What a lookup does if it compares one slot after the other: for the paper's Tables IV and V.

use super::compare::SLOTS;
use super::key::FlowKey;
use super::records::Record;
use super::signature::FlowHash;
use super::table::{DHash, Found, slot_record};

/// What the search of one packet did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Probe {
    /// The session.
    pub found: Option<Found>,
    /// Signatures compared, those of the list included. With [`Signature::TwoHalves`](super::Signature::TwoHalves)
    /// each slot is compared with both forms, counted as one.
    pub comparisons: u32,
    /// Keys read that were of another session.
    pub false_positives: u32,
    /// Whether the session is in the conflict list.
    pub is_in_list: bool,
}

impl<K: FlowKey> DHash<K> {
    /// [`Self::find`] slot by slot, with counts. For measurements: it finds the same session and takes longer.
    pub fn probe(&self, key: &K, hash: FlowHash) -> Probe {
        let mut probe = Probe::default();
        let (bucket, start) = (self.place.bucket(hash), self.start(hash) as usize);
        let slots = (0..SLOTS).map(|i| (start + i) % SLOTS);
        let in_slots = slots.map(|slot| (self.lines[bucket][slot], slot_record(bucket, slot)));
        let listed = self.pool.list(self.heads[bucket]);
        let in_list = listed.map(|(_, entry)| (entry.signature, Record::new(entry.record)));
        for (signature, record) in in_slots.chain(in_list) {
            probe.comparisons += 1;
            let swapped =
                signature.rotate_left(16) == hash.signature() && !self.hasher.signature().is_symmetric();
            if signature != hash.signature() && !swapped {
                continue;
            }
            if let Some(direction) = self.keys[record.at()].direction_of(key) {
                probe.found = Some(Found { record, direction });
                probe.is_in_list = record.at() >= self.max_slots();
                return probe;
            }
            probe.false_positives += 1;
        }
        probe
    }
}
