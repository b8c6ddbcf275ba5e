//! What changes in a node's elements while they run.

use super::permit::Permit;
use super::route_cache::RouteCache;
use super::{FabricOut, FabricSort, Handle, Probes, Steer, ToNextHop, ToPort, Valiant};
use crate::gateway::fabric::health::FabricHealth;
use crate::gateway::fabric::lease::Lease;
use crate::gateway::outside::adjacency::Adjacencies;
use crate::gateway::outside::down_links::DownLinks;
use scalebricks_graph::Graph;
use scalebricks_io::PacketBuf;
use std::sync::Arc;

/// Uses this lease from now on.
pub fn set_lease<P: PacketBuf + 'static>(graph: &mut Graph<P>, lease: &Arc<Lease>) {
    let permit = || Permit::of(Arc::clone(lease));
    graph.each_mut(|steer: &mut Steer<P>| steer.permit = permit());
    graph.each_mut(|handle: &mut Handle<P>| handle.permit = permit());
    graph.each_mut(|sort: &mut FabricSort| sort.permit = permit());
    graph.each_mut(|fabric: &mut FabricOut<P>| fabric.permit = permit());
}

/// Replaces the next hops, and the local addresses that belong to them.
pub fn set_adjacencies<P: PacketBuf + 'static>(graph: &mut Graph<P>, adjacencies: &Arc<Adjacencies>) {
    graph.each_mut(|steer: &mut Steer<P>| steer.classifier.set_adjacencies(adjacencies));
    graph.each_mut(|handle: &mut Handle<P>| {
        handle.classifier.set_adjacencies(adjacencies);
        handle.tunnels.adjacencies = Arc::clone(adjacencies);
    });
    graph.each_mut(|to: &mut ToNextHop| to.adjacencies = Arc::clone(adjacencies));
}

/// Uses these flags of down links.
pub fn set_down_links<P: PacketBuf + 'static>(graph: &mut Graph<P>, down: &Arc<DownLinks>) {
    graph.each_mut(|port: &mut ToPort| port.down = Arc::clone(down));
    graph.each_mut(|fabric: &mut FabricOut<P>| fabric.down = Arc::clone(down));
}

/// Starts probing and routing around failures.
pub fn set_fabric_health<P: PacketBuf + 'static>(graph: &mut Graph<P>, health: &Arc<FabricHealth>) {
    let ways = || RouteCache::of(Arc::clone(health));
    graph.each_mut(|probes: &mut Probes| probes.set_health(Arc::clone(health)));
    graph.each_mut(|valiant: &mut Valiant| valiant.ways = ways());
    graph.each_mut(|fabric: &mut FabricOut<P>| fabric.ways = ways());
}
