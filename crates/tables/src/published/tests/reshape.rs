//! Batched lookups while a table is reshaped, which both structures are tested with.

use super::{Tested, entries, entry};
use crate::isa::Isa;
use crate::published::{Control, Op, Reader};
use proptest::prelude::*;
use scalebricks_types::{Applied, Delta, KeyHash, PartitionId};
use std::collections::HashMap;
use std::sync::Arc;

/// Keys of a table; as many others are looked up with them.
pub(crate) const KEYS: u64 = 600;

/// Value bits of the keys; tables may have more.
pub(crate) const VALUE_BITS: u8 = 2;

/// What happens next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Turn {
    /// Some units of a partition get the new shape. If no reshaping is in progress, the next one begins.
    Convert { partition: u16, units: u32 },
    /// A key of the table is removed, and inserted again with another value.
    Change { key: u64 },
    /// A batch is looked up.
    Look { from: u64, keys: usize },
}

/// Turns for a table of this many partitions.
pub(crate) fn turns(partitions: u16) -> impl Strategy<Value = Vec<Turn>> {
    let sizes = prop_oneof![0..20_usize, 60..70_usize, 250..300_usize, 1000..1100_usize];
    let turn = prop_oneof![
        2 => (0..partitions, 1..4_u32).prop_map(|(partition, units)| Turn::Convert { partition, units }),
        1 => (0..KEYS).prop_map(|key| Turn::Change { key }),
        2 => (0..2 * KEYS, sizes).prop_map(|(from, keys)| Turn::Look { from, keys }),
    ];
    prop::collection::vec(turn, 1..40)
}

/// After every turn a batch finds what lookups of single keys find, and the values of a plain map, with every
/// instruction set. `step` converts some units of a partition; `agrees` makes further comparisons.
pub(crate) fn batches_find_what_single_lookups_find<S: Tested>(
    shapes: &[S::Params],
    turns: &[Turn],
    step: impl Fn(&mut Control<S>, PartitionId, u32) -> Option<Delta>,
    agrees: impl Fn(&mut Reader<S>, &[KeyHash]) -> bool,
) -> Result<(), TestCaseError> {
    let kept = entries::<S>(KEYS, VALUE_BITS, 0);
    let mut control = S::build(shapes[0], &kept);
    let table = Arc::new(control.export());
    let mut readers: Vec<Reader<S>> =
        Isa::available().filter_map(|isa| Reader::with_isa(Arc::clone(&table), isa)).collect();
    let mut model: HashMap<KeyHash, S::Value> = kept.into_iter().collect();
    let mut shapes = shapes.iter().skip(1);
    // All keys at the end, in every shape that is in use.
    let end = [Turn::Look { from: 0, keys: 2 * KEYS as usize }];
    for &turn in turns.iter().chain(&end) {
        match turn {
            Turn::Convert { partition, units } => {
                if control.reshaping().is_none() {
                    let Some(&shape) = shapes.next() else { continue };
                    control.reshape(shape).unwrap();
                }
                if let Some(delta) = step(&mut control, PartitionId(partition), units) {
                    prop_assert_eq!(table.apply(&delta), Ok(Applied::Advanced));
                }
            }
            Turn::Change { key } => {
                let hash = entry::<S>(key, VALUE_BITS, 0).0;
                let value = S::value((model[&hash].into() ^ 1).into());
                for delta in control.batch(&[Op::Remove(hash), Op::Insert(hash, value)]).unwrap() {
                    prop_assert_eq!(table.apply(&delta), Ok(Applied::Advanced));
                }
                model.insert(hash, value);
            }
            Turn::Look { from, keys } => {
                let hashes: Vec<KeyHash> =
                    (from..from + keys as u64).map(|i| entry::<S>(i % (2 * KEYS), VALUE_BITS, 0).0).collect();
                for reader in &mut readers {
                    let mut found = vec![S::Value::default(); keys];
                    reader.lookup_batch(&hashes, &mut found);
                    let pin = reader.pin();
                    for (&hash, &found) in hashes.iter().zip(&found) {
                        prop_assert_eq!(pin.get(hash), found);
                        prop_assert!(model.get(&hash).is_none_or(|&value| value == found));
                    }
                    drop(pin);
                    prop_assert!(agrees(reader, &hashes));
                }
            }
        }
    }
    Ok(())
}
