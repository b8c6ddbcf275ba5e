//! Reshaping step by step, while keys are inserted, changed and removed and readers check every answer.

use super::*;
use crate::isa::Isa;
use crate::published::tests::stress::reader_of;
use crate::tests::readers::{WatchedKeys, check_beside};
use scalebricks_types::PartitionId;

const PARTITIONS: u32 = 2;

/// Reshapes the table to each shape in turn.
fn turnover(format: Format, isa: Isa) {
    let passing = 40;
    let partitions = PartitionCount::new(PARTITIONS).unwrap();
    let from = Params::new(6, 2, partitions).unwrap().with_format(format).unwrap().with_seed(0x5EED);
    let other = Format::ALL[(format as usize + 2) % Format::ALL.len()];
    let shapes = [
        from.with_blocks(12).unwrap(),
        from.with_blocks(12).unwrap().with_value_bits(3).unwrap(),
        from.with_blocks(12).unwrap().with_value_bits(3).unwrap().with_seed(7),
        from.with_blocks(24).unwrap().with_value_bits(5).unwrap().with_format(other).unwrap(),
    ];
    let kept = entries(600, 2, 0);
    let coming = |round: u64| entry(round, 2, 9);
    let mut control = SetSepBuilder::new(from).isa(isa).build(&kept).unwrap();
    for round in 0..passing {
        let _ = control.insert(coming(round).0, coming(round).1).unwrap();
    }
    let (table, watched) = (Arc::new(control.export()), WatchedKeys::new(&kept));
    let mut round = 0;
    check_beside(
        &watched,
        &format!("setsep reshaped from {format}"),
        isa,
        || reader_of(&table, isa),
        || {
            for to in shapes {
                control.reshape(to).unwrap();
                while control.reshaping().is_some() {
                    let partition = PartitionId((round % u64::from(PARTITIONS)) as u16);
                    if let Some(delta) = control.reshape_step(partition, 1).unwrap() {
                        let _ = table.apply(&delta).unwrap();
                    }
                    for at in (0..kept.len()).skip(round as usize % 97).step_by(97) {
                        let new = watched.value(at) ^ 1;
                        let ops = [
                            Op::Update(kept[at].0, new as u8),
                            Op::Insert(coming(passing + round).0, coming(passing + round).1),
                            Op::Remove(coming(round).0),
                        ];
                        watched.change(at, new, || {
                            // Updates the table directly with the control structure, or by deltas.
                            if round % 2 == 0 {
                                let _ = control.batch_with(&table, &ops).unwrap();
                            } else {
                                for delta in control.batch(&ops).unwrap() {
                                    let _ = table.apply(&delta).unwrap();
                                }
                            }
                        });
                        round += 1;
                    }
                }
                assert_eq!((table.params(), table.reshaping()), (to, None));
            }
        },
    );
    let held: Vec<_> = control.iter().collect();
    assert_eq!(held.len() as u64, 600 + passing);
    assert_answers(&table, &held);
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter")]
fn readers_of_every_format_see_before_or_after_while_it_is_reshaped() {
    for format in Format::ALL {
        for isa in Isa::available() {
            turnover(format, isa);
        }
    }
}
