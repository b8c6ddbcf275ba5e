//! SetSep.

use super::queries::{LookupMode, Queries, in_calls};
use super::{Build, BuildConfig, Fill, Product, Table, fewest_partitions};
use crate::error::BenchError;
use crate::keys::KeySet;
use scalebricks_tables::isa::Isa;
use scalebricks_tables::setsep::{Params, ParamsError, SetSep, SetSepBuilder, SetSepControl, SetSepReader};
use scalebricks_types::KeyHash;
use std::sync::Arc;

/// Its name in results.
const NAME: &str = "setsep";

/// The parameters of a table for this many keys.
///
/// # Errors
/// [`BenchError::Usage`] if the parameters are invalid.
pub fn params(keys: u64, value_bits: u8, make: BuildConfig) -> Result<Params, BenchError> {
    fewest_partitions(|partitions| {
        Ok::<_, ParamsError>(Params::for_keys_in(make.format, keys, value_bits, partitions)?.with_seed(1))
    })
}

/// Keys and values to build from.
pub struct Prepared<'a> {
    set: &'a KeySet,
    make: BuildConfig,
    /// Reuses memory between builds.
    builder: SetSepBuilder,
    /// As pairs, if the product needs them.
    entries: Vec<(KeyHash, u8)>,
}

impl<'a> Prepared<'a> {
    pub fn new(set: &'a KeySet, make: BuildConfig) -> Result<Self, BenchError> {
        let params = params(set.len() as u64, set.value_bits, make)?;
        let entries = if make.product == Product::Table { Vec::new() } else { set.entries() };
        let builder = SetSepBuilder::new(params).threads(make.threads).isa(make.isa).bits_at_once(make.bits);
        Ok(Self { set, make, builder, entries })
    }
}

impl Build for Prepared<'_> {
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError> {
        let builder = &self.builder;
        if self.make.product == Product::Table {
            let table = builder.build_table(&self.set.hashes, &self.set.values);
            let table = Arc::new(table.map_err(|error| BenchError::of(NAME, error))?);
            return Ok(Box::new(SetSepTable { table, isa: self.make.isa }));
        }
        let control = builder.build(&self.entries).map_err(|error| BenchError::of(NAME, error))?;
        Ok(Box::new(Control(control)))
    }
}

/// The query structure.
struct SetSepTable {
    table: Arc<SetSep>,
    /// Instructions that readers may use.
    isa: Isa,
}

impl Table for SetSepTable {
    fn table_bytes(&self) -> u64 {
        self.table.stats().table_bytes as u64
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        // Without these instructions the answers remain wrong, which the caller detects.
        let Some(mut reader) = SetSepReader::with_isa(Arc::clone(&self.table), self.isa) else { return };
        match mode {
            LookupMode::OnePin => {
                let pin = reader.pin();
                for (&hash, answer) in queries.hashes.iter().zip(answers) {
                    *answer = pin.get(hash);
                }
            }
            LookupMode::PinEach | LookupMode::Loop => {
                for (&hash, answer) in queries.hashes.iter().zip(answers) {
                    *answer = reader.pin().get(hash);
                }
            }
            LookupMode::Batch(_) | LookupMode::Stream(_) | LookupMode::Plain(_) => {
                in_calls(mode, queries.hashes, answers, |hashes, answers| {
                    reader.lookup_batch(hashes, answers);
                });
            }
        }
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        let mut reader = SetSepReader::new(Arc::clone(&self.table));
        let pin = reader.pin();
        for (place, &hash) in queries.hashes.iter().enumerate() {
            pin.touched(hash, &mut |at| visit(place, at));
        }
    }

    fn note(&self) -> Option<&'static str> {
        let reader = SetSepReader::with_isa(Arc::clone(&self.table), self.isa)?;
        (self.isa > Isa::Portable && !reader.has_vector_lookup()).then_some("no vector lookup")
    }

    fn fill(&self) -> Fill {
        Fill { fallback_keys: Some(self.table.stats().fallback_keys), max_group_load: None }
    }
}

/// The control structure, queried only to check it.
struct Control(SetSepControl);

impl Table for Control {
    fn table_bytes(&self) -> u64 {
        self.0.control_bytes() as u64
    }

    fn lookup(&self, _: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        for (&hash, answer) in queries.hashes.iter().zip(answers) {
            if let Some(value) = self.0.get(hash) {
                *answer = value;
            }
        }
    }

    fn fill(&self) -> Fill {
        Fill { fallback_keys: None, max_group_load: Some(self.0.stats().max_group_load) }
    }
}
