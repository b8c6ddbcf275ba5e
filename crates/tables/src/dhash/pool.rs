//! The pool of conflict entries: sessions for which their bucket has no slot, linked into lists.

use super::config::Pool;
use super::records::Record;

/// No entry: ends lists. Entries are linked by their number plus one.
const END: u32 = 0;

/// Entries by which the pool grows at a time: a bounded piece of work.
const STEP: u32 = 256;

/// An entry of a list: the paper's. Its record is the pool's with the same number.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Entry {
    /// 0 if the entry is free.
    pub signature: u32,
    pub record: u32,
    next: u32,
}

/// The number of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryId(u32);

impl EntryId {
    const fn of_link(link: u32) -> Option<Self> {
        match link.checked_sub(1) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    const fn link(self) -> u32 {
        self.0 + 1
    }
}

/// All entries. Those of a bucket form a list from its head, the free ones another.
#[derive(Debug)]
pub(super) struct ConflictPool {
    entries: Vec<Entry>,
    max_entries: u32,
    first_record: u32,
    free: u32,
    used: u32,
}

impl ConflictPool {
    /// A pool whose records are numbered from `first_record`. `None` if there is no memory for its maximum.
    pub(super) fn new(config: Pool, first_record: u32) -> Option<Self> {
        let mut entries = Vec::new();
        entries.try_reserve_exact(config.max_entries as usize).ok()?;
        let mut pool = Self { entries, max_entries: config.max_entries, first_record, free: END, used: 0 };
        pool.extend(config.entries);
        Some(pool)
    }

    /// Adds free entries, so that the lowest is used first.
    fn extend(&mut self, count: u32) {
        let start = self.entries.len() as u32; // at most `max_entries`
        for number in start..start + count {
            let next = if number + 1 == start + count { self.free } else { number + 2 };
            self.entries.push(Entry { signature: 0, record: self.first_record + number, next });
        }
        if count > 0 {
            self.free = start + 1;
        }
    }

    /// Whether an entry can only be had if the pool grows, and it may.
    pub(super) const fn must_grow(&self) -> bool {
        self.free == END && (self.entries.len() as u32) < self.max_entries
    }

    /// Adds entries, at most up to the maximum.
    pub(super) fn grow(&mut self) {
        self.extend(STEP.min(self.max_entries - self.entries.len() as u32));
    }

    /// Entries there are.
    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries in use.
    pub(super) const fn used(&self) -> usize {
        self.used as usize
    }

    pub(super) const fn max_entries(&self) -> u32 {
        self.max_entries
    }

    pub(super) const fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// The entry of a record of the pool, if it is in use.
    pub(super) fn of_record(&self, record: Record) -> Option<EntryId> {
        let id = EntryId(record.get().checked_sub(self.first_record)?);
        (self.entries.get(id.0 as usize)?.signature != 0).then_some(id)
    }

    /// The record of an entry by its number, if it is in use.
    pub(super) fn record_of(&self, number: usize) -> Option<Record> {
        let entry = self.entries.get(number)?;
        (entry.signature != 0).then_some(Record::new(entry.record))
    }

    pub(super) fn entry(&self, id: EntryId) -> &Entry {
        &self.entries[id.0 as usize]
    }

    /// The entries of a list, first one first.
    #[inline]
    pub(super) fn list(&self, head: u32) -> impl Iterator<Item = (EntryId, &Entry)> {
        let mut link = head;
        std::iter::from_fn(move || {
            let id = EntryId::of_link(link)?;
            let entry = self.entry(id);
            link = entry.next;
            Some((id, entry))
        })
    }

    /// Puts a session in front of a list and returns its record, or `None` if no entry is free.
    pub(super) fn link(&mut self, head: &mut u32, signature: u32) -> Option<Record> {
        let id = EntryId::of_link(self.free)?;
        let entry = &mut self.entries[id.0 as usize];
        self.free = entry.next;
        (entry.signature, entry.next) = (signature, *head);
        *head = id.link();
        self.used += 1;
        Some(Record::new(entry.record))
    }

    /// Takes an entry out of its list. Returns whether the list held it.
    pub(super) fn unlink(&mut self, head: &mut u32, id: EntryId) -> bool {
        let next = self.entry(id).next;
        if *head == id.link() {
            *head = next;
            return true;
        }
        let before = self.list(*head).find(|(_, entry)| entry.next == id.link()).map(|(before, _)| before);
        if let Some(before) = before {
            self.entries[before.0 as usize].next = next;
        }
        before.is_some()
    }

    /// Frees an entry that is in no list.
    pub(super) fn free(&mut self, id: EntryId) {
        let entry = &mut self.entries[id.0 as usize];
        (entry.signature, entry.next) = (0, self.free);
        self.free = id.link();
        self.used -= 1;
    }

    /// Puts an entry that is in no list in front of one.
    pub(super) fn relink(&mut self, head: &mut u32, id: EntryId) {
        self.entries[id.0 as usize].next = std::mem::replace(head, id.link());
    }
}
