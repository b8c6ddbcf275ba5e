//! What the elements of a node are told when they are made.

use super::outside::local_addrs::LocalAddresses;
use super::{Adjacencies, Identifications, Policy};
use scalebricks_types::{ClusterSize, HashSeed, NodeId};
use scalebricks_wire::MacAddr;
use std::net::IpAddr;
use std::sync::Arc;

/// The MAC addresses on a node's outside links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsideMacs {
    /// The node's own, on the Internet link.
    pub internet: MacAddr,
    /// The node's own, on the base-station link.
    pub base_station: MacAddr,
    /// The router towards the Internet.
    pub router: MacAddr,
}

/// What the elements of a node are told when they are made.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Its number.
    pub id: NodeId,
    /// How many nodes there are.
    pub size: ClusterSize,
    /// The cluster's policy.
    pub policy: Policy,
    /// The cluster's secret.
    pub seed: HashSeed,
    /// Its MAC addresses.
    pub macs: OutsideMacs,
    /// Its own IP addresses on the Internet link, unless `adjacencies` know others: what is for them is for no flow.
    pub addresses: Arc<[IpAddr]>,
    /// Where frames go on the outside links, to begin with.
    pub adjacencies: Arc<Adjacencies>,
    /// What outer packets that are fragmented are identified by: the node's part, shared by all its workers.
    pub identifications: Arc<Identifications>,
}

impl NodeConfig {
    /// What is for the node itself on the Internet link, to begin with.
    pub(crate) fn own(&self) -> LocalAddresses {
        let own = self.adjacencies.own().cloned();
        own.unwrap_or_else(|| LocalAddresses::new(Arc::clone(&self.addresses)))
    }
}
