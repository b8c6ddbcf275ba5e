//! The full copy: an exact table of flow keys that answers which node handles a flow.

use super::queries::{KeyForm, LookupMode, Queries, exact, in_batches};
use super::{Build, Table};
use crate::error::BenchError;
use crate::keys::{self, KeySet};
use rayon::prelude::*;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::full_copy::FullCopy;
use scalebricks_tables::{Fib, FibValue, Gpt, KeyBatch};
use scalebricks_types::{FlowKey, NodeHint};
use std::sync::Arc;

/// Keys and values to build from.
pub struct Prepared<'a> {
    set: &'a KeySet,
    flows: Vec<FlowKey>,
}

impl<'a> Prepared<'a> {
    pub fn new(set: &'a KeySet) -> Self {
        Self { set, flows: (0..set.len() as u64).into_par_iter().map(keys::flow).collect() }
    }
}

impl Build for Prepared<'_> {
    fn build(&mut self) -> Result<Box<dyn Table>, BenchError> {
        let fib = PartialFib::new(FibConfig::new(keys::HASHER).short_keys(self.flows.len()));
        for ((flow, &hash), &value) in self.flows.iter().zip(&self.set.hashes).zip(&self.set.values) {
            fib.insert(flow, hash, [value.into(), 0]).map_err(|error| BenchError::of("full-copy", error))?;
        }
        let fib = Arc::new(fib);
        let node = |value: FibValue| NodeHint::new(value[0] as u16); // a value of at most 8 bits
        Ok(Box::new(FullCopyTable { copy: Arc::new(FullCopy::new(Arc::clone(&fib), node)), fib }))
    }
}

/// The full copy for batches, and its exact table for single keys.
struct FullCopyTable {
    copy: Arc<FullCopy>,
    fib: Arc<PartialFib>,
}

impl Table for FullCopyTable {
    fn table_bytes(&self) -> u64 {
        self.copy.table_bytes() as u64
    }

    fn form(&self) -> KeyForm {
        KeyForm::Flow
    }

    fn lookup(&self, mode: LookupMode, queries: Queries<'_>, answers: &mut [u8]) {
        if mode == LookupMode::Loop {
            for ((flow, &hash), answer) in queries.flows.iter().zip(queries.hashes).zip(answers) {
                *answer = exact(self.fib.get(flow, hash));
            }
            return;
        }
        let mut reader = Arc::clone(&self.copy).reader();
        let ask = |flows: &[_], hashes: &[_], hints: &mut [_]| {
            reader.lookup_batch(KeyBatch::new(flows, hashes), hints);
        };
        // At most 8 bits. A miss matches no value or is detected as a wrong answer.
        let decode = |hint: NodeHint| hint.get() as u8;
        in_batches(mode, (queries.flows, queries.hashes), answers, NodeHint::NONE, ask, decode);
    }

    fn touched(&self, queries: Queries<'_>, visit: &mut dyn FnMut(usize, *const u8)) {
        for (place, (flow, &hash)) in queries.flows.iter().zip(queries.hashes).enumerate() {
            self.fib.touched(flow, hash, &mut |at| visit(place, at));
        }
    }
}
