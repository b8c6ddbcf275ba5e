//! Reading what an Othello delta carries, from anywhere: all of it is checked before anything is changed.

use super::image::Layout;
use super::params::{PARAMS_BYTES, Params};
use super::payload::{range_width, slot_width};
use crate::bits::BitReader;
use scalebricks_types::ApplyError;

/// Everything that changes in a partition. A few times the size of what was read, and kept to be used again.
#[derive(Debug, Default)]
pub(super) struct Changes {
    ranges: Vec<RangeAt>,
    slots: Vec<(u32, u32)>,
    /// Of ranges that change whole: as many words each as it takes.
    words: Vec<u64>,
}

/// A range, its new seed if all of it changes, and where its parts end; they begin where those of the last one end.
#[derive(Debug, Default, Clone, Copy)]
struct RangeAt {
    range: u32,
    seed: Option<u8>,
    slots: usize,
    words: usize,
}

/// What changes in one range.
#[derive(Debug, Clone, Copy)]
pub(super) struct RangeChange<'a> {
    /// Its number in the partition.
    pub(super) range: u32,
    /// Its seed and words, if all of it changes.
    pub(super) whole: Option<(u8, &'a [u64])>,
    /// Slots and what is in them, ascending.
    pub(super) slots: &'a [(u32, u32)],
}

type Parsed<T> = Result<T, ApplyError>;

const fn malformed<T>(what: &'static str) -> Parsed<T> {
    Err(ApplyError::Malformed(what))
}

impl Changes {
    /// Ranges that change.
    pub(super) const fn len(&self) -> usize {
        self.ranges.len()
    }

    /// The number of the range in this place.
    pub(super) fn number(&self, at: usize) -> Option<u32> {
        Some(self.ranges.get(at)?.range)
    }

    /// What changes in the range in this place.
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

/// Reads a payload from anywhere.
#[derive(Debug, Clone)]
pub(super) struct PayloadReader<'a> {
    /// Of the shape that the partition is in afterwards.
    pub(super) fingerprint: u32,
    /// That shape, if the payload is a whole partition.
    pub(super) whole: Option<Params>,
    bits: BitReader<'a>,
}

impl<'a> PayloadReader<'a> {
    /// The payload in these bytes, read up to its changes.
    pub(super) fn new(bytes: &'a [u8]) -> Parsed<Self> {
        let mut bits = BitReader::new(bytes);
        let (Some(fingerprint), Some(whole)) = (bits.take(32), bits.take(1)) else {
            return malformed("shorter than its fingerprint");
        };
        let mut reader = Self { fingerprint: fingerprint as u32, whole: None, bits };
        if whole == 1 {
            let mut encoded = [0; PARAMS_BYTES];
            for byte in &mut encoded {
                *byte = reader.take(8)? as u8;
            }
            let Some(Ok(params)) = Params::decode(&encoded) else {
                return malformed("impossible parameters");
            };
            if params.fingerprint() != reader.fingerprint {
                return malformed("parameters of another fingerprint");
            }
            reader.whole = Some(params);
        }
        Ok(reader)
    }

    /// The changes, of ranges of this shape, into `changes`: all that is left of the payload.
    pub(super) fn read(&mut self, layout: &Layout, changes: &mut Changes) -> Parsed<()> {
        changes.clear();
        let all = layout.params.ranges_per_partition();
        if self.whole.is_some() {
            if (self.bits.left() as u64) < (layout.params.range_bits() + 8) * u64::from(all) {
                return malformed("truncated");
            }
            for range in 0..all {
                self.image(range, layout, changes)?;
            }
        } else {
            let (width, mut next) = (range_width(&layout.params), 0);
            let ranges = self.take(width)? as u32;
            if ranges > all {
                return malformed("more ranges than the partition has");
            }
            for _ in 0..ranges {
                let range = self.take(width)? as u32;
                if range < next || range >= all {
                    return malformed("range out of order or out of the partition");
                }
                next = range + 1;
                if self.take(1)? == 1 {
                    self.image(range, layout, changes)?;
                } else {
                    self.slots(layout, changes)?;
                    changes.end_range(range, None);
                }
            }
        }
        if self.bits.is_at_end() { Ok(()) } else { malformed("bits behind the end") }
    }

    fn image(&mut self, range: u32, layout: &Layout, changes: &mut Changes) -> Parsed<()> {
        let seed = self.take(8)? as u8;
        let mut left = layout.params.range_bits();
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

    fn slots(&mut self, layout: &Layout, changes: &mut Changes) -> Parsed<()> {
        let (width, mut next) = (slot_width(&layout.params), 0);
        let count = self.take(width)?;
        for _ in 0..count {
            let slot = self.take(width)? as u32;
            if slot < next || slot >= layout.params.slots_per_range() {
                return malformed("slot out of order or out of the range");
            }
            next = slot + 1;
            changes.slots.push((slot, self.take(layout.width)? as u32));
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, bits: u32) -> Parsed<u64> {
        self.bits.take(bits).ok_or(ApplyError::Malformed("truncated"))
    }
}
