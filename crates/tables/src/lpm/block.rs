//! Blocks: the entries for the 256 values of eight bits of an address.
//!
//! A block holds *runs*: adjacent values with the same entry. A run starts where a prefix of the block's
//! lengths starts, after such a prefix ends, and on both sides of a value that has its own block. So the
//! starts of runs are a function of the prefixes alone, and changing a next hop never changes them.
//!
//! A block is 1, 2, 3, 5, 9 or 17 cache lines. It has four words with a bit for each value that starts a run;
//! a word with the number of runs before each of these words, one byte each, and the block's size in its
//! highest byte; then the entries, two per word. The first line has room for six runs: enough for most blocks
//! of IPv6, so that a lookup touches one line per block.

use super::entry::Entry;
use crate::reclaim::cache_line::Line;
use crate::reclaim::sync::Ordering;

/// Number of values of eight bits.
pub(super) const VALUES: usize = 256;

/// The sizes of blocks in lines.
pub(super) const SIZES: [usize; 6] = [1, 2, 3, 5, 9, 17];

/// Entries per line.
const PER_LINE: usize = 16;
/// The index of the word with the numbers of runs.
const SUMS: usize = 4;
/// The index of the first entry, in units of entries.
const FIRST: usize = 2 * (SUMS + 1);

/// The size of a block with this many runs, as an index into [`SIZES`].
pub(super) fn size_for(runs: usize) -> usize {
    SIZES.iter().position(|lines| lines * PER_LINE - FIRST >= runs).unwrap_or(SIZES.len() - 1)
}

/// The index of a value's entry, in units of entries from the start of the block that begins with this line.
///
/// Cost: one line, which also contains the entry if the block has at most six runs.
#[inline(always)]
pub(super) fn place(head: &Line, value: usize) -> usize {
    let word = value / 64 % SUMS;
    let starts = head.0[word].load(Ordering::Relaxed) & (u64::MAX >> (63 - value % 64));
    let before = head.0[SUMS].load(Ordering::Relaxed) >> (8 * word) & 0xFF;
    // The first value starts a run, so at least one run starts up to here.
    FIRST + before as usize + starts.count_ones() as usize - 1
}

/// The entry at a place, in units of entries from the start of all lines.
#[inline(always)]
pub(super) fn load(lines: &[Line], place: usize) -> Entry {
    let word = lines[place / PER_LINE].0[place / 2 % 8].load(Ordering::Acquire);
    Entry((word >> (32 * (place % 2))) as u32)
}

/// The place of an entry of the block that begins at a line.
#[inline(always)]
pub(super) const fn place_from(line: usize, in_block: usize) -> usize {
    line * PER_LINE + in_block
}

/// Replaces an entry. For the writer.
pub(super) fn store(lines: &[Line], place: usize, entry: Entry) {
    let cell = &lines[place / PER_LINE].0[place / 2 % 8];
    let shift = 32 * (place % 2);
    let others = cell.load(Ordering::Relaxed) & !(0xFFFF_FFFF << shift);
    cell.store(others | u64::from(entry.0) << shift, Ordering::Release);
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
    pub(super) fn read(lines: &[Line], line: usize) -> Self {
        let head = &lines[line];
        let starts = std::array::from_fn(|word| head.0[word].load(Ordering::Relaxed));
        let runs = starts.iter().map(|word: &u64| word.count_ones() as usize).sum::<usize>();
        let entries = (0..runs).map(|run| load(lines, place_from(line, FIRST + run))).collect();
        Self { starts, entries }
    }

    /// Writes the block to lines that no reader can reach.
    pub(super) fn write(&self, lines: &[Line]) {
        let mut sums = (size_for(self.runs()) as u64) << 56;
        let mut before = 0;
        for (word, starts) in self.starts.iter().enumerate() {
            sums |= before << (8 * word); // at most 192
            before += u64::from(starts.count_ones());
        }
        let pairs = self
            .entries
            .chunks(2)
            .map(|pair| pair.iter().rev().fold(0, |word, entry| word << 32 | u64::from(entry.0)));
        let words = self.starts.into_iter().chain([sums]).chain(pairs);
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

    #[test]
    fn a_block_of_any_size_is_read_as_it_was_written() {
        for step in [1, 2, 3, 5, 8, 16, 50, 100, 255] {
            let mut image = BlockBuilder::one_run(Entry(7));
            for value in (0..VALUES).step_by(step) {
                image.split(value);
                image.set(value, Entry(value as u32 + 1));
            }
            let size = size_for(image.runs());
            let memory = lines(3 + SIZES[size]);
            image.write(&memory[3..]);
            assert_eq!((BlockBuilder::read(&memory, 3), size_of(&memory[3])), (image.clone(), size));
            for value in 0..VALUES {
                let found = load(&memory, place_from(3, place(&memory[3], value)));
                assert_eq!(found, Entry((value / step * step) as u32 + 1), "value {value} step {step}");
                assert_eq!(found, image.entry(value));
            }
        }
    }

    #[test]
    fn sizes_have_room() {
        let room = |size: usize| SIZES[size] * PER_LINE - FIRST;
        assert_eq!([1, 6, 7, 22, 23, 256].map(size_for), [0, 0, 1, 1, 2, 5]);
        assert!((1..=VALUES).all(|runs| room(size_for(runs)) >= runs));
    }

    #[test]
    fn a_stored_entry_leaves_its_neighbour_alone() {
        let memory = lines(1);
        let mut image = BlockBuilder::one_run(Entry(1));
        image.split(10);
        image.write(&memory);
        for (value, entry) in [(0, 5), (10, u32::MAX), (0, 0)] {
            image.set(value, Entry(entry));
            store(&memory, place(&memory[0], value), Entry(entry));
            assert_eq!(BlockBuilder::read(&memory, 0), image);
        }
        image.set(0, Entry(u32::MAX));
        image.join(10);
        assert_eq!(image, BlockBuilder::one_run(Entry(u32::MAX)));
    }
}
