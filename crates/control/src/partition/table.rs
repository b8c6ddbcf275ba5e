//! The sessions of a partition by the hashes of their keys. The hash is keyed with the cluster's secret, so the table needs no
//! other. Two keys with the same hash are never held: the GPT could not tell them apart.

use crate::record::Session;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use scalebricks_tables::fib::FibDigest;
use scalebricks_types::{FlowKey, KeyHash, NodeId, Position};
use std::collections::BTreeMap;

/// A key and its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) key: FlowKey,
    pub(super) hash: KeyHash,
    pub(super) session: Session,
    pub(super) since: Position,
}

/// Tables of a partition: one that grows moves its keys at once, so this bounds how many.
const TABLES: usize = 16;

/// 88 bytes a key and the tables' slack.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// By a part of the spread hash.
    tables: [HashTable<Held>; TABLES],
    /// By the node that they are pinned to.
    by_node: BTreeMap<NodeId, Pinned>,
}

/// The keys pinned to one node.
#[derive(Debug, Clone, Copy, Default)]
struct Pinned {
    keys: usize,
    /// Of their entries in the node's FIB.
    digest: FibDigest,
}

impl Held {
    /// The digest of the key's entry in the FIB of its node.
    const fn digest(&self) -> FibDigest {
        FibDigest::of(self.hash, self.session.value)
    }
}

/// A partition's hashes share their top bits, which a table picks its control bytes by.
const fn spread(hash: KeyHash) -> u64 {
    hash.get().wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The number of a key's table, from bits that no table chooses its slots by.
const fn table_of(spread: u64) -> usize {
    (spread >> 32) as usize % TABLES
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.tables.iter().map(HashTable::len).sum()
    }

    /// Keys pinned to a node.
    pub(super) fn keys_of(&self, node: NodeId) -> usize {
        self.by_node.get(&node).map_or(0, |pinned| pinned.keys)
    }

    /// The digest of the entries that a node's FIB is to hold. Kept up to date by every change.
    pub(super) fn digest_of(&self, node: NodeId) -> FibDigest {
        self.by_node.get(&node).map_or_else(FibDigest::default, |pinned| pinned.digest)
    }

    fn forget(&mut self, gone: &Held) {
        if let Some(pinned) = self.by_node.get_mut(&gone.session.node) {
            pinned.keys -= 1;
            pinned.digest -= gone.digest();
        }
    }

    pub(super) fn get(&self, hash: KeyHash) -> Option<&Held> {
        let at = spread(hash);
        self.tables[table_of(at)].find(at, |held| held.hash == hash)
    }

    pub(super) fn put(&mut self, key: FlowKey, hash: KeyHash, session: Session, since: Position) {
        let held = Held { key, hash, session, since };
        let pinned = self.by_node.entry(session.node).or_default();
        pinned.keys += 1;
        pinned.digest += held.digest();
        let at = spread(hash);
        match self.tables[table_of(at)].entry(at, |held| held.hash == hash, |held| spread(held.hash)) {
            Entry::Occupied(mut there) => {
                let before = std::mem::replace(there.get_mut(), held);
                self.forget(&before);
            }
            Entry::Vacant(place) => {
                place.insert(held);
            }
        }
    }

    pub(super) fn remove(&mut self, hash: KeyHash) {
        let at = spread(hash);
        if let Ok(there) = self.tables[table_of(at)].find_entry(at, |held| held.hash == hash) {
            let (gone, _) = there.remove();
            self.forget(&gone);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Held> {
        self.tables.iter().flat_map(HashTable::iter)
    }

    /// All, by their hashes. The hashes are beside the references, so that sorting reads no session.
    pub(super) fn sorted(&self) -> Vec<(u64, &Held)> {
        let mut all: Vec<(u64, &Held)> = self.iter().map(|held| (held.hash.get(), held)).collect();
        all.sort_unstable_by_key(|(hash, _)| *hash);
        all
    }
}
