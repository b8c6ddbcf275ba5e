//! The candidates, each with its owner's side.

use crate::error::BenchError;
use crate::keys::{self, KeySet};
use crate::timing;
use scalebricks_tables::compact::{Control, Op, Params, Reader, Structure, Table};
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::full_copy::FullCopy;
use scalebricks_tables::{Fib, FibValue, Gpt, KeyBatch};
use scalebricks_types::{FlowKey, KeyHash, NodeHint, PartitionCount};
use std::sync::Arc;

/// Lookups per call, as in a node.
pub const BATCH: usize = 64;

/// From this many keys on, the key space is partitioned, as in a cluster.
const LARGE: usize = 100_000;

/// Partitions of a large table.
const PARTITIONS: u32 = 64;

/// The kinds of candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A compact table, with a control structure at its owner.
    Compact(Structure),
    /// The FIB of all flows.
    FullCopy,
}

/// A change: hash, flow if the candidate takes flows, and new value.
pub type Change = (KeyHash, Option<FlowKey>, u8);

/// The cost of changes.
#[derive(Debug, Clone, Copy)]
pub struct Changed {
    /// Seconds.
    pub seconds: f64,
    /// Delta bytes, if there are deltas.
    pub bytes: Option<usize>,
}

/// A built candidate.
pub trait Candidate: Send + Sync {
    /// Bytes of the table at every node, and additional bytes at its owner.
    fn bytes(&self) -> (u64, u64);

    /// Looks up all queries `passes` times; returns seconds.
    fn look_up(
        &self,
        queries: (&[KeyHash], &[FlowKey]),
        passes: usize,
        answers: &mut [u8],
    ) -> Result<f64, BenchError>;

    /// Reports the cache lines that lookups read: see [`Table::touched`](crate::structures::Table::touched).
    fn touched(&self, queries: (&[KeyHash], &[FlowKey]), visit: &mut dyn FnMut(usize, *const u8));

    /// Applies changes in batches to the table and its owner.
    fn change(&mut self, changes: &[Change], batch: usize) -> Result<Changed, BenchError>;
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] =
        [Self::Compact(Structure::SetSep), Self::Compact(Structure::Othello), Self::FullCopy];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compact(structure) => structure.name(),
            Self::FullCopy => "full-copy",
        }
    }

    /// Builds it on one thread; returns keys per second.
    pub fn build(self, set: &KeySet) -> Result<(Box<dyn Candidate>, f64), BenchError> {
        let failed = |error: String| BenchError::check(self.name(), error);
        match self {
            Self::Compact(structure) => {
                let partitions = if set.len() < LARGE { 1 } else { PARTITIONS };
                let partitions =
                    PartitionCount::new(partitions).map_err(|error| failed(error.to_string()))?;
                let params = Params::for_keys(structure, set.len() as u64, set.value_bits, partitions)
                    .map_err(|error| failed(error.to_string()))?;
                let entries = set.entries();
                let (built, seconds) = timing::pinned(|| {
                    let control = Control::build(params, &entries)?;
                    let table = control.export();
                    Ok::<_, scalebricks_tables::compact::BuildError>(CompactCandidate {
                        structure,
                        control,
                        table,
                    })
                })?;
                let built = built.map_err(|error| failed(error.to_string()))?;
                Ok((Box::new(built), set.len() as f64 / seconds))
            }
            Self::FullCopy => {
                let flows: Vec<FlowKey> = (0..set.len() as u64).map(keys::flow).collect();
                let fib = PartialFib::new(FibConfig::new(keys::HASHER).short_keys(flows.len()));
                let (done, seconds) = timing::pinned(|| {
                    let mut entries = flows.iter().zip(&set.hashes).zip(&set.values);
                    entries.try_for_each(|((flow, &hash), &value)| fib.insert(flow, hash, [value.into(), 0]))
                })?;
                done.map_err(|error| BenchError::of(self.name(), error))?;
                let fib = Arc::new(fib);
                let node = |value: FibValue| NodeHint::new(value[0] as u16); // a value of at most 8 bits
                let copy = Arc::new(FullCopy::new(Arc::clone(&fib), node));
                Ok((Box::new(FullCopyCandidate { fib, copy }), set.len() as f64 / seconds))
            }
        }
    }
}

struct CompactCandidate {
    structure: Structure,
    control: Control,
    table: Table,
}

impl Candidate for CompactCandidate {
    fn bytes(&self) -> (u64, u64) {
        (self.table.table_bytes() as u64, self.control.control_bytes() as u64)
    }

    fn look_up(
        &self,
        (hashes, _): (&[KeyHash], &[FlowKey]),
        passes: usize,
        answers: &mut [u8],
    ) -> Result<f64, BenchError> {
        let mut reader = Reader::new(&self.table);
        let ((), seconds) = timing::pinned(|| {
            for _ in 0..passes {
                for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
                    reader.lookup_batch(hashes, answers);
                }
            }
        })?;
        Ok(seconds)
    }

    fn touched(&self, (hashes, _): (&[KeyHash], &[FlowKey]), visit: &mut dyn FnMut(usize, *const u8)) {
        let hashes = hashes.iter().enumerate();
        match Reader::new(&self.table) {
            Reader::SetSep(mut reader) => {
                let pin = reader.pin();
                hashes.for_each(|(place, &hash)| pin.touched(hash, &mut |at| visit(place, at)));
            }
            Reader::Othello(mut reader) => {
                let pin = reader.pin();
                hashes.for_each(|(place, &hash)| pin.touched(hash, &mut |at| visit(place, at)));
            }
        }
    }

    fn change(&mut self, changes: &[Change], batch: usize) -> Result<Changed, BenchError> {
        let ops: Vec<Op> = changes.iter().map(|&(hash, _, value)| Op::Update(hash, value)).collect();
        let mut deltas = Vec::with_capacity(ops.len());
        let Self { structure, control, table } = self;
        let (done, seconds) = timing::pinned(|| {
            ops.chunks(batch)
                .try_for_each(|ops| control.batch_with(table, ops).map(|made| deltas.extend(made)))
        })?;
        done.map_err(|error| BenchError::of(structure.name(), error))?;
        let bytes = deltas.iter().map(|delta| delta.encode().len()).sum();
        Ok(Changed { seconds, bytes: Some(bytes) })
    }
}

struct FullCopyCandidate {
    fib: Arc<PartialFib>,
    copy: Arc<FullCopy>,
}

impl Candidate for FullCopyCandidate {
    fn bytes(&self) -> (u64, u64) {
        (self.fib.table_bytes() as u64, 0)
    }

    fn look_up(
        &self,
        (hashes, flows): (&[KeyHash], &[FlowKey]),
        passes: usize,
        answers: &mut [u8],
    ) -> Result<f64, BenchError> {
        let mut reader = Arc::clone(&self.copy).reader();
        let ((), seconds) = timing::pinned(|| {
            let mut hints = [NodeHint::NONE; BATCH];
            for _ in 0..passes {
                let queries = flows.chunks(BATCH).zip(hashes.chunks(BATCH));
                for ((flows, hashes), answers) in queries.zip(answers.chunks_mut(BATCH)) {
                    let hints = &mut hints[..hashes.len()];
                    reader.lookup_batch(KeyBatch::new(flows, hashes), hints);
                    // At most 8 bits. A miss matches no value or is detected as a wrong answer.
                    answers.iter_mut().zip(hints).for_each(|(answer, hint)| *answer = hint.get() as u8);
                }
            }
        })?;
        Ok(seconds)
    }

    fn touched(&self, (hashes, flows): (&[KeyHash], &[FlowKey]), visit: &mut dyn FnMut(usize, *const u8)) {
        for (place, (flow, &hash)) in flows.iter().zip(hashes).enumerate() {
            self.fib.touched(flow, hash, &mut |at| visit(place, at));
        }
    }

    fn change(&mut self, changes: &[Change], _: usize) -> Result<Changed, BenchError> {
        let (done, seconds) = timing::pinned(|| {
            changes.iter().try_for_each(|(hash, flow, value)| {
                flow.iter()
                    .try_for_each(|flow| self.fib.update(flow, *hash, [(*value).into(), 0]).map(|_| ()))
            })
        })?;
        done.map_err(|error| BenchError::of(Kind::FullCopy.name(), error))?;
        Ok(Changed { seconds, bytes: None })
    }
}
