//! Two of DPDK's tables, for benchmarks: [`RteHash`], which is exact, and [`Efd`], which is compact and returns values for
//! unknown keys too. Keys have 16 bytes.

use crate::eal::{Eal, text};
use crate::error::{DpdkError, check};
use scalebricks_dpdk_sys as sys;
use std::ffi::c_void;
use std::ptr::NonNull;

/// Most keys per call of [`Efd`].
pub const KEYS: usize = 32;

/// Most keys per call of [`RteHash`].
pub const HASH_KEYS: usize = 64;

/// A key.
pub type Key = [u64; 2];

/// `rte_hash`: a map from keys to places, numbered from 0.
#[derive(Debug)]
pub struct RteHash {
    table: NonNull<sys::rte_hash>,
    places: usize,
}

// SAFETY: the table has one owner and is not bound to a thread.
unsafe impl Send for RteHash {}
// SAFETY: `&self` only allows lookups, which are safe on many threads.
unsafe impl Sync for RteHash {}

impl RteHash {
    /// An empty table for this number of keys. The name must be unique in the process.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, the name is taken, or too many keys.
    pub fn new(_: Eal, name: &str, keys: usize) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        // Very small tables are refused, and without spare places the last keys would be.
        let places = keys + keys / 8 + 64;
        let asked = sys::rte_hash_parameters {
            name: c_name.as_ptr(),
            entries: u32::try_from(places).unwrap_or(u32::MAX),
            key_len: size_of::<Key>() as u32,
            ..sys::rte_hash_parameters::default()
        };
        // SAFETY: DPDK runs; the parameters live until the call returns, and the name is copied.
        let table = unsafe { sys::rte_hash_create(&raw const asked) };
        let table = NonNull::new(table)
            .ok_or_else(|| DpdkError::last(format!("creating an rte_hash of {keys} keys")))?;
        Ok(Self { table, places })
    }

    /// The number of places.
    pub const fn places(&self) -> usize {
        self.places
    }

    /// Adds a key if it is missing, and returns its place.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is no room.
    pub fn add(&mut self, key: &Key, hash: u32) -> Result<usize, DpdkError> {
        // SAFETY: the access is exclusive; the key has the table's length, and is copied.
        let place = unsafe {
            sys::rte_hash_add_key_with_hash(self.table.as_ptr(), key.as_ptr().cast::<c_void>(), hash)
        };
        Ok(check(|| "adding a key to an rte_hash".to_owned(), place)?.unsigned_abs() as usize)
    }

    /// Removes a key, and returns its place, which may be used for another key.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is no such key.
    pub fn remove(&mut self, key: &Key, hash: u32) -> Result<usize, DpdkError> {
        // SAFETY: the access is exclusive; the key has the table's length.
        let place = unsafe {
            sys::rte_hash_del_key_with_hash(self.table.as_ptr(), key.as_ptr().cast::<c_void>(), hash)
        };
        Ok(check(|| "removing a key from an rte_hash".to_owned(), place)?.unsigned_abs() as usize)
    }

    /// The place of a key; `None` if there is none.
    #[inline]
    pub fn find_one(&self, key: &Key, hash: u32) -> Option<usize> {
        // SAFETY: the key has the table's length; changes need exclusive access.
        let place = unsafe {
            sys::rte_hash_lookup_with_hash(self.table.as_ptr(), key.as_ptr().cast::<c_void>(), hash)
        };
        usize::try_from(place).ok()
    }

    /// The places of up to [`HASH_KEYS`] keys; negative for unknown keys.
    ///
    /// # Panics
    /// If there are more, or the slices differ in length.
    #[inline]
    pub fn find(&self, keys: &[Key], hashes: &mut [u32], places: &mut [i32]) {
        let count = keys.len();
        assert!(
            count <= HASH_KEYS && hashes.len() == count && places.len() == count,
            "one hash and place per key"
        );
        let mut pointers = [std::ptr::null::<c_void>(); HASH_KEYS];
        for (pointer, key) in pointers.iter_mut().zip(keys) {
            *pointer = key.as_ptr().cast();
        }
        // SAFETY: there are `count` pointers to keys, hashes and places, not more than the call supports; changes need
        // exclusive access.
        unsafe {
            sys::rte_hash_lookup_with_hash_bulk(
                self.table.as_ptr(),
                pointers.as_mut_ptr(),
                hashes.as_mut_ptr(),
                count as u32,
                places.as_mut_ptr(),
            );
        }
    }
}

impl Drop for RteHash {
    fn drop(&mut self) {
        // SAFETY: the only owner drops it.
        unsafe { sys::rte_hash_free(self.table.as_ptr()) }
    }
}

/// `rte_efd`: a map from keys to values of 8 bits, which returns any value for unknown keys.
///
/// DPDK chooses its lookup function by the processor. In some builds (Debian's), that for AVX2 is empty and returns 0 for
/// all keys: create it under [`SimdBits::at_most`](crate::SimdBits::at_most) with 128 bits, and verify the results.
#[derive(Debug)]
pub struct Efd(NonNull<sys::rte_efd_table>);

// SAFETY: the table has one owner and is not bound to a thread.
unsafe impl Send for Efd {}
// SAFETY: `&self` only allows lookups, which are safe on many threads.
unsafe impl Sync for Efd {}

/// Number of bits of an [`Efd`]'s values, set when DPDK was built.
pub const EFD_VALUE_BITS: u8 = sys::RTE_EFD_VALUE_NUM_BITS as u8;

/// The memory node for tables.
const SOCKET: u8 = 0;

/// Number of keys in a chunk of a table, and its bytes that lookups read: choices of 256 buckets, and 64 groups with 16 bits
/// of index and 16 bits of array for each of 8 value bits.
const CHUNK: (usize, usize) = (64 * 22, 256 * 2 / 8 + 64 * 8 * 4);

/// Number of bytes after the last chunk.
const PADDING: usize = 256;

impl Efd {
    /// An empty table for this number of keys. The name must be unique in the process.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, or the name is taken.
    pub fn new(_: Eal, name: &str, keys: usize) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        // SAFETY: DPDK runs; the name lives until the call returns, and is copied.
        let table = unsafe {
            sys::rte_efd_create(c_name.as_ptr(), keys, size_of::<Key>() as u32, 1 << SOCKET, SOCKET)
        };
        NonNull::new(table)
            .map(Self)
            .ok_or_else(|| DpdkError::last(format!("creating an EFD of {keys} keys")))
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if its group is full.
    pub fn set(&mut self, key: &Key, value: u8) -> Result<(), DpdkError> {
        // SAFETY: the access is exclusive; the key has the table's length.
        let done = unsafe {
            sys::rte_efd_update(self.0.as_ptr(), SOCKET.into(), key.as_ptr().cast::<c_void>(), value)
        };
        // Warnings (a full group) and failures are positive.
        let failed = u32::try_from(done).is_ok_and(|done| done == sys::RTE_EFD_UPDATE_FAILED);
        check(|| "setting a key of an EFD".to_owned(), if failed { -28 } else { done.min(0) })?; // ENOSPC
        Ok(())
    }

    /// Number of bytes that lookups read, of a table for this number of keys: a power of two of chunks, by DPDK's source, as
    /// there is no call for it.
    pub const fn table_bytes(keys: usize) -> usize {
        (keys / CHUNK.0 + 1).next_power_of_two() * CHUNK.1 + PADDING
    }

    /// The value of a key.
    #[inline]
    pub fn value(&self, key: &Key) -> u8 {
        // SAFETY: the key has the table's length; changes need exclusive access.
        unsafe { sys::rte_efd_lookup(self.0.as_ptr(), SOCKET.into(), key.as_ptr().cast::<c_void>()) }
    }

    /// The values of up to [`KEYS`] keys.
    ///
    /// # Panics
    /// If there are more, or the slices differ in length.
    #[inline]
    pub fn values(&self, keys: &[Key], values: &mut [u8]) {
        let count = keys.len();
        assert!(count <= KEYS && values.len() == count, "one value per key");
        let mut pointers = [std::ptr::null::<c_void>(); KEYS];
        for (pointer, key) in pointers.iter_mut().zip(keys) {
            *pointer = key.as_ptr().cast();
        }
        // SAFETY: there are `count` pointers to keys and values, not more than the call supports; changes need exclusive
        // access.
        unsafe {
            sys::rte_efd_lookup_bulk(
                self.0.as_ptr(),
                SOCKET.into(),
                (count as u32).cast_signed(), // at most `KEYS`
                pointers.as_mut_ptr(),
                values.as_mut_ptr(),
            );
        }
    }
}

impl Drop for Efd {
    fn drop(&mut self) {
        // SAFETY: the only owner drops it.
        unsafe { sys::rte_efd_free(self.0.as_ptr()) }
    }
}
