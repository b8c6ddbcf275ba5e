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
use super::arena::{Arena, Width};
use super::block;
use super::entry::NextHop;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
use super::gather;
use crate::isa::Isa;
use crate::prefetch::prefetch_item;
use crate::reclaim::cache_line::Line;

/// Number of addresses that pass through a step together.
pub(super) const PART: usize = 64;

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
    /// The kernels for a size of entries and an instruction set, which this processor must support.
    pub(super) fn new<W: Width>(isa: Isa) -> Self {
        let (roots, blocks, all) = (roots::<A, W>, blocks::<A, W>, all::<A, W>);
        match isa {
            #[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
            Isa::Avx512 => {
                Self { roots: gather::roots::<A, W>, blocks: v3::blocks::<A, W>, all: v3::all::<A, W> }
            }
            // With an instruction that counts the bits of lanes.
            #[cfg(all(target_arch = "x86_64", not(any(loom, miri, tsan))))]
            Isa::Avx512Gfni => Self { all: gather::all::<A, W>, ..Self::new::<W>(Isa::Avx512) },
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Isa::Avx2 => Self { roots: v3::roots::<A, W>, blocks: v3::blocks::<A, W>, all: v3::all::<A, W> },
            #[cfg(all(target_arch = "x86_64", any(miri, tsan), not(loom)))]
            Isa::Avx512 | Isa::Avx512Gfni => Self::new::<W>(Isa::Avx2),
            _ => Self { roots, blocks, all },
        }
    }
}

/// Compiled with an instruction that counts bits, and shifts that do not change flags.
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod v3 {
    use super::{Address, Arena, NextHop, Width};

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn roots<A: Address, W: Width>(
        a: &Arena,
        addresses: &[A],
        hops: &mut [Option<NextHop>],
    ) -> bool {
        super::roots::<A, W>(a, addresses, hops)
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn blocks<A: Address, W: Width>(a: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
        super::blocks::<A, W>(a, addresses, hops);
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn all<A: Address, W: Width>(a: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
        super::all::<A, W>(a, addresses, hops);
    }
}

/// The root's word for an address.
#[inline(always)]
fn root_word<A: Address, W: Width>(root: &[W::Cell], bits: u8, address: A) -> u32 {
    W::load(&root[address.root(bits)])
}

#[inline(always)]
pub(super) fn roots<A: Address, W: Width>(
    arena: &Arena,
    addresses: &[A],
    hops: &mut [Option<NextHop>],
) -> bool {
    let root = W::root(arena);
    let mut seen = 0;
    for (hop, &address) in hops.iter_mut().zip(addresses) {
        let word = root_word::<A, W>(root, arena.root_bits, address);
        seen |= word;
        *hop = NextHop::of_word(word);
    }
    W::BYTES.is_block(seen)
}

#[inline(always)]
fn blocks<A: Address, W: Width>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
    let root = W::root(arena);
    for (addresses, hops) in addresses.chunks(PART).zip(hops.chunks_mut(PART)) {
        let mut deep = Deep::new();
        for (lane, hop) in hops.iter_mut().enumerate() {
            if W::BYTES.is_block(NextHop::word_of(*hop)) {
                // Read again: without a pin, the block may have been reused.
                let word = root_word::<A, W>(root, arena.root_bits, addresses[lane]);
                *hop = NextHop::of_word(word);
                deep.push::<W>(lane, word);
            }
        }
        deep.walk::<A, W>(arena, addresses, hops);
    }
}

#[inline(always)]
pub(super) fn all<A: Address, W: Width>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
    let (root, lines) = (W::root(arena), arena.lines());
    for (addresses, hops) in addresses.chunks(PART).zip(hops.chunks_mut(PART)) {
        let mut deep = Deep::new();
        for (lane, (hop, &address)) in hops.iter_mut().zip(addresses).enumerate() {
            let word = root_word::<A, W>(root, arena.root_bits, address);
            prefetch_item(lines, W::BYTES.line(word));
            *hop = NextHop::of_word(word);
            deep.push::<W>(lane, word);
        }
        deep.walk::<A, W>(arena, addresses, hops);
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

    /// Adds an address if its word leads to a block.
    #[inline(always)]
    fn push<W: Width>(&mut self, lane: usize, word: u32) {
        self.lanes[self.count % PART] = lane as u8; // below 64
        self.count += W::BYTES.blocks(word);
    }

    /// Completes the answers.
    #[inline(always)]
    fn walk<A: Address, W: Width>(mut self, arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
        let (lines, mut base) = (arena.lines(), arena.root_bits);
        while self.count > 0 {
            if base.is_multiple_of(8) {
                let octet = usize::from(base / 8);
                self.step::<A, W>(lines, addresses, hops, |address| address.octet(octet));
            } else {
                self.step::<A, W>(lines, addresses, hops, |address| address.byte(base));
            }
            base += 8;
        }
    }

    /// Replaces the entries of all addresses by those in their blocks, and drops the addresses that are done.
    #[inline(always)]
    fn step<A: Address, W: Width>(
        &mut self,
        lines: &[Line],
        addresses: &[A],
        hops: &mut [Option<NextHop>],
        value: impl Fn(A) -> usize,
    ) {
        let mut left = Self { lanes: [0; PART], count: 0 };
        for &lane in &self.lanes[..self.count.min(PART)] {
            let lane = usize::from(lane);
            let line = W::BYTES.line(NextHop::word_of(hops[lane]));
            let in_block = block::place(W::BYTES, &lines[line], value(addresses[lane]));
            let word = block::load(W::BYTES, lines, block::place_from(W::BYTES, line, in_block));
            prefetch_item(lines, W::BYTES.line(word)); // a next hop leads to some line near the first
            hops[lane] = NextHop::of_word(word);
            left.push::<W>(lane, word);
        }
        *self = left;
    }
}

/// Looks up one address. `without_pin`: the root is read first, without a pin, and again if it leads to a block.
#[inline]
pub(super) fn one<A: Address, W: Width, P>(
    arena: &Arena,
    address: A,
    without_pin: bool,
    pin: impl FnOnce() -> P,
) -> Option<NextHop> {
    let (root, lines, mut base) = (W::root(arena), arena.lines(), arena.root_bits);
    if without_pin {
        let word = root_word::<A, W>(root, base, address);
        if !W::BYTES.is_block(word) {
            return NextHop::of_word(word);
        }
    }
    let _pin = pin();
    let mut word = root_word::<A, W>(root, base, address);
    while W::BYTES.is_block(word) {
        let line = W::BYTES.line(word);
        let in_block = block::place(W::BYTES, &lines[line], address.byte(base));
        word = block::load(W::BYTES, lines, block::place_from(W::BYTES, line, in_block));
        base += 8;
    }
    NextHop::of_word(word)
}
