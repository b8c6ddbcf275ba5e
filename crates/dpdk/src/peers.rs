//! Two of DPDK's own tables, to measure beside others: [`RteHash`], an exact one, and [`Efd`], a compact one that answers
//! for keys it does not hold. Both for keys of 16 bytes.

use crate::eal::{Eal, text};
use crate::error::{DpdkError, check};
use scalebricks_dpdk_sys as sys;
use std::ffi::c_void;
use std::ptr::NonNull;

/// Keys a call that [`Efd`] takes at the most.
pub const KEYS: usize = 32;

/// Keys a call that [`RteHash`] takes at the most.
pub const HASH_KEYS: usize = 64;

/// A key.
pub type Key = [u64; 2];

/// `rte_hash`: from keys to places, numbered from 0.
#[derive(Debug)]
pub struct RteHash {
    table: NonNull<sys::rte_hash>,
    places: usize,
}

// SAFETY: the table belongs to its owner; it is tied to no thread.
unsafe impl Send for RteHash {}
// SAFETY: `&self` only looks up, which any number of threads may do while nobody adds.
unsafe impl Sync for RteHash {}

impl RteHash {
    /// An empty table of this name, of which there is one in the process, for so many keys.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, the name is taken, or too many keys.
    pub fn new(_: Eal, name: &str, keys: usize) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        // A table of a few keys is refused; some room keeps the last keys from being refused.
        let places = keys + keys / 8 + 64;
        let asked = sys::rte_hash_parameters {
            name: c_name.as_ptr(),
            entries: u32::try_from(places).unwrap_or(u32::MAX),
            key_len: size_of::<Key>() as u32,
            ..sys::rte_hash_parameters::default()
        };
        // SAFETY: DPDK runs; what is asked lives through the call, and the name is copied.
        let table = unsafe { sys::rte_hash_create(&raw const asked) };
        let table = NonNull::new(table)
            .ok_or_else(|| DpdkError::last(format!("making an rte_hash of {keys} keys")))?;
        Ok(Self { table, places })
    }

    /// Places below which all keys' are.
    pub const fn places(&self) -> usize {
        self.places
    }

    /// Adds a key, or finds it; its place.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is no room.
    pub fn add(&mut self, key: &Key, hash: u32) -> Result<usize, DpdkError> {
        // SAFETY: nobody else has the table now; the key is as long as the table's, and is copied.
        let place = unsafe {
            sys::rte_hash_add_key_with_hash(self.table.as_ptr(), key.as_ptr().cast::<c_void>(), hash)
        };
        Ok(check(|| "adding a key to an rte_hash".to_owned(), place)?.unsigned_abs() as usize)
    }

    /// Takes a key out; the place it had, which is another key's from then on.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if it is not there.
    pub fn remove(&mut self, key: &Key, hash: u32) -> Result<usize, DpdkError> {
        // SAFETY: nobody else has the table now; the key is as long as the table's.
        let place = unsafe {
            sys::rte_hash_del_key_with_hash(self.table.as_ptr(), key.as_ptr().cast::<c_void>(), hash)
        };
        Ok(check(|| "taking a key out of an rte_hash".to_owned(), place)?.unsigned_abs() as usize)
    }

    /// The place of a key; `None` if it is not there.
    #[inline]
    pub fn find_one(&self, key: &Key, hash: u32) -> Option<usize> {
        // SAFETY: the key is as long as the table's; nobody adds, as that needs the table for itself.
        let place = unsafe {
            sys::rte_hash_lookup_with_hash(self.table.as_ptr(), key.as_ptr().cast::<c_void>(), hash)
        };
        usize::try_from(place).ok()
    }

    /// The place of each of up to [`HASH_KEYS`] keys; negative for a key that is not there.
    ///
    /// # Panics
    /// If there are more, or the slices differ in length.
    #[inline]
    pub fn find(&self, keys: &[Key], hashes: &mut [u32], places: &mut [i32]) {
        let count = keys.len();
        assert!(
            count <= HASH_KEYS && hashes.len() == count && places.len() == count,
            "one hash and place a key"
        );
        let mut pointers = [std::ptr::null::<c_void>(); HASH_KEYS];
        for (pointer, key) in pointers.iter_mut().zip(keys) {
            *pointer = key.as_ptr().cast();
        }
        // SAFETY: so many pointers to keys, hashes and places, at most as many as the call takes; nobody adds, as that
        // needs the table for itself.
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
        // SAFETY: ours, and nobody has it after this.
        unsafe { sys::rte_hash_free(self.table.as_ptr()) }
    }
}

/// `rte_efd`: from keys to values of 8 bits; any value for a key that was never set.
///
/// DPDK chooses its lookup by what the processor has, but some builds of it (Debian's) have an empty one for AVX2, which
/// answers 0 for all keys: start DPDK with `--force-max-simd-bitwidth=128`, and verify the answers.
#[derive(Debug)]
pub struct Efd(NonNull<sys::rte_efd_table>);

// SAFETY: the table belongs to its owner; it is tied to no thread.
unsafe impl Send for Efd {}
// SAFETY: `&self` only looks up, which any number of threads may do while nobody sets.
unsafe impl Sync for Efd {}

/// Bits of an [`Efd`]'s values, as DPDK was built.
pub const EFD_VALUE_BITS: u8 = sys::RTE_EFD_VALUE_NUM_BITS as u8;

/// The one memory node that tables are made on.
const SOCKET: u8 = 0;

/// Keys that a chunk of a table is made for, and the bytes of it that lookups read: choices of 256 buckets, and 64 groups of
/// 16 bits of index and 16 of array for each of 8 value bits.
const CHUNK: (usize, usize) = (64 * 22, 256 * 2 / 8 + 64 * 8 * 4);

/// Bytes behind the last chunk.
const PADDING: usize = 256;

impl Efd {
    /// An empty table of this name, of which there is one in the process, for so many keys.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, or the name is taken.
    pub fn new(_: Eal, name: &str, keys: usize) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        // SAFETY: DPDK runs; the name lives through the call, and is copied.
        let table = unsafe {
            sys::rte_efd_create(c_name.as_ptr(), keys, size_of::<Key>() as u32, 1 << SOCKET, SOCKET)
        };
        NonNull::new(table).map(Self).ok_or_else(|| DpdkError::last(format!("making an EFD of {keys} keys")))
    }

    /// Gives a key a value.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if its group is full.
    pub fn set(&mut self, key: &Key, value: u8) -> Result<(), DpdkError> {
        // SAFETY: nobody else has the table now; the key is as long as the table's.
        let done = unsafe {
            sys::rte_efd_update(self.0.as_ptr(), SOCKET.into(), key.as_ptr().cast::<c_void>(), value)
        };
        // A full group is only a warning; failure is positive, too.
        let failed = u32::try_from(done).is_ok_and(|done| done == sys::RTE_EFD_UPDATE_FAILED);
        check(|| "setting a key of an EFD".to_owned(), if failed { -28 } else { done.min(0) })?; // ENOSPC
        Ok(())
    }

    /// Bytes of what lookups read, of a table for so many keys, as DPDK's source has it: a power of two of chunks. There is
    /// no call that says.
    pub const fn table_bytes(keys: usize) -> usize {
        (keys / CHUNK.0 + 1).next_power_of_two() * CHUNK.1 + PADDING
    }

    /// The value of a key.
    #[inline]
    pub fn value(&self, key: &Key) -> u8 {
        // SAFETY: the key is as long as the table's; nobody sets.
        unsafe { sys::rte_efd_lookup(self.0.as_ptr(), SOCKET.into(), key.as_ptr().cast::<c_void>()) }
    }

    /// The value of each of up to [`KEYS`] keys.
    ///
    /// # Panics
    /// If there are more, or the slices differ in length.
    #[inline]
    pub fn values(&self, keys: &[Key], values: &mut [u8]) {
        let count = keys.len();
        assert!(count <= KEYS && values.len() == count, "one value a key");
        let mut pointers = [std::ptr::null::<c_void>(); KEYS];
        for (pointer, key) in pointers.iter_mut().zip(keys) {
            *pointer = key.as_ptr().cast();
        }
        // SAFETY: so many pointers to keys and values, at most as many as the call takes; nobody sets.
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
        // SAFETY: ours, and nobody has it after this.
        unsafe { sys::rte_efd_free(self.0.as_ptr()) }
    }
}
