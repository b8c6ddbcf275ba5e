//! Golden bytes: this version writes to disk and to other nodes exactly what earlier versions of the software
//! wrote.

use crate::{othello, setsep};
use scalebricks_types::{Delta, KeyHash, PartitionCount, PartitionId};

const FIRST: PartitionId = PartitionId(0);
const SECOND: PartitionId = PartitionId(1);

fn key(number: u64) -> KeyHash {
    let z = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    KeyHash::new(z ^ (z >> 27))
}

/// Length and CRC-32 of a payload.
fn payload(delta: &Delta) -> (usize, u32) {
    (delta.payload.len(), crc32fast::hash(&delta.payload))
}

/// Length of a snapshot, and the checksum at its end.
fn sum(snapshot: &[u8]) -> (usize, u32) {
    let (sum, _) = snapshot.as_rchunks::<4>().1.split_last().unwrap();
    (snapshot.len(), u32::from_le_bytes(*sum))
}

/// Snapshots of a control structure and of its table, and the digests of two partitions, which both agree on.
macro_rules! state {
    ($control:expr, $table:expr) => {{
        let (mut keys, mut bits) = (Vec::new(), Vec::new());
        $control.write_snapshot(&mut keys).unwrap();
        $table.write_snapshot(&mut bits).unwrap();
        let digests = [FIRST, SECOND].map(|partition| {
            let digest = $control.digest(partition);
            assert_eq!($table.digest(partition).map(|(_, digest)| digest), digest);
            digest
        });
        (sum(&keys), sum(&bits), digests)
    }};
}

/// Adds, changes and removes keys.
macro_rules! filled {
    ($control:expr, $table:expr, $op:ident, $value:ty) => {
        let change =
            |number: u64| [$op::Remove(key(number)), $op::Update(key(number + 200), (number % 3) as $value)];
        let inserted = (0..5000).map(|number| vec![$op::Insert(key(number), (number % 4) as $value)]);
        for ops in inserted.chain((0..100).map(|number| change(number).to_vec())) {
            for delta in $control.batch(&ops).unwrap() {
                let _ = $table.apply(&delta).unwrap();
            }
        }
    };
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
fn setsep_writes_what_it_always_wrote() {
    use setsep::{Format, Op, Params, SetSep, SetSepControl};
    let from = Params::new(6, 2, PartitionCount::new(2).unwrap()).unwrap();
    let from = from.with_format(Format::Paper8x16).unwrap().with_seed(3);
    let (mut control, table) = (SetSepControl::new(from), SetSep::new(from));
    filled!(control, table, Op, u8);
    assert_eq!(table.stats().fallback_keys, 14);
    assert_eq!(
        state!(control, table),
        ((46887, 0x9370_739D), (2887, 0xCCD0_B67B), [Some(0xA2CA_A5AE), Some(0x0AEB_84F9)])
    );
    control.reshape(from.with_blocks(12).unwrap().with_value_bits(3).unwrap()).unwrap();
    let step = control.reshape_step(SECOND, 2).unwrap().unwrap();
    assert_eq!(payload(&step), (2606, 0x42CC_EFCC));
    let _ = table.apply(&step).unwrap();
    assert_eq!(
        state!(control, table),
        ((48591, 0xA94A_BBB1), (4591, 0xF6CB_0AF8), [Some(0xA2CA_A5AE), None])
    );
    assert_eq!(payload(&control.export_partition(SECOND).unwrap()), (3056, 0x31A6_C01C));
    while let Some(step) = control.reshape_step(FIRST, 1).unwrap() {
        let _ = table.apply(&step).unwrap();
    }
    assert_eq!(
        state!(control, table),
        ((51093, 0xBAA1_DD70), (6967, 0x0596_FCDE), [Some(0x3A88_5C75), None])
    );
}

#[test]
#[cfg_attr(miri, ignore = "minutes under the interpreter, and nothing unsafe")]
fn othello_writes_what_it_always_wrote() {
    use othello::{Op, Othello, OthelloControl, Params};
    let from = Params::for_keys(5000, 2, PartitionCount::new(2).unwrap()).unwrap();
    let from = from.with_check_bits(3).unwrap().with_seed(3);
    let (mut control, table) = (OthelloControl::new(from), Othello::new(from));
    filled!(control, table, Op, u16);
    assert_eq!(
        state!(control, table),
        ((56867, 0x66AD_B1C9), (7769, 0x9116_9310), [Some(0x24EF_E83F), Some(0xC624_C0B0)])
    );
    control.reshape(from.with_ranges(17).unwrap().with_value_bits(3).unwrap()).unwrap();
    let step = control.reshape_step(SECOND).unwrap().unwrap();
    assert_eq!(payload(&step), (6556, 0x4EEF_FE41));
    let _ = table.apply(&step).unwrap();
    assert_eq!(
        state!(control, table),
        ((59614, 0xAF9C_69BE), (10496, 0x8845_6FB9), [Some(0x24EF_E83F), Some(0xAF4C_73EB)])
    );
    assert_eq!(payload(&control.export_partition(SECOND).unwrap()), (6556, 0x4EEF_FE41));
    while let Some(step) = control.reshape_step(FIRST).unwrap() {
        let _ = table.apply(&step).unwrap();
    }
    assert_eq!(
        state!(control, table),
        ((62293, 0x1B33_96FE), (13155, 0xF8F2_C052), [Some(0xC205_A9E6), Some(0xAF4C_73EB)])
    );
}
