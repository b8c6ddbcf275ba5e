//! `setsep-space`: bits per key, mostly of values and choices.

use super::build::{add_fill, built};
use crate::bench_run::BenchRun;
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::pin;
use crate::row::Metric;
use crate::structures::{BuildConfig, Product, Structure};

/// Maximum bytes per key while building.
const KEY_BYTES: u64 = 24 + 48;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(bench: &mut BenchRun<'_>) -> Result<(), BenchError> {
    let options = bench.options;
    for keys in bench.sizes(&[1_000_000], &[1_000_000, 16_000_000], KEY_BYTES)? {
        for value_bits in options.value_bits(&[1, 2, 4], &[1, 2, 3, 4, 8]) {
            let set = KeySet::new(keys, value_bits);
            for format in options.formats() {
                bench.check()?;
                let _busy = bench.busy("building");
                let make = BuildConfig { format, threads: pin::cores(), ..BuildConfig::table() };
                let (bytes, fill) = {
                    let table = built(Structure::SetSep, &set, make)?;
                    (table.table_bytes(), table.fill())
                };
                let case = bench
                    .case(Structure::SetSep.name(), keys)
                    .format(format.name())
                    .value_bits(value_bits)
                    .table_bytes(bytes);
                bench.add_exact(case.clone(), Metric::BitsPerKey, bytes as f64 * 8.0 / keys as f64);
                add_fill(bench, &case, fill);
                bench.check()?;
                let control =
                    built(Structure::SetSep, &set, BuildConfig { product: Product::Control, ..make })?;
                add_fill(bench, &case, control.fill());
            }
        }
    }
    Ok(())
}
