//! The memory that readers see, and how the writer changes it while they read.
//!
//! The *root* has an entry for each value of the first bits of an address. A block entry leads to the line
//! where the block begins. What a reader reaches changes in only two ways. An entry is replaced by one store:
//! a next hop by another, or any entry by a complete block. And a block that no entry leads to any more stays
//! unchanged until [`crate::reclaim::epoch`] says that no reader can still be in it.
//!
//! So a reader that loaded an entry finds the answer of the moment at which it loaded it, or a later one.

use super::address::AddressBits;
use super::block::{self, BlockBuilder, SIZES};
use super::entry::{Entry, EntryBytes};
use crate::reclaim::cache_line::Line;
use crate::reclaim::epoch::Epochs;
use crate::reclaim::retired::Retired;
use crate::reclaim::sync::{AtomicU16, AtomicU32, Memory, Ordering, yield_now};
use std::ops::Range;
use std::sync::Arc;

/// Lines after all others, with room for the largest block. Blocks are made smaller through them when nothing
/// is free.
const RESERVE: usize = SIZES[SIZES.len() - 1];

/// Number of retired blocks that may wait before the writer checks whether readers are gone.
const FEW: usize = if cfg!(any(loom, miri)) { 1 } else { 64 };

/// The part that readers see.
#[derive(Debug)]
pub(super) struct Arena {
    root: Root,
    lines: Memory<Line>,
    pub(super) root_bits: u8,
    pub(super) epochs: Arc<Epochs>,
}

/// The words of the root.
#[derive(Debug)]
enum Root {
    Two(Memory<AtomicU16>),
    Four(Memory<AtomicU32>),
}

/// A size of entries, as a type: lookups are compiled for each.
pub(super) trait Width: 'static {
    /// A word of the root.
    type Cell: 'static;
    /// The size.
    const BYTES: EntryBytes;

    /// The root of a table with entries of this size; of another table, nothing.
    fn root(arena: &Arena) -> &[Self::Cell];

    /// The word.
    fn load(cell: &Self::Cell) -> u32;
}

/// [`EntryBytes::Two`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Two;

/// [`EntryBytes::Four`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Four;

impl Width for Two {
    type Cell = AtomicU16;
    const BYTES: EntryBytes = EntryBytes::Two;

    #[inline(always)]
    fn root(arena: &Arena) -> &[AtomicU16] {
        match &arena.root {
            Root::Two(root) => root,
            Root::Four(_) => &[],
        }
    }

    #[inline(always)]
    fn load(cell: &AtomicU16) -> u32 {
        cell.load(Ordering::Acquire).into()
    }
}

impl Width for Four {
    type Cell = AtomicU32;
    const BYTES: EntryBytes = EntryBytes::Four;

    #[inline(always)]
    fn root(arena: &Arena) -> &[AtomicU32] {
        match &arena.root {
            Root::Four(root) => root,
            Root::Two(_) => &[],
        }
    }

    #[inline(always)]
    fn load(cell: &AtomicU32) -> u32 {
        cell.load(Ordering::Acquire)
    }
}

/// Where an entry is.
#[derive(Debug, Clone, Copy)]
pub(super) enum EntryPlace {
    Root(usize),
    Block(usize),
}

/// The state of the lines that only the writer knows.
#[derive(Debug)]
pub(super) struct FreeLines {
    /// Free blocks of each size, by their first lines.
    free: [Vec<u32>; SIZES.len()],
    /// The first line that was never used.
    fresh: u32,
    /// Blocks by first line and size.
    retired: Retired<(u32, u8)>,
    waiting: usize,
    /// The tag under which the reserve was last retired.
    pub(super) reserve: Option<u64>,
}

impl FreeLines {
    pub(super) const fn new() -> Self {
        let free = [const { Vec::new() }; SIZES.len()];
        Self { free, fresh: 0, retired: Retired::new(), waiting: 0, reserve: None }
    }

    /// Number of lines ever used.
    pub(super) const fn lines(&self) -> usize {
        self.fresh as usize
    }

    /// Number of lines in use, including retired blocks.
    pub(super) fn used(&self) -> usize {
        let free: usize = self.free.iter().zip(SIZES).map(|(blocks, lines)| blocks.len() * lines).sum();
        self.lines() - free
    }
}

/// A range of addresses, divided by the values of some bits: the values that lie completely in it, and the
/// two at its ends that do not.
struct SplitRange<B> {
    first: Option<(usize, B, B)>,
    whole: Range<usize>,
    last: Option<(usize, B, B)>,
}

impl<B: AddressBits> SplitRange<B> {
    /// The addresses from `from` to `to`, whose values are these; the values' bits end at `end`.
    fn new(from: B, to: B, values: (usize, usize), end: u8) -> Self {
        let (starts, ends) = (from.network(end) == from, to.last(end) == to);
        let (low, high) = values;
        if low == high && !(starts && ends) {
            return Self { first: Some((low, from, to)), whole: 0..0, last: None };
        }
        Self {
            first: (!starts).then(|| (low, from, from.last(end))),
            whole: low + usize::from(!starts)..high + usize::from(ends),
            last: (!ends).then(|| (high, to.network(end), to)),
        }
    }
}

impl Arena {
    /// A root of `root_bits` bits without routes, and room for `lines` lines of blocks, fewer than 2^31, or as many as
    /// entries of this size can name.
    pub(super) fn new(root_bits: u8, lines: usize, bytes: EntryBytes, epochs: Arc<Epochs>) -> Self {
        let root = match bytes {
            EntryBytes::Two => Root::Two(Memory::untouched(1 << root_bits)),
            EntryBytes::Four => Root::Four(Memory::untouched(1 << root_bits)),
        };
        let lines = Memory::untouched(lines.min(bytes.lines() - RESERVE) + RESERVE);
        Self { root, lines, root_bits, epochs }
    }

    /// The size of entries.
    #[inline(always)]
    pub(super) const fn bytes(&self) -> EntryBytes {
        match self.root {
            Root::Two(_) => EntryBytes::Two,
            Root::Four(_) => EntryBytes::Four,
        }
    }

    /// Number of lines for blocks.
    pub(super) fn room(&self) -> usize {
        self.lines.len() - RESERVE
    }

    /// All lines, for lookups.
    #[inline(always)]
    pub(super) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// An entry of the root.
    fn root(&self, at: usize) -> Entry {
        self.bytes().decode(match &self.root {
            Root::Two(root) => Two::load(&root[at]),
            Root::Four(root) => Four::load(&root[at]),
        })
    }

    /// Replaces entries of the root, each by one store.
    fn store_root(&self, at: Range<usize>, entry: Entry) {
        let word = self.bytes().encode(entry);
        match &self.root {
            // Below 2^16.
            Root::Two(root) => root[at].iter().for_each(|cell| cell.store(word as u16, Ordering::Release)),
            Root::Four(root) => root[at].iter().for_each(|cell| cell.store(word, Ordering::Release)),
        }
    }

    /// The place of a value's entry in the block that begins at a line, in units of entries from the start of all lines.
    fn place_in(&self, line: usize, value: usize) -> usize {
        block::place_from(self.bytes(), line, block::place(self.bytes(), &self.lines[line], value))
    }

    /// The place of a value's entry in the block that begins at a line.
    pub(super) fn place(&self, line: usize, value: usize) -> EntryPlace {
        EntryPlace::Block(self.place_in(line, value))
    }

    /// The entry at a place.
    pub(super) fn load(&self, place: EntryPlace) -> Entry {
        match place {
            EntryPlace::Root(at) => self.root(at),
            EntryPlace::Block(at) => self.bytes().decode(block::load(self.bytes(), &self.lines, at)),
        }
    }

    /// Replaces an entry. Readers see it from now on, with everything that was written before it.
    pub(super) fn store(&self, place: EntryPlace, entry: Entry) {
        match place {
            EntryPlace::Root(at) => self.store_root(at..at + 1, entry),
            EntryPlace::Block(at) => block::store(self.bytes(), &self.lines, at, entry),
        }
    }

    /// A copy of the block that begins at a line, to be changed.
    pub(super) fn image(&self, line: usize) -> BlockBuilder {
        BlockBuilder::read(self.bytes(), &self.lines, line)
    }

    /// Sets the next hop of all addresses from `from` to `to`. They must be addresses that a prefix covers
    /// and longer prefixes do not: every block on the path to their ends exists, and runs start and end with
    /// them.
    pub(super) fn fill<B: AddressBits>(&self, from: B, to: B, hop: Entry) {
        let bits = self.root_bits;
        let cut = SplitRange::new(from, to, (from.root(bits), to.root(bits)), bits);
        self.store_root(cut.whole, hop);
        for (value, from, to) in cut.first.into_iter().chain(cut.last) {
            self.fill_block(self.root(value), bits, from, to, hop);
        }
    }

    fn fill_block<B: AddressBits>(&self, entry: Entry, base: u8, from: B, to: B, hop: Entry) {
        debug_assert!(entry.is_block(), "a prefix has its block");
        let (line, end) = (entry.line(), (base + 8).min(B::LEN));
        let cut = SplitRange::new(from, to, (from.byte(base), to.byte(base) | 0xFF >> (end - base)), end);
        if !cut.whole.is_empty() {
            for at in self.place_in(line, cut.whole.start)..=self.place_in(line, cut.whole.end - 1) {
                block::store(self.bytes(), &self.lines, at, hop);
            }
        }
        for (value, from, to) in cut.first.into_iter().chain(cut.last) {
            self.fill_block(self.load(self.place(line, value)), end, from, to, hop);
        }
    }

    /// Writes a block to lines that no reader can reach. Returns its entry, or `None` if there is no room.
    ///
    /// Waits for readers if all free lines wait for them.
    pub(super) fn write(&self, spares: &mut FreeLines, image: &BlockBuilder) -> Option<Entry> {
        let line = self.allocate(spares, block::size_for(self.bytes(), image.runs()))?;
        image.write(self.bytes(), &self.lines[line as usize..]);
        Some(Entry::of_block(line))
    }

    fn allocate(&self, spares: &mut FreeLines, size: usize) -> Option<u32> {
        if spares.waiting >= FEW {
            self.reclaim(spares);
        }
        loop {
            if let Some(line) = spares.free[size].pop() {
                return Some(line);
            }
            let line = spares.fresh;
            if self.room() - spares.lines() >= SIZES[size] {
                spares.fresh += SIZES[size] as u32;
                return Some(line);
            }
            if spares.waiting == 0 {
                return Self::cut_larger(spares, size).or_else(|| Self::gather(spares, size));
            }
            if !self.reclaim(spares) {
                yield_now();
            }
        }
    }

    /// Takes a free block that is larger than needed, and frees the rest of it.
    fn cut_larger(spares: &mut FreeLines, size: usize) -> Option<u32> {
        let (larger, line) =
            (size + 1..SIZES.len()).find_map(|larger| Some((larger, spares.free[larger].pop()?)))?;
        Self::cut(spares, line, size, larger);
        Some(line)
    }

    /// Turns the unused end of a larger block into free blocks.
    fn cut(spares: &mut FreeLines, line: u32, size: usize, was: usize) {
        Self::free(spares, line + SIZES[size] as u32..line + SIZES[was] as u32);
    }

    /// Turns lines into free blocks, as large as possible.
    fn free(spares: &mut FreeLines, lines: Range<u32>) {
        let mut next = lines.start;
        while next < lines.end {
            let fits = |size: &usize| SIZES[*size] <= (lines.end - next) as usize;
            let size = (0..SIZES.len()).rev().find(fits).unwrap_or(0);
            spares.free[size].push(next);
            next += SIZES[size] as u32;
        }
    }

    /// Joins adjacent free blocks, none of which was large enough, and takes one of the results.
    ///
    /// Cost: sorts all free blocks. A table needs this only when it has hardly any lines left.
    #[cold]
    fn gather(spares: &mut FreeLines, size: usize) -> Option<u32> {
        let sizes = spares.free.iter_mut().zip(SIZES);
        let blocks =
            sizes.flat_map(|(blocks, lines)| blocks.drain(..).map(move |line| line..line + lines as u32));
        let mut blocks: Vec<Range<u32>> = blocks.collect();
        blocks.sort_unstable_by_key(|block| block.start);
        for run in blocks.chunk_by(|one, next| one.end == next.start) {
            Self::free(spares, run[0].start..run[run.len() - 1].end);
        }
        spares.free[size].pop().or_else(|| Self::cut_larger(spares, size))
    }

    /// Replaces a block by one that needs no more room. It cannot fail: if nothing is free, readers see the
    /// new block in the reserve until none is in the old block, and then in the old block's place.
    pub(super) fn shrink(&self, spares: &mut FreeLines, place: EntryPlace, old: Entry, image: &BlockBuilder) {
        if let Some(new) = self.write(spares, image) {
            self.store(place, new);
            return self.retire(spares, old);
        }
        if let Some(tag) = spares.reserve {
            self.wait(tag);
        }
        let (line, reserve) = (old.line(), self.room());
        let was = block::size_of(self.bytes(), &self.lines, line);
        let size = block::size_for(self.bytes(), image.runs());
        image.write(self.bytes(), &self.lines[reserve..]);
        self.store(place, Entry::of_block(reserve as u32));
        self.wait(self.epochs.retire());
        image.write(self.bytes(), &self.lines[line..]);
        self.store(place, old);
        spares.reserve = Some(self.epochs.retire());
        Self::cut(spares, line as u32, size, was);
    }

    /// Waits until no reader reads what was retired under a tag.
    fn wait(&self, tag: u64) {
        while tag >= self.epochs.safe_below() {
            yield_now();
        }
    }

    /// Keeps a block until no reader can see it any more. Call it after the last entry that led to it was
    /// replaced.
    pub(super) fn retire(&self, spares: &mut FreeLines, entry: Entry) {
        let line = entry.line();
        let size = block::size_of(self.bytes(), &self.lines, line) as u8; // one of six
        spares.retired.push(self.epochs.retire(), (line as u32, size));
        spares.waiting += 1;
    }

    /// Frees a block that was written but never published.
    pub(super) fn forget(&self, spares: &mut FreeLines, entry: Entry) {
        let line = entry.line();
        spares.free[block::size_of(self.bytes(), &self.lines, line)].push(line as u32);
    }

    /// Moves blocks that no reader can see any more to the free blocks. Returns whether there were any.
    pub(super) fn reclaim(&self, spares: &mut FreeLines) -> bool {
        let FreeLines { free, retired, waiting, .. } = spares;
        retired.reclaim(&self.epochs, |(line, size)| {
            free[usize::from(size)].push(line);
            *waiting -= 1;
        })
    }

    /// Bytes of the root.
    pub(super) const fn root_bytes(&self) -> usize {
        self.bytes().get() << self.root_bits
    }

    /// All blocks that the root leads to, each with its contents: for tests.
    #[cfg(all(test, not(loom)))]
    pub(super) fn blocks(&self) -> Vec<(EntryPlace, BlockBuilder)> {
        let roots = (0..1 << self.root_bits).map(EntryPlace::Root);
        let mut left: Vec<(EntryPlace, Entry)> = roots.map(|place| (place, self.load(place))).collect();
        let mut found = Vec::new();
        while let Some((place, entry)) = left.pop() {
            if !entry.is_block() {
                continue;
            }
            let image = self.image(entry.line());
            let values = (0..block::VALUES).filter(|&value| image.is_start(value));
            left.extend(values.map(|value| (self.place(entry.line(), value), image.entry(value))));
            found.push((place, image));
        }
        found
    }
}
