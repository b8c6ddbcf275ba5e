//! Reshaping partition by partition, while names are added, changed and removed and readers check every
//! answer.

use super::*;
use crate::isa::Isa;
use crate::published::tests::stress::reader_of;
use crate::tests::readers::{WatchedKeys, check_beside};
use scalebricks_types::PartitionId;

const PARTITIONS: u32 = 4;

/// Reshapes the table.
fn turnover(from: Params, to: Params, isa: Isa) {
    let passing = 40;
    let bits = from.value_bits().min(to.value_bits());
    let (kept, coming) = (entries(800, bits, 0), |round: u64| entry(round, bits, 9));
    let mut control = OthelloBuilder::new(from).build(&kept).unwrap();
    for round in 0..passing {
        let _ = control.insert(coming(round).0, coming(round).1).unwrap();
    }
    let (table, watched) = (Arc::new(control.export()), WatchedKeys::new(&kept));
    let what = format!("othello reshaped to {:?} x {} bits", to.slots(), to.value_bits());
    check_beside(
        &watched,
        &what,
        isa,
        || reader_of(&table, isa),
        || {
            control.reshape(to).unwrap();
            for round in 0..u64::from(2 * PARTITIONS) * 20 {
                if round % 20 == 19 {
                    let partition = PartitionId((round / 20 % u64::from(PARTITIONS)) as u16);
                    if let Some(delta) = control.reshape_step(partition).unwrap() {
                        let _ = table.apply(&delta).unwrap();
                    }
                }
                let at = (mix64(round) % 800) as usize;
                let new = watched.value(at) ^ 1;
                let ops = [
                    Op::Update(kept[at].0, new),
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
            }
        },
    );
    assert_eq!((table.params(), table.reshaping()), (to, None));
    let held: Vec<_> = control.iter().collect();
    assert_eq!(held.len() as u64, 800 + passing);
    assert_answers(&table, &held);
    assert!(bytes_of(&table) == bytes_of(&control.export()));
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter")]
fn readers_of_every_sizing_and_many_widths_see_before_or_after_while_it_is_reshaped() {
    let sized = |sizing, bits, check_bits| {
        let params = Params::sized(sizing, 1200, bits, partitions(PARTITIONS)).unwrap();
        params.with_check_bits(check_bits).unwrap().with_seed(u64::from(bits))
    };
    let shapes = [
        sized(Sizing::Sharded, 1, 0),
        sized(Sizing::Option1, 2, 3),
        sized(Sizing::Option2, 7, 0),
        sized(Sizing::Tight, 8, 8),
        sized(Sizing::Sharded, 13, 0),
        sized(Sizing::Sharded, 16, 8),
    ];
    for isa in Isa::available() {
        for (at, &from) in shapes.iter().enumerate() {
            turnover(from, shapes[(at + 1) % shapes.len()], isa);
        }
    }
}
