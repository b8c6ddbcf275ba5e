//! The result must not depend on the instruction set, or on whether a table is changed directly or by deltas.

use super::*;
use crate::isa;
use scalebricks_types::{Applied, PartitionId};

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn every_level_of_instructions_makes_the_same_bits() {
    for format in Format::ALL {
        for bits in [1, 2, 4, 7] {
            let (params, count) = (params_in(format, 30_000, bits, 2), 30_000);
            let entries = entries(count, bits, 1);
            let (hashes, values): (Vec<_>, Vec<_>) = entries.iter().copied().unzip();
            let mut first: Option<(Vec<u8>, Vec<u8>)> = None;
            for isa in isa::compared() {
                let builder = SetSepBuilder::new(params).isa(isa);
                let built = bytes_of(&builder.build_table(&hashes, &values).unwrap());
                let mut control = builder.build(&entries).unwrap();
                let table = Arc::new(control.export());
                for turn in 0..20 {
                    let new = entry(turn, bits, 9);
                    let ops = [Op::Remove(entries[turn as usize].0), Op::Insert(new.0, new.1)];
                    for delta in control.batch(&ops).unwrap() {
                        assert_eq!(table.apply(&delta), Ok(Applied::Advanced));
                    }
                }
                assert!(control.get(entries[5].0).is_none());
                let mut reader = SetSepReader::with_isa(Arc::clone(&table), isa).unwrap();
                let mut found = vec![0; hashes.len()];
                reader.lookup_batch(&hashes, &mut found);
                assert_eq!(found[20..], values[20..], "{format}, {bits} bits, {isa}");
                let bytes = (built, control_bytes(&control));
                assert!(*first.get_or_insert_with(|| bytes.clone()) == bytes, "{format}, {bits} bits, {isa}");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing it could find")]
fn a_table_changed_along_is_one_that_applied_the_deltas() {
    for format in [Format::Linear, Format::Paper8x16] {
        let from = params_in(format, 12_000, 2, 2);
        let mut control = SetSepBuilder::new(from).build(&entries(12_000, 2, 0)).unwrap();
        let (own, replica) = (control.export(), control.export());
        for turn in 0..60 {
            let ops: Vec<Op> = (turn * 50..turn * 50 + 25)
                .flat_map(|i| {
                    let (gone, new, other) = (entry(i, 2, 0), entry(i, 2, 5), entry(i + 6000, 2, 0));
                    [Op::Remove(gone.0), Op::Insert(new.0, new.1), Op::Update(other.0, (turn % 4) as u8)]
                })
                .collect();
            for delta in control.batch_with(&own, &ops).unwrap() {
                assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
            }
            if turn == 20 {
                control.reshape(from.with_blocks(from.blocks() * 2).unwrap()).unwrap();
            }
            if let Some(delta) = control.reshape_step(PartitionId((turn % 2) as u16), 1).unwrap() {
                assert_eq!(own.apply(&delta), Ok(Applied::Advanced));
                assert_eq!(replica.apply(&delta), Ok(Applied::Advanced));
            }
            assert!(bytes_of(&own) == bytes_of(&replica), "{format}, turn {turn}");
        }
        assert!(control.reshaping().is_none());
        let before = control_bytes(&control);
        let (hash, value) = entry(7000, 2, 0);
        let late = SetSep::new(*control.params());
        let refused = control.batch_with(&late, &[Op::Update(hash, value ^ 1)]);
        assert!(matches!(refused, Err(UpdateError::OutOfStep { .. })), "{refused:?}");
        assert!(control_bytes(&control) == before);
    }
}
