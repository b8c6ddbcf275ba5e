//! What SetSep costs here: build, lookup in batches, lookup under a pin for each key or one for many, update.
//!
//! `cargo run --release -p scalebricks-tables --example setsep_speed -- [million keys] [value bits] [threads]`
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "a program that prints rates")]

use scalebricks_tables::setsep::{Params, SetSepBuilder, SetSepReader};
use scalebricks_types::{KeyHash, PartitionCount};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Seconds this thread has run: on a busy machine the wall clock measures the neighbours. Falls back to it.
fn seconds(since: Instant) -> f64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = line.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
    ns.map_or_else(|| since.elapsed().as_secs_f64(), |ns| ns as f64 * 1e-9)
}

fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let keys = arguments.next().transpose()?.unwrap_or(1) * 1_000_000;
    let value_bits = u8::try_from(arguments.next().transpose()?.unwrap_or(2))?;
    let threads = usize::try_from(arguments.next().transpose()?.unwrap_or(1))?;
    let params = Params::for_keys(keys, value_bits, PartitionCount::ONE)?.with_seed(1);
    let mask = u8::MAX >> (8 - value_bits);
    let entries: Vec<(KeyHash, u8)> =
        (0..keys).map(|i| (KeyHash::new(mix(i)), mix(!i).to_le_bytes()[0] & mask)).collect();

    let epoch = Instant::now();
    let built = Instant::now();
    let mut control = SetSepBuilder::new(params).threads(threads).build(&entries)?;
    println!(
        "build, wall: {:.2} M keys/s, {threads} threads",
        keys as f64 / built.elapsed().as_secs_f64() / 1e6
    );
    println!("{:?}", control.stats());
    let table = Arc::new(control.export());
    println!("{:.4} bits/key, all included", table.stats().bits_per_key(keys));

    let asked: Vec<KeyHash> = (0..1 << 22).map(|i| entries[(mix(i ^ 0xABCD) % keys) as usize].0).collect();
    let mut values = vec![0; asked.len()];
    let mut reader = SetSepReader::new(Arc::clone(&table));
    let report = |what: &str, count: usize, start: f64| {
        let ns = (seconds(epoch) - start) * 1e9 / count as f64;
        println!("{what}: {ns:.1} ns each, {:.2} M/s", 1e3 / ns);
    };
    for _ in 0..3 {
        let start = seconds(epoch);
        for (asked, values) in asked.chunks(32).zip(values.chunks_mut(32)) {
            reader.lookup_batch(asked, values);
        }
        report("lookup, batches of 32", asked.len(), start);
        let start = seconds(epoch);
        reader.lookup_batch(&asked, &mut values);
        report("lookup, one batch", asked.len(), start);
        let start = seconds(epoch);
        let pin = reader.pin();
        for &hash in &asked {
            black_box(pin.get(hash));
        }
        drop(pin);
        report("lookup, single under one pin", asked.len(), start);
        let start = seconds(epoch);
        for &hash in &asked {
            black_box(reader.pin().get(hash));
        }
        report("lookup, single with a pin each", asked.len(), start);
    }

    let changes = 200_000;
    let mut deltas = Vec::with_capacity(changes);
    let start = seconds(epoch);
    for &hash in &asked[..changes] {
        let value = control.get(hash).unwrap_or(0);
        deltas.push(control.update(hash, (value + 1) & mask)?);
    }
    report("update (control)", changes, start);
    let start = seconds(epoch);
    for delta in &deltas {
        let _ = table.apply(delta)?;
    }
    report("apply (replica)", changes, start);
    let bytes: usize = deltas.iter().map(|delta| delta.payload.len()).sum();
    println!("payload: {:.1} bytes a delta", bytes as f64 / changes as f64);
    let start = seconds(epoch);
    for (at, &(hash, _)) in entries.iter().enumerate().take(changes) {
        let value = control.get(hash).unwrap_or(0);
        let _ = control.remove(hash)?;
        let _ = control.insert(KeyHash::new(mix(!0 - at as u64)), value)?;
    }
    report("remove and insert (control)", changes, start);
    println!("{:?}", control.stats());
    Ok(())
}
