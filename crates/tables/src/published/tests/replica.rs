//! Deltas: replicas end bit-identical even if deltas are lost or repeated, and invalid deltas are refused.

use super::{Tested, assert_answers, bytes_of, entries, entry, flipped};
use crate::gpt::Gpt;
use crate::published::{Control, Op, Table};
use scalebricks_types::{Applied, ApplyError, Delta, PartitionId, TableKind};
use std::sync::Arc;

/// A table, its control structure after many updates, and the deltas since the table was made.
pub(crate) type Churned<S> = (Table<S>, Control<S>, Vec<Delta>);

/// Builds a control structure and updates it: each step removes a key, adds another and changes its value.
pub(crate) fn churned<S: Tested>(params: S::Params, value_bits: u8, count: u64, steps: u64) -> Churned<S> {
    let mut control = S::build(params, &entries::<S>(count, value_bits, 0));
    let start = control.export();
    let mut deltas = Vec::new();
    for i in 0..steps {
        let (hash, value) = entry::<S>(i, value_bits, 1);
        let removed = entry::<S>(i, value_bits, 0).0;
        let batch = [Op::Remove(removed), Op::Insert(hash, value), Op::Update(hash, flipped::<S>(value, 1))];
        deltas.extend(control.batch(&batch).unwrap());
    }
    (start, control, deltas)
}

/// Of four partitions.
pub(crate) fn lost_deltas_are_gaps_and_an_export_heals<S: Tested>((start, control, deltas): Churned<S>) {
    let replica = Arc::new(start);
    let mut gaps = 0;
    for (at, delta) in deltas.iter().enumerate() {
        if at % 11 == 3 {
            continue; // lost
        }
        match replica.apply(delta) {
            Ok(done) => assert_eq!(done, Applied::Advanced),
            Err(ApplyError::Gap { have, previous }) => {
                assert!(have < previous);
                gaps += 1;
                // Lost deltas are fetched again, in order.
                let missing = deltas.iter().filter(|d| {
                    d.partition == delta.partition && d.position > have && d.position <= delta.position
                });
                missing.for_each(|d| assert_eq!(replica.apply(d), Ok(Applied::Advanced)));
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(replica.apply(delta), Ok(Applied::Stale));
    }
    assert!(gaps > 0);
    let exports: Vec<Delta> = (0..4).filter_map(|p| control.export_partition(PartitionId(p))).collect();
    assert_eq!(exports.len(), 4);
    let fresh = Table::new(*control.params());
    let state = bytes_of(&control.export());
    for table in [&fresh, &*replica] {
        for export in &exports {
            assert!(table.apply(export).is_ok());
        }
        assert!(bytes_of(table) == state, "{:?}", control.params());
    }
    assert_answers(&replica, &S::held(&control));
    assert_eq!(Gpt::position(&*replica, PartitionId(3)), control.position(PartitionId(3)));
    assert_eq!(Gpt::position(&*replica, PartitionId(4)), None);
}

/// Of two partitions, and of a table with another seed.
pub(crate) fn deltas_for_others_are_refused_by_name<S: Tested>(
    (table, _, deltas): &Churned<S>,
    (_, _, foreign): &Churned<S>,
) {
    let before = bytes_of(table);
    let refused = |delta: Delta| table.apply(&delta).unwrap_err();
    let other = if S::KIND == TableKind::SetSep { TableKind::Othello } else { TableKind::SetSep };
    let kind = Delta { kind: other, ..deltas[0].clone() };
    assert!(matches!(refused(kind), ApplyError::Kind { .. }));
    let partition = Delta { partition: PartitionId(2), ..deltas[0].clone() };
    assert_eq!(refused(partition), ApplyError::Partition(PartitionId(2)));
    assert_eq!(refused(foreign[0].clone()), ApplyError::Malformed("made with other parameters"));
    let longer = Delta { payload: [&deltas[0].payload[..], &[0]].concat(), ..deltas[0].clone() };
    assert_eq!(refused(longer), ApplyError::Malformed("bits behind the end"));
    assert!(bytes_of(table) == before);
}

/// Of one partition.
pub(crate) fn every_truncation_is_refused<S: Tested>((table, control, deltas): &Churned<S>) {
    let before = bytes_of(table);
    for delta in [&deltas[0], &control.export_partition(PartitionId(0)).unwrap()] {
        for cut in 0..delta.payload.len() {
            let short = Delta { payload: delta.payload[..cut].to_vec(), ..delta.clone() };
            assert!(matches!(table.apply(&short), Err(ApplyError::Malformed(_))), "cut to {cut}");
        }
    }
    assert!(bytes_of(table) == before);
}
