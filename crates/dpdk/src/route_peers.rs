//! DPDK's tables for longest-prefix match, for benchmarks: [`RteLpm`] and [`RteFib`] for IPv4, [`RteLpm6`] and [`RteFib6`] for
//! IPv6.
//!
//! All divide addresses into 24 bits and then bytes, and have an array of 256 entries for each value that leads to longer
//! prefixes: a *group* (DPDK's `tbl8`). IPv4 has one level of groups. Tables are made for a number of groups and routes.

use crate::eal::{Eal, SimdBits, text};
use crate::error::{DpdkError, check};
use scalebricks_dpdk_sys as sys;
use std::ptr::NonNull;

/// The memory node for tables: any.
const SOCKET: i32 = -1;

/// The next hop of addresses without a route, in tables with four-byte entries.
pub const NO_HOP: u64 = (1 << 31) - 1;

/// The next hop of addresses without a route, in tables with two-byte entries.
pub const NO_HOP_2B: u64 = (1 << 15) - 1;

/// An address of IPv6, as bytes.
pub type Octets = [u8; 16];

/// The size of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Maximum number of routes.
    pub routes: usize,
    /// Maximum number of groups.
    pub groups: usize,
}

impl Room {
    fn routes(self) -> u32 {
        u32::try_from(self.routes).unwrap_or(u32::MAX)
    }

    fn groups(self) -> u32 {
        u32::try_from(self.groups).unwrap_or(u32::MAX)
    }
}

/// The bytes of an entry of [`RteFib`] and [`RteFib6`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryBytes {
    /// Two: next hops below [`NO_HOP_2B`].
    Two,
    /// Four: next hops below [`NO_HOP`].
    Four,
}

impl EntryBytes {
    /// The number.
    pub const fn get(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// The next hop of addresses without a route.
    pub const fn no_hop(self) -> u64 {
        match self {
            Self::Two => NO_HOP_2B,
            Self::Four => NO_HOP,
        }
    }
}

/// Declares a table: its documentation, name, C type and the function that frees it.
macro_rules! table {
    ($(#[doc = $doc:literal])+ $name:ident, $raw:ident, $free:ident) => {
        $(#[doc = $doc])+
        #[derive(Debug)]
        pub struct $name(NonNull<sys::$raw>);

        // SAFETY: the table has one owner and is not bound to a thread.
        unsafe impl Send for $name {}
        // SAFETY: `&self` only allows lookups, which are safe on many threads.
        unsafe impl Sync for $name {}

        impl $name {
            fn made(table: *mut sys::$raw) -> Result<Self, DpdkError> {
                let failed = || DpdkError::last(concat!("creating an ", stringify!($raw)).to_owned());
                NonNull::new(table).map(Self).ok_or_else(failed)
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the only owner drops it.
                unsafe { sys::$free(self.0.as_ptr()) }
            }
        }
    };
}

table! {
    /// `rte_lpm`: IPv4, four-byte entries with next hops of 24 bits.
    RteLpm, rte_lpm, rte_lpm_free
}

impl RteLpm {
    pub(crate) const fn as_ptr(&self) -> *mut sys::rte_lpm {
        self.0.as_ptr()
    }

    /// An empty table. The name must be unique in the process.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, or the name is taken.
    pub fn new(_: Eal, name: &str, room: Room) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        let config = sys::rte_lpm_config { max_rules: room.routes(), number_tbl8s: room.groups(), flags: 0 };
        // SAFETY: DPDK runs; name and parameters live until the call returns, and are copied.
        Self::made(unsafe { sys::rte_lpm_create(c_name.as_ptr(), SOCKET, &raw const config) })
    }

    /// Adds a route of 1 to 32 bits, or changes its next hop.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is no room, or the length is wrong.
    pub fn add(&mut self, address: u32, length: u8, hop: u32) -> Result<(), DpdkError> {
        // SAFETY: the access is exclusive.
        let done = unsafe { sys::rte_lpm_add(self.0.as_ptr(), address, length, hop) };
        check(|| "adding a route to an rte_lpm".to_owned(), done).map(drop)
    }

    /// Removes a route.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is none.
    pub fn remove(&mut self, address: u32, length: u8) -> Result<(), DpdkError> {
        // SAFETY: the access is exclusive.
        let done = unsafe { sys::rte_lpm_delete(self.0.as_ptr(), address, length) };
        check(|| "removing a route from an rte_lpm".to_owned(), done).map(drop)
    }

    /// The entries of all addresses; see [`hop`](Self::hop).
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn find(&self, addresses: &[u32], entries: &mut [u32]) {
        let count = addresses.len();
        assert_eq!(count, entries.len(), "one entry per address");
        // SAFETY: there are `count` addresses and entries; changes need exclusive access.
        unsafe {
            sys::sb_lpm_lookup_bulk(self.0.as_ptr(), addresses.as_ptr(), entries.as_mut_ptr(), count as u32);
        }
    }

    /// The next hop of an entry.
    pub fn hop(entry: u32) -> Option<u32> {
        // SAFETY: a constant.
        (entry & unsafe { sys::SB_LPM_FOUND } != 0).then_some(entry & 0x00FF_FFFF)
    }
}

table! {
    /// `rte_fib` of type `DIR24_8`: IPv4.
    RteFib, rte_fib, rte_fib_free
}

impl RteFib {
    pub(crate) const fn as_ptr(&self) -> *mut sys::rte_fib {
        self.0.as_ptr()
    }

    /// An empty table. The name must be unique in the process.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, or the name is taken.
    pub fn new(_: Eal, name: &str, room: Room, entry: EntryBytes) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        let mut config = sys::rte_fib_conf {
            type_: sys::rte_fib_type_RTE_FIB_DIR24_8,
            default_nh: entry.no_hop(),
            max_routes: room.routes().cast_signed(),
            ..sys::rte_fib_conf::default()
        };
        config.__bindgen_anon_1.dir24_8 = sys::rte_fib_conf__bindgen_ty_1__bindgen_ty_1 {
            nh_sz: match entry {
                EntryBytes::Two => sys::rte_fib_dir24_8_nh_sz_RTE_FIB_DIR24_8_2B,
                EntryBytes::Four => sys::rte_fib_dir24_8_nh_sz_RTE_FIB_DIR24_8_4B,
            },
            num_tbl8: room.groups(),
        };
        // SAFETY: DPDK runs; name and parameters live until the call returns, and are copied.
        Self::made(unsafe { sys::rte_fib_create(c_name.as_ptr(), SOCKET, &raw mut config) })
    }

    /// Selects the lookup with AVX-512. Returns whether processor and library have it.
    pub fn select_avx512(&mut self, eal: Eal) -> bool {
        let kind = sys::rte_fib_lookup_type_RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512;
        let _wide = SimdBits::widest(eal);
        // SAFETY: the access is exclusive.
        unsafe { sys::rte_fib_select_lookup(self.0.as_ptr(), kind) == 0 }
    }

    /// Adds a route, or changes its next hop.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is no room, or the length is wrong.
    pub fn add(&mut self, address: u32, length: u8, hop: u32) -> Result<(), DpdkError> {
        // SAFETY: the access is exclusive.
        let done = unsafe { sys::rte_fib_add(self.0.as_ptr(), address, length, hop.into()) };
        check(|| "adding a route to an rte_fib".to_owned(), done).map(drop)
    }

    /// Removes a route.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is none.
    pub fn remove(&mut self, address: u32, length: u8) -> Result<(), DpdkError> {
        // SAFETY: the access is exclusive.
        let done = unsafe { sys::rte_fib_delete(self.0.as_ptr(), address, length) };
        check(|| "removing a route from an rte_fib".to_owned(), done).map(drop)
    }

    /// The next hops of all addresses; [`EntryBytes::no_hop`] for those without a route.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn find(&self, addresses: &[u32], hops: &mut [u64]) {
        let count = addresses.len();
        assert_eq!(count, hops.len(), "one next hop per address");
        // SAFETY: there are `count` addresses, which are only read, and next hops; changes need exclusive access.
        unsafe {
            sys::rte_fib_lookup_bulk(
                self.0.as_ptr(),
                addresses.as_ptr().cast_mut(),
                hops.as_mut_ptr(),
                (count as u32).cast_signed(),
            );
        }
    }
}

table! {
    /// `rte_lpm6`: IPv6, four-byte entries with next hops of 21 bits.
    RteLpm6, rte_lpm6, rte_lpm6_free
}

impl RteLpm6 {
    /// An empty table. The name must be unique in the process.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, or the name is taken.
    pub fn new(_: Eal, name: &str, room: Room) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        let config = sys::rte_lpm6_config { max_rules: room.routes(), number_tbl8s: room.groups(), flags: 0 };
        // SAFETY: DPDK runs; name and parameters live until the call returns, and are copied.
        Self::made(unsafe { sys::rte_lpm6_create(c_name.as_ptr(), SOCKET, &raw const config) })
    }

    /// Adds a route of 1 to 128 bits, or changes its next hop.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is no room, or the length is wrong.
    pub fn add(&mut self, address: &Octets, length: u8, hop: u32) -> Result<(), DpdkError> {
        // SAFETY: the access is exclusive; an address has 16 bytes.
        let done = unsafe { sys::rte_lpm6_add(self.0.as_ptr(), address.as_ptr(), length, hop) };
        check(|| "adding a route to an rte_lpm6".to_owned(), done).map(drop)
    }

    /// Removes a route.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is none.
    pub fn remove(&mut self, address: &Octets, length: u8) -> Result<(), DpdkError> {
        // SAFETY: the access is exclusive; an address has 16 bytes.
        let done = unsafe { sys::rte_lpm6_delete(self.0.as_ptr(), address.as_ptr(), length) };
        check(|| "removing a route from an rte_lpm6".to_owned(), done).map(drop)
    }

    /// The next hops of all addresses; negative for those without a route.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn find(&self, addresses: &[Octets], hops: &mut [i32]) {
        let count = addresses.len();
        assert_eq!(count, hops.len(), "one next hop per address");
        // SAFETY: there are `count` addresses, which are only read, and next hops; changes need exclusive access.
        unsafe {
            sys::rte_lpm6_lookup_bulk_func(
                self.0.as_ptr(),
                addresses.as_ptr().cast_mut(),
                hops.as_mut_ptr(),
                count as u32,
            );
        }
    }
}

table! {
    /// `rte_fib6` of type `TRIE`: IPv6.
    RteFib6, rte_fib6, rte_fib6_free
}

impl RteFib6 {
    /// An empty table. The name must be unique in the process.
    ///
    /// # Errors
    /// [`DpdkError::Call`]: no memory, or the name is taken.
    pub fn new(_: Eal, name: &str, room: Room, entry: EntryBytes) -> Result<Self, DpdkError> {
        let c_name = text(name.to_owned())?;
        let mut config = sys::rte_fib6_conf {
            type_: sys::rte_fib6_type_RTE_FIB6_TRIE,
            default_nh: entry.no_hop(),
            max_routes: room.routes().cast_signed(),
            ..sys::rte_fib6_conf::default()
        };
        config.__bindgen_anon_1.trie = sys::rte_fib6_conf__bindgen_ty_1__bindgen_ty_1 {
            nh_sz: match entry {
                EntryBytes::Two => sys::rte_fib_trie_nh_sz_RTE_FIB6_TRIE_2B,
                EntryBytes::Four => sys::rte_fib_trie_nh_sz_RTE_FIB6_TRIE_4B,
            },
            num_tbl8: room.groups(),
        };
        // SAFETY: DPDK runs; name and parameters live until the call returns, and are copied.
        Self::made(unsafe { sys::rte_fib6_create(c_name.as_ptr(), SOCKET, &raw mut config) })
    }

    /// Selects the lookup with AVX-512. Returns whether processor and library have it.
    pub fn select_avx512(&mut self, eal: Eal) -> bool {
        let kind = sys::rte_fib6_lookup_type_RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512;
        let _wide = SimdBits::widest(eal);
        // SAFETY: the access is exclusive.
        unsafe { sys::rte_fib6_select_lookup(self.0.as_ptr(), kind) == 0 }
    }

    /// Adds a route, or changes its next hop.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is no room, or the length is wrong.
    pub fn add(&mut self, address: &Octets, length: u8, hop: u32) -> Result<(), DpdkError> {
        // SAFETY: the access is exclusive; an address has 16 bytes.
        let done = unsafe { sys::rte_fib6_add(self.0.as_ptr(), address.as_ptr(), length, hop.into()) };
        check(|| "adding a route to an rte_fib6".to_owned(), done).map(drop)
    }

    /// Removes a route.
    ///
    /// # Errors
    /// [`DpdkError::Call`] if there is none.
    pub fn remove(&mut self, address: &Octets, length: u8) -> Result<(), DpdkError> {
        // SAFETY: the access is exclusive; an address has 16 bytes.
        let done = unsafe { sys::rte_fib6_delete(self.0.as_ptr(), address.as_ptr(), length) };
        check(|| "removing a route from an rte_fib6".to_owned(), done).map(drop)
    }

    /// The next hops of all addresses; [`EntryBytes::no_hop`] for those without a route.
    ///
    /// # Panics
    /// If the slices differ in length.
    #[inline]
    pub fn find(&self, addresses: &[Octets], hops: &mut [u64]) {
        let count = addresses.len();
        assert_eq!(count, hops.len(), "one next hop per address");
        // SAFETY: there are `count` addresses, which are only read, and next hops; changes need exclusive access.
        unsafe {
            sys::rte_fib6_lookup_bulk(
                self.0.as_ptr(),
                addresses.as_ptr().cast_mut(),
                hops.as_mut_ptr(),
                (count as u32).cast_signed(),
            );
        }
    }
}
