//! The entry for some addresses: their next hop, or the block to read next.

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
}

impl fmt::Debug for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NextHop({})", self.index())
    }
}

const BLOCK: u32 = 1 << 31;

/// A word of the table. 0: no route; below 2^31: a next hop; else the line where a block begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry(pub(super) u32);

impl Entry {
    #[inline(always)]
    pub(super) const fn of_hop(hop: Option<NextHop>) -> Self {
        match hop {
            Some(hop) => Self(hop.0.get()),
            None => Self(0),
        }
    }

    /// The entry of the block that begins at a line; the line is below 2^31.
    #[inline(always)]
    pub(super) const fn of_block(line: u32) -> Self {
        Self(line | BLOCK)
    }

    #[inline(always)]
    pub(super) const fn is_block(self) -> bool {
        self.0 & BLOCK != 0
    }

    /// 1 for a block, else 0.
    #[inline(always)]
    pub(super) const fn blocks(self) -> usize {
        (self.0 >> 31) as usize
    }

    /// The line where the block begins, if this is one.
    #[inline(always)]
    pub(super) const fn line(self) -> usize {
        (self.0 & !BLOCK) as usize
    }

    /// The next hop, if this is not a block; for a block, an arbitrary value.
    #[inline(always)]
    pub(super) const fn hop(self) -> Option<NextHop> {
        match NonZeroU32::new(self.0) {
            Some(word) => Some(NextHop(word)),
            None => None,
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_and_blocks_are_told_apart() {
        for index in [0, 1, NextHop::MAX] {
            let hop = NextHop::new(index);
            let entry = Entry::of_hop(hop);
            assert_eq!((entry.hop(), entry.is_block(), hop.unwrap().index()), (hop, false, index));
        }
        assert_eq!(NextHop::new(NextHop::MAX + 1), None);
        assert_eq!(Entry::of_hop(None).hop(), None);
        for line in [0, 7, (1 << 31) - 1] {
            let entry = Entry::of_block(line);
            assert_eq!((entry.is_block(), entry.blocks(), entry.line()), (true, 1, line as usize));
        }
        assert_eq!(size_of::<Option<NextHop>>(), 4);
    }
}
