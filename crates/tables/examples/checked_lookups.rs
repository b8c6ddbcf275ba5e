//! Batched lookups in an Othello table with checksums, beside one of the same size without.
//!
//! `cargo run --release -p scalebricks-tables --example checked_lookups -- [KEYS] [RUNS]` prints lookups per second by
//! keys per call, for values of 2 bits with checksums of 8 and for values of 10 bits: medians of runs in alternation, and the
//! share of the plain rate that checking keeps (median, lowest and highest of the runs). Every answer is checked; the names
//! asked come in another order than those of the table, and are prefetched for both.

#![forbid(unsafe_code)]

mod measuring;

use measuring::{mix, spread};
use scalebricks_tables::othello::{OthelloBuilder, OthelloReader, Params};
use scalebricks_tables::prefetch_read;
use scalebricks_types::{KeyHash, PartitionCount};
use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

const VALUE_BITS: u8 = 2;
const CHECK_BITS: u8 = 8;
/// Names per call.
const BATCHES: [usize; 4] = [32, 64, 256, 1024];
/// Names whose lookup is ahead of that of a name when it is prefetched.
const AHEAD: usize = 1024;

fn main() -> ExitCode {
    measuring::run(compare)
}

/// A reader of a table with these parameters, in which every name has the value `value`.
fn reader(
    names: &[KeyHash],
    params: Params,
    value: fn(KeyHash) -> u16,
) -> Result<OthelloReader, Box<dyn Error>> {
    let values: Vec<u16> = names.iter().map(|&name| value(name)).collect();
    Ok(OthelloReader::new(Arc::new(OthelloBuilder::new(params).build_table(names, &values)?)))
}

/// Calls `look_up` for all names, `batch` at a time; returns names per second.
fn rate<T>(
    names: &[KeyHash],
    found: &mut [T],
    batch: usize,
    mut look_up: impl FnMut(&[KeyHash], &mut [T]),
) -> f64 {
    let start = Instant::now();
    for (call, (part, found)) in names.chunks(batch).zip(found.chunks_mut(batch)).enumerate() {
        let ahead = names.get(call * batch + AHEAD..).unwrap_or_default();
        ahead.iter().take(batch).step_by(8).for_each(prefetch_read);
        look_up(part, found);
    }
    names.len() as f64 / start.elapsed().as_secs_f64()
}

fn compare(keys: u64, runs: u64) -> Result<String, Box<dyn Error>> {
    let narrow = |name: KeyHash| (name.get() >> 7) as u16 & 3;
    let wide = |name: KeyHash| (name.get() >> 7) as u16 & 0x3FF;
    let names: Vec<KeyHash> = (1..=keys).map(|number| KeyHash::new(mix(number))).collect();
    let checked = Params::for_keys(keys, VALUE_BITS, PartitionCount::ONE)?.with_check_bits(CHECK_BITS)?;
    let plain = Params::for_keys(keys, VALUE_BITS + CHECK_BITS, PartitionCount::ONE)?;
    let (mut checked, mut plain) = (reader(&names, checked, narrow)?, reader(&names, plain, wide)?);
    let sizes = [&checked, &plain].map(|reader| reader.table().stats().table_bytes);
    let mut asked = names;
    asked.sort_unstable_by_key(|name| mix(name.get()));
    let (mut some, mut all) = (vec![None; asked.len()], vec![0; asked.len()]);
    let mut text = format!("{keys} names, {} bytes with checksums, {} without\n", sizes[0], sizes[1]);
    for batch in BATCHES {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..runs {
            rates[0].push(rate(&asked, &mut all, batch, |names, found| plain.lookup_batch(names, found)));
            rates[1].push(rate(&asked, &mut some, batch, |names, found| checked.check_batch(names, found)));
            let is_right = |((&name, &some), &all)| some == Some(narrow(name)) && all == wide(name);
            if !asked.iter().zip(&some).zip(&all).all(is_right) {
                return Err("a wrong answer".into());
            }
            some.fill(None);
            all.fill(u16::MAX);
        }
        let [plain, checked] = rates;
        let [least, share, most] =
            spread(checked.iter().zip(&plain).map(|(checked, plain)| checked / plain).collect());
        let [[_, plain, _], [_, checked, _]] = [plain, checked].map(spread);
        writeln!(
            text,
            "{batch:4} a call: plain {:6.1} M/s, checked {:6.1} M/s, share {share:.2} ({least:.2} to {most:.2})",
            plain * 1e-6,
            checked * 1e-6,
        )?;
    }
    Ok(text)
}
