//! Lookups of many addresses at once.
//!
//! Addresses pass through the table level by level, 64 at a time: first the entries of the root, then the
//! first line of each block that they lead to, then the entries there. Each step prefetches what the next
//! step reads. Most addresses of IPv4 need only the root; the list of the others is written without a branch.

#![allow(unsafe_code)]

use super::address::Address;
use super::arena::Arena;
use super::block;
use super::entry::{Entry, NextHop};
use crate::isa::Isa;
use crate::prefetch::prefetch_item;
use crate::reclaim::sync::Ordering;

/// Number of addresses that pass through a step together.
const PART: usize = 64;

/// Roots with at most this many bits are in the cache anyway.
const CACHED_BITS: u8 = 16;

/// A lookup by a pinned reader; the numbers of addresses and next hops must be equal.
pub(super) type Lookup<A> = unsafe fn(&Arena, &[A], &mut [Option<NextHop>]);

/// The lookup with this instruction set, which this processor must support.
pub(super) fn lookup<A: Address>(isa: Isa) -> Lookup<A> {
    match isa {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        Isa::Avx2 | Isa::Avx512 | Isa::Avx512Gfni => v3::<A>,
        _ => all::<A>,
    }
}

/// Compiled with an instruction that counts bits, and shifts that do not change flags.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn v3<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
    all(arena, addresses, hops);
}

#[inline(always)]
fn all<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
    for (addresses, hops) in addresses.chunks(PART).zip(hops.chunks_mut(PART)) {
        part(arena, addresses, hops);
    }
}

/// Looks up at most [`PART`] addresses.
#[inline(always)]
fn part<A: Address>(arena: &Arena, addresses: &[A], hops: &mut [Option<NextHop>]) {
    let (root, lines) = arena.parts();
    let mut base = arena.root_bits;
    if base > CACHED_BITS {
        for address in addresses {
            prefetch_item(root, address.root(base));
        }
    }
    // The result for each address so far: its next hop, or the word of the next block.
    let (mut answers, mut deep, mut left) = ([None; PART], [0_u8; PART], 0);
    for (lane, address) in addresses.iter().enumerate() {
        let entry = Entry(root[address.root(base)].load(Ordering::Acquire));
        answers[lane % PART] = entry.hop();
        deep[left % PART] = lane as u8; // below 64
        left += entry.blocks();
    }
    let mut places = [0; PART];
    while left > 0 {
        let lanes = &deep[..left.min(PART)];
        for &lane in lanes {
            prefetch_item(lines, Entry::of_hop(answers[usize::from(lane) % PART]).line());
        }
        for &lane in lanes {
            let lane = usize::from(lane) % PART;
            let line = Entry::of_hop(answers[lane]).line();
            let in_block = block::place(&lines[line], addresses[lane].byte(base));
            places[lane] = block::place_from(line, in_block);
            prefetch_item(lines, block::line_of(places[lane]));
        }
        let mut next = 0;
        for at in 0..left.min(PART) {
            let lane = usize::from(deep[at]) % PART;
            let entry = block::load(lines, places[lane]);
            answers[lane] = entry.hop();
            deep[next % PART] = lane as u8; // `next` is at most `at`
            next += entry.blocks();
        }
        (left, base) = (next, base + 8);
    }
    hops.copy_from_slice(&answers[..hops.len()]);
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
