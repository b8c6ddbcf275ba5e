//! What a SetSep lookup costs: levels of instructions, table sizes, value bits and batch sizes against each other.
//!
//! The tables are empty: a lookup reads the same lines and computes the same of zeros as of anything else, and a
//! table of 64 million keys need not be built first. All levels take turns on slices of a few microseconds to
//! milliseconds, each on other keys than its neighbours, and the medians are reported: on a busy machine only what is
//! measured side by side compares, and a slice that lost its core does not count.
//!
//! `cargo run --release -p scalebricks-tables --example lookup_speed -- [CASES] [BATCHES] [FORMAT]`, where cases
//! are million keys x value bits (`1x1,16x2`), and a batch of 0 stands for single lookups under one pin.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "a program that prints rates")]

use scalebricks_tables::huge::HugeSlice;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::setsep::{Format, Params, SetSep, SetSepReader};
use scalebricks_types::{KeyHash, PartitionCount};
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Keys asked for in turn.
const KEYS: usize = 1 << 20;
/// Keys a slice.
const SLICE: usize = 1 << 14;
const ROUNDS: usize = 6;

fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn look_up(reader: &mut SetSepReader, batch: usize, hashes: &[KeyHash], values: &mut [u8]) {
    if batch == 0 {
        let pin = reader.pin();
        for (value, &hash) in values.iter_mut().zip(hashes) {
            *value = pin.get(hash);
        }
    } else {
        for (values, hashes) in values.chunks_mut(batch).zip(hashes.chunks(batch)) {
            reader.lookup_batch(hashes, values);
        }
    }
}

/// Million lookups a second of each reader, ascending.
fn rates(readers: &mut [SetSepReader], batch: usize, hashes: &[KeyHash], values: &mut [u8]) -> Vec<Vec<f64>> {
    let mut rates = vec![Vec::new(); readers.len()];
    let slices = hashes.len() / SLICE;
    for turn in 0..ROUNDS * slices {
        for (which, (reader, rates)) in readers.iter_mut().zip(&mut rates).enumerate() {
            let at = (turn + which * 5) % slices * SLICE;
            let start = Instant::now();
            look_up(reader, batch, &hashes[at..at + SLICE], black_box(&mut values[at..at + SLICE]));
            rates.push(SLICE as f64 / start.elapsed().as_secs_f64() / 1e6);
        }
    }
    for rates in &mut rates {
        rates.sort_by(f64::total_cmp);
    }
    rates
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let cases = arguments.next().unwrap_or_else(|| "1x1,1x2,1x4,16x1,16x2,16x4,64x1,64x2,64x4".into());
    let batches = arguments.next().unwrap_or_else(|| "0,1,8,17,32,64,256".into());
    let format = arguments.next().unwrap_or_else(|| Format::default().name().into());
    let format = Format::from_name(&format).ok_or("no such format")?;
    let hashes: HugeSlice<KeyHash> = (0..KEYS as u64).map(|i| KeyHash::new(mix(i))).collect();
    let mut values = HugeSlice::<u8>::zeroed(KEYS);

    println!("{format}: M lookups/s, median (tenth to ninetieth percentile)");
    print!("{:>8} {:>5} {:>6}", "M keys", "bits", "batch");
    Isa::available().for_each(|isa| print!(" {:>17}", isa.name()));
    println!();
    for case in cases.split(',') {
        let (keys, bits) = case.split_once('x').ok_or("a case is million keys x value bits")?;
        let (million, bits) = (keys.parse::<u64>()?, bits.parse()?);
        let params = Params::for_keys_in(format, million << 20, bits, PartitionCount::new(64)?)?;
        let table = Arc::new(SetSep::new(params));
        let readers = Isa::available().filter_map(|isa| SetSepReader::with_isa(Arc::clone(&table), isa));
        let mut readers: Vec<SetSepReader> = readers.collect();
        for batch in batches.split(',') {
            let batch = batch.parse::<usize>()?;
            print!("{million:>8} {bits:>5} {:>6}", if batch == 0 { "get".into() } else { batch.to_string() });
            for rates in rates(&mut readers, batch, &hashes, &mut values) {
                let at = |part: usize| rates[(rates.len() - 1) * part / 10];
                print!("  {:4.0} ({:3.0} to {:3.0})", at(5), at(1), at(9));
            }
            println!();
        }
    }
    Ok(())
}
