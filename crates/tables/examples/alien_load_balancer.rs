//! A load balancer that needs no second table for new flows: Concise's use of the arbitrary answers for unknown names.
//!
//! `cargo run --release -p scalebricks-tables --example alien_load_balancer [-- KNOWN NEW]`
//!
//! Known flows are pinned to backends. An unknown flow is sent where the table's answer happens to point, which
//! [`WeightedActions`] makes a weighted choice, and is installed with that answer when its first packet has been seen.

#![forbid(unsafe_code)]

use scalebricks_tables::WeightedActions;
use scalebricks_tables::othello::{OthelloBuilder, OthelloReader, Params};
use scalebricks_types::{KeyHash, PartitionCount};
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

/// What each backend is to get of the new flows.
const WEIGHTS: [u32; 5] = [8, 4, 2, 1, 1];
/// Bits of a code: shares are exact to 1 in 256.
const VALUE_BITS: u8 = 8;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map_while(|text| text.parse::<u64>().ok());
    let (known, new) = (numbers.next().unwrap_or(100_000), numbers.next().unwrap_or(20_000));
    let (text, code) = match balance(known, new) {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => (format!("{error}\n"), ExitCode::FAILURE),
    };
    // An error here means that the reader closed the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
    code
}

/// The hash of a flow: the finalizer of `SplitMix64`, in place of a keyed hash of its five-tuple.
fn flow(number: u64) -> KeyHash {
    let z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    KeyHash::new(z ^ (z >> 31))
}

fn balance(known: u64, new: u64) -> Result<String, Box<dyn Error>> {
    let backends = WeightedActions::new(&WEIGHTS, VALUE_BITS, 0x5CA1_EB21_C400_0001)?;
    // All known flows are on the last backend. This must not affect the distribution of new ones.
    let pinned = (WEIGHTS.len() - 1) as u16;
    let entries: Vec<_> =
        (0..known).filter_map(|number| Some((flow(number), backends.value(flow(number), pinned)?))).collect();
    let params = Params::for_keys(known + new, VALUE_BITS, PartitionCount::ONE)?;
    let mut control = OthelloBuilder::new(params).build(&entries)?;
    let table = Arc::new(control.export());
    let mut reader = OthelloReader::new(Arc::clone(&table));

    let (mut plain, mut weighted) = ([0_u64; 1 << VALUE_BITS], [0_u64; WEIGHTS.len()]);
    let (mut first_way, mut empty) = (Vec::new(), 0);
    for number in known..known + new {
        // The first packet: answered at once, installed with that answer.
        let value = reader.pin().get(flow(number));
        plain[usize::from(value)] += 1;
        weighted[usize::from(backends.action(flow(number), value))] += 1;
        first_way.push(backends.action(flow(number), value));
        let delta = control.insert(flow(number), value)?;
        empty += u64::from(delta.payload.len() <= 8);
        let _ = table.apply(&delta)?;
    }
    let way =
        |reader: &mut OthelloReader, number| backends.action(flow(number), reader.pin().get(flow(number)));
    let moved = (known..known + new)
        .zip(&first_way)
        .filter(|&(number, &first)| way(&mut reader, number) != first)
        .count();
    let strayed = (0..known).filter(|&number| way(&mut reader, number) != pinned).count();

    let mut text = format!("{known} known flows, all on backend {pinned}; {new} new ones\n");
    writeln!(
        text,
        "the table's own answers: value 0 for {:.1} % of new flows, {:.1} % if all were alike",
        100.0 * plain[0] as f64 / new as f64,
        100.0 / plain.len() as f64
    )?;
    let total: u32 = WEIGHTS.iter().sum();
    for (backend, (&weight, &got)) in WEIGHTS.iter().zip(&weighted).enumerate() {
        let (asked, got) = (f64::from(weight) / f64::from(total), got as f64 / new as f64);
        writeln!(text, "backend {backend}: {:.2} % asked, {:.2} % measured", 100.0 * asked, 100.0 * got)?;
    }
    writeln!(text, "deltas that changed no slot: {:.1} %", 100.0 * empty as f64 / new as f64)?;
    writeln!(text, "new flows that moved after they were installed: {moved}")?;
    writeln!(text, "known flows that left their backend: {strayed}")?;
    if moved + strayed > 0 {
        return Err(text.into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "builds a table of thousands of names")]
    fn nothing_moves() {
        let text = balance(2000, 1000).unwrap();
        assert!(text.contains("moved after they were installed: 0"), "{text}");
        assert!(text.contains("left their backend: 0"), "{text}");
    }
}
