//! What a run was asked for, checked.

use scalebricks_apps::gateway::{Architecture, Layout};
use scalebricks_elements::gateway::Policy;
use scalebricks_tables::compact::Structure;
use scalebricks_types::{ClusterSize, HashSeed, IdError};
use std::net::Ipv4Addr;

/// Memory of a node for the capacity figure, bytes: 16 MiB, about what a server's last-level cache can spare.
pub const CAPACITY_BUDGET_BYTES: usize = 16 << 20;

/// Most flows of a synthetic run: each UE has an IPv4 address of its own in 10.0.0.0/8.
pub const MAX_FLOWS: u64 = 16_000_000;

/// The gateway's tunnel address: beside the base stations in 172.16.0.0/12, outside the UEs' 10.0.0.0/8.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 31, 255, 254);

/// Nodes of a cluster where nothing was said.
pub const NODES: u16 = 4;

/// A synthetic run that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No such cluster.
    #[error(transparent)]
    Size(#[from] IdError),
    /// Too many flows.
    #[error("{0} flows are more than {MAX_FLOWS}")]
    Flows(u64),
}

/// A checked configuration, shared by synthetic runs and replays.
#[derive(Debug, Clone)]
pub struct DemoConfig {
    /// Nodes.
    pub size: ClusterSize,
    /// The architectures to run, each once, in the order of the figure.
    pub architectures: Vec<Architecture>,
    /// What the GPT is made of.
    pub gpt: Structure,
    /// What nodes decide about packets, the key profile included.
    pub policy: Policy,
    /// Threads the nodes run on.
    pub threads: usize,
    /// What everything random is drawn from.
    pub seed: u64,
    /// Whether regions are spread over the nodes unevenly.
    pub skew: bool,
    /// Flows of a synthetic run.
    pub flows: u32,
    /// Packets an architecture of a synthetic run.
    pub packets: u64,
}

impl DemoConfig {
    /// A synthetic run of all architectures as the demo makes it where nothing else was said.
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

    /// What the tables are made of in an architecture.
    pub const fn layout(&self, architecture: Architecture) -> Layout {
        Layout { size: self.size, architecture, gpt: self.gpt, seed: self.hash_seed() }
    }

    /// The seed of the cluster's key hash.
    pub const fn hash_seed(&self) -> HashSeed {
        HashSeed::from_u64(self.seed)
    }
}
