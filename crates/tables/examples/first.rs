//! Which node has this key? A table without keys answers, and a delta of a few bytes keeps copies of it up to date.
//!
//! `cargo run --release -p scalebricks-tables --example first`

#![allow(clippy::print_stdout, reason = "an example")]

use scalebricks_tables::setsep::{Params, SetSepBuilder, SetSepReader};
use scalebricks_types::{KeyHash, PartitionCount};
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A million keys, hashed by a 64-bit hash, each on one of four nodes.
    let hash = |key: u64| KeyHash::new(key.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let keys: Vec<(KeyHash, u8)> = (0..1_000_000).map(|key| (hash(key), (key % 4) as u8)).collect();
    let params = Params::for_keys(keys.len() as u64, 2, PartitionCount::ONE)?;

    // The control structure holds the keys. The table, which every node has a copy of, holds only bits.
    let mut control = SetSepBuilder::new(params).threads(0).build(&keys)?;
    let table = Arc::new(control.export());
    let mut snapshot = Vec::new(); // for other processes
    table.write_snapshot(&mut snapshot)?;
    println!("{} keys in {} bytes", keys.len(), snapshot.len());

    let mut reader = SetSepReader::new(Arc::clone(&table));
    println!("key 7 is on node {}", reader.pin().get(hash(7)));
    let delta = control.update(hash(7), 1)?;
    let _ = table.apply(&delta)?; // readers never wait
    println!("key 7 is on node {}, after a delta", reader.pin().get(hash(7)));
    Ok(())
}
