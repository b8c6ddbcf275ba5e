//! Blocks: the entries for the 256 values of eight bits of an address.
//!
//! A block holds *runs*: adjacent values with the same entry. A run starts where a prefix of the block's
//! lengths starts, after such a prefix ends, and on both sides of a value that has its own block. So the
//! starts of runs are a function of the prefixes alone, and changing a next hop never changes them.
//!
//! A block is 1, 2, 3, 5, 9 or 17 cache lines. It has four words with a bit for each value that starts a run;
//! a word with the number of runs before each of these words, one byte each, and the block's size in its
//! highest byte; then the entries, two or four per word. The first line has room for six runs of four bytes or
//! twelve of two: enough for most blocks of IPv6, so that a lookup touches one line per block.

use super::entry::{Entry, EntryBytes};
use crate::reclaim::cache_line::Line;
use crate::reclaim::sync::Ordering;

/// Number of values of eight bits.
pub(super) const VALUES: usize = 256;

/// The sizes of blocks in lines.
pub(super) const SIZES: [usize; 6] = [1, 2, 3, 5, 9, 17];

/// The index of the word with the numbers of runs.
const SUMS: usize = 4;

/// Entries per word.
const fn per_word(bytes: EntryBytes) -> usize {
    8 / bytes.get()
}

/// Entries per line.
const fn per_line(bytes: EntryBytes) -> usize {
    8 * per_word(bytes)
}

/// The index of the first entry, in units of entries.
const fn first(bytes: EntryBytes) -> usize {
    per_word(bytes) * (SUMS + 1)
}

/// The size of a block with this many runs, as an index into [`SIZES`].
pub(super) fn size_for(bytes: EntryBytes, runs: usize) -> usize {
    let has_room = |lines: &usize| lines * per_line(bytes) - first(bytes) >= runs;
    SIZES.iter().position(has_room).unwrap_or(SIZES.len() - 1)
}

/// The index of a value's entry, in units of entries from the start of the block that begins with this line.
///
/// Cost: one line, which also contains the entry if the block has at most six runs of four bytes, or twelve of two.
#[inline(always)]
pub(super) fn place(bytes: EntryBytes, head: &Line, value: usize) -> usize {
    let word = value / 64 % SUMS;
    let starts = head.0[word].load(Ordering::Relaxed) & (u64::MAX >> (63 - value % 64));
    let before = head.0[SUMS].load(Ordering::Relaxed) >> (8 * word) & 0xFF;
    // The first value starts a run, so at least one run starts up to here.
    first(bytes) + before as usize + starts.count_ones() as usize - 1
}

/// The word of the entry at a place, in units of entries from the start of all lines.
#[inline(always)]
pub(super) fn load(bytes: EntryBytes, lines: &[Line], place: usize) -> u32 {
    let cell = &lines[place / per_line(bytes)].0[place / per_word(bytes) % 8];
    let shift = bytes.bits() * (place % per_word(bytes)) as u32;
    (cell.load(Ordering::Acquire) >> shift) as u32 & mask(bytes)
}

/// The place of an entry of the block that begins at a line.
#[inline(always)]
pub(super) const fn place_from(bytes: EntryBytes, line: usize, in_block: usize) -> usize {
    line * per_line(bytes) + in_block
}

/// The bits of an entry.
#[inline(always)]
const fn mask(bytes: EntryBytes) -> u32 {
    u32::MAX >> (32 - bytes.bits())
}

/// Replaces an entry by one store. For the writer.
pub(super) fn store(bytes: EntryBytes, lines: &[Line], place: usize, entry: Entry) {
    let cell = &lines[place / per_line(bytes)].0[place / per_word(bytes) % 8];
    let shift = bytes.bits() * (place % per_word(bytes)) as u32;
    let others = cell.load(Ordering::Relaxed) & !(u64::from(mask(bytes)) << shift);
    cell.store(others | u64::from(bytes.encode(entry)) << shift, Ordering::Release);
}

/// The size of the block that begins with this line, as an index into [`SIZES`]. For the writer.
pub(super) fn size_of(head: &Line) -> usize {
    (head.0[SUMS].load(Ordering::Relaxed) >> 56) as usize % SIZES.len()
}

/// A block that the writer is building.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockBuilder {
    starts: [u64; 4],
    entries: Vec<Entry>,
}

impl BlockBuilder {
    /// A block with a single run.
    pub(super) fn one_run(entry: Entry) -> Self {
        Self { starts: [1, 0, 0, 0], entries: vec![entry] }
    }

    /// Reads the block that begins at a line.
    pub(super) fn read(bytes: EntryBytes, lines: &[Line], line: usize) -> Self {
        let head = &lines[line];
        let starts = std::array::from_fn(|word| head.0[word].load(Ordering::Relaxed));
        let runs = starts.iter().map(|word: &u64| word.count_ones() as usize).sum::<usize>();
        let word = |run| load(bytes, lines, place_from(bytes, line, first(bytes) + run));
        Self { starts, entries: (0..runs).map(|run| bytes.decode(word(run))).collect() }
    }

    /// Writes the block to lines that no reader can reach.
    pub(super) fn write(&self, bytes: EntryBytes, lines: &[Line]) {
        let mut sums = (size_for(bytes, self.runs()) as u64) << 56;
        let mut before = 0;
        for (word, starts) in self.starts.iter().enumerate() {
            sums |= before << (8 * word); // at most 192
            before += u64::from(starts.count_ones());
        }
        let one = |word, entry: &Entry| word << bytes.bits() | u64::from(bytes.encode(*entry));
        let entries = self.entries.chunks(per_word(bytes)).map(|some| some.iter().rev().fold(0, one));
        let words = self.starts.into_iter().chain([sums]).chain(entries);
        for (cell, word) in lines.iter().flat_map(|line| &line.0).zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// Number of runs.
    pub(super) fn runs(&self) -> usize {
        self.entries.len()
    }

    /// Whether a run starts at a value. A run boundary is always before the first value and after the last.
    pub(super) fn is_start(&self, value: usize) -> bool {
        value >= VALUES || self.starts[value / 64] >> (value % 64) & 1 == 1
    }

    /// The index of the run that contains a value.
    fn run(&self, value: usize) -> usize {
        let whole: u32 = self.starts[..value / 64].iter().map(|word| word.count_ones()).sum();
        let part = self.starts[value / 64] & (u64::MAX >> (63 - value % 64));
        (whole + part.count_ones()) as usize - 1
    }

    /// The entry of a value.
    pub(super) fn entry(&self, value: usize) -> Entry {
        self.entries[self.run(value)]
    }

    /// Replaces the entry of the run that contains a value.
    pub(super) fn set(&mut self, value: usize, entry: Entry) {
        let run = self.run(value);
        self.entries[run] = entry;
    }

    /// Starts a run at a value, with the entry that the value has. Returns whether no run started there
    /// before.
    pub(super) fn split(&mut self, value: usize) -> bool {
        if self.is_start(value) {
            return false;
        }
        let run = self.run(value);
        self.entries.insert(run + 1, self.entries[run]);
        self.starts[value / 64] |= 1 << (value % 64);
        true
    }

    /// Joins the run that starts at a value, which is not the first, to the previous run.
    pub(super) fn join(&mut self, value: usize) {
        let run = self.run(value);
        debug_assert_eq!(self.entries[run - 1], self.entries[run], "joined runs have one entry");
        self.entries.remove(run);
        self.starts[value / 64] &= !(1 << (value % 64));
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<Line> {
        (0..count).map(|_| Line::default()).collect()
    }

    const BOTH: [EntryBytes; 2] = [EntryBytes::Two, EntryBytes::Four];

    #[test]
    fn a_block_of_any_size_is_read_as_it_was_written() {
        let steps = [1, 2, 3, 5, 8, 16, 50, 100, 255];
        for (step, bytes) in steps.into_iter().flat_map(|step| BOTH.map(|bytes| (step, bytes))) {
            let mut image = BlockBuilder::one_run(Entry(7));
            for value in (0..VALUES).step_by(step) {
                image.split(value);
                image.set(value, Entry(value as u32 + 1));
            }
            let size = size_for(bytes, image.runs());
            let memory = lines(3 + SIZES[size]);
            image.write(bytes, &memory[3..]);
            let read = BlockBuilder::read(bytes, &memory, 3);
            assert_eq!((read, size_of(&memory[3])), (image.clone(), size));
            for value in 0..VALUES {
                let found = load(bytes, &memory, place_from(bytes, 3, place(bytes, &memory[3], value)));
                assert_eq!(found, (value / step * step) as u32 + 1, "value {value} step {step} {bytes:?}");
                assert_eq!(Entry(found), image.entry(value));
            }
        }
    }

    #[test]
    fn sizes_have_room() {
        for (bytes, expected) in BOTH.into_iter().zip([[0, 0, 0, 1, 1, 4], [0, 0, 1, 1, 2, 5]]) {
            let room = |size: usize| SIZES[size] * per_line(bytes) - first(bytes);
            assert_eq!([1, 6, 12, 22, 23, 256].map(|runs| size_for(bytes, runs)), expected);
            assert!((1..=VALUES).all(|runs| room(size_for(bytes, runs)) >= runs));
        }
    }

    #[test]
    fn a_stored_entry_leaves_its_neighbours_alone() {
        for bytes in BOTH {
            let (memory, mut image) = (lines(1), BlockBuilder::one_run(Entry(1)));
            [10, 20, 30, 40].map(|value| image.split(value));
            image.write(bytes, &memory);
            let (most, block) = (Entry(bytes.max_next_hop() + 1), Entry::of_block(bytes.lines() as u32 - 1));
            for (value, entry) in
                [(0, Entry(5)), (10, block), (30, most), (20, block), (10, Entry(0)), (40, most)]
            {
                image.set(value, entry);
                store(bytes, &memory, place(bytes, &memory[0], value), entry);
                assert_eq!(BlockBuilder::read(bytes, &memory, 0), image);
            }
        }
        let mut image = BlockBuilder::one_run(Entry(1));
        image.split(10);
        image.join(10);
        assert_eq!(image, BlockBuilder::one_run(Entry(1)));
    }
}
