//! Othello with checksums, which tell most unknown names.

use super::compact::{Compact, CompactTable, Othello};
use super::queries::{LookupMode, MAX_BATCH, Queries, in_calls};
use super::{BuildConfig, Table};
use crate::error::{BenchError, OrFail};
use crate::keys::KeySet;
use scalebricks_tables::othello::{self, OthelloReader, Params};
use std::sync::Arc;

/// A table whose batched lookups compare checksums.
pub struct Checked(Arc<othello::Othello>);

impl Checked {
    /// A table with checksums of `check_bits` bits.
    ///
    /// # Errors
    /// [`BenchError::Usage`], [`BenchError::Structure`].
    pub fn build(
        set: &KeySet,
        value_bits: u8,
        check_bits: u8,
        make: BuildConfig,
    ) -> Result<Self, BenchError> {
        let keys = set.len() as u64;
        // As many partitions as for values of all these bits, of which each must fit into one delta.
        let partitions = Othello::params(keys, value_bits + check_bits, make)?.partitions();
        let params = Params::sized(make.sizing, keys, value_bits, partitions).usage()?;
        let params = params.with_seed(1).with_check_bits(check_bits).of(Othello::NAME)?;
        Ok(Self(table(set, params, make)?))
    }
}

/// A table without checksums whose values have `value_bits` bits, of which the set's values use the low ones.
///
/// # Errors
/// [`BenchError::Usage`], [`BenchError::Structure`].
pub fn without_checks(
    set: &KeySet,
    value_bits: u8,
    make: BuildConfig,
) -> Result<CompactTable<Othello>, BenchError> {
    let params = Othello::params(set.len() as u64, value_bits, make)?;
    Ok(CompactTable { table: table(set, params, make)?, isa: make.isa })
}

fn table(set: &KeySet, params: Params, make: BuildConfig) -> Result<Arc<othello::Othello>, BenchError> {
    let values: Vec<u16> = set.values.iter().map(|&value| value.into()).collect();
    Ok(Arc::new(Othello::build_table(&Othello::builder(params, make), &set.hashes, &values)?))
}

impl Table for Checked {
    fn table_bytes(&self) -> u64 {
        Othello::table_bytes(&self.0) as u64
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        let mut reader = OthelloReader::new(Arc::clone(&self.0));
        let mut found = vec![None; mode.keys().min(MAX_BATCH)];
        let most = found.len();
        in_calls(mode, queries.hashes, answers, |hashes, answers| {
            for (hashes, answers) in hashes.chunks(most).zip(answers.chunks_mut(most)) {
                let found = &mut found[..hashes.len()];
                reader.check_batch(hashes, found);
                for (answer, found) in answers.iter_mut().zip(found) {
                    // All ones are the answer for a name that is not found; no value of fewer than 8 bits equals them.
                    *answer = found.map_or(u8::MAX, |value| value as u8);
                }
            }
        });
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        Othello::touched(&self.0, queries.hashes, visit);
    }
}
