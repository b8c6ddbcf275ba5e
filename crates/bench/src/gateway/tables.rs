//! The tables of the measured node, of several makes.

use super::chained::ChainedHash;
use super::flows::{self, HASHER, HERE};
use crate::error::BenchError;
use scalebricks_dataplane::{FlowCounters, FlowState, NodeTables};
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::setsep::{Params, SetSepBuilder};
use scalebricks_tables::{Fib, FibValue, Gpt, GptReader, KeyBatch};
use scalebricks_types::{ClusterSize, FlowIndex, FlowKey, KeyHash, NodeHint, PartitionCount};
use std::sync::Arc;

/// Who makes the exact table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exact {
    /// `tables::fib`: ours.
    Cuckoo,
    /// Hashing with chaining.
    Chained,
    /// DPDK's `rte_hash`.
    RteHash,
}

impl Exact {
    /// Those that are built in.
    pub fn built_in() -> Vec<Self> {
        let all = [Self::Cuckoo, Self::Chained, Self::RteHash];
        all.into_iter().filter(|exact| cfg!(feature = "dpdk") || *exact != Self::RteHash).collect()
    }

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuckoo => "cuckoo",
            Self::Chained => "chained-hash",
            Self::RteHash => "rte_hash",
        }
    }
}

/// How the cluster spreads its flows, as far as it can be seen at one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// All flows at every node; one table is both tables.
    FullDuplication,
    /// `SetSep` at every node, and flows where they are pinned.
    ScaleBricks,
    /// As the second, with DPDK's EFD in place of `SetSep`.
    Efd,
}

impl Spread {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FullDuplication => "full-duplication",
            Self::ScaleBricks => "scalebricks",
            Self::Efd => "efd",
        }
    }
}

/// The tables of one node, from which any number of nodes can be made.
#[derive(Debug, Clone)]
pub struct Tables {
    /// How the cluster spreads its flows.
    pub spread: Spread,
    /// Who made the exact table.
    pub exact: Exact,
    fib: Arc<dyn Fib>,
    gpt: Arc<dyn Readers>,
    counters: Arc<FlowCounters>,
}

/// Gives readers of a GPT.
pub trait Readers: Send + Sync + std::fmt::Debug {
    /// One.
    fn reader(&self) -> Box<dyn GptReader>;

    /// Bytes of the table, if it is another one than the FIB.
    fn table_bytes(&self) -> usize;
}

/// A FIB of all flows, asked for nodes.
#[derive(Debug, Clone)]
struct Copied(Arc<dyn Fib>);

/// Keys asked for together.
const LANES: usize = 32;

impl GptReader for Copied {
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        let hints = &mut hints[..keys.len()];
        let lanes = keys.keys().chunks(LANES).zip(keys.hashes().chunks(LANES)).zip(hints.chunks_mut(LANES));
        for ((keys, hashes), hints) in lanes {
            let mut values = [None; LANES];
            self.0.lookup_batch(KeyBatch::new(keys, hashes), &mut values);
            for (hint, value) in hints.iter_mut().zip(values) {
                *hint = value.map_or(NodeHint::NONE, FlowState::node_of);
            }
        }
    }
}

impl Readers for Copied {
    fn reader(&self) -> Box<dyn GptReader> {
        Box::new(self.clone())
    }

    fn table_bytes(&self) -> usize {
        0
    }
}

/// Any GPT of ours.
#[derive(Debug)]
struct Ours(Arc<dyn Gpt>);

impl Readers for Ours {
    fn reader(&self) -> Box<dyn GptReader> {
        Arc::clone(&self.0).reader()
    }

    fn table_bytes(&self) -> usize {
        self.0.table_bytes()
    }
}

impl Tables {
    /// What a node is given.
    pub fn for_node(&self) -> NodeTables {
        NodeTables {
            gpt: self.gpt.reader(),
            lookup: None,
            fib: Arc::clone(&self.fib),
            counters: Arc::clone(&self.counters),
        }
    }

    /// Bytes of both tables; counters apart.
    pub fn table_bytes(&self) -> u64 {
        (self.fib.table_bytes() + self.gpt.table_bytes()) as u64
    }

    /// Their name in results.
    pub fn name(&self) -> String {
        format!("{} {}", self.spread.name(), self.exact.name())
    }
}

/// The tables for some flows, each made once.
#[derive(Debug)]
pub struct TableMaker {
    flows: u64,
    size: ClusterSize,
    counters: Arc<FlowCounters>,
    /// `SetSep` and EFD, once made.
    gpts: Vec<(Spread, Arc<dyn Readers>)>,
    fibs: Vec<(Exact, bool, Arc<dyn Fib>)>,
}

impl TableMaker {
    /// For so many flows, each with two keys.
    pub fn new(flows: u64, size: ClusterSize) -> Self {
        let own = (0..flows).filter(|&flow| flows::node_of(flow) == HERE).count();
        let counters = Arc::new(FlowCounters::new(own));
        Self { flows, size, counters, gpts: Vec::new(), fibs: Vec::new() }
    }

    /// The tables of this kind.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if one cannot be filled.
    pub fn tables(&mut self, spread: Spread, exact: Exact) -> Result<Tables, BenchError> {
        let fib = self.fib(exact, spread == Spread::FullDuplication)?;
        let gpt = self.gpt(spread, &fib)?;
        Ok(Tables { spread, exact, fib, gpt, counters: Arc::clone(&self.counters) })
    }

    /// Both keys of all flows with what the FIB holds, one after the other.
    fn entries(&self) -> impl Iterator<Item = (FlowKey, KeyHash, FlowState)> + '_ {
        let mut here = 0;
        (0..self.flows).flat_map(move |flow| {
            let index = FlowIndex(here);
            let state = flows::state(flow, index);
            here += u32::from(state.node == HERE);
            [flows::key(flow), FlowKey::teid(flows::uplink(flow))].map(|key| (key, HASHER.hash(&key), state))
        })
    }

    fn fib(&mut self, exact: Exact, all: bool) -> Result<Arc<dyn Fib>, BenchError> {
        if let Some((.., fib)) = self.fibs.iter().find(|(made, of_all, _)| (*made, *of_all) == (exact, all)) {
            return Ok(Arc::clone(fib));
        }
        let is_here = |state: &FlowState| all || state.node == HERE;
        let keys = self.entries().filter(|(.., state)| is_here(state)).count();
        let fib: Arc<dyn Fib> = match exact {
            Exact::Cuckoo => {
                Arc::new(PartialFib::new(FibConfig::new(HASHER).short_keys(keys).grow_when_full()))
            }
            Exact::Chained => Arc::new(ChainedHash::new(keys)),
            #[cfg(feature = "dpdk")]
            Exact::RteHash => Arc::new(super::dpdk::RteFib::new(keys)?),
            #[cfg(not(feature = "dpdk"))]
            Exact::RteHash => return Err(not_built_in("rte_hash")),
        };
        for (key, hash, state) in self.entries().filter(|(.., state)| is_here(state)) {
            let value: FibValue = state.encode();
            fib.insert(&key, hash, value).map_err(|error| BenchError::of(exact.name(), error))?;
        }
        self.fibs.push((exact, all, Arc::clone(&fib)));
        Ok(fib)
    }

    fn gpt(&mut self, spread: Spread, fib: &Arc<dyn Fib>) -> Result<Arc<dyn Readers>, BenchError> {
        if spread == Spread::FullDuplication {
            return Ok(Arc::new(Copied(Arc::clone(fib))));
        }
        if let Some((_, gpt)) = self.gpts.iter().find(|(made, _)| *made == spread) {
            return Ok(Arc::clone(gpt));
        }
        let gpt = if spread == Spread::Efd { self.efd()? } else { self.setsep()? };
        self.gpts.push((spread, Arc::clone(&gpt)));
        Ok(gpt)
    }

    fn setsep(&self) -> Result<Arc<dyn Readers>, BenchError> {
        let keys: Vec<(KeyHash, u8)> =
            self.entries().map(|(_, hash, state)| (hash, state.node.get())).collect();
        let usage = |error: &dyn std::fmt::Display| BenchError::Usage(error.to_string());
        let partitions = PartitionCount::new(64).map_err(|error| usage(&error))?;
        let params = Params::for_keys(keys.len() as u64, self.size.value_bits(), partitions)
            .map_err(|error| usage(&error))?;
        let control =
            SetSepBuilder::new(params).build(&keys).map_err(|error| BenchError::of("setsep", error))?;
        Ok(Arc::new(Ours(Arc::new(control.export()))))
    }

    #[cfg(feature = "dpdk")]
    fn efd(&self) -> Result<Arc<dyn Readers>, BenchError> {
        Ok(Arc::new(super::dpdk::EfdGpt::new(2 * self.flows, self.entries())?))
    }

    #[cfg(not(feature = "dpdk"))]
    #[expect(clippy::unused_self, reason = "the other one needs it")]
    fn efd(&self) -> Result<Arc<dyn Readers>, BenchError> {
        Err(not_built_in("EFD"))
    }
}

/// What needs DPDK.
#[cfg(not(feature = "dpdk"))]
fn not_built_in(what: &str) -> BenchError {
    BenchError::Usage(format!("{what} was not built in: build with --features dpdk"))
}
