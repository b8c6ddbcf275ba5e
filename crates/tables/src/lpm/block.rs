//! Blocks: the entries for the 256 values of eight bits of an address.
//!
//! A block holds *runs*: adjacent values with the same entry. A run starts where a prefix of the block's
//! lengths starts, after such a prefix ends, and on both sides of a value that has its own block. So the
//! starts of runs are a function of the prefixes alone, and changing a next hop never changes them.
//!
//! A block is 1, 2, 3, 5, 9 or 17 cache lines. It begins with eleven *heads* of four bytes. A head stands for 24 values:
//! a bit for each that starts a run, and in the highest byte the number of runs that start before them. So one load
//! gives the number of a value's run. Then come the entries. The first line has room for five runs of four bytes or ten of
//! two: enough for most blocks of IPv6, so that a lookup touches one line per block.

use super::entry::{Entry, EntryBytes};
use crate::reclaim::cache_line::Line;
use crate::reclaim::sync::Ordering;

/// Number of values of eight bits.
pub(super) const VALUES: usize = 256;

/// The sizes of blocks in lines.
pub(super) const SIZES: [usize; 6] = [1, 2, 3, 5, 9, 17];

/// Values per head.
const PER_HEAD: usize = 24;

/// The bits of a head that mark starts of runs.
const STARTS: u32 = (1 << PER_HEAD) - 1;

/// Number of heads.
const HEADS: usize = VALUES.div_ceil(PER_HEAD);

/// Entries per word.
const fn per_word(bytes: EntryBytes) -> usize {
    8 / bytes.get()
}

/// Entries per line.
const fn per_line(bytes: EntryBytes) -> usize {
    8 * per_word(bytes)
}

/// The index of the first entry, in units of entries.
pub(super) const fn first(bytes: EntryBytes) -> usize {
    4 * HEADS / bytes.get()
}

/// The size of a block with this many runs, as an index into [`SIZES`].
pub(super) fn size_for(bytes: EntryBytes, runs: usize) -> usize {
    let has_room = |lines: &usize| lines * per_line(bytes) - first(bytes) >= runs;
    SIZES.iter().position(has_room).unwrap_or(SIZES.len() - 1)
}

/// The index of a value's entry, in units of entries from the start of the block that begins with this line.
///
/// Cost: one line, which also contains the entry if the block has at most five runs of four bytes, or ten of two.
#[inline(always)]
pub(super) fn place(bytes: EntryBytes, head: &Line, value: usize) -> usize {
    let number = (value * 171) >> 12; // value / 24, for values below 256
    let bit = value - PER_HEAD * number;
    let word = (head.0[number / 2 % 8].load(Ordering::Relaxed) >> (32 * (number % 2))) as u32;
    let (before, starts) = (word >> 24, word << (31 - bit)); // the shift leaves the bits up to the value's
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

/// The bits of a head.
fn head(lines: &[Line], line: usize, number: usize) -> u32 {
    (lines[line].0[number / 2].load(Ordering::Relaxed) >> (32 * (number % 2))) as u32
}

/// The number of runs of the block that begins at a line.
fn runs(lines: &[Line], line: usize) -> usize {
    let last = head(lines, line, HEADS - 1);
    (last >> 24) as usize + (last & STARTS).count_ones() as usize
}

/// The size of the block that begins at a line, as an index into [`SIZES`]. For the writer.
pub(super) fn size_of(bytes: EntryBytes, lines: &[Line], line: usize) -> usize {
    size_for(bytes, runs(lines, line))
}

/// A block that the writer is building.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockBuilder {
    /// Heads without the numbers of runs before them.
    starts: [u32; HEADS],
    entries: Vec<Entry>,
}

impl BlockBuilder {
    /// A block with a single run.
    pub(super) fn one_run(entry: Entry) -> Self {
        let mut starts = [0; HEADS];
        starts[0] = 1;
        Self { starts, entries: vec![entry] }
    }

    /// Reads the block that begins at a line.
    pub(super) fn read(bytes: EntryBytes, lines: &[Line], line: usize) -> Self {
        let starts = std::array::from_fn(|number| head(lines, line, number) & STARTS);
        let word = |run| load(bytes, lines, place_from(bytes, line, first(bytes) + run));
        Self { starts, entries: (0..runs(lines, line)).map(|run| bytes.decode(word(run))).collect() }
    }

    /// Writes the block to lines that no reader can reach.
    pub(super) fn write(&self, bytes: EntryBytes, lines: &[Line]) {
        let mut before = 0;
        let heads = self.starts.iter().map(|&starts| {
            let head = before << 24 | starts; // at most 240 before the last
            before += starts.count_ones();
            u64::from(head)
        });
        let entries = self.entries.iter().map(|entry| u64::from(bytes.encode(*entry)));
        // Entries follow the heads, also within a word.
        let (mut word, mut bits, mut cells) = (0, 0, lines.iter().flat_map(|line| &line.0));
        for (part, width) in heads.map(|head| (head, 32)).chain(entries.map(|entry| (entry, bytes.bits()))) {
            word |= part << bits;
            bits += width;
            if bits == 64
                && let Some(cell) = cells.next()
            {
                cell.store(word, Ordering::Relaxed);
                (word, bits) = (0, 0);
            }
        }
        if bits > 0
            && let Some(cell) = cells.next()
        {
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// Number of runs.
    pub(super) fn runs(&self) -> usize {
        self.entries.len()
    }

    /// Whether a run starts at a value. A run boundary is always before the first value and after the last.
    pub(super) fn is_start(&self, value: usize) -> bool {
        value >= VALUES || self.starts[value / PER_HEAD] >> (value % PER_HEAD) & 1 == 1
    }

    /// The index of the run that contains a value.
    fn run(&self, value: usize) -> usize {
        let whole: u32 = self.starts[..value / PER_HEAD].iter().map(|starts| starts.count_ones()).sum();
        let part = self.starts[value / PER_HEAD] & (u32::MAX >> (31 - value % PER_HEAD));
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
        self.starts[value / PER_HEAD] |= 1 << (value % PER_HEAD);
        true
    }

    /// Joins the run that starts at a value, which is not the first, to the previous run.
    pub(super) fn join(&mut self, value: usize) {
        let run = self.run(value);
        debug_assert_eq!(self.entries[run - 1], self.entries[run], "joined runs have one entry");
        self.entries.remove(run);
        self.starts[value / PER_HEAD] &= !(1 << (value % PER_HEAD));
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
        let steps: &[usize] = if cfg!(miri) { &[1, 50] } else { &[1, 2, 3, 5, 8, 16, 50, 100, 255] };
        for (step, bytes) in steps.iter().flat_map(|&step| BOTH.map(|bytes| (step, bytes))) {
            let mut image = BlockBuilder::one_run(Entry(7));
            for value in (0..VALUES).step_by(step) {
                image.split(value);
                image.set(value, Entry(value as u32 + 1));
            }
            let size = size_for(bytes, image.runs());
            let memory = lines(3 + SIZES[size]);
            image.write(bytes, &memory[3..]);
            let read = BlockBuilder::read(bytes, &memory, 3);
            assert_eq!((read, size_of(bytes, &memory, 3)), (image.clone(), size));
            for value in 0..VALUES {
                let found = load(bytes, &memory, place_from(bytes, 3, place(bytes, &memory[3], value)));
                assert_eq!(found, (value / step * step) as u32 + 1, "value {value} step {step} {bytes:?}");
                assert_eq!(Entry(found), image.entry(value));
            }
        }
    }

    #[test]
    fn a_full_block_leaves_the_line_after_it_alone() {
        for (bytes, runs) in BOTH.into_iter().zip([10, 5]) {
            let mut image = BlockBuilder::one_run(Entry(9));
            (1..runs).for_each(|value| assert!(image.split(value)));
            let memory = lines(2);
            memory[1].write(&[u64::MAX; 8]);
            image.write(bytes, &memory);
            assert_eq!((size_of(bytes, &memory, 0), BlockBuilder::read(bytes, &memory, 0)), (0, image));
            assert!(memory[1].0.iter().all(|word| word.load(Ordering::Relaxed) == u64::MAX));
        }
    }

    #[test]
    fn sizes_have_room() {
        for (bytes, expected) in BOTH.into_iter().zip([[0, 0, 0, 1, 1, 4], [0, 1, 1, 2, 2, 5]]) {
            let room = |size: usize| SIZES[size] * per_line(bytes) - first(bytes);
            assert_eq!([1, 6, 10, 22, 23, 256].map(|runs| size_for(bytes, runs)), expected);
            assert!((1..=VALUES).all(|runs| room(size_for(bytes, runs)) >= runs));
        }
    }

    #[test]
    fn a_stored_entry_leaves_its_neighbours_alone() {
        for bytes in BOTH {
            let (memory, mut image) = (lines(1), BlockBuilder::one_run(Entry(1)));
            assert_eq!([10, 20, 30, 40].map(|value| image.split(value)), [true; 4]);
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
