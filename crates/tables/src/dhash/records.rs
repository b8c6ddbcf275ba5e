//! Records: arrays that elements reserve, all indexed by the record index of a session.
//!
//! A tracker, a meter, a NAT and a policer each reserve an array of their own type. One lookup per packet gives the
//! index for all of them. When a session moves (the table grows, or promotes), all its values move; when it is
//! deleted, all its values become `T::default()`.
//!
//! Cost: one access to an array is one bounds check and one read of memory. Values of 64 bytes or less that should
//! not cross cache lines need an alignment (`#[repr(align(64))]`). Arrays of 2 MiB and more lie on huge pages where the
//! system grants them.
#![allow(unsafe_code, reason = "the type of an array is known from its column: see SAFETY")]

use super::config::ConfigError;
use std::any::Any;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// The index of a session's record.
///
/// It is valid until the next call that may move or delete the session: see
/// [how long an index stays valid](super#how-long-an-index-stays-valid).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Record(u32);

impl Record {
    /// The record with this number, as one that was stored in a packet's annotation. Tables answer for any number:
    /// [`DHash::key`](super::DHash::key) with `None` if no session has it.
    #[inline(always)]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The number, below [`MAX_RECORDS`](super::MAX_RECORDS).
    #[inline(always)]
    pub const fn get(self) -> u32 {
        self.0
    }

    #[inline(always)]
    pub(super) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// Names an array of `T` in the [`Records`] that reserved it.
pub struct Column<T> {
    of: u64,
    index: usize,
    holds: PhantomData<fn() -> T>,
}

impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Column<T> {}

impl<T> Debug for Column<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Column<{}>({})", std::any::type_name::<T>(), self.index)
    }
}

/// An array of `T`, indexed by [`Record`].
///
/// # Panics
/// Indexing panics for a record that the table never returned.
#[derive(Debug)]
pub struct Cells<T> {
    /// Records of slots.
    slots: Vec<T>,
    /// Records of the pool.
    pool: Vec<T>,
    /// The number of the pool's first record.
    pool_start: u32,
}

impl<T> Cells<T> {
    /// Prefetches the first cache line of a record's value, for a read or write soon.
    #[inline(always)]
    pub fn prefetch(&self, record: Record) {
        self.prefetch_lines(record, [0]);
    }

    /// Prefetches these cache lines of a record's value, counted from its start: for values of several lines, of which few
    /// are needed.
    #[inline(always)]
    pub fn prefetch_lines<const N: usize>(&self, record: Record, lines: [usize; N]) {
        let (items, at) = match record.0.checked_sub(self.pool_start) {
            None => (&self.slots, record.at()),
            Some(entry) => (&self.pool, entry as usize),
        };
        for line in lines {
            crate::prefetch::prefetch_line_of(items, at, line);
        }
    }
}

impl<T> Index<Record> for Cells<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, record: Record) -> &T {
        match record.0.checked_sub(self.pool_start) {
            None => &self.slots[record.at()],
            Some(entry) => &self.pool[entry as usize],
        }
    }
}

impl<T> IndexMut<Record> for Cells<T> {
    #[inline(always)]
    fn index_mut(&mut self, record: Record) -> &mut T {
        match record.0.checked_sub(self.pool_start) {
            None => &mut self.slots[record.at()],
            Some(entry) => &mut self.pool[entry as usize],
        }
    }
}

/// Numbers of records of a table.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extent {
    /// Records of slots now and at most.
    pub slots: usize,
    pub max_slots: usize,
    /// Records of the pool now and at most.
    pub pool: usize,
    pub max_pool: usize,
}

/// What a table does to an array of any type.
trait AnyCells: Any + Send + Sync {
    fn resize(&mut self, extent: Extent);
    fn shift(&mut self, from: Record, to: Record);
    fn clear(&mut self, record: Record);
    fn bytes(&self) -> usize;
    fn reserved_bytes(&self) -> usize;
}

impl<T: Default + Send + Sync + 'static> AnyCells for Cells<T> {
    fn resize(&mut self, extent: Extent) {
        self.slots.resize_with(extent.slots, T::default);
        self.pool.resize_with(extent.pool, T::default);
    }

    fn shift(&mut self, from: Record, to: Record) {
        self[to] = std::mem::take(&mut self[from]);
    }

    fn clear(&mut self, record: Record) {
        self[record] = T::default();
    }

    fn bytes(&self) -> usize {
        (self.slots.len() + self.pool.len()) * size_of::<T>()
    }

    fn reserved_bytes(&self) -> usize {
        (self.slots.capacity() + self.pool.capacity()) * size_of::<T>()
    }
}

/// An array that reserves address space for the table's maximum, so that growth never copies it.
fn cells<T: Default + 'static>(extent: Extent) -> Result<Cells<T>, ConfigError> {
    let reserved = |len: usize| {
        let mut items = Vec::new();
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        items.try_reserve_exact(len).map_err(|_| ConfigError::OutOfMemory { bytes })?;
        crate::huge::advise(&items);
        Ok(items)
    };
    // `Config::check` has bounded the numbers of records.
    let mut cells = Cells {
        slots: reserved(extent.max_slots)?,
        pool: reserved(extent.max_pool)?,
        pool_start: extent.max_slots as u32,
    };
    cells.slots.resize_with(extent.slots, T::default);
    cells.pool.resize_with(extent.pool, T::default);
    Ok(cells)
}

type Made = Result<Box<dyn AnyCells>, ConfigError>;

/// The arrays of a table. Elements [reserve](Records::reserve) theirs before the table is made with them.
pub struct Records {
    id: u64,
    /// Of each array: how to make it.
    reserved: Vec<fn(Extent) -> Made>,
    /// All arrays, once there is a table.
    cells: Vec<Box<dyn AnyCells>>,
}

impl Records {
    /// No arrays.
    pub fn new() -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Self { id: IDS.fetch_add(1, Ordering::Relaxed), reserved: Vec::new(), cells: Vec::new() }
    }

    /// Reserves an array of `T`. Its memory comes when the table is made.
    pub fn reserve<T: Default + Send + Sync + 'static>(&mut self) -> Column<T> {
        self.reserved.push(|extent| Ok(Box::new(cells::<T>(extent)?)));
        Column { of: self.id, index: self.reserved.len() - 1, holds: PhantomData }
    }

    /// Makes the arrays.
    pub(super) fn start(mut self, extent: Extent) -> Result<StartedRecords, ConfigError> {
        self.cells = self.reserved.iter().map(|make| make(extent)).collect::<Result<_, _>>()?;
        Ok(StartedRecords(self))
    }
}

impl Default for Records {
    fn default() -> Self {
        Self::new()
    }
}

impl Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("columns", &self.reserved.len()).finish_non_exhaustive()
    }
}

/// The arrays of a running table.
#[derive(Debug)]
pub struct StartedRecords(Records);

impl StartedRecords {
    /// An array, to read.
    ///
    /// # Panics
    /// If other `Records` reserved the column.
    #[inline]
    pub fn column<T: 'static>(&self, column: Column<T>) -> &Cells<T> {
        match self.0.cells.get(column.index) {
            // SAFETY: only `reserve::<T>` makes a `Column<T>`. It gives it the number of these records, which is unique, and
            // the place of the array of `T` that `start` makes there. So the array has this type.
            Some(cells) if column.of == self.0.id => unsafe { typed(&**cells) },
            _ => foreign(column),
        }
    }

    /// An array, to write. Take it once for a batch of packets.
    ///
    /// # Panics
    /// If other `Records` reserved the column.
    #[inline]
    pub fn column_mut<T: 'static>(&mut self, column: Column<T>) -> &mut Cells<T> {
        match self.0.cells.get_mut(column.index) {
            // SAFETY: as in `column`.
            Some(cells) if column.of == self.0.id => unsafe { typed_mut(&mut **cells) },
            _ => foreign(column),
        }
    }

    /// Two different arrays, to write to both.
    ///
    /// # Panics
    /// If other `Records` reserved the columns, or if they are the same.
    #[inline]
    pub fn two_columns_mut<T: 'static, U: 'static>(
        &mut self,
        (first, second): (Column<T>, Column<U>),
    ) -> (&mut Cells<T>, &mut Cells<U>) {
        if first.of != self.0.id || second.of != self.0.id {
            foreign(first);
        }
        match self.0.cells.get_disjoint_mut([first.index, second.index]) {
            // SAFETY: as in `column`, for each of the two.
            Ok([cells, others]) => unsafe { (typed_mut(&mut **cells), typed_mut(&mut **others)) },
            Err(_) => foreign(first),
        }
    }

    pub(super) fn resize(&mut self, extent: Extent) {
        self.0.cells.iter_mut().for_each(|cells| cells.resize(extent));
    }

    /// Moves all values of a record to an unused one.
    pub(super) fn shift(&mut self, from: Record, to: Record) {
        self.0.cells.iter_mut().for_each(|cells| cells.shift(from, to));
    }

    /// Sets all values of a record to their defaults.
    #[inline]
    pub(super) fn clear(&mut self, record: Record) {
        self.0.cells.iter_mut().for_each(|cells| cells.clear(record));
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.cells.iter().map(|cells| cells.bytes()).sum()
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.0.cells.iter().map(|cells| cells.reserved_bytes()).sum()
    }
}

/// The array as what it is.
///
/// # Safety
/// It is an array of `T`.
#[inline(always)]
#[expect(clippy::cast_ptr_alignment, reason = "it is a `Cells<T>`, as the caller promises")]
unsafe fn typed<'a, T: 'static>(cells: &'a (dyn AnyCells + 'static)) -> &'a Cells<T> {
    debug_assert!((cells as &dyn Any).is::<Cells<T>>(), "a column has another type");
    // SAFETY: as the caller promises.
    unsafe { &*std::ptr::from_ref(cells).cast::<Cells<T>>() }
}

/// [`typed`], to write.
///
/// # Safety
/// It is an array of `T`.
#[inline(always)]
#[expect(clippy::cast_ptr_alignment, reason = "it is a `Cells<T>`, as the caller promises")]
unsafe fn typed_mut<'a, T: 'static>(cells: &'a mut (dyn AnyCells + 'static)) -> &'a mut Cells<T> {
    debug_assert!((&*cells as &dyn Any).is::<Cells<T>>(), "a column has another type");
    // SAFETY: as the caller promises, and the borrow is exclusive.
    unsafe { &mut *std::ptr::from_mut(cells).cast::<Cells<T>>() }
}

#[cold]
#[inline(never)]
fn foreign<T>(column: Column<T>) -> ! {
    unreachable!("{column:?} belongs to other records, or is asked for twice")
}
