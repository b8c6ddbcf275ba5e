//! The configuration that a node's elements are created with.

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

/// The configuration that a node's elements are created with.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// The node's number.
    pub id: NodeId,
    /// The number of nodes.
    pub size: ClusterSize,
    /// The cluster's policy.
    pub policy: Policy,
    /// The cluster's secret.
    pub seed: HashSeed,
    /// The node's MAC addresses.
    pub macs: OutsideMacs,
    /// The node's own IP addresses on the Internet link, unless `adjacencies` has others. Packets to them belong to no
    /// flow.
    pub addresses: Arc<[IpAddr]>,
    /// The initial next hops on the outside links.
    pub adjacencies: Arc<Adjacencies>,
    /// Source of IP identifications for fragmented outer packets. All workers of the node share it.
    pub identifications: Arc<Identifications>,
    /// What handles packets instead of tunnels: an appliance as a configuration in the Click language. The policy's keys
    /// must be those of the appliance.
    pub appliance: Option<Arc<str>>,
}

impl NodeConfig {
    /// The node's own addresses on the Internet link at start.
    pub(crate) fn own(&self) -> LocalAddresses {
        let own = self.adjacencies.own().cloned();
        own.unwrap_or_else(|| LocalAddresses::new(Arc::clone(&self.addresses)))
    }
}
