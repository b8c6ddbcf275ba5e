//! The sessions of a partition by the hashes of their keys. The hash is keyed with the cluster's secret, so it is hash
//! enough for a table, and no two keys of one hash are ever held: the GPT could not tell them apart.

use crate::record::Session;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use scalebricks_types::{FlowKey, KeyHash, Position};

/// A key and what it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) key: FlowKey,
    pub(super) hash: KeyHash,
    pub(super) session: Session,
    pub(super) since: Position,
}

/// 88 bytes a key and the table's slack.
#[derive(Debug, Default)]
pub(super) struct Sessions(HashTable<Held>);

/// A partition's hashes share their top bits, which a table picks its control bytes by.
const fn spread(hash: KeyHash) -> u64 {
    hash.get().wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, hash: KeyHash) -> Option<&Held> {
        self.0.find(spread(hash), |held| held.hash == hash)
    }

    pub(super) fn put(&mut self, key: FlowKey, hash: KeyHash, session: Session, since: Position) {
        let held = Held { key, hash, session, since };
        match self.0.entry(spread(hash), |held| held.hash == hash, |held| spread(held.hash)) {
            Entry::Occupied(mut there) => *there.get_mut() = held,
            Entry::Vacant(place) => {
                place.insert(held);
            }
        }
    }

    pub(super) fn remove(&mut self, hash: KeyHash) {
        if let Ok(there) = self.0.find_entry(spread(hash), |held| held.hash == hash) {
            there.remove();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.0.iter()
    }

    /// All, by their hashes.
    pub(super) fn sorted(&self) -> Vec<Held> {
        let mut all: Vec<Held> = self.0.iter().copied().collect();
        all.sort_unstable_by_key(|held| held.hash.get());
        all
    }
}
