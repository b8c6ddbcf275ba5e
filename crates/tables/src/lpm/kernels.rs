//! Lookups of many addresses at once.
//!
//! Addresses pass through the table level by level, 64 at a time. A word of `hops` holds what was found so
//! far for its address: the final next hop, or the entry of the next block. The list of addresses that lead to
//! blocks is written without a branch. Each step prefetches the block that the next step reads.
//!
//! The root needs no pin: its entries are read one by one, and only blocks are ever reused. So [`Kernels::roots`]
//! answers addresses that need nothing else without the fence of a pin, which would keep the loads of one
//! call from overlapping with those of the next. The others are read again under a pin.

#![allow(unsafe_code)]

use super::address::Address;
use super::arena::Arena;
use super::block;
use super::entry::{Entry, NextHop};
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
use super::gather;
use crate::isa::Isa;
use crate::prefetch::prefetch_item;
use crate::reclaim::cache_line::Line;
use crate::reclaim::sync::{AtomicU32, Ordering};

/// Number of addresses that pass through a step together.
const PART: usize = 64;

/// The kernels of a reader. The numbers of addresses and next hops must be equal, and the processor must
/// support the instruction set for which the kernels were selected.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernels<A> {
    /// Reads the root's entry of each address, for a reader with or without pin. Returns whether any leads to
    /// a block.
    pub(super) roots: unsafe fn(&Arena, &[A], &mut [Option<NextHop>]) -> bool,
    /// Completes the answers of `roots` that lead to blocks, for a pinned reader.
    pub(super) blocks: unsafe fn(&Arena, &[A], &mut [Option<NextHop>]),
    /// Both, for a pinned reader.
    pub(super) all: unsafe fn(&Arena, &[A], &mut [Option<NextHop>]),
}

impl<A: Address> Kernels<A> {
    /// The kernels for an instruction set, which this processor must support.
    pub(super) fn new(isa: Isa) -> Self {
        match isa {
            #[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
            Isa::Avx512 | Isa::Avx512Gfni => Self { roots: gather::roots, blocks: v3::blocks, all: v3::all },
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Isa::Avx2 => Self { roots: v3::roots, blocks: v3::blocks, all: v3::all },
            #[cfg(all(target_arch = "x86_64", any(miri, tsan), not(loom)))]
            Isa::Avx512 | Isa::Avx512Gfni => Self::new(Isa::Avx2),
            _ => Self { roots, blocks, all },
        }
    }
}

/// Compiled with an instruction that counts bits, and shifts that do not change flags.
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod v3 {
    use super::{Address, Arena, NextHop};

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn roots<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) -> bool {
        super::roots(arena, addresses, hops)
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn blocks<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
        super::blocks(arena, addresses, hops);
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn all<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
        super::all(arena, addresses, hops);
    }
}

/// The entry of an address in the root.
#[inline(always)]
fn root_entry<A: Address>(root: &[AtomicU32], bits: u8, address: A) -> Entry {
    Entry(root[address.root(bits)].load(Ordering::Acquire))
}

#[inline(always)]
pub(super) fn roots<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) -> bool {
    let (root, _) = arena.parts();
    let mut seen = 0;
    for (hop, &address) in hops.iter_mut().zip(addresses) {
        let entry = root_entry(root, arena.root_bits, address);
        seen |= entry.0;
        *hop = entry.hop();
    }
    Entry(seen).is_block()
}

#[inline(always)]
fn blocks<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
    let (root, lines) = arena.parts();
    for (addresses, hops) in addresses.chunks(PART).zip(hops.chunks_mut(PART)) {
        let mut deep = Deep::new();
        for (lane, hop) in hops.iter_mut().enumerate() {
            if Entry::of_hop(*hop).is_block() {
                // Read again: without a pin, the block may have been reused.
                let entry = root_entry(root, arena.root_bits, addresses[lane]);
                *hop = entry.hop();
                deep.push(lane, entry);
            }
        }
        deep.walk(lines, arena.root_bits, addresses, hops);
    }
}

#[inline(always)]
fn all<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
    let (root, lines) = arena.parts();
    for (addresses, hops) in addresses.chunks(PART).zip(hops.chunks_mut(PART)) {
        let mut deep = Deep::new();
        for (lane, (hop, &address)) in hops.iter_mut().zip(addresses).enumerate() {
            let entry = root_entry(root, arena.root_bits, address);
            prefetch_item(lines, entry.line());
            *hop = entry.hop();
            deep.push(lane, entry);
        }
        deep.walk(lines, arena.root_bits, addresses, hops);
    }
}

/// The addresses of a part that lead to blocks.
struct Deep {
    lanes: [u8; PART],
    count: usize,
}

impl Deep {
    #[inline(always)]
    const fn new() -> Self {
        Self { lanes: [0; PART], count: 0 }
    }

    /// Adds an address if its entry is a block.
    #[inline(always)]
    fn push(&mut self, lane: usize, entry: Entry) {
        self.lanes[self.count % PART] = lane as u8; // below 64
        self.count += entry.blocks();
    }

    /// Completes the answers. `base` is the first bit after the root.
    #[inline(always)]
    fn walk<A: Address>(mut self, lines: &[Line], base: u8, addresses: &[A], hops: &mut [Option<NextHop>]) {
        let mut base = base;
        while self.count > 0 {
            if base.is_multiple_of(8) {
                let octet = usize::from(base / 8);
                self.step(lines, addresses, hops, |address| address.octet(octet));
            } else {
                self.step(lines, addresses, hops, |address| address.byte(base));
            }
            base += 8;
        }
    }

    /// Replaces the entries of all addresses by those in their blocks, and drops the addresses that are done.
    #[inline(always)]
    fn step<A: Address>(
        &mut self,
        lines: &[Line],
        addresses: &[A],
        hops: &mut [Option<NextHop>],
        value: impl Fn(A) -> usize,
    ) {
        let mut left = Self { lanes: [0; PART], count: 0 };
        for &lane in &self.lanes[..self.count.min(PART)] {
            let lane = usize::from(lane);
            let line = Entry::of_hop(hops[lane]).line();
            let in_block = block::place(&lines[line], value(addresses[lane]));
            let entry = block::load(lines, block::place_from(line, in_block));
            prefetch_item(lines, entry.line()); // a next hop leads to some line near the first
            hops[lane] = entry.hop();
            left.push(lane, entry);
        }
        *self = left;
    }
}

/// Looks up one address, for a pinned reader.
#[inline]
pub(super) fn one<A: Address>(arena: &Arena, address: A) -> Option<NextHop> {
    let (_, lines) = arena.parts();
    let mut base = arena.root_bits;
    let mut entry = arena.root(address.root(base));
    while entry.is_block() {
        let in_block = block::place(&lines[entry.line()], address.byte(base));
        entry = block::load(lines, block::place_from(entry.line(), in_block));
        base += 8;
    }
    entry.hop()
}
