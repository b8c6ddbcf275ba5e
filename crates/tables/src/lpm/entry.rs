//! The entry for some addresses: their next hop, or the block to read next.
//!
//! The writer uses [`Entry`]. Tables store *words* of two or four bytes ([`EntryBytes`]), whose highest bit marks blocks.

use std::fmt;
use std::num::NonZeroU32;

/// The number of a next hop: an index into the caller's table of next hops.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct NextHop(NonZeroU32);

impl NextHop {
    /// The largest index.
    pub const MAX: u32 = (1 << 31) - 2;

    /// The next hop with an index, up to [`MAX`](Self::MAX).
    pub const fn new(index: u32) -> Option<Self> {
        if index > Self::MAX {
            return None;
        }
        match NonZeroU32::new(index + 1) {
            Some(word) => Some(Self(word)),
            None => None,
        }
    }

    /// Its index.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0.get() - 1
    }

    /// The next hop whose entry is this word, or for a block an arbitrary value from which [`word_of`](Self::word_of)
    /// gives the word again.
    #[inline(always)]
    pub(super) const fn of_word(word: u32) -> Option<Self> {
        match NonZeroU32::new(word) {
            Some(word) => Some(Self(word)),
            None => None,
        }
    }

    /// The inverse of [`of_word`](Self::of_word).
    #[inline(always)]
    pub(super) const fn word_of(hop: Option<Self>) -> u32 {
        match hop {
            Some(hop) => hop.0.get(),
            None => 0,
        }
    }
}

impl fmt::Debug for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NextHop({})", self.index())
    }
}

/// The size of a table's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryBytes {
    /// Two bytes: next hops up to 32,766, and 2 MiB of blocks.
    Two,
    /// Four bytes: all next hops, and 128 GiB of blocks.
    Four,
}

impl EntryBytes {
    /// The number of bytes.
    pub const fn get(self) -> usize {
        self.bits() as usize / 8
    }

    /// The largest index of a next hop.
    pub const fn max_next_hop(self) -> u32 {
        self.block() - 2
    }

    /// The first line that cannot be named.
    pub(super) const fn lines(self) -> usize {
        self.block() as usize
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        match self {
            Self::Two => 16,
            Self::Four => 32,
        }
    }

    /// The bit that marks blocks.
    #[inline(always)]
    pub(super) const fn block(self) -> u32 {
        1 << (self.bits() - 1)
    }

    /// Whether a word leads to a block.
    #[inline(always)]
    pub(super) const fn is_block(self, word: u32) -> bool {
        word & self.block() != 0
    }

    /// 1 for a block, else 0.
    #[inline(always)]
    pub(super) const fn blocks(self, word: u32) -> usize {
        (word >> (self.bits() - 1)) as usize
    }

    /// The line where the block begins, if the word leads to one; otherwise the number of some line that need not exist.
    #[inline(always)]
    pub(super) const fn line(self, word: u32) -> usize {
        (word & !self.block()) as usize
    }

    /// The entry that a word stands for.
    #[inline(always)]
    pub(super) const fn decode(self, word: u32) -> Entry {
        if self.is_block(word) { Entry(word & !self.block() | BLOCK) } else { Entry(word) }
    }

    /// The word of an entry, whose next hop or line the caller has checked.
    #[inline(always)]
    pub(super) const fn encode(self, entry: Entry) -> u32 {
        if entry.is_block() { entry.0 & !BLOCK | self.block() } else { entry.0 }
    }
}

const BLOCK: u32 = EntryBytes::Four.block();

/// What the writer stores: no route, a next hop, or the line where a block begins. It is the word of four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry(pub(super) u32);

impl Entry {
    #[inline(always)]
    pub(super) const fn of_hop(hop: Option<NextHop>) -> Self {
        Self(NextHop::word_of(hop))
    }

    /// The entry of the block that begins at a line; the line is below 2^31.
    #[inline(always)]
    pub(super) const fn of_block(line: u32) -> Self {
        Self(line | BLOCK)
    }

    #[inline(always)]
    pub(super) const fn is_block(self) -> bool {
        EntryBytes::Four.is_block(self.0)
    }

    /// The line where the block begins, if this is one.
    #[inline(always)]
    pub(super) const fn line(self) -> usize {
        EntryBytes::Four.line(self.0)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_and_blocks_are_told_apart_in_words_of_both_sizes() {
        for bytes in [EntryBytes::Two, EntryBytes::Four] {
            for index in [0, 1, 1 << 14, bytes.max_next_hop()] {
                let hop = NextHop::new(index);
                let word = bytes.encode(Entry::of_hop(hop));
                assert_eq!((NextHop::of_word(word), bytes.blocks(word)), (hop, 0));
                assert_eq!((hop.unwrap().index(), bytes.decode(word)), (index, Entry::of_hop(hop)));
            }
            assert_eq!(bytes.encode(Entry::of_hop(None)), 0);
            for line in [0, 7, bytes.lines() - 1] {
                let entry = Entry::of_block(line as u32);
                let word = bytes.encode(entry);
                assert_eq!((bytes.is_block(word), bytes.blocks(word), bytes.line(word)), (true, 1, line));
                assert_eq!((bytes.decode(word), entry.line(), entry.is_block()), (entry, line, true));
                assert_eq!(NextHop::word_of(NextHop::of_word(word)), word);
            }
        }
        assert_eq!((EntryBytes::Two.get(), EntryBytes::Two.max_next_hop()), (2, 32_766));
        assert_eq!((EntryBytes::Four.get(), EntryBytes::Four.max_next_hop()), (4, NextHop::MAX));
        assert_eq!(NextHop::new(NextHop::MAX + 1), None);
        assert_eq!(size_of::<Option<NextHop>>(), 4);
    }
}
