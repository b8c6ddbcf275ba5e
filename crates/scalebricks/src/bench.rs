//! `scalebricks bench`: the benchmarks of the tables, and those that need more than tables.

use scalebricks_bench::{Bench, BenchArgs, BenchError, benches};
use scalebricks_console::{Console, Interrupt, status};

/// Runs the benchmarks that were asked for; the exit status.
///
/// # Errors
/// [`BenchError`] of the first that fails.
pub fn run(args: &BenchArgs, console: &Console, interrupt: &Interrupt) -> Result<u8, BenchError> {
    let all: Vec<&dyn Bench> = benches::ALL.to_vec();
    scalebricks_bench::run(args, &all, console, interrupt)?;
    Ok(status::SUCCESS)
}
