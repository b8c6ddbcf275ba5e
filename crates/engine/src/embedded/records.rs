//! The records: few and small, so all are in memory.

use crate::keys::is_key;
use scalebricks_control::engine::{Record, Revision};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A record's newest version.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub revision: Revision,
    /// `None`: deleted, and kept for watchers.
    pub value: Option<Arc<[u8]>>,
    /// The segment that contains it.
    pub segment: u32,
}

/// All records, by key and by revision.
#[derive(Debug, Default)]
pub(super) struct Records {
    slots: BTreeMap<String, Slot>,
    by_revision: BTreeMap<Revision, String>,
    newest: u64,
    deleted: usize,
}

impl Records {
    /// The newest revision of any record.
    pub(super) fn newest(&self) -> Revision {
        Revision(self.newest)
    }

    /// Raises the newest revision.
    pub(super) fn advance(&mut self, newest: Revision) {
        self.newest = self.newest.max(newest.0);
    }

    /// The revision of an existing record.
    pub(super) fn revision(&self, key: &str) -> Option<Revision> {
        self.slots.get(key).filter(|slot| slot.value.is_some()).map(|slot| slot.revision)
    }

    /// An existing record.
    pub(super) fn get(&self, key: &str) -> Option<Record> {
        let slot = self.slots.get(key).filter(|slot| slot.value.is_some())?;
        Some(Record { key: key.to_owned(), revision: slot.revision, value: slot.value.clone() })
    }

    /// Stores a record's newest version.
    ///
    /// # Errors
    /// Why the version is invalid.
    pub(super) fn put(&mut self, key: &str, slot: Slot) -> Result<(), &'static str> {
        if !is_key(key) || slot.revision.0 == 0 {
            return Err("a record's key or revision is invalid");
        }
        if self.by_revision.get(&slot.revision).is_some_and(|other| other != key) {
            return Err("two records have one revision");
        }
        if let Some(old) = self.slots.get(key) {
            if old.revision > slot.revision {
                return Err("a record goes back to an older revision");
            }
            self.deleted -= usize::from(old.value.is_none());
            self.by_revision.remove(&old.revision);
        }
        self.advance(slot.revision);
        self.deleted += usize::from(slot.value.is_none());
        self.by_revision.insert(slot.revision, key.to_owned());
        self.slots.insert(key.to_owned(), slot);
        Ok(())
    }

    /// Existing records whose newest version is in a segment before this one.
    pub(super) fn before(&self, segment: u32) -> impl Iterator<Item = (&String, &Slot)> {
        self.slots.iter().filter(move |(_, slot)| slot.segment < segment && slot.value.is_some())
    }

    /// Up to `limit` changes after a revision, in order; up to `started` only existing records. Also the revision up to
    /// which these are all changes.
    pub(super) fn changes(
        &self,
        prefix: &str,
        after: Revision,
        started: Revision,
        limit: usize,
    ) -> (Vec<Record>, Revision) {
        let mut changes = Vec::new();
        let after = Revision(after.0.saturating_add(1));
        for (&revision, key) in self.by_revision.range(after..) {
            let Some(slot) = self.slots.get(key).filter(|_| key.starts_with(prefix)) else { continue };
            if slot.value.is_none() && revision <= started {
                continue;
            }
            changes.push(Record { key: key.clone(), revision, value: slot.value.clone() });
            if changes.len() >= limit {
                return (changes, revision);
            }
        }
        (changes, self.newest())
    }

    /// Number of deleted records that are kept.
    pub(super) fn deleted(&self) -> usize {
        self.deleted
    }

    /// Removes deletions up to a revision, which all watchers have seen.
    pub(super) fn forget_deleted(&mut self, up_to: Revision) {
        self.slots.retain(|_, slot| {
            let goes = slot.value.is_none() && slot.revision <= up_to;
            if goes {
                self.by_revision.remove(&slot.revision);
                self.deleted -= 1;
            }
            !goes
        });
    }

    /// Number of existing records.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.deleted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(revision: u64, value: Option<&[u8]>) -> Slot {
        Slot { revision: Revision(revision), value: value.map(Arc::from), segment: 1 }
    }

    #[test]
    fn changes_come_by_revision_and_deletions_after_the_start() {
        let mut records = Records::default();
        records.put("a.x", slot(1, Some(b"1"))).unwrap();
        records.put("a.y", slot(2, None)).unwrap();
        records.put("b.x", slot(3, Some(b"3"))).unwrap();
        records.put("a.x", slot(4, Some(b"4"))).unwrap();
        let keys = |(list, up_to): (Vec<Record>, Revision)| {
            (list.into_iter().map(|r| (r.key, r.revision.0)).collect::<Vec<_>>(), up_to.0)
        };
        let (zero, four) = (Revision(0), Revision(4));
        assert_eq!(keys(records.changes("a.", zero, four, 9)), (vec![("a.x".into(), 4)], 4));
        let all = vec![("a.y".into(), 2), ("a.x".into(), 4)];
        assert_eq!(keys(records.changes("a.", zero, zero, 9)), (all, 4));
        assert_eq!(keys(records.changes("", Revision(2), four, 1)), (vec![("b.x".into(), 3)], 3));
        records.forget_deleted(four);
        assert_eq!((records.len(), records.deleted(), records.newest()), (2, 0, four));
        assert_eq!(records.put("b.y", slot(4, None)), Err("two records have one revision"));
        assert_eq!(records.put("b.x", slot(2, None)), Err("a record goes back to an older revision"));
    }
}
