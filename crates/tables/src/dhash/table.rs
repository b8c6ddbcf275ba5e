//! The table: find, add and delete one session at a time.

use super::compare::{self, Compare, Line, SLOTS, Work, first_slot, in_order};
use super::config::{Config, ConfigError, Growth};
use super::key::{Direction, FlowKey};
use super::placement::Placement;
use super::pool::{ConflictPool, EntryId};
use super::records::{Cells, Column, Extent, Record, Records, StartedRecords};
use super::signature::{FlowHash, FlowHasher};
use super::sweep::Hand;
use crate::huge::{HugeSlice, Zeroable};
use crate::isa::{AvailableIsa, Isa};

/// A session that a lookup found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its record.
    pub record: Record,
    /// Whether the packet goes as the session's first one did.
    pub direction: Direction,
}

/// A session that a lookup found or added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Its record.
    pub record: Record,
    /// Whether the packet goes as the session's first one did; forward for a new session.
    pub direction: Direction,
    /// Whether it was added by this packet.
    pub is_new: bool,
}

/// Why a session was not added. The table is unchanged, and all its sessions are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AddError {
    /// The session's bucket is full, and so is the pool.
    #[error("the bucket is full, and all {max_entries} entries of the conflict pool are used")]
    PoolFull {
        /// Entries of the pool at most.
        max_entries: u32,
    },
    /// The session's bucket is full, and its list is as long as it may become.
    #[error("the bucket is full, and its conflict list has the maximum of {max_list} entries")]
    ListFull {
        /// Entries of a list at most.
        max_list: u32,
    },
}

/// Events since the table was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sessions added.
    pub added: u64,
    /// Sessions deleted, those that a sweep removed included.
    pub deleted: u64,
    /// Sessions refused because the pool was full.
    pub pool_full: u64,
    /// Sessions refused because a list was full.
    pub list_full: u64,
    /// Buckets split.
    pub splits: u64,
    /// Sessions that got another record: by a split, or promoted.
    pub moved: u64,
}

/// A table of sessions for one core. See the [module](super) for layout and cost.
pub struct DHash<K> {
    pub(super) hasher: FlowHasher,
    pub(super) place: Placement,
    /// The buckets, up to the maximum; `place` says how many are used.
    pub(super) lines: HugeSlice<Line>,
    /// The first conflict entry of each bucket.
    pub(super) heads: HugeSlice<u32>,
    /// The key of each record, as its first packet had it. That of an unused record is of no meaning.
    pub(super) keys: HugeSlice<K>,
    pub(super) pool: ConflictPool,
    pub(super) records: StartedRecords,
    pub(super) isa: AvailableIsa,
    pub(super) growth: Growth,
    pub(super) has_major_location: bool,
    pub(super) is_promoting: bool,
    pub(super) max_list: u32,
    /// Sessions in slots.
    pub(super) in_slots: usize,
    pub(super) hand: Hand,
    pub(super) counters: Counters,
}

impl<K: FlowKey> DHash<K> {
    /// An empty table whose sessions have these records.
    ///
    /// Cost: writes to all memory of the table at its first size; reserves address space for its maximum.
    ///
    /// # Errors
    /// What [`Config::check`] finds, and [`ConfigError::OutOfMemory`] if the records' maximum cannot be reserved.
    pub fn new(config: &Config, records: Records) -> Result<Self, ConfigError> {
        Self::with_isa(config, records, Isa::best())
    }

    /// [`Self::new`] with this instruction set, or the portable form if this processor lacks it.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_isa(config: &Config, records: Records, isa: Isa) -> Result<Self, ConfigError> {
        config.check()?;
        let (buckets, max_buckets) = (config.buckets as usize, config.max_buckets() as usize);
        let max_slots = max_buckets * SLOTS;
        let max_entries = config.pool.max_entries as usize;
        let extent = Extent {
            slots: buckets * SLOTS,
            max_slots,
            pool: config.pool.entries as usize,
            max_pool: max_entries,
        };
        let pool_bytes = max_entries as u64 * size_of::<super::pool::Entry>() as u64;
        let pool = ConflictPool::new(config.pool, max_slots as u32) // `check` has bounded it
            .ok_or(ConfigError::OutOfMemory { bytes: pool_bytes })?;
        Ok(Self {
            hasher: FlowHasher::with_isa(config.signature, config.secret, isa),
            place: Placement::new(config.buckets),
            lines: reserved(max_buckets, buckets, [0; SLOTS])?,
            heads: reserved(max_buckets, buckets, 0)?,
            keys: reserved(max_slots + max_entries, buckets * SLOTS, K::ZERO)?,
            pool,
            records: records.start(extent)?,
            isa: AvailableIsa::new(isa),
            growth: config.growth,
            has_major_location: config.has_major_location,
            is_promoting: config.is_promoting,
            max_list: config.max_list,
            in_slots: 0,
            hand: Hand::default(),
            counters: Counters::default(),
        })
    }

    /// The hash of a packet's session, for [`Self::find_hashed`]. One hash serves the choice of the pipeline and the
    /// lookup.
    #[inline(always)]
    pub fn hash(&self, key: &K) -> FlowHash {
        self.hasher.hash(key)
    }

    /// The session of a packet. Cost: see [the module](super#cost).
    #[inline]
    pub fn find(&self, key: &K) -> Option<Found> {
        self.find_hashed(key, self.hash(key))
    }

    /// [`Self::find`] with the hash that [`Self::hash`] gives.
    #[inline]
    pub fn find_hashed(&self, key: &K, hash: FlowHash) -> Option<Found> {
        compare::run(self.isa, Find { table: self, key, hash })
    }

    /// The session of a packet; adds it if there is none, with this packet's direction as the forward one.
    ///
    /// Cost: a lookup. If the session is new also the write of its slot and key, and in a growing table the split of
    /// a bucket: 16 keys and those of its list are read and about half of them move.
    ///
    /// # Errors
    /// [`AddError`] if there is neither a slot nor an entry.
    #[inline]
    pub fn find_or_add(&mut self, key: &K) -> Result<Added, AddError> {
        self.find_or_add_hashed(key, self.hash(key))
    }

    /// [`Self::find_or_add`] with the hash that [`Self::hash`] gives.
    ///
    /// # Errors
    /// As for [`Self::find_or_add`].
    #[inline]
    pub fn find_or_add_hashed(&mut self, key: &K, hash: FlowHash) -> Result<Added, AddError> {
        if let Some(Found { record, direction }) = self.find_hashed(key, hash) {
            return Ok(Added { record, direction, is_new: false });
        }
        self.grow_for(1);
        self.add_absent(key, hash)
    }

    /// Adds a session, and returns its record; `None` if it is already there, in either direction.
    ///
    /// # Errors
    /// As for [`Self::find_or_add`].
    pub fn add(&mut self, key: &K) -> Result<Option<Record>, AddError> {
        self.find_or_add(key).map(|added| added.is_new.then_some(added.record))
    }

    /// Adds a session that is not there: in the first empty slot from its major location on, else in the list.
    pub(super) fn add_absent(&mut self, key: &K, hash: FlowHash) -> Result<Added, AddError> {
        let bucket = self.place.bucket(hash);
        let record = match self.empty_slot(bucket, self.start(hash)) {
            Some(slot) => {
                self.lines[bucket][slot] = hash.signature();
                self.in_slots += 1;
                slot_record(bucket, slot)
            }
            None => self.add_to_list(bucket, hash.signature())?,
        };
        self.keys[record.at()] = *key;
        self.counters.added += 1;
        Ok(Added { record, direction: Direction::Forward, is_new: true })
    }

    /// The first empty slot of a bucket in the order of a search.
    #[inline]
    pub(super) fn empty_slot(&self, bucket: usize, start: u32) -> Option<usize> {
        let empty =
            in_order(compare::run(self.isa, Equal { line: &self.lines[bucket], signature: 0 }), start);
        (empty != 0).then(|| first_slot(empty, start))
    }

    #[cold]
    fn add_to_list(&mut self, bucket: usize, signature: u32) -> Result<Record, AddError> {
        let max_list = self.max_list;
        if self.pool.list(self.heads[bucket]).count() >= max_list as usize {
            self.counters.list_full += 1;
            return Err(AddError::ListFull { max_list });
        }
        if self.pool.must_grow() {
            self.pool.grow();
            self.records.resize(self.extent());
        }
        let max_entries = self.pool.max_entries();
        self.pool.link(&mut self.heads[bucket], signature).ok_or_else(|| {
            self.counters.pool_full += 1;
            AddError::PoolFull { max_entries }
        })
    }

    /// Deletes a session by its record. Returns whether there was one. All values of the record become defaults.
    ///
    /// Cost: the write of a slot and of the record's values. For a session in a list also its key and a walk over
    /// the list.
    pub fn delete(&mut self, record: Record) -> bool {
        if record.at() >= self.max_slots() {
            return self.delete_listed(record);
        }
        let (bucket, slot) = (record.at() / SLOTS, record.at() % SLOTS);
        if bucket >= self.buckets() || self.lines[bucket][slot] == 0 {
            return false;
        }
        self.lines[bucket][slot] = 0;
        self.in_slots -= 1;
        self.counters.deleted += 1;
        self.records.clear(record);
        if self.is_promoting {
            self.promote(bucket, slot);
        }
        true
    }

    /// Deletes the session of a packet of either direction. Returns whether there was one.
    pub fn remove(&mut self, key: &K) -> bool {
        self.find(key).is_some_and(|found| self.delete(found.record))
    }

    #[cold]
    fn delete_listed(&mut self, record: Record) -> bool {
        let Some(id) = self.pool.of_record(record) else { return false };
        let bucket = self.place.bucket(self.hash(&self.keys[record.at()]));
        let is_linked = self.pool.unlink(&mut self.heads[bucket], id);
        debug_assert!(is_linked, "an entry is in the list of its key's bucket");
        self.pool.free(id);
        self.counters.deleted += 1;
        self.records.clear(record);
        true
    }

    /// Moves the first session of a bucket's list, if there is one, into an empty slot.
    pub(super) fn promote(&mut self, bucket: usize, slot: usize) {
        let first = self.pool.list(self.heads[bucket]).next().map(|(id, _)| id);
        if let Some(id) = first {
            self.pool.unlink(&mut self.heads[bucket], id);
            self.move_to_slot(id, bucket, slot);
        }
    }

    /// Moves a session that is in no list into an empty slot, and frees its entry.
    pub(super) fn move_to_slot(&mut self, id: EntryId, bucket: usize, slot: usize) {
        let entry = *self.pool.entry(id);
        self.lines[bucket][slot] = entry.signature;
        self.in_slots += 1;
        self.move_record(Record::new(entry.record), slot_record(bucket, slot));
        self.pool.free(id);
    }

    /// Moves key and values of a session to another record.
    pub(super) fn move_record(&mut self, from: Record, to: Record) {
        self.keys[to.at()] = self.keys[from.at()];
        self.records.shift(from, to);
        self.counters.moved += 1;
    }

    /// The key of a session, as its first packet had it; `None` if the record is unused.
    #[inline]
    pub fn key(&self, record: Record) -> Option<&K> {
        self.is_used(record).then(|| &self.keys[record.at()])
    }

    #[inline]
    pub(super) fn is_used(&self, record: Record) -> bool {
        if let Some(entry) = record.at().checked_sub(self.max_slots()) {
            return self.pool.record_of(entry).is_some();
        }
        let (bucket, slot) = (record.at() / SLOTS, record.at() % SLOTS);
        bucket < self.buckets() && self.lines[bucket][slot] != 0
    }

    /// An array of the records, to read.
    ///
    /// # Panics
    /// If other `Records` reserved the column.
    #[inline]
    pub fn column<T: 'static>(&self, column: Column<T>) -> &Cells<T> {
        self.records.column(column)
    }

    /// An array of the records, to write. Take it once for a batch of packets.
    ///
    /// # Panics
    /// If other `Records` reserved the column.
    #[inline]
    pub fn column_mut<T: 'static>(&mut self, column: Column<T>) -> &mut Cells<T> {
        self.records.column_mut(column)
    }

    /// All arrays of the records, to read.
    pub fn records(&self) -> &StartedRecords {
        &self.records
    }

    /// All arrays of the records, to write to several in turn.
    pub fn records_mut(&mut self) -> &mut StartedRecords {
        &mut self.records
    }

    /// Calls `visit` with each session, in the order of records.
    pub fn for_each(&self, mut visit: impl FnMut(Record, &K)) {
        let slots = (0..self.buckets()).flat_map(|bucket| (0..SLOTS).map(move |slot| (bucket, slot)));
        for (bucket, slot) in slots.filter(|&(bucket, slot)| self.lines[bucket][slot] != 0) {
            let record = slot_record(bucket, slot);
            visit(record, &self.keys[record.at()]);
        }
        for record in (0..self.pool.len()).filter_map(|number| self.pool.record_of(number)) {
            visit(record, &self.keys[record.at()]);
        }
    }

    #[inline(always)]
    pub(super) fn start(&self, hash: FlowHash) -> u32 {
        if self.has_major_location { hash.start(self.hasher.signature().is_symmetric()) } else { 0 }
    }

    /// Records of slots that there are at most: where the records of the pool start.
    #[inline(always)]
    pub(super) fn max_slots(&self) -> usize {
        self.lines.len() * SLOTS
    }

    pub(super) fn extent(&self) -> Extent {
        Extent {
            slots: self.buckets() * SLOTS,
            max_slots: self.max_slots(),
            pool: self.pool.len(),
            max_pool: self.pool.max_entries() as usize,
        }
    }
}

impl<K> std::fmt::Debug for DHash<K> {
    /// Sizes, not keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DHash")
            .field("buckets", &self.place.buckets())
            .field("in_slots", &self.in_slots)
            .field("in_lists", &self.pool.used())
            .field("signature", &self.hasher.signature())
            .finish_non_exhaustive()
    }
}

/// The record of a slot.
#[inline(always)]
pub(super) const fn slot_record(bucket: usize, slot: usize) -> Record {
    Record::new((bucket * SLOTS + slot) as u32) // `Config::check` has bounded it
}

/// Memory for `max` items of which the first `len` are touched now.
fn reserved<T: Zeroable + Copy>(max: usize, len: usize, zero: T) -> Result<HugeSlice<T>, ConfigError> {
    let bytes = max as u64 * size_of::<T>() as u64;
    let mut items = HugeSlice::try_untouched(max).ok_or(ConfigError::OutOfMemory { bytes })?;
    items[..len].fill(zero);
    Ok(items)
}

/// Compares one line.
pub(super) struct Equal<'a> {
    pub line: &'a Line,
    pub signature: u32,
}

impl Work for Equal<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<C: Compare>(self) -> u32 {
        C::equal(self.line, self.signature)
    }
}

/// A lookup.
struct Find<'a, K> {
    table: &'a DHash<K>,
    key: &'a K,
    hash: FlowHash,
}

impl<K: FlowKey> Work for Find<'_, K> {
    type Output = Option<Found>;

    #[inline(always)]
    fn run<C: Compare>(self) -> Option<Found> {
        let Self { table, key, hash } = self;
        let bucket = table.place.bucket(hash);
        let start = table.start(hash);
        let mut left = in_order(table.candidates::<C>(bucket, hash), start);
        while left != 0 {
            let record = slot_record(bucket, first_slot(left, start));
            if let Some(direction) = table.keys[record.at()].direction_of(key) {
                return Some(Found { record, direction });
            }
            left &= left - 1;
        }
        match table.heads[bucket] {
            0 => None,
            head => table.find_in_list(head, key, hash.signature()),
        }
    }
}

impl<K: FlowKey> DHash<K> {
    /// The slots of a bucket whose signature is that of a session, in either direction.
    #[inline(always)]
    pub(super) fn candidates<C: Compare>(&self, bucket: usize, hash: FlowHash) -> u32 {
        let (line, signature) = (&self.lines[bucket], hash.signature());
        let equal = C::equal(line, signature);
        if self.hasher.signature().is_symmetric() {
            equal
        } else {
            equal | C::equal(line, signature.rotate_left(16))
        }
    }

    /// Searches a list.
    #[cold]
    #[inline(never)]
    pub(super) fn find_in_list(&self, head: u32, key: &K, signature: u32) -> Option<Found> {
        let swapped =
            if self.hasher.signature().is_symmetric() { signature } else { signature.rotate_left(16) };
        self.pool.list(head).find_map(|(_, entry)| {
            let is_candidate = entry.signature == signature || entry.signature == swapped;
            let record = Record::new(entry.record);
            let direction = is_candidate.then(|| self.keys[record.at()].direction_of(key)).flatten()?;
            Some(Found { record, direction })
        })
    }
}
