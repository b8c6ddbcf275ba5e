//! Othello.

use super::queries::{LookupMode, MAX_BATCH, Queries, in_calls};
use super::{Build, BuildConfig, Product, Table, fewest_partitions};
use crate::error::BenchError;
use crate::keys::KeySet;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::othello::{
    Othello, OthelloBuilder, OthelloControl, OthelloReader, Params, ParamsError,
};
use scalebricks_types::KeyHash;
use std::sync::Arc;

/// Its name in results.
const NAME: &str = "othello";

/// The parameters of a table for this many keys.
///
/// # Errors
/// [`BenchError::Usage`] if the parameters are invalid.
pub fn params(keys: u64, value_bits: u8, make: BuildConfig) -> Result<Params, BenchError> {
    fewest_partitions(|partitions| {
        Ok::<_, ParamsError>(Params::sized(make.sizing, keys, value_bits, partitions)?.with_seed(1))
    })
}

/// Keys and values to build from.
pub struct Prepared<'a> {
    set: &'a KeySet,
    make: BuildConfig,
    /// Reuses memory between builds.
    builder: OthelloBuilder,
    values: Vec<u16>,
    /// As pairs, if the product needs them.
    entries: Vec<(KeyHash, u16)>,
}

impl<'a> Prepared<'a> {
    pub fn new(set: &'a KeySet, make: BuildConfig) -> Result<Self, BenchError> {
        let builder =
            OthelloBuilder::new(params(set.len() as u64, set.value_bits, make)?).threads(make.threads);
        let values: Vec<u16> = set.values.iter().map(|&value| value.into()).collect();
        let is_table = make.product == Product::Table;
        let entries =
            if is_table { Vec::new() } else { set.hashes.iter().copied().zip(values.clone()).collect() };
        Ok(Self { set, make, builder, values: if is_table { values } else { Vec::new() }, entries })
    }
}

impl Build for Prepared<'_> {
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError> {
        if self.make.product == Product::Table {
            let table = self.builder.build_table(&self.set.hashes, &self.values);
            let table = Arc::new(table.map_err(|error| BenchError::of(NAME, error))?);
            return Ok(Box::new(OthelloTable { table, isa: self.make.isa }));
        }
        let control = self.builder.build(&self.entries).map_err(|error| BenchError::of(NAME, error))?;
        Ok(Box::new(Control(control)))
    }
}

/// The query structure.
struct OthelloTable {
    table: Arc<Othello>,
    /// Instructions that readers may use.
    isa: Isa,
}

impl Table for OthelloTable {
    fn table_bytes(&self) -> u64 {
        self.table.stats().table_bytes as u64
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        // Without these instructions the answers remain wrong, which the caller detects.
        let Some(mut reader) = OthelloReader::with_isa(Arc::clone(&self.table), self.isa) else { return };
        match mode {
            LookupMode::OnePin => {
                let pin = reader.pin();
                for (&hash, answer) in queries.hashes.iter().zip(answers) {
                    *answer = pin.get(hash) as u8; // values of at most 8 bits, as all here
                }
            }
            LookupMode::PinEach | LookupMode::Loop => {
                for (&hash, answer) in queries.hashes.iter().zip(answers) {
                    *answer = reader.pin().get(hash) as u8;
                }
            }
            LookupMode::Batch(_) | LookupMode::Stream(_) | LookupMode::Plain(_) => {
                let mut values = [0; MAX_BATCH];
                in_calls(mode, queries.hashes, answers, |hashes, answers| {
                    for (hashes, answers) in hashes.chunks(MAX_BATCH).zip(answers.chunks_mut(MAX_BATCH)) {
                        let values = &mut values[..hashes.len()];
                        reader.lookup_batch(hashes, values);
                        answers.iter_mut().zip(values).for_each(|(answer, value)| *answer = *value as u8);
                    }
                });
            }
        }
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        let mut reader = OthelloReader::new(Arc::clone(&self.table));
        let pin = reader.pin();
        for (place, &hash) in queries.hashes.iter().enumerate() {
            pin.touched(hash, &mut |at| visit(place, at));
        }
    }
}

/// The control structure, queried only to check it.
struct Control(OthelloControl);

impl Table for Control {
    fn table_bytes(&self) -> u64 {
        self.0.control_bytes() as u64
    }

    fn lookup(&self, _: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        for (&hash, answer) in queries.hashes.iter().zip(answers) {
            if let Some(value) = self.0.get(hash) {
                *answer = value as u8; // as above
            }
        }
    }
}
