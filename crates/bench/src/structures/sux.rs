//! `VFunc` of `sux` (Vigna): a static function with values of a few bits, queried key by key because it has
//! no batches.

use super::queries::{LookupMode, Queries, in_calls};
use super::{Build, Table};
use crate::error::BenchError;
use crate::keys::KeySet;
use dsi_progress_logger::no_logging;
use mem_dbg::{MemSize, SizeFlags};
use sux::bits::BitFieldVec;
use sux::func::{VBuilder, VFunc};

type Function = VFunc<u64, BitFieldVec<Box<[usize]>>>;

/// Converts a key set for a build.
pub fn prepare(set: &KeySet, threads: usize) -> Build<'_> {
    let keys: Vec<u64> = set.hashes.iter().map(|hash| hash.get()).collect();
    let values: Vec<usize> = set.values.iter().map(|&value| value.into()).collect();
    Box::new(move || {
        let builder = VBuilder::default().expected_num_keys(keys.len()).max_num_threads(threads);
        let function = Function::try_par_new_with_builder(&keys, &values, builder, no_logging![]);
        Ok(Box::new(Filled(function.map_err(|error| BenchError::of("sux", error))?)))
    })
}

struct Filled(Function);

impl Table for Filled {
    fn table_bytes(&self) -> u64 {
        self.0.mem_size(SizeFlags::default()) as u64
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        in_calls(mode, queries.hashes, answers, |hashes, answers| {
            for (hash, answer) in hashes.iter().zip(answers) {
                *answer = self.0.get(hash.get()) as u8; // a value of at most 8 bits
            }
        });
    }
}
