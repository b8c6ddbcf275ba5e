//! The contents of an Othello delta after the [common header of payloads](crate::published::payload),
//! bit-packed:
//!
//! | field | bits |
//! |---|---|
//! | *if parameters came first:* for each range of the partition: seed, all slots | 8 + slots x w |
//! | *else:* number of changed ranges | ⌈log2(ranges + 1)⌉ |
//! | for each: number in the partition; all of it? | ⌈log2(ranges + 1)⌉ + 1 |
//! | *if all of it:* seed, all slots | 8 + slots x w |
//! | *else:* number of changed slots | ⌈log2(slots + 1)⌉ |
//! | for each: number, content | ⌈log2(slots + 1)⌉ + w |
//!
//! The shape is the one that the partition has after the delta. Slots have w bits; the numbers of the second
//! array continue those of the first. Ranges and slots are in strictly ascending order. The rest of the last
//! byte is 0. In the default sizing a changed value costs about 75 bits, plus 12 for each slot of the tree on
//! one side of its name: about four slots.

use super::layout::Layout;
use super::params::Params;
use super::structure::{OthelloStructure, Reshaping};
use crate::bits::BitWriter;
use crate::published::payload::put_header;

/// Width in bits of a range's number in its partition, and of a number of ranges.
pub(super) const fn range_width(params: &Params) -> u32 {
    u32::BITS - params.ranges_per_partition().leading_zeros()
}

/// Width in bits of a slot's number, and of a number of slots.
pub(super) const fn slot_width(params: &Params) -> u32 {
    u32::BITS - params.slots_per_range().leading_zeros()
}

/// Writes payloads.
#[derive(Debug)]
pub(super) struct PayloadWriter {
    layout: Layout,
    bits: BitWriter,
}

impl PayloadWriter {
    /// A writer for the payload of a whole partition, whose ranges will follow. `scratch` is memory to reuse.
    pub(super) fn of_partition(layout: &Layout, scratch: Vec<u64>) -> Self {
        let mut bits = BitWriter::new(scratch);
        let each = layout.params.range_bits() as usize + 8;
        bits.reserve(each * layout.params.ranges_per_partition() as usize);
        let all = Reshaping { to: layout.params, done: layout.params.ranges_per_partition() };
        put_header::<OthelloStructure>(&mut bits, layout.fingerprint, Some(all));
        Self { layout: *layout, bits }
    }

    /// A writer for the payload of this many changed ranges, which will follow in ascending order.
    #[inline]
    pub(super) fn of_changes(layout: &Layout, ranges: u32, scratch: Vec<u64>) -> Self {
        let mut bits = BitWriter::new(scratch);
        put_header::<OthelloStructure>(&mut bits, layout.fingerprint, None);
        bits.put(ranges.into(), range_width(&layout.params));
        Self { layout: *layout, bits }
    }

    /// Adds slots of a range, in ascending order, with their contents in these words.
    pub(super) fn slots(&mut self, range: u32, slots: &[u32], words: &[u64]) {
        let (layout, width) = (self.layout, slot_width(&self.layout.params));
        self.bits.put(u64::from(range), range_width(&layout.params) + 1);
        self.bits.put(slots.len() as u64, width);
        for &slot in slots {
            self.bits
                .put(u64::from(slot) | u64::from(layout.get(words, slot)) << width, width + layout.width);
        }
    }

    /// Adds a whole range.
    pub(super) fn range(&mut self, range: u32, seed: u8, words: &[u64]) {
        let width = range_width(&self.layout.params);
        self.bits.put(u64::from(range) | 1 << width, width + 1);
        self.image(seed, words);
    }

    /// Adds seed and slots of the next range of a whole partition.
    pub(super) fn image(&mut self, seed: u8, words: &[u64]) {
        self.bits.put(seed.into(), 8);
        let mut left = self.layout.params.range_bits();
        for &word in &words[..self.layout.used_words()] {
            self.bits.put(word, left.min(64) as u32);
            left = left.saturating_sub(64);
        }
    }

    /// The payload, and the scratch memory.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<u64>) {
        self.bits.finish()
    }
}
