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

/// Keys and values to build from.
pub struct Prepared {
    keys: Vec<u64>,
    values: Vec<usize>,
    threads: usize,
}

impl Prepared {
    pub fn new(set: &KeySet, threads: usize) -> Self {
        Self {
            keys: set.hashes.iter().map(|hash| hash.get()).collect(),
            values: set.values.iter().map(|&value| value.into()).collect(),
            threads,
        }
    }
}

impl Build for Prepared {
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError> {
        let builder = VBuilder::default().expected_num_keys(self.keys.len()).max_num_threads(self.threads);
        let function = Function::try_par_new_with_builder(&self.keys, &self.values, builder, no_logging![])
            .map_err(|error| BenchError::of("sux", error))?;
        Ok(Box::new(Filled(function)))
    }
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
