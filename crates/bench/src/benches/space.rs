//! `setsep-space`: bits per key, mostly of values and choices.

use super::build::{add_fill, build};
use crate::error::BenchError;
use crate::keys::KeySet;
use crate::pin;
use crate::row::Metric;
use crate::session::Session;
use crate::structures::{BuildConfig, Product, Structure, Table};
use scalebricks_report::stats::Summary;

/// Maximum bytes per key while building.
const KEY_BYTES: u64 = 24 + 48;

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`]; a wrong answer is one.
pub fn run(session: &mut Session<'_>) -> Result<(), BenchError> {
    let options = session.options();
    for keys in options.keys(&[1_000_000], &[1_000_000, 16_000_000]) {
        if !session.fits(keys, KEY_BYTES)? {
            continue;
        }
        for value_bits in options.value_bits(&[1, 2, 4], &[1, 2, 3, 4, 8]) {
            let set = KeySet::new(keys, value_bits);
            for format in options.formats() {
                session.check()?;
                let busy = session.busy("building");
                let make = BuildConfig { format, threads: pin::cores(), ..BuildConfig::table() };
                let table = make_one(&set, make)?;
                let case = session
                    .case(Structure::SetSep.name(), keys)
                    .format(format.name())
                    .value_bits(value_bits)
                    .table_bytes(table.table_bytes());
                let bits = table.table_bytes() as f64 * 8.0 / keys as f64;
                session.add(case.clone(), Metric::BitsPerKey, Summary::exact(bits));
                add_fill(session, &case, table.fill());
                drop(table);
                session.check()?;
                let control = make_one(&set, BuildConfig { product: Product::Control, ..make })?;
                add_fill(session, &case, control.fill());
                drop(busy);
            }
        }
    }
    Ok(())
}

fn make_one(set: &KeySet, make: BuildConfig) -> Result<Box<dyn Table>, BenchError> {
    let mut prepared = Structure::SetSep.prepare(set, make)?;
    Ok(build(prepared.as_mut(), make.threads)?.0)
}
