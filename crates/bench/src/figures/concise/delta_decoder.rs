//! Keeps a copy of a table's slots by reading deltas. This is an independent decoder, written from the
//! description of payloads in `tables::othello`, so that the changes in a message can be counted.

use scalebricks_tables::othello::Params;
use scalebricks_types::Delta;

/// Reads bits from the lowest of the first byte on.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next `width` bits, at most 32; `None` beyond the end.
    fn take(&mut self, width: u32) -> Option<u32> {
        let mut value = 0_u32;
        for bit in 0..width {
            let byte = self.bytes.get(self.at / 8)?;
            value |= u32::from(byte >> (self.at % 8) & 1) << bit;
            self.at += 1;
        }
        Some(value)
    }
}

/// What a message changed in one range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new seed and all slots.
    Whole,
    /// Single slots: the XOR of old and new contents.
    Slots(Vec<u32>),
}

/// The slots of a table with one partition.
#[derive(Debug, PartialEq, Eq)]
pub struct DeltaDecoder {
    slots: usize,
    width: u32,
    ranges: Vec<(u8, Vec<u32>)>,
}

/// Bits for a number up to `most`.
const fn width_for(most: u32) -> u32 {
    u32::BITS - most.leading_zeros()
}

impl DeltaDecoder {
    /// Reads a delta with a whole partition; `None` for any other delta.
    pub fn new(params: &Params, delta: &Delta) -> Option<Self> {
        let [a, b] = params.slots();
        let (slots, width) = ((a + b) as usize, params.width());
        let mut bits = Bits { bytes: &delta.payload, at: 32 };
        if bits.take(1)? == 0 {
            return None;
        }
        bits.at += 256; // the parameters, which are known
        let mut image = || Some((bits.take(8)? as u8, slots_of(&mut bits, slots, width)?));
        let ranges = (0..params.ranges_per_partition()).map(|_| image()).collect::<Option<_>>()?;
        Some(Self { slots, width, ranges })
    }

    /// Reads and applies a delta of changes; `None` if it is malformed.
    pub fn apply(&mut self, delta: &Delta) -> Option<Vec<Change>> {
        let mut bits = Bits { bytes: &delta.payload, at: 32 };
        if bits.take(1)? == 1 {
            return None;
        }
        let (range_width, slot_width) = (width_for(self.ranges.len() as u32), width_for(self.slots as u32));
        let count = bits.take(range_width)?;
        let mut changes = Vec::new();
        for _ in 0..count {
            let number = bits.take(range_width)? as usize;
            let is_whole = bits.take(1)? == 1;
            let (seed, slots) = self.ranges.get_mut(number)?;
            if is_whole {
                *seed = bits.take(8)? as u8;
                *slots = slots_of(&mut bits, self.slots, self.width)?;
                changes.push(Change::Whole);
                continue;
            }
            let mut differences = Vec::new();
            for _ in 0..bits.take(slot_width)? {
                let slot = slots.get_mut(bits.take(slot_width)? as usize)?;
                let content = bits.take(self.width)?;
                differences.push(*slot ^ content);
                *slot = content;
            }
            changes.push(Change::Slots(differences));
        }
        Some(changes)
    }
}

fn slots_of(bits: &mut Bits<'_>, slots: usize, width: u32) -> Option<Vec<u32>> {
    (0..slots).map(|_| bits.take(width)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use scalebricks_tables::othello::OthelloControl;
    use scalebricks_types::{PartitionCount, PartitionId};

    #[test]
    fn a_mirror_ends_where_the_table_does() {
        let params = Params::for_keys(2000, 5, PartitionCount::ONE).unwrap();
        let mut control = OthelloControl::new(params);
        control.insert(keys::hash(0), 3).unwrap();
        let whole = |control: &OthelloControl| control.export_partition(PartitionId(0)).unwrap();
        let mut mirror = DeltaDecoder::new(&params, &whole(&control)).unwrap();
        let mut wholes = 0;
        for number in 1..2000_u64 {
            let delta = control.insert(keys::hash(number), (number % 32) as u16).unwrap();
            let changes = mirror.apply(&delta).unwrap();
            wholes += changes.iter().filter(|change| **change == Change::Whole).count();
            if number % 3 == 0 {
                mirror.apply(&control.remove(keys::hash(number / 3)).unwrap()).unwrap();
            } else if number % 3 == 1 {
                mirror.apply(&control.update(keys::hash(number), 7).unwrap()).unwrap();
            }
        }
        assert_eq!(mirror, DeltaDecoder::new(&params, &whole(&control)).unwrap());
        assert!(wholes as u64 >= control.stats().reseeded && wholes > 0);
        assert!(DeltaDecoder::new(&params, &control.update(keys::hash(1999), 1).unwrap()).is_none());
    }
}
