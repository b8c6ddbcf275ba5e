//! The configuration of a run.

use scalebricks_apps::gateway::flow_tables::capacity::{capacity, capacity_by_formula};
use scalebricks_apps::gateway::{Architecture, FlowTablesError, Layout};
use scalebricks_elements::gateway::Policy;
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, HashSeed, IdError};
use std::net::Ipv4Addr;

/// Memory of a node for the capacity figure, bytes: 16 MiB, about the last-level cache that a server can spare.
pub const CAPACITY_BUDGET_BYTES: usize = 16 << 20;

/// Most flows of a synthetic run: each UE has an IPv4 address in 10.0.0.0/8.
pub const MAX_FLOWS: u64 = 16_000_000;

/// The gateway's tunnel address: beside the base stations in 172.16.0.0/12, outside the UEs' 10.0.0.0/8.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 31, 255, 254);

/// Default number of nodes.
pub const NODES: u16 = 4;

/// An impossible synthetic run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The number of nodes is impossible.
    #[error(transparent)]
    Size(#[from] IdError),
    /// Too many flows.
    #[error("{0} flows are more than {MAX_FLOWS}")]
    Flows(u64),
}

/// The configuration of synthetic runs and replays.
#[derive(Debug, Clone)]
pub struct DemoConfig {
    /// Nodes.
    pub size: ClusterSize,
    /// The architectures to run.
    pub architectures: Vec<Architecture>,
    /// Structure of the GPT.
    pub gpt: Structure,
    /// The nodes' policy, with the key profile.
    pub policy: Policy,
    /// Threads of the nodes.
    pub threads: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether nodes have different numbers of regions.
    pub skew: bool,
    /// Flows of a synthetic run.
    pub flows: u32,
    /// Packets per architecture of a synthetic run.
    pub packets: u64,
}

impl DemoConfig {
    /// A synthetic run of all architectures with the demo's defaults.
    ///
    /// # Errors
    /// [`ConfigError::Flows`].
    pub fn synthetic(flows: u64, packets: u64, threads: usize) -> Result<Self, ConfigError> {
        if flows > MAX_FLOWS {
            return Err(ConfigError::Flows(flows));
        }
        Ok(Self {
            size: ClusterSize::new(usize::from(NODES))?,
            architectures: Architecture::ALL.to_vec(),
            gpt: Structure::default(),
            policy: Policy { gateway_address: GATEWAY, ..Policy::default() },
            threads,
            seed: 1,
            skew: false,
            flows: flows as u32, // at most MAX_FLOWS
            packets,
        })
    }

    /// How many flows fit in the tables of a cluster whose nodes have [`CAPACITY_BUDGET_BYTES`] each: measured by filling the
    /// tables, which takes about a second, and by the paper's formula.
    ///
    /// # Errors
    /// [`FlowTablesError`] if the tables cannot be created.
    pub fn capacity(&self, architecture: Architecture) -> Result<(u64, u64), FlowTablesError> {
        let layout = Layout { size: self.size, architecture, gpt: self.gpt, seed: self.hash_seed() };
        let filled = capacity(&layout, CAPACITY_BUDGET_BYTES)?;
        let formula = capacity_by_formula(architecture, self.size, CAPACITY_BUDGET_BYTES);
        #[expect(clippy::cast_sign_loss, reason = "a count of flows is not negative")]
        Ok((filled.flows, formula as u64))
    }

    /// The seed of the cluster's key hash.
    pub const fn hash_seed(&self) -> HashSeed {
        HashSeed::from_u64(self.seed)
    }
}
