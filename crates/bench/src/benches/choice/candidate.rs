//! The candidates, each with its owner's side.

use crate::error::{BenchError, OrFail};
use crate::keys::{self, KeySet};
use crate::structures::{self, CompactTable, FullCopyTable};
use crate::timing;
use scalebricks_tables::Fib;
use scalebricks_tables::compact::{BuildError, Control, Op, Params, Structure, Table};
use scalebricks_tables::isa::Isa;
use scalebricks_types::{FlowKey, KeyHash, PartitionCount};
use std::sync::Arc;

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

/// A change: hash, number of the flow, and new value.
pub type Change = (KeyHash, u64, u8);

/// Applies changes in batches to the table and its owner; returns seconds, and delta bytes if there are deltas.
pub type ApplyChanges =
    Box<dyn FnMut(&[Change], usize) -> Result<(f64, Option<usize>), BenchError> + Send + Sync>;

/// A built candidate.
pub struct Candidate {
    /// The table at every node.
    pub table: Box<dyn structures::Table>,
    /// Additional bytes at its owner.
    pub control_bytes: u64,
    /// Applies changes.
    pub change: ApplyChanges,
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
    pub fn build(self, set: &KeySet) -> Result<(Candidate, f64), BenchError> {
        let (candidate, seconds) = match self {
            Self::Compact(structure) => compact(structure, set)?,
            Self::FullCopy => full_copy(set)?,
        };
        Ok((candidate, set.len() as f64 / seconds))
    }
}

fn compact(structure: Structure, set: &KeySet) -> Result<(Candidate, f64), BenchError> {
    let name = structure.name();
    let partitions = PartitionCount::new(if set.len() < LARGE { 1 } else { PARTITIONS }).of(name)?;
    let params = Params::for_keys(structure, set.len() as u64, set.value_bits, partitions).of(name)?;
    let entries = set.entries();
    let (built, seconds) = timing::pinned(|| {
        let control = Control::build(params, &entries)?;
        let table = control.export();
        Ok::<_, BuildError>((control, table))
    })?;
    let (mut control, owned) = built.of(name)?;
    let isa = Isa::best();
    let table: Box<dyn structures::Table> = match &owned {
        Table::SetSep(table) => {
            Box::new(CompactTable::<structures::SetSep> { table: Arc::clone(table), isa })
        }
        Table::Othello(table) => {
            Box::new(CompactTable::<structures::Othello> { table: Arc::clone(table), isa })
        }
    };
    let control_bytes = control.control_bytes() as u64;
    let change = move |changes: &[Change], batch: usize| {
        let ops: Vec<Op> = changes.iter().map(|&(hash, _, value)| Op::Update(hash, value)).collect();
        let mut deltas = Vec::with_capacity(ops.len());
        let (done, seconds) = timing::pinned(|| {
            ops.chunks(batch)
                .try_for_each(|ops| control.batch_with(&owned, ops).map(|made| deltas.extend(made)))
        })?;
        done.of(name)?;
        Ok((seconds, Some(deltas.iter().map(|delta| delta.encode().len()).sum())))
    };
    Ok((Candidate { table, control_bytes, change: Box::new(change) }, seconds))
}

fn full_copy(set: &KeySet) -> Result<(Candidate, f64), BenchError> {
    let flows: Vec<FlowKey> = (0..set.len() as u64).map(keys::flow).collect();
    let (copy, seconds) = timing::pinned(|| FullCopyTable::new(&flows, set))?;
    let copy = copy?;
    let fib = Arc::clone(copy.0.fib());
    let change = move |changes: &[Change], _| {
        let flows: Vec<FlowKey> = changes.iter().map(|&(_, number, _)| keys::flow(number)).collect();
        let (done, seconds) = timing::pinned(|| {
            let mut changes = flows.iter().zip(changes);
            changes
                .try_for_each(|(flow, &(hash, _, value))| fib.update(flow, hash, [value.into(), 0]).map(drop))
        })?;
        done.of(Kind::FullCopy.name())?;
        Ok((seconds, None))
    };
    Ok((Candidate { table: Box::new(copy), control_bytes: 0, change: Box::new(change) }, seconds))
}
