//! Blocks of ports: who has them, and which mapping each port has.

use super::{Allocation, Kind, Plan, Refusal};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

/// A block that a subscriber got or gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent {
    /// When.
    pub at: Duration,
    /// The subscriber.
    pub inside: Ipv4Addr,
    /// The block's number: see [`Plan::block`].
    pub block: u32,
    /// Whether it was assigned; otherwise released.
    pub is_assigned: bool,
}

/// A block that a subscriber has.
#[derive(Debug)]
struct Block {
    subscriber: u32,
    /// By protocol and place: 1 + the mapping's number, or 0. Empty until a protocol is used.
    ports: [Vec<u32>; 3],
    used: [u16; 3],
    /// When the last mapping ended.
    idle_since: Duration,
    is_queued: bool,
}

#[derive(Debug)]
pub(super) struct Blocks {
    block_len: u16,
    per_address: u16,
    all: Vec<Option<Box<Block>>>,
    /// With dynamic allocation, by address: free blocks, the longest free first.
    free: Vec<VecDeque<u16>>,
    left: usize,
    in_use: usize,
    /// Blocks that were without mappings, in about the order in which they became so.
    idle: VecDeque<u32>,
}

impl Blocks {
    pub(super) fn new(plan: &Plan, allocation: Allocation) -> Self {
        let mut all = Vec::new();
        all.resize_with(plan.blocks() as usize, || None);
        let free: Vec<VecDeque<u16>> = match allocation {
            Allocation::Dynamic => {
                (0..plan.public_addresses()).map(|_| (0..plan.address_blocks()).collect()).collect()
            }
            Allocation::Deterministic => Vec::new(),
        };
        Self {
            block_len: plan.block_len(),
            per_address: plan.address_blocks(),
            all,
            left: free.iter().map(VecDeque::len).sum(),
            free,
            in_use: 0,
            idle: VecDeque::new(),
        }
    }

    pub(super) const fn in_use(&self) -> usize {
        self.in_use
    }

    /// A public address with a free block, from this one on.
    pub(super) fn address_with_room(&self, from: u32) -> Result<u32, Refusal> {
        if self.left == 0 {
            return Err(Refusal::NoBlock);
        }
        let from = from as usize % self.free.len().max(1);
        let (before, after) = self.free.split_at(from);
        let found = after.iter().chain(before).position(|free| !free.is_empty());
        found.map(|at| ((from + at) % self.free.len()) as u32).ok_or(Refusal::NoBlock)
    }

    /// Gives a free block of a public address to a subscriber.
    pub(super) fn assign_any(&mut self, address: u32, subscriber: u32) -> Result<u32, Refusal> {
        let free = self.free.get_mut(address as usize).ok_or(Refusal::NoBlock)?;
        let block =
            address * u32::from(self.per_address) + u32::from(free.pop_front().ok_or(Refusal::NoBlock)?);
        self.left -= 1;
        self.assign(block, subscriber);
        Ok(block)
    }

    /// Gives a block to a subscriber.
    pub(super) fn assign(&mut self, block: u32, subscriber: u32) {
        if let Some(place) = self.all.get_mut(block as usize) {
            let fresh = Block {
                subscriber,
                ports: [const { Vec::new() }; 3],
                used: [0; 3],
                idle_since: Duration::ZERO,
                is_queued: false,
            };
            *place = Some(Box::new(fresh));
            self.in_use += 1;
        }
    }

    fn block(&self, number: u32) -> Option<&Block> {
        self.all.get(number as usize)?.as_deref()
    }

    /// Whether a block has a free port.
    pub(super) fn has_room(&self, block: u32, kind: Kind) -> bool {
        self.block(block).is_some_and(|block| block.used[kind as usize] < self.block_len)
    }

    /// The mapping at a place of a block.
    #[inline]
    pub(super) fn mapping(&self, block: u32, place: u16, kind: Kind) -> Option<u32> {
        let ports = &self.block(block)?.ports[kind as usize];
        ports.get(usize::from(place))?.checked_sub(1)
    }

    /// Gives a port to a mapping.
    pub(super) fn take(&mut self, block: u32, place: u16, kind: Kind, mapping: u32) {
        let len = usize::from(self.block_len);
        let Some(block) = self.all.get_mut(block as usize).and_then(Option::as_mut) else { return };
        let ports = &mut block.ports[kind as usize];
        if ports.is_empty() {
            *ports = vec![0; len];
        }
        if let Some(port) = ports.get_mut(usize::from(place)) {
            *port = mapping + 1;
            block.used[kind as usize] += 1;
        }
    }

    /// Frees a mapping's port.
    pub(super) fn give_back(&mut self, number: u32, place: u16, kind: Kind, now: Duration) {
        let Some(block) = self.all.get_mut(number as usize).and_then(Option::as_mut) else { return };
        let Some(port) = block.ports[kind as usize].get_mut(usize::from(place)).filter(|port| **port != 0)
        else {
            return;
        };
        *port = 0;
        block.used[kind as usize] -= 1;
        if block.used == [0; 3] {
            block.idle_since = now;
            if !block.is_queued {
                block.is_queued = true;
                self.idle.push_back(number);
            }
        }
    }

    /// Blocks without mappings, and some that have mappings again.
    pub(super) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Looks at the block that was idle first, and frees it if it has been idle for this long. Returns its number and its
    /// subscriber's. Otherwise it goes to the end of the queue, or leaves it if it has mappings again.
    pub(super) fn release(&mut self, now: Duration, after: Duration) -> Option<(u32, u32)> {
        let number = self.idle.pop_front()?;
        let place = self.all.get_mut(number as usize)?;
        let block = place.as_mut()?;
        if block.used != [0; 3] {
            block.is_queued = false;
            return None;
        }
        if now.saturating_sub(block.idle_since) < after {
            self.idle.push_back(number);
            return None;
        }
        let subscriber = block.subscriber;
        *place = None;
        self.in_use -= 1;
        let address = number / u32::from(self.per_address);
        if let Some(free) = self.free.get_mut(address as usize) {
            free.push_back((number % u32::from(self.per_address)) as u16);
            self.left += 1;
        }
        Some((number, subscriber))
    }
}
