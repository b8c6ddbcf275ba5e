//! Batched lookups in a table that is half-way through a re-shape, beside the same table in one shape.
//!
//! `cargo run --release -p scalebricks-tables --example reshape_lookups -- [KEYS] [RUNS]` prints lookups per
//! second by keys per call: medians of runs in alternation, and the share of the calm rate that a table
//! half-way keeps (median, lowest and highest of the runs). Every answer is checked.

#![forbid(unsafe_code)]

mod measuring;

use measuring::{mix, spread};
use scalebricks_tables::{othello, setsep};
use scalebricks_types::{KeyHash, PartitionCount, PartitionId};
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Partitions of a table: Othello converts one at a time.
const PARTITIONS: u32 = 16;
const VALUE_BITS: u8 = 2;
/// Keys per call.
const BATCHES: [usize; 4] = [32, 64, 256, 1024];

fn main() -> ExitCode {
    measuring::run(|keys, runs| Ok([setsep(keys, runs)?, othello(keys, runs)?].concat()))
}
/// The measurement of one structure: its modules and types are named alike. `$begin` converts half of a table.
macro_rules! measure {
    ($name:ident, $value:ty, $control:ident, $table:ident, $reader:ident, $builder:ident, $begin:expr) => {
        fn $name(keys: u64, runs: u64) -> Result<String, Box<dyn Error>> {
            let hashes: Vec<KeyHash> = (1..=keys).map(|number| KeyHash::new(mix(number))).collect();
            let values: Vec<$value> =
                (1..=keys).map(|number| (mix(number) >> 7 & 3) as $value).collect();
            let entries: Vec<(KeyHash, $value)> =
                hashes.iter().copied().zip(values.iter().copied()).collect();
            let params = $name::Params::for_keys(keys, VALUE_BITS, PartitionCount::new(PARTITIONS)?)?;
            let mut control = $name::$builder::new(params).build(&entries)?;
            let (calm, half) = (Arc::new(control.export()), Arc::new(control.export()));
            control.reshape(params.with_seed(params.seed() + 1))?;
            let begin: fn(&mut $name::$control, &$name::$table) -> Result<(), Box<dyn Error>> = $begin;
            begin(&mut control, &half)?;
            if half.reshaping().is_none() {
                return Err("too few keys: a partition needs two blocks to be half-way".into());
            }
            let mut readers = [calm, half].map($name::$reader::new);
            let mut found = vec![0; hashes.len()];
            let mut text = String::new();
            for batch in BATCHES {
                let mut rates = [Vec::new(), Vec::new()];
                for _ in 0..runs {
                    for (reader, rates) in readers.iter_mut().zip(&mut rates) {
                        let start = Instant::now();
                        for (hashes, found) in hashes.chunks(batch).zip(found.chunks_mut(batch)) {
                            reader.lookup_batch(hashes, found);
                        }
                        rates.push(keys as f64 / start.elapsed().as_secs_f64());
                        if found != values {
                            return Err("a wrong answer".into());
                        }
                        found.fill(<$value>::MAX);
                    }
                }
                let [calm, half] = rates;
                let [least, share, most] = spread(half.iter().zip(&calm).map(|(half, calm)| half / calm).collect());
                let [[_, calm, _], [_, half, _]] = [calm, half].map(spread);
                let name = stringify!($name);
                text += &format!(
                    "{name:8} {keys} keys, {batch:4} a call: calm {:6.1} M/s, half-way {:6.1} M/s, share {share:.2} \
                     ({least:.2} to {most:.2})\n",
                    calm * 1e-6,
                    half * 1e-6,
                );
            }
            Ok(text)
        }
    };
}

measure!(setsep, u8, SetSepControl, SetSep, SetSepReader, SetSepBuilder, |control, table| {
    let half = table.params().blocks_per_partition() / 2;
    for partition in 0..PARTITIONS as u16 {
        if let Some(delta) = control.reshape_step(PartitionId(partition), half)? {
            let _ = table.apply(&delta)?;
        }
    }
    Ok(())
});

measure!(othello, u16, OthelloControl, Othello, OthelloReader, OthelloBuilder, |control, table| {
    for partition in (0..PARTITIONS as u16).step_by(2) {
        if let Some(delta) = control.reshape_step(PartitionId(partition))? {
            let _ = table.apply(&delta)?;
        }
    }
    Ok(())
});
