//! Several kinds of tables for the measured node.

use super::chained::ChainedHash;
use super::flows::{self, HASHER};
use crate::error::BenchError;
use crate::row::Case;
use scalebricks_apps::gateway::flow_tables::bulk;
use scalebricks_apps::gateway::{Architecture, FlowTables, Layout, NodeTables};
use scalebricks_elements::gateway::FlowState;
use scalebricks_tables::compact::Structure;
use scalebricks_tables::hash_partition::HashPartition;
use scalebricks_tables::{Fib, FibValue, GptReader, KeyBatch};
use scalebricks_types::{ClusterSize, FlowIndex, FlowKey, KeyHash, NodeHint, NodeId};
use std::sync::Arc;

/// The kind of exact table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExactTable {
    /// `tables::fib`, our own.
    Cuckoo,
    /// Hashing with chaining.
    Chained,
    /// DPDK's `rte_hash`.
    RteHash,
}

impl ExactTable {
    /// The available kinds.
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

/// How the cluster distributes its flows, as seen by one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// All flows at every node; one table serves as both.
    FullDuplication,
    /// `SetSep` at every node, and flows where they are pinned.
    ScaleBricks,
    /// Like `ScaleBricks`, with DPDK's EFD instead of `SetSep`.
    Efd,
    /// Like `FullDuplication`, with detours.
    Vlb,
    /// Flows where they are pinned; the node selected by the hash knows where that is.
    HashPartition,
}

impl Placement {
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

    /// The architecture, which determines the path of packets.
    pub const fn architecture(self) -> Architecture {
        match self {
            Self::FullDuplication => Architecture::FullDuplication,
            Self::ScaleBricks | Self::Efd => Architecture::ScaleBricks,
            Self::Vlb => Architecture::Vlb,
            Self::HashPartition => Architecture::HashPartition,
        }
    }
}

/// The tables of one node, for any number of node instances: ours, with some replaced by those of others.
#[derive(Debug, Clone)]
pub struct Tables {
    /// How the cluster distributes its flows.
    pub spread: Placement,
    /// The kind of exact table.
    pub exact: ExactTable,
    /// Always present, because it holds the counters, one set per worker.
    ours: Arc<FlowTables>,
    foreign: ForeignTables,
}

/// Tables that replace ours.
#[derive(Debug, Clone, Default)]
struct ForeignTables {
    fib: Option<Arc<dyn Fib>>,
    gpt: Option<Arc<dyn GptSource>>,
    /// The locations of the flows whose node this node is asked for; hash partitioning only.
    lookup: Option<Arc<dyn GptSource>>,
}

/// A GPT of another kind, which gives out readers.
pub trait GptSource: Send + Sync + std::fmt::Debug {
    /// A reader.
    fn reader(&self) -> Box<dyn GptReader>;

    /// Bytes of the table if it is not the FIB itself.
    fn table_bytes(&self) -> usize;

    /// Bits per value if it is compact.
    fn value_bits(&self) -> Option<u8> {
        None
    }
}

/// A FIB that serves as a GPT. If it holds all flows of the node, packets query the FIB directly.
#[derive(Debug, Clone)]
struct FibAsGpt {
    fib: Arc<dyn Fib>,
    is_own: bool,
}

/// Keys looked up together, as many as a node looks up.
const LANES: usize = 64;

impl GptReader for FibAsGpt {
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

impl GptSource for FibAsGpt {
    fn reader(&self) -> Box<dyn GptReader> {
        Box::new(self.clone())
    }

    fn table_bytes(&self) -> usize {
        if self.is_own { 0 } else { self.fib.table_bytes() }
    }
}

impl Tables {
    /// The tables for one of the node's two workers.
    pub fn for_worker(&self, worker: usize) -> NodeTables {
        let ours = self.ours.node_tables(worker % WORKERS);
        let ForeignTables { fib, gpt, lookup } = &self.foreign;
        NodeTables {
            architecture: ours.architecture,
            gpt: gpt.as_ref().map_or(ours.gpt, |gpt| gpt.reader()),
            lookup: lookup.as_ref().map_or(ours.lookup, |lookup| Some(lookup.reader())),
            fib: fib.as_ref().map_or(ours.fib, Arc::clone),
            counters: ours.counters,
        }
    }

    /// Bytes of all tables, without counters.
    pub fn table_bytes(&self) -> u64 {
        let (sizes, ForeignTables { fib, gpt, lookup }) = (self.ours.sizes(), &self.foreign);
        let fib = fib.as_ref().map_or(sizes.fib_bytes, |fib| fib.table_bytes());
        let which = gpt.as_ref().or(lookup.as_ref()).map_or(sizes.gpt_bytes, |which| which.table_bytes());
        (fib + which) as u64
    }

    /// Bits per GPT value if it is compact.
    fn value_bits(&self) -> Option<u8> {
        match &self.foreign.gpt {
            Some(gpt) => gpt.value_bits(),
            None => self.ours.value_bits(),
        }
    }

    /// Completes a case with the bytes of the tables, the bits per GPT value, and the keys per call.
    pub fn describe(&self, case: Case) -> Case {
        let (table_bytes, value_bits) = (Some(self.table_bytes()), self.value_bits());
        case.table_bytes(table_bytes).value_bits(value_bits).batch(LANES)
    }

    /// Their name in results.
    pub fn name(&self) -> String {
        format!("{} {}", self.spread.name(), self.exact.name())
    }
}

/// Maximum workers of a node.
const WORKERS: usize = 2;

/// The flows that a replaced FIB holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldFlows {
    /// All flows.
    All,
    /// Flows pinned to the node.
    Own,
    /// Flows whose location the node is asked for in a hash partition.
    Share,
}

/// Makes the tables of one node, each once.
#[derive(Debug)]
pub struct TableFactory {
    flows: u64,
    size: ClusterSize,
    node: NodeId,
    ours: Vec<(Architecture, Arc<FlowTables>)>,
    foreign: Vec<(ExactTable, HeldFlows, Arc<dyn Fib>)>,
    #[cfg(feature = "dpdk")]
    efd: Option<Arc<dyn GptSource>>,
}

impl TableFactory {
    /// A factory for `flows` flows with two keys each, at this node.
    pub const fn new(flows: u64, size: ClusterSize, node: NodeId) -> Self {
        Self {
            flows,
            size,
            node,
            ours: Vec::new(),
            foreign: Vec::new(),
            #[cfg(feature = "dpdk")]
            efd: None,
        }
    }

    /// The tables of this kind.
    ///
    /// # Errors
    /// [`BenchError::Structure`] if one cannot be filled.
    pub fn tables(&mut self, spread: Placement, exact: ExactTable) -> Result<Tables, BenchError> {
        let architecture = spread.architecture();
        let mut foreign = ForeignTables::default();
        if exact != ExactTable::Cuckoo {
            let holds = if architecture.holds_all_flows() { HeldFlows::All } else { HeldFlows::Own };
            let fib = self.foreign(exact, holds)?;
            if architecture.holds_all_flows() {
                foreign.gpt = Some(Arc::new(FibAsGpt { fib: Arc::clone(&fib), is_own: true }));
            }
            if architecture == Architecture::HashPartition {
                let fib = self.foreign(exact, HeldFlows::Share)?;
                foreign.lookup = Some(Arc::new(FibAsGpt { fib, is_own: false }));
            }
            foreign.fib = Some(fib);
        }
        if spread == Placement::Efd {
            foreign.gpt = Some(self.efd()?);
        }
        // A node with a replaced FIB uses only SetSep of our tables.
        let is_asked = exact == ExactTable::Cuckoo || spread == Placement::ScaleBricks;
        let ours = if is_asked { self.ours(architecture)? } else { self.counters(architecture)? };
        Ok(Tables { spread, exact, ours, foreign })
    }

    fn layout(&self, architecture: Architecture) -> Layout {
        Layout { size: self.size, architecture, gpt: Structure::SetSep, seed: flows::SEED }
    }

    /// Our tables for the node. Detours do not change tables.
    fn ours(&mut self, architecture: Architecture) -> Result<Arc<FlowTables>, BenchError> {
        let architecture =
            if architecture.holds_all_flows() { Architecture::FullDuplication } else { architecture };
        if let Some((_, ours)) = self.ours.iter().find(|(made, _)| *made == architecture) {
            return Ok(Arc::clone(ours));
        }
        let failed = |error| BenchError::of(architecture.name(), error);
        let (layout, flows) = (self.layout(architecture), (0..self.flows).map(flows::spec));
        let mut filled = bulk::fill(&layout, [self.node], WORKERS, &flows).map_err(failed)?;
        let ours = filled.pop().ok_or_else(|| BenchError::check("gateway", "it has no node"))?;
        self.ours.push((architecture, Arc::new(ours)));
        self.ours(architecture)
    }

    /// Our tables without flows, but with counters for the node's own flows.
    fn counters(&self, architecture: Architecture) -> Result<Arc<FlowTables>, BenchError> {
        let failed = |error| BenchError::of(architecture.name(), error);
        let ours = FlowTables::new(&self.layout(architecture), self.node, WORKERS, 0).map_err(failed)?;
        let own = (0..self.flows).filter(|&flow| flows::node_of(flow) == self.node).count();
        (0..WORKERS).for_each(|worker| ours.node_tables(worker).counters.reserve(own));
        Ok(Arc::new(ours))
    }

    /// Both keys of all flows with their FIB entries.
    fn entries(&self) -> impl Iterator<Item = (FlowKey, KeyHash, FlowState)> + '_ {
        let mut here = 0;
        (0..self.flows).flat_map(move |flow| {
            let index = FlowIndex(here);
            let state = flows::state(flow, index);
            here += u32::from(state.node == self.node);
            flows::spec(flow).keys().map(|key| (key, HASHER.hash(&key), state))
        })
    }

    /// An exact table of another kind.
    fn foreign(&mut self, exact: ExactTable, holds: HeldFlows) -> Result<Arc<dyn Fib>, BenchError> {
        if let Some((.., fib)) = self.foreign.iter().find(|(made, held, _)| (*made, *held) == (exact, holds))
        {
            return Ok(Arc::clone(fib));
        }
        let partition = HashPartition::new(self.size);
        let is_held = |(_, hash, state): &(FlowKey, KeyHash, FlowState)| match holds {
            HeldFlows::All => true,
            HeldFlows::Own => state.node == self.node,
            HeldFlows::Share => partition.node(*hash) == self.node,
        };
        let keys = self.entries().filter(is_held).count();
        let filled = |fib: &dyn Fib| {
            self.entries().filter(is_held).try_for_each(|(key, hash, state)| {
                let value: FibValue = state.encode();
                fib.insert(&key, hash, value).map_err(|error| BenchError::of(exact.name(), error))
            })
        };
        let fib: Arc<dyn Fib> = match exact {
            ExactTable::Cuckoo => return Err(BenchError::check("gateway", "cuckoo is ours")),
            ExactTable::Chained => {
                let fib = ChainedHash::new(keys);
                filled(&fib)?;
                Arc::new(fib.freeze())
            }
            #[cfg(feature = "dpdk")]
            ExactTable::RteHash => {
                let fib = super::dpdk::RteFib::new(keys)?;
                filled(&fib)?;
                Arc::new(fib.freeze())
            }
            #[cfg(not(feature = "dpdk"))]
            ExactTable::RteHash => return Err(not_built_in("rte_hash")),
        };
        self.foreign.push((exact, holds, Arc::clone(&fib)));
        Ok(fib)
    }

    #[cfg(feature = "dpdk")]
    fn efd(&mut self) -> Result<Arc<dyn GptSource>, BenchError> {
        if let Some(efd) = &self.efd {
            return Ok(Arc::clone(efd));
        }
        let efd: Arc<dyn GptSource> = Arc::new(super::dpdk::EfdGpt::new(2 * self.flows, self.entries())?);
        self.efd = Some(Arc::clone(&efd));
        Ok(efd)
    }

    #[cfg(not(feature = "dpdk"))]
    #[expect(clippy::unused_self, reason = "the other one needs it")]
    fn efd(&self) -> Result<Arc<dyn GptSource>, BenchError> {
        Err(not_built_in("EFD"))
    }
}

/// The error for kinds that need DPDK.
#[cfg(not(feature = "dpdk"))]
fn not_built_in(what: &str) -> BenchError {
    BenchError::Usage(format!("{what} was not built in: build with --features dpdk"))
}
