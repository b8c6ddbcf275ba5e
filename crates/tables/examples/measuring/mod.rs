//! What the examples share that measure: their arguments, their output, keys and statistics.

use std::error::Error;
use std::io::Write as _;
use std::process::ExitCode;

/// Prints what `measure` returns for the two arguments: keys (a million by default) and runs (5), at least one.
pub fn run(measure: impl FnOnce(u64, u64) -> Result<String, Box<dyn Error>>) -> ExitCode {
    let number = |at: usize, default: u64| match std::env::args().nth(at) {
        Some(text) => text.parse().map_err(|_| format!("not a number: {text}")),
        None => Ok(default),
    };
    let numbers = number(1, 1_000_000).and_then(|keys| Ok((keys, number(2, 5)?)));
    let outcome =
        numbers.map_err(Box::<dyn Error>::from).and_then(|(keys, runs)| measure(keys.max(1), runs.max(1)));
    let (text, code) = match outcome {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(error) => (format!("{error}\n"), ExitCode::FAILURE),
    };
    // A closed pipe is no failure of the work.
    let _ = std::io::stdout().write_all(text.as_bytes());
    code
}

/// A hash without pattern, different for every number.
pub const fn mix(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 27)
}

/// The lowest, the median and the highest.
pub fn spread(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    [figures[0], figures[figures.len() / 2], figures[figures.len() - 1]]
}
