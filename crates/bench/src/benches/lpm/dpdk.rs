//! DPDK's tables.
//!
//! They have no call for their size. Their bytes are those that lookups read: the array of 2^24 entries, and
//! the groups of 256 entries that the routes need.

use super::table::{Contender, Entrant, NO_HOP, RouteTable, Task};
use crate::error::{BenchError, OrFail};
use crate::gateway::dpdk::{eal, has_huge_pages, name};
use crate::structures::dpdk::pages;
use scalebricks_dpdk::route_peers::{EntryBytes, Octets, Room, RteFib, RteFib6, RteLpm, RteLpm6};
use scalebricks_tables::isa::Isa;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Entries of the first level.
const ROOT: usize = 1 << 24;
/// Entries of a group.
const GROUP: usize = 256;

/// Entry of this many bytes, and whether lookups use AVX-512: parameters of `rte_fib` and `rte_fib6`.
const fn entry(bytes: usize) -> EntryBytes {
    if bytes == 2 { EntryBytes::Two } else { EntryBytes::Four }
}

fn fib_variant(bytes: usize, avx512: bool) -> String {
    let lookup = if avx512 { "AVX-512" } else { "scalar" };
    format!("{lookup}, {bytes}-byte entries, {}", pages())
}

/// Groups that entries of two bytes can name.
const TWO_BYTE_GROUPS: usize = (1 << 15) - 1;

/// Room for the routes, and for changes of them.
fn room(routes: usize, groups: usize, bytes: usize) -> Room {
    let most = if bytes == 2 { TWO_BYTE_GROUPS } else { usize::MAX };
    Room { routes: routes + routes / 8 + 1_024, groups: (groups + groups / 8 + 1_024).min(most) }
}

const fn bytes(groups: usize, entry: usize) -> u64 {
    ((ROOT + groups * GROUP) * entry) as u64
}

/// The peers for IPv4; those with AVX-512 only where the processor has it.
///
/// # Errors
/// [`BenchError`] of a table that cannot be made.
pub fn v4(
    task: &Arc<Task<Ipv4Addr>>,
    notes: &mut Vec<String>,
) -> Result<Vec<Box<dyn Contender>>, BenchError> {
    let mut all = vec![
        Entrant::<_, RteLpm>::boxed(task)?,
        Entrant::<_, Fib<4, false>>::boxed(task)?,
        Entrant::<_, Fib<2, false>>::boxed(task)?,
    ];
    if has_avx512(notes) {
        all.extend([Entrant::<_, Fib<4, true>>::boxed(task)?, Entrant::<_, Fib<2, true>>::boxed(task)?]);
    }
    Ok(all)
}

/// The peers for IPv6; those with AVX-512 only where the processor has it. Entries of two bytes name 32,767 groups, and
/// `rte_fib6` refuses routes that need more.
///
/// # Errors
/// [`BenchError`] of a table that cannot be made.
pub fn v6(
    task: &Arc<Task<Ipv6Addr>>,
    notes: &mut Vec<String>,
) -> Result<Vec<Box<dyn Contender>>, BenchError> {
    let mut all = vec![Entrant::<_, RteLpm6>::boxed(task)?, Entrant::<_, Fib6<4, false>>::boxed(task)?];
    let mut two = vec![Entrant::<_, Fib6<2, false>>::boxed(task)];
    if has_avx512(notes) {
        all.push(Entrant::<_, Fib6<4, true>>::boxed(task)?);
        two.push(Entrant::<_, Fib6<2, true>>::boxed(task));
    }
    for table in two {
        match table {
            Ok(table) => all.push(table),
            Err(error) => notes.push(format!("rte_fib6 with 2-byte entries is left out: {error}")),
        }
    }
    Ok(all)
}

/// Whether lookups with AVX-512 take part.
fn has_avx512(notes: &mut Vec<String>) -> bool {
    let is_there = Isa::Avx512.is_available();
    if !is_there {
        notes.push("no AVX-512 on this processor: DPDK's lookups that need it are left out".to_owned());
    }
    is_there
}

/// Selects a lookup with AVX-512.
fn select(is_there: bool, name: &str) -> Result<(), BenchError> {
    crate::error::ensure(is_there, name, || "no lookup with AVX-512 on this processor or in this DPDK")
}

impl RouteTable<Ipv4Addr> for RteLpm {
    const NAME: &'static str = "rte_lpm";
    type Key = u32;
    type Answer = u32;
    const FILLS_SLOWLY: bool = true; // it searches the rules of a length one by one
    const WRONG: u32 = u32::MAX;

    fn variant(&self) -> String {
        pages().to_owned()
    }

    fn on_huge_pages(&self) -> Option<bool> {
        has_huge_pages()
    }

    fn key(address: Ipv4Addr) -> u32 {
        address.to_bits()
    }

    fn new(task: &Task<Ipv4Addr>) -> Result<Self, BenchError> {
        Self::new(eal()?, &name(), room(task.routes.len(), task.groups, 4)).of(Self::NAME)
    }

    fn add(&mut self, address: Ipv4Addr, length: u8, hop: u32) -> Result<(), BenchError> {
        self.add(address.to_bits(), length, hop).of(Self::NAME)
    }

    fn remove(&mut self, address: Ipv4Addr, length: u8) -> Result<(), BenchError> {
        self.remove(address.to_bits(), length).of(Self::NAME)
    }

    #[inline]
    fn find(&mut self, keys: &[u32], answers: &mut [u32]) {
        Self::find(self, keys, answers);
    }

    fn hop(answer: u32) -> u32 {
        Self::hop(answer).unwrap_or(NO_HOP)
    }

    fn table_bytes(&self, task: &Task<Ipv4Addr>) -> u64 {
        bytes(task.groups, 4)
    }
}

impl RouteTable<Ipv6Addr> for RteLpm6 {
    const NAME: &'static str = "rte_lpm6";
    type Key = Octets;
    type Answer = i32;
    const WRONG: i32 = i32::MAX;

    fn variant(&self) -> String {
        pages().to_owned()
    }

    fn on_huge_pages(&self) -> Option<bool> {
        has_huge_pages()
    }

    fn key(address: Ipv6Addr) -> Octets {
        address.octets()
    }

    fn new(task: &Task<Ipv6Addr>) -> Result<Self, BenchError> {
        Self::new(eal()?, &name(), room(task.routes.len(), task.groups, 4)).of(Self::NAME)
    }

    fn add(&mut self, address: Ipv6Addr, length: u8, hop: u32) -> Result<(), BenchError> {
        self.add(&address.octets(), length, hop).of(Self::NAME)
    }

    fn remove(&mut self, address: Ipv6Addr, length: u8) -> Result<(), BenchError> {
        self.remove(&address.octets(), length).of(Self::NAME)
    }

    #[inline]
    fn find(&mut self, keys: &[Octets], answers: &mut [i32]) {
        Self::find(self, keys, answers);
    }

    fn hop(answer: i32) -> u32 {
        u32::try_from(answer).unwrap_or(NO_HOP)
    }

    fn table_bytes(&self, task: &Task<Ipv6Addr>) -> u64 {
        bytes(task.groups, 4)
    }
}

/// Declares a FIB with entries of `BYTES`, whose lookup may use AVX-512.
macro_rules! fib {
    ($name:ident, $table:ident, $title:literal, $address:ty, $key:ty, $make:expr, $pass:expr) => {
        struct $name<const BYTES: usize, const AVX512: bool>($table);

        impl<const BYTES: usize, const AVX512: bool> RouteTable<$address> for $name<BYTES, AVX512> {
            const NAME: &'static str = $title;
            type Key = $key;
            type Answer = u64;
            // rte_fib6 of DPDK 22.11 fails with ENOSPC when a prefix that contains others is removed and added again.
            const CHANGES: bool = size_of::<$address>() == 4;
            const WRONG: u64 = u64::MAX - 1;

            fn variant(&self) -> String {
                fib_variant(BYTES, AVX512)
            }

            fn on_huge_pages(&self) -> Option<bool> {
                has_huge_pages()
            }

            fn key(address: $address) -> $key {
                $make(address)
            }

            fn new(task: &Task<$address>) -> Result<Self, BenchError> {
                let room = room(task.routes.len(), task.reserved_groups, BYTES);
                let mut table = $table::new(eal()?, &name(), room, entry(BYTES)).of(Self::NAME)?;
                if AVX512 {
                    select(table.select_avx512(eal()?), Self::NAME)?;
                }
                Ok(Self(table))
            }

            fn add(&mut self, address: $address, length: u8, hop: u32) -> Result<(), BenchError> {
                self.0.add($pass(&$make(address)), length, hop).of(Self::NAME)
            }

            fn remove(&mut self, address: $address, length: u8) -> Result<(), BenchError> {
                self.0.remove($pass(&$make(address)), length).of(Self::NAME)
            }

            #[inline]
            fn find(&mut self, keys: &[$key], answers: &mut [u64]) {
                self.0.find(keys, answers);
            }

            fn hop(answer: u64) -> u32 {
                if answer == entry(BYTES).no_hop() { NO_HOP } else { answer as u32 } // below 2^31
            }

            fn table_bytes(&self, task: &Task<$address>) -> u64 {
                bytes(task.groups, BYTES)
            }
        }
    };
}

fib!(Fib, RteFib, "rte_fib", Ipv4Addr, u32, |address: Ipv4Addr| address.to_bits(), |key: &u32| *key);
fib!(
    Fib6,
    RteFib6,
    "rte_fib6",
    Ipv6Addr,
    Octets,
    |address: Ipv6Addr| address.octets(),
    std::convert::identity
);
