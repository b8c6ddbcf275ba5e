//! Adds and removes prefixes.
//!
//! A prefix is added in two steps. The first makes its block, and the blocks that lead to it, with a run that
//! starts and one that ends with the prefix. It changes no answer: new blocks are written where no reader
//! looks, and published by one store. It is the only step that can fail, and nothing is changed then. The
//! second step replaces the entries of all addresses that no longer prefix covers. A prefix is removed in the
//! opposite order.

use super::address::AddressBits;
use super::arena::{Arena, EntryPlace, FreeLines};
use super::block::BlockBuilder;
use super::entry::{Entry, NextHop};
use super::rib::{Key, Rib};

/// There is no room for the blocks of a prefix.
#[derive(Debug)]
pub(super) struct OutOfBlocks;

/// The state that only the writer has.
#[derive(Debug)]
pub(super) struct Writer<B> {
    pub(super) rib: Rib<B>,
    pub(super) spares: FreeLines,
}

/// The values of the eight bits in which a prefix ends: the first value, and the one after the last.
fn values<B: AddressBits>((address, length): Key<B>, base: u8) -> (usize, usize) {
    let first = address.byte(base);
    (first, first + (1 << (base + 8 - length)))
}

impl<B: AddressBits> Writer<B> {
    pub(super) const fn new() -> Self {
        Self { rib: Rib::new(), spares: FreeLines::new() }
    }

    /// Adds a prefix or replaces its next hop. Returns the previous next hop.
    pub(super) fn insert(
        &mut self,
        arena: &Arena,
        key: Key<B>,
        hop: NextHop,
    ) -> Result<Option<NextHop>, OutOfBlocks> {
        let before = self.rib.get(key);
        if before == Some(hop) {
            return Ok(before);
        }
        if before.is_none() && key.1 > arena.root_bits {
            self.make_runs(arena, key)?;
        }
        self.rib.insert(key, hop);
        self.fill(arena, key, Some(hop));
        Ok(before)
    }

    /// Removes a prefix. Returns its next hop, if it was in the table.
    pub(super) fn remove(&mut self, arena: &Arena, key: Key<B>) -> Option<NextHop> {
        let before = self.rib.remove(key)?;
        let hop = self.rib.longest(key.0, key.1).map(|(_, hop)| hop);
        if hop != Some(before) {
            self.fill(arena, key, hop);
        }
        if key.1 > arena.root_bits {
            self.drop_runs(arena, key);
        }
        Some(before)
    }

    /// Writes all prefixes to a table without routes, and uses its lines from now on. If there is no room, nothing is
    /// changed.
    ///
    /// Cost: that of inserting them all.
    pub(super) fn rebuild(&mut self, arena: &Arena) -> Result<(), OutOfBlocks> {
        let rib = std::mem::replace(&mut self.rib, Rib::new());
        let before = std::mem::replace(&mut self.spares, FreeLines::new());
        // All runs first: a prefix is written between the longer ones, whose runs must exist.
        let mut long = rib.iter().filter(|(key, _)| key.1 > arena.root_bits);
        let done = long.try_for_each(|(key, _)| self.make_runs(arena, key));
        drop(long);
        self.rib = rib;
        if done.is_err() {
            self.spares = before;
            return done;
        }
        for (key, hop) in self.rib.iter() {
            self.fill(arena, key, Some(hop));
        }
        Ok(())
    }

    fn fill(&self, arena: &Arena, key: Key<B>, hop: Option<NextHop>) {
        self.rib.gaps(key, |from, to| arena.fill(from, to, Entry::of_hop(hop)));
    }

    /// Makes a run of the values of a prefix that is longer than the root's bits.
    fn make_runs(&mut self, arena: &Arena, key: Key<B>) -> Result<(), OutOfBlocks> {
        let (address, length) = key;
        let mut base = arena.root_bits;
        let mut place = EntryPlace::Root(address.root(base));
        let mut entry = arena.load(place);
        // Walk down to the last existing block.
        while entry.is_block() && length > base + 8 {
            let next = arena.place(entry.line(), address.byte(base));
            if !arena.load(next).is_block() {
                break;
            }
            (place, entry, base) = (next, arena.load(next), base + 8);
        }
        let is_there = entry.is_block();
        let mut image = if is_there { arena.image(entry.line()) } else { BlockBuilder::one_run(entry) };
        let first = address.byte(base);
        let is_changed = if length <= base + 8 {
            let (first, end) = values(key, base);
            image.split(first) | image.split(end)
        } else {
            // Values that get their own blocks have their own runs.
            image.split(first);
            image.split(first + 1);
            let below = self.chain(arena, key, base + 8, image.entry(first))?;
            image.set(first, below);
            true
        };
        if !is_changed {
            return Ok(());
        }
        let Some(new) = arena.write(&mut self.spares, &image) else {
            self.forget_chain(arena, key, base, &image);
            return Err(OutOfBlocks);
        };
        arena.store(place, new);
        if is_there {
            arena.retire(&mut self.spares, entry);
        }
        Ok(())
    }

    /// New blocks from `base` on down to that of a prefix, for addresses that had one next hop.
    fn chain(&mut self, arena: &Arena, key: Key<B>, base: u8, hop: Entry) -> Result<Entry, OutOfBlocks> {
        let mut image = BlockBuilder::one_run(hop);
        if key.1 <= base + 8 {
            let (first, end) = values(key, base);
            image.split(first);
            image.split(end);
        } else {
            let first = key.0.byte(base);
            image.split(first);
            image.split(first + 1);
            let below = self.chain(arena, key, base + 8, hop)?;
            image.set(first, below);
        }
        let written = arena.write(&mut self.spares, &image);
        if written.is_none() {
            self.forget_chain(arena, key, base, &image);
        }
        written.ok_or(OutOfBlocks)
    }

    /// Frees the new blocks after one that could not be written.
    fn forget_chain(&mut self, arena: &Arena, key: Key<B>, mut base: u8, image: &BlockBuilder) {
        if key.1 <= base + 8 {
            return;
        }
        let mut entry = image.entry(key.0.byte(base));
        while entry.is_block() {
            base += 8;
            let below = arena.load(arena.place(entry.line(), key.0.byte(base)));
            arena.forget(&mut self.spares, entry);
            if key.1 <= base + 8 {
                return;
            }
            entry = below;
        }
    }

    /// Joins the runs that only a removed prefix separated, and removes blocks with a single run.
    fn drop_runs(&mut self, arena: &Arena, key: Key<B>) {
        let (address, length) = key;
        let mut base = arena.root_bits;
        let mut place = EntryPlace::Root(address.root(base));
        let mut path = Vec::new();
        loop {
            let entry = arena.load(place);
            debug_assert!(entry.is_block(), "a prefix has its block");
            path.push((place, entry));
            if length <= base + 8 {
                break;
            }
            place = arena.place(entry.line(), address.byte(base));
            base += 8;
        }
        let (mut first, mut end) = values(key, base);
        let mut gone = Vec::new();
        let mut replaced = None;
        while let Some((place, entry)) = path.pop() {
            let mut image = arena.image(entry.line());
            if let Some(hop) = replaced {
                image.set(first, hop);
            }
            let mut is_changed = replaced.is_some();
            for value in [first, end] {
                if self.is_idle(&image, address, base, value) {
                    image.join(value);
                    is_changed = true;
                }
            }
            if !is_changed {
                return;
            }
            if image.runs() > 1 {
                arena.shrink(&mut self.spares, place, entry, &image);
                break;
            }
            gone.push(entry);
            if let EntryPlace::Root(_) = place {
                arena.store(place, image.entry(0));
                break;
            }
            // A block with a single run: its entry replaces the entry that leads to it.
            replaced = Some(image.entry(0));
            base -= 8;
            first = address.byte(base);
            end = first + 1;
        }
        for entry in gone {
            arena.retire(&mut self.spares, entry);
        }
    }

    /// Whether a run starts at a value without a prefix that separates it from the previous value.
    fn is_idle(&self, image: &BlockBuilder, address: B, base: u8, value: usize) -> bool {
        (1..super::block::VALUES).contains(&value)
            && image.is_start(value)
            && !image.entry(value - 1).is_block()
            && !image.entry(value).is_block()
            && !self.rib.meets(address, base, value)
    }
}
