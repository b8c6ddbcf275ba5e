//! Work of the two compact tables for an instruction counter, by plain instructions only.
//!
//! `valgrind --tool=callgrind --toggle-collect='*counted*' target/release/examples/table_instructions STRUCTURE WORK`
//! counts what one of these costs, on `setsep` or `othello`:
//!
//! | work | what is counted |
//! |---|---|
//! | `single` | single lookups |
//! | `batch` | lookups in batches of 256 |
//! | `apply` | a replica applies deltas of one update each |
//! | `own` | a control structure changes its own table along, one update each |
//! | `export` | a control structure makes its table, of which a replica takes one partition |

#![forbid(unsafe_code)]

use scalebricks_tables::isa::Isa;
use scalebricks_tables::{othello, setsep};
use scalebricks_types::{Delta, KeyHash, PartitionCount, PartitionId};
use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

const KEYS: u64 = 20_000;
const CHANGES: usize = 2_000;
const BATCH: usize = 256;
const VALUE_BITS: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["setsep", work] => setsep(work),
        ["othello", work] => othello(work),
        _ => Err("arguments: setsep|othello single|batch|apply|own|export".into()),
    };
    let (text, code) = match outcome {
        Ok(sum) => (format!("{sum}\n"), ExitCode::SUCCESS),
        Err(error) => (format!("{error}\n"), ExitCode::FAILURE),
    };
    // A closed pipe is no failure of the work.
    let _ = std::io::stdout().write_all(text.as_bytes());
    code
}

/// Hashes without pattern, all different.
fn hashes() -> Vec<KeyHash> {
    let mix = |number: u64| {
        let z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 27)
    };
    (1..=KEYS).map(|number| KeyHash::new(mix(number))).collect()
}

/// The work on one structure: its modules and types are named alike.
macro_rules! work {
    ($name:ident, $value:ty, $table:ident, $control:ident, $reader:ident, $build:expr) => {
        fn $name(work: &str) -> Result<u64, Box<dyn Error>> {
            #[inline(never)]
            fn counted_single(reader: &mut $name::$reader, hashes: &[KeyHash]) -> u64 {
                hashes.iter().map(|&hash| u64::from(reader.pin().get(hash))).sum()
            }

            #[inline(never)]
            fn counted_batch(reader: &mut $name::$reader, hashes: &[KeyHash], values: &mut [$value]) -> u64 {
                hashes
                    .chunks(BATCH)
                    .map(|hashes| {
                        reader.lookup_batch(hashes, values);
                        values.iter().map(|&value| u64::from(value)).sum::<u64>()
                    })
                    .sum()
            }

            #[inline(never)]
            fn counted_apply(table: &$name::$table, deltas: &[Delta]) -> u64 {
                deltas.iter().filter(|delta| table.apply(delta).is_ok()).count() as u64
            }

            #[inline(never)]
            fn counted_own(control: &mut $name::$control, table: &$name::$table, ops: &[$name::Op]) -> u64 {
                ops.iter().filter(|&&op| control.batch_with(table, &[op]).is_ok()).count() as u64
            }

            #[inline(never)]
            fn counted_export(control: &$name::$control) -> u64 {
                let table = control.export();
                let replica = $name::$table::new(table.params());
                let delta = control.export_partition(PartitionId(0));
                delta.map_or(0, |delta| u64::from(replica.apply(&delta).is_ok()))
            }

            let hashes = hashes();
            let value = |hash: KeyHash| (hash.get() >> 7) as $value & ((1 << VALUE_BITS) - 1);
            let entries: Vec<_> = hashes.iter().map(|&hash| (hash, value(hash))).collect();
            let params = $name::Params::for_keys(KEYS, VALUE_BITS, PartitionCount::ONE)?;
            let mut control: $name::$control = $build(params, &entries)?;
            let table = Arc::new(control.export());
            let mut reader = $name::$reader::with_isa(Arc::clone(&table), Isa::Portable)
                .ok_or("every processor has plain instructions")?;
            let ops: Vec<_> =
                entries[..CHANGES].iter().map(|&(hash, value)| $name::Op::Update(hash, value ^ 1)).collect();
            Ok(match work {
                "single" => counted_single(&mut reader, &hashes),
                "batch" => counted_batch(&mut reader, &hashes, &mut [0; BATCH]),
                "apply" => {
                    let deltas: Result<Vec<_>, _> = ops.iter().map(|&op| control.batch(&[op])).collect();
                    let deltas: Vec<Delta> = deltas?.into_iter().flatten().collect();
                    counted_apply(&table, &deltas)
                }
                "own" => counted_own(&mut control, &table, &ops),
                "export" => counted_export(&control),
                other => return Err(format!("no such work: {other}").into()),
            })
        }
    };
}

work!(setsep, u8, SetSep, SetSepControl, SetSepReader, |params, entries: &[_]| {
    setsep::SetSepBuilder::new(params)
        .isa(Isa::Portable)
        .build(entries)
        .map(|control| control.with_isa(Isa::Portable))
});
work!(othello, u16, Othello, OthelloControl, OthelloReader, |params, entries: &[_]| {
    othello::OthelloBuilder::new(params).build(entries)
});
