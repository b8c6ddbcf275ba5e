//! The tables of the measured node, of several makes.

use super::chained::ChainedHash;
use super::flows::{self, HASHER};
use crate::error::BenchError;
use crate::row::Subject;
use scalebricks_dataplane::{Architecture, FlowCounters, FlowState, NodeTables};
use scalebricks_tables::fib::{FibConfig, PartialFib};
use scalebricks_tables::hash_partition::HashPartition;
use scalebricks_tables::setsep::{Params, SetSepBuilder};
use scalebricks_tables::{Fib, FibValue, Gpt, GptReader, KeyBatch};
use scalebricks_types::{ClusterSize, FlowIndex, FlowKey, KeyHash, NodeHint, NodeId, PartitionCount};
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
    /// As the first; packets take detours.
    Vlb,
    /// Flows where they are pinned, and where that is at the node that the hash names.
    HashPartition,
}

impl Spread {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FullDuplication => "full-duplication",
            Self::ScaleBricks => "scalebricks",
            Self::Efd => "efd",
            Self::Vlb => "vlb",
            Self::HashPartition => "hash-partition",
        }
    }

    /// The way of packets through the cluster.
    pub const fn architecture(self) -> Architecture {
        match self {
            Self::FullDuplication => Architecture::FullDuplication,
            Self::ScaleBricks | Self::Efd => Architecture::ScaleBricks,
            Self::Vlb => Architecture::Vlb,
            Self::HashPartition => Architecture::HashPartition,
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
    /// Where the flows are for which the node is asked: hash partition only.
    lookup: Option<Arc<dyn Readers>>,
    /// One a worker, as each writes its own.
    counters: [Arc<FlowCounters>; 2],
}

/// Gives readers of a GPT.
pub trait Readers: Send + Sync + std::fmt::Debug {
    /// One.
    fn reader(&self) -> Box<dyn GptReader>;

    /// Bytes of the table, if it is another one than the FIB.
    fn table_bytes(&self) -> usize;

    /// Bits of its values, if it is compact.
    fn value_bits(&self) -> Option<u8> {
        None
    }
}

/// A FIB asked for nodes. Where it is the node's own, which holds all flows, packets ask the FIB instead.
#[derive(Debug, Clone)]
struct Copied {
    fib: Arc<dyn Fib>,
    is_own: bool,
}

/// Keys asked for together: as many as a node asks for.
const LANES: usize = 64;

impl GptReader for Copied {
    fn lookup_batch(&mut self, keys: KeyBatch<'_>, hints: &mut [NodeHint]) {
        let hints = &mut hints[..keys.len()];
        let lanes = keys.keys().chunks(LANES).zip(keys.hashes().chunks(LANES)).zip(hints.chunks_mut(LANES));
        for ((keys, hashes), hints) in lanes {
            let mut values = [None; LANES];
            self.fib.lookup_batch(KeyBatch::new(keys, hashes), &mut values);
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
        if self.is_own { 0 } else { self.fib.table_bytes() }
    }
}

/// Any GPT of ours, and the bits of its values.
#[derive(Debug)]
struct Ours(Arc<dyn Gpt>, Option<u8>);

impl Readers for Ours {
    fn reader(&self) -> Box<dyn GptReader> {
        Arc::clone(&self.0).reader()
    }

    fn table_bytes(&self) -> usize {
        self.0.table_bytes()
    }

    fn value_bits(&self) -> Option<u8> {
        self.1
    }
}

impl Tables {
    /// What one of a node's two workers is given.
    pub fn for_worker(&self, worker: usize) -> NodeTables {
        NodeTables {
            gpt: self.gpt.reader(),
            lookup: self.lookup.as_ref().map(|lookup| lookup.reader()),
            fib: Arc::clone(&self.fib),
            counters: Arc::clone(&self.counters[worker % 2]),
        }
    }

    /// Bytes of all tables; counters apart.
    pub fn table_bytes(&self) -> u64 {
        let lookup = self.lookup.as_ref().map_or(0, |lookup| lookup.table_bytes());
        (self.fib.table_bytes() + self.gpt.table_bytes() + lookup) as u64
    }

    /// A subject with what is to be said of them: their bytes, the bits of the GPT's values, and the keys that a node asks for at
    /// once.
    pub fn describe(&self, subject: Subject) -> Subject {
        let (table_bytes, value_bits) = (Some(self.table_bytes()), self.gpt.value_bits());
        Subject { table_bytes, value_bits, batch: Some(LANES), ..subject }
    }

    /// Their name in results.
    pub fn name(&self) -> String {
        format!("{} {}", self.spread.name(), self.exact.name())
    }
}

/// Which flows a FIB holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// All.
    All,
    /// Those pinned to the node.
    Own,
    /// Those whose place the node is asked for in a hash partition.
    Share,
}

/// The tables of one node for some flows, each made once.
#[derive(Debug)]
pub struct TableMaker {
    flows: u64,
    size: ClusterSize,
    node: NodeId,
    counters: [Arc<FlowCounters>; 2],
    /// `SetSep` and EFD, once made.
    gpts: Vec<(Spread, Arc<dyn Readers>)>,
    fibs: Vec<(Exact, Holds, Arc<dyn Fib>)>,
}

impl TableMaker {
    /// For so many flows, each with two keys, at this node.
    pub fn new(flows: u64, size: ClusterSize, node: NodeId) -> Self {
        let own = (0..flows).filter(|&flow| flows::node_of(flow) == node).count();
        let counters = [(); 2].map(|()| Arc::new(FlowCounters::new(own)));
        Self { flows, size, node, counters, gpts: Vec::new(), fibs: Vec::new() }
    }

    /// The tables of this kind.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if one cannot be filled.
    pub fn tables(&mut self, spread: Spread, exact: Exact) -> Result<Tables, BenchError> {
        let holds_all = spread.architecture().holds_all_flows();
        let fib = self.fib(exact, if holds_all { Holds::All } else { Holds::Own })?;
        let gpt = self.gpt(spread, &fib)?;
        let lookup = match spread {
            Spread::HashPartition => {
                let fib = self.fib(exact, Holds::Share)?;
                Some(Arc::new(Copied { fib, is_own: false }) as Arc<dyn Readers>)
            }
            _ => None,
        };
        Ok(Tables { spread, exact, fib, gpt, lookup, counters: self.counters.clone() })
    }

    /// Both keys of all flows with what the FIB holds, one after the other.
    fn entries(&self) -> impl Iterator<Item = (FlowKey, KeyHash, FlowState)> + '_ {
        let mut here = 0;
        (0..self.flows).flat_map(move |flow| {
            let index = FlowIndex(here);
            let state = flows::state(flow, index);
            here += u32::from(state.node == self.node);
            [flows::key(flow), FlowKey::teid(flows::uplink(flow))].map(|key| (key, HASHER.hash(&key), state))
        })
    }

    fn fib(&mut self, exact: Exact, holds: Holds) -> Result<Arc<dyn Fib>, BenchError> {
        if let Some((.., fib)) = self.fibs.iter().find(|(made, held, _)| (*made, *held) == (exact, holds)) {
            return Ok(Arc::clone(fib));
        }
        let partition = HashPartition::new(self.size);
        let is_held = |(_, hash, state): &(FlowKey, KeyHash, FlowState)| match holds {
            Holds::All => true,
            Holds::Own => state.node == self.node,
            Holds::Share => partition.node(*hash) == self.node,
        };
        let keys = self.entries().filter(is_held).count();
        let filled = |fib: &dyn Fib| {
            self.entries().filter(is_held).try_for_each(|(key, hash, state)| {
                let value: FibValue = state.encode();
                fib.insert(&key, hash, value).map_err(|error| BenchError::of(exact.name(), error))
            })
        };
        let fib: Arc<dyn Fib> = match exact {
            Exact::Cuckoo => {
                let fib = PartialFib::new(FibConfig::new(HASHER).short_keys(keys).grow_when_full());
                filled(&fib)?;
                Arc::new(fib)
            }
            Exact::Chained => {
                let fib = ChainedHash::new(keys);
                filled(&fib)?;
                Arc::new(fib.freeze())
            }
            #[cfg(feature = "dpdk")]
            Exact::RteHash => {
                let fib = super::dpdk::RteFib::new(keys)?;
                filled(&fib)?;
                Arc::new(fib.freeze())
            }
            #[cfg(not(feature = "dpdk"))]
            Exact::RteHash => return Err(not_built_in("rte_hash")),
        };
        self.fibs.push((exact, holds, Arc::clone(&fib)));
        Ok(fib)
    }

    fn gpt(&mut self, spread: Spread, fib: &Arc<dyn Fib>) -> Result<Arc<dyn Readers>, BenchError> {
        if spread.architecture().holds_all_flows() {
            return Ok(Arc::new(Copied { fib: Arc::clone(fib), is_own: true }));
        }
        if let Some((_, gpt)) = self.gpts.iter().find(|(made, _)| *made == spread) {
            return Ok(Arc::clone(gpt));
        }
        let gpt = match spread {
            Spread::Efd => self.efd()?,
            Spread::HashPartition => Arc::new(Ours(Arc::new(HashPartition::new(self.size)), None)),
            _ => self.setsep()?,
        };
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
        Ok(Arc::new(Ours(Arc::new(control.export()), Some(self.size.value_bits()))))
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
