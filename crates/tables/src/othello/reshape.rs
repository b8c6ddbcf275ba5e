//! Changes a table's shape while it is in use: more or fewer ranges, other slots, value bits, check bits or
//! seed.
//!
//! A partition is converted in one step. Its names are moved to the ranges of the new shape, each of which
//! takes the lowest seed that works, and one delta carries all their bits. Before that, a partition is
//! updated and read in the old shape; a replica does the same ([`generation`](crate::published::generation)).
//! When all partitions are converted, the old shape is dropped.
//!
//! A step is a function of the names and the parameters: owners that reshape the same history in the same
//! steps send the same bits.

use super::control::{OthelloControl, RangeKeys, whole};
use super::params::Params;
use super::store::Store;
use super::structure::OthelloStructure;
use crate::published::{Full, Reshape, ReshapeError, UpdateError};
use scalebricks_types::{Delta, KeyHash, PartitionId, Position};

impl Reshape for OthelloStructure {
    fn begin(control: &mut OthelloControl, to: Params) -> Result<(), ReshapeError> {
        for store in control.keys.parts.iter().flatten() {
            fits(store, &to)?;
        }
        if to != *control.params() {
            control.keys.next = Some(to);
            control.finish_if_through();
        }
        Ok(())
    }

    fn convert(
        control: &mut OthelloControl,
        partition: PartitionId,
        counted: Option<Position>,
    ) -> Result<Option<Delta>, UpdateError> {
        let Some(old) = control.part(partition) else {
            return Err(UpdateError::NotHeld { op: 0, partition });
        };
        let Some(to) = control.keys.next.filter(|to| *to != old.layout().params) else { return Ok(None) };
        fits(old, &to)?;
        let mut new = Store::new(&to);
        let first = u32::from(partition.0) * to.ranges_per_partition();
        for range in 0..old.heads().len() as u32 {
            old.names(range).try_for_each(|(hash, value)| new.add(first, KeyHash::new(hash), value))?;
        }
        new.settle(first, &mut control.keys.batch.work.colouring)?;
        let writer = whole(&new, new.all_words(), std::mem::take(&mut control.scratch));
        control.keys.parts[usize::from(partition.0)] = Some(new);
        control.keys.number();
        let delta = control.advance(partition, writer.finish(), counted, None);
        control.finish_if_through();
        Ok(Some(delta))
    }

    fn abandon(keys: &mut RangeKeys) {
        keys.next = None;
    }
}

impl OthelloControl {
    /// Converts a partition. Returns the delta that carries the whole partition, or `None` if the partition
    /// is already in the new shape or there is no new shape.
    ///
    /// Cost: computes all its ranges, as a build does.
    ///
    /// # Errors
    /// [`UpdateError::NotHeld`], and [`UpdateError::Full`] or [`UpdateError::Value`] if what was added since
    /// the reshaping began does not fit the new shape; nothing is then changed.
    pub fn reshape_step(&mut self, partition: PartitionId) -> Result<Option<Delta>, UpdateError> {
        OthelloStructure::convert(self, partition, None)
    }

    /// Ends the reshaping if every held partition is in the new shape.
    fn finish_if_through(&mut self) {
        if let Some(to) = self.keys.next
            && self.keys.parts.iter().flatten().all(|store| store.layout().params == to)
        {
            self.keys.params = to;
            self.keys.next = None;
        }
    }

    /// Adapts the table's shape to the number of names it holds. It begins to add half as many ranges again
    /// when the ranges are fuller than intended, or the fullest has hardly any room; while the table is being
    /// reshaped, for any reason, it converts a partition. Call it from time to time: it returns a delta if
    /// there was anything to do. It is for control structures that hold all partitions.
    ///
    /// # Errors
    /// As [`reshape_step`](Self::reshape_step).
    pub fn maintain(&mut self) -> Result<Option<Delta>, UpdateError> {
        let params = *self.params();
        if self.keys.next.is_none() {
            let made_for = u64::from(params.ranges()) * params.names_per_range();
            if self.count <= made_for && self.stats().room >= params.capacity() / 64 {
                return Ok(None);
            }
            let ranges = params.ranges_per_partition();
            let Ok(more) = params.with_ranges(ranges + ranges / 2 + 1) else { return Ok(None) };
            if self.reshape(more).is_err() {
                return Ok(None);
            }
        }
        let behind =
            self.keys.done().iter().zip(&self.keys.parts).position(|(&done, part)| !done && part.is_some());
        behind.map_or(Ok(None), |partition| self.reshape_step(PartitionId(partition as u16)))
    }
}

/// Whether a partition's names fit ranges of this shape, judged by their number and the bits of their values.
fn fits(store: &Store, to: &Params) -> Result<(), UpdateError> {
    let mut counts = vec![0; to.ranges_per_partition() as usize];
    for (hash, value) in (0..store.heads().len() as u32).flat_map(|range| store.names(range)) {
        if !to.is_value(value) {
            return Err(UpdateError::Value { op: 0, value, bits: to.value_bits() });
        }
        let (partition, range) = to.locate(KeyHash::new(hash));
        let count = &mut counts[range as usize];
        *count += 1;
        if *count > to.capacity() {
            let range = u32::from(partition.0) * to.ranges_per_partition() + range;
            return Err(Full::Names { range, names: *count, limit: to.capacity() }.into());
        }
    }
    Ok(())
}
