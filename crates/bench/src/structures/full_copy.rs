//! The full copy: an exact table of flow keys, read as "which node?".

use super::queries::{Form, Mode, Questions, exact, in_batches};
use super::{Build, Table};
use crate::error::BenchError;
use crate::keys::{self, KeySet};
use rayon::prelude::*;
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::full_copy::FullCopy;
use scalebricks_tables::{Fib, FibValue, Gpt, KeyBatch};
use scalebricks_types::{FlowKey, NodeHint};
use std::sync::Arc;

/// Keys and values, ready to be built from.
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
        Ok(Box::new(Copied { copy: Arc::new(FullCopy::new(Arc::clone(&fib), node)), fib }))
    }
}

/// The copy, and the exact table that it is: the one asked for many keys, the other for one.
struct Copied {
    copy: Arc<FullCopy>,
    fib: Arc<PartialFib>,
}

impl Table for Copied {
    fn table_bytes(&self) -> u64 {
        self.copy.table_bytes() as u64
    }

    fn form(&self) -> Form {
        Form::Flow
    }

    fn lookup(&self, mode: Mode, questions: Questions<'_>, answers: &mut [u8]) {
        if mode == Mode::Loop {
            for ((flow, &hash), answer) in questions.flows.iter().zip(questions.hashes).zip(answers) {
                *answer = exact(self.fib.get(flow, hash));
            }
            return;
        }
        let mut reader = Arc::clone(&self.copy).reader();
        let ask = |flows: &[_], hashes: &[_], hints: &mut [_]| {
            reader.lookup_batch(KeyBatch::new(flows, hashes), hints);
        };
        // At most 8 bits; a miss is none of the values, or found out.
        let told = |hint: NodeHint| hint.get() as u8;
        in_batches(mode, (questions.flows, questions.hashes), answers, NodeHint::NONE, ask, told);
    }

    fn touched(&self, questions: Questions<'_>, tell: &mut dyn FnMut(usize, *const u8)) {
        for (place, (flow, &hash)) in questions.flows.iter().zip(questions.hashes).enumerate() {
            self.fib.touched(flow, hash, &mut |at| tell(place, at));
        }
    }
}
