//! What a node's elements are told while it runs.

use super::permit::Permit;
use super::ways::Ways;
use super::wiring::name;
use super::{FabricOut, FabricSort, Handle, Probes, Steer, ToPort, Valiant};
use crate::adjacency::Adjacencies;
use crate::down_links::DownLinks;
use crate::fabric_health::FabricHealth;
use crate::lease::Lease;
use scalebricks_graph::Graph;
use scalebricks_io::PacketBuf;
use std::sync::Arc;

/// Gives a setting to each element of these names that the graph has.
macro_rules! each {
    ($graph:ident, $class:ty, [$($name:expr),+], |$element:ident| $set:expr) => {
        for name in [$($name),+] {
            if let Some($element) = $graph.get_mut::<$class>(name) {
                $set;
            }
        }
    };
}

/// Looks at this lease from now on.
pub(crate) fn set_lease<P: PacketBuf + 'static>(graph: &mut Graph<P>, lease: &Arc<Lease>) {
    let permit = || Permit::of(Arc::clone(lease));
    each!(graph, Steer<P>, [name::STEER, name::LOOKUP], |steer| steer.permit = permit());
    each!(graph, Handle<P>, [name::HANDLE], |handle| handle.permit = permit());
    each!(graph, FabricSort, [name::FABRIC_SORT], |sort| sort.permit = permit());
    each!(graph, FabricOut<P>, [name::TO_FABRIC], |fabric| fabric.permit = permit());
}

/// Takes other next hops, and the own addresses that stand beside them.
pub(crate) fn set_adjacencies<P: PacketBuf + 'static>(graph: &mut Graph<P>, adjacencies: &Arc<Adjacencies>) {
    each!(graph, Steer<P>, [name::STEER, name::LOOKUP], |steer| steer
        .classifier
        .set_adjacencies(adjacencies));
    each!(graph, Handle<P>, [name::HANDLE], |handle| {
        handle.classifier.set_adjacencies(adjacencies);
        handle.tunnels.adjacencies = Arc::clone(adjacencies);
    });
}

/// Looks at these flags for ports that are down.
pub(crate) fn set_down_links<P: PacketBuf + 'static>(graph: &mut Graph<P>, down: &Arc<DownLinks>) {
    each!(graph, ToPort, [name::TO_INTERNET, name::TO_BASE_STATION], |port| port.down = Arc::clone(down));
    each!(graph, FabricOut<P>, [name::TO_FABRIC], |fabric| fabric.down = Arc::clone(down));
}

/// Takes part in probing, and goes round what is broken.
pub(crate) fn set_fabric_health<P: PacketBuf + 'static>(graph: &mut Graph<P>, health: &Arc<FabricHealth>) {
    let ways = || Ways::of(Arc::clone(health));
    each!(graph, Probes, [name::PROBES], |probes| probes.set_health(Arc::clone(health)));
    each!(graph, Valiant, [name::VALIANT], |valiant| valiant.ways = ways());
    each!(graph, FabricOut<P>, [name::TO_FABRIC], |fabric| fabric.ways = ways());
}
