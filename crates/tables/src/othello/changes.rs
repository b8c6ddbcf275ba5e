//! Parses an Othello delta from an untrusted source. Everything is checked before anything is changed.

use super::layout::Layout;
use super::payload::{range_width, slot_width};
use crate::bits::BitReader;
use crate::published::payload::{malformed, take};
use scalebricks_types::ApplyError;

/// All changes to a partition. Its size is a few times that of the input; it is kept for reuse.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    ranges: Vec<RangeAt>,
    slots: Vec<(u32, u32)>,
    /// The words of ranges that change completely: as many words per range as it needs.
    words: Vec<u64>,
}

/// A range, its new seed if all of it changes, and where its parts end. Each part begins where that of the
/// previous range ends.
#[derive(Debug, Default, Clone, Copy)]
struct RangeAt {
    range: u32,
    seed: Option<u8>,
    slots: usize,
    words: usize,
}

/// The changes to one range.
#[derive(Debug, Clone, Copy)]
pub(super) struct RangeChange<'a> {
    /// Its number in the partition.
    pub(super) range: u32,
    /// Its seed and words, if all of it changes.
    pub(super) whole: Option<(u8, &'a [u64])>,
    /// Slot numbers with their contents, ascending.
    pub(super) slots: &'a [(u32, u32)],
}

impl Changes {
    /// Number of changed ranges.
    pub(super) const fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The number of the range at this index.
    pub(super) fn number(&self, at: usize) -> Option<u32> {
        Some(self.ranges.get(at)?.range)
    }

    /// The changes to the range at this index.
    pub(super) fn get(&self, at: usize) -> RangeChange<'_> {
        let from = at.checked_sub(1).map_or_else(RangeAt::default, |before| self.ranges[before]);
        let to = self.ranges[at];
        RangeChange {
            range: to.range,
            whole: to.seed.map(|seed| (seed, &self.words[from.words..to.words])),
            slots: &self.slots[from.slots..to.slots],
        }
    }

    fn clear(&mut self) {
        self.ranges.clear();
        self.slots.clear();
        self.words.clear();
    }

    fn end_range(&mut self, range: u32, seed: Option<u8>) {
        self.ranges.push(RangeAt { range, seed, slots: self.slots.len(), words: self.words.len() });
    }
}

/// Parses a section from an untrusted source.
struct Section<'b, 'a> {
    layout: &'b Layout,
    bits: &'b mut BitReader<'a>,
}

/// Parses the section of a payload, with ranges of this shape, into `changes`: all ranges of a partition if
/// it is whole.
pub(super) fn section(
    bits: &mut BitReader<'_>,
    is_whole: bool,
    layout: &Layout,
    changes: &mut Changes,
) -> Result<(), ApplyError> {
    let mut section = Section { layout, bits };
    changes.clear();
    let all = layout.params.ranges_per_partition();
    if is_whole {
        if (section.bits.left() as u64) < (layout.params.range_bits() + 8) * u64::from(all) {
            return malformed("truncated");
        }
        return (0..all).try_for_each(|range| section.image(range, changes));
    }
    let (width, mut next) = (range_width(&layout.params), 0);
    let ranges = section.take(width)? as u32;
    if ranges > all {
        return malformed("more ranges than the partition has");
    }
    for _ in 0..ranges {
        let range = section.take(width)? as u32;
        if range < next || range >= all {
            return malformed("range out of order or out of the partition");
        }
        next = range + 1;
        if section.take(1)? == 1 {
            section.image(range, changes)?;
        } else {
            section.slots(changes)?;
            changes.end_range(range, None);
        }
    }
    Ok(())
}

impl Section<'_, '_> {
    fn image(&mut self, range: u32, changes: &mut Changes) -> Result<(), ApplyError> {
        let seed = self.take(8)? as u8;
        let mut left = self.layout.params.range_bits();
        if (self.bits.left() as u64) < left {
            return malformed("truncated"); // before memory is taken for it
        }
        while left > 0 {
            changes.words.push(self.take(left.min(64) as u32)?);
            left = left.saturating_sub(64);
        }
        changes.words.resize(changes.words.len().next_multiple_of(8), 0);
        changes.end_range(range, Some(seed));
        Ok(())
    }

    fn slots(&mut self, changes: &mut Changes) -> Result<(), ApplyError> {
        let (width, mut next) = (slot_width(&self.layout.params), 0);
        let count = self.take(width)?;
        for _ in 0..count {
            let slot = self.take(width)? as u32;
            if slot < next || slot >= self.layout.params.slots_per_range() {
                return malformed("slot out of order or out of the range");
            }
            next = slot + 1;
            changes.slots.push((slot, self.take(self.layout.width)? as u32));
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, bits: u32) -> Result<u64, ApplyError> {
        take(self.bits, bits)
    }
}
