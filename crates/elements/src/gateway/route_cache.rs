//! An element's copy of the fabric routes around failures.

use crate::gateway::fabric::health::{FabricHealth, Routes};
use crate::gateway::fabric::mac::{FabricMac, Phase};
use scalebricks_types::NodeId;
use std::sync::Arc;

/// The newest routes of a node that takes part in probing; without probing, every path is direct.
#[derive(Debug, Default)]
pub(super) struct RouteCache(Option<Known>);

#[derive(Debug)]
struct Known {
    health: Arc<FabricHealth>,
    routes: Arc<Routes>,
    generation: u64,
}

impl RouteCache {
    /// Follows this node's routes.
    pub(super) fn of(health: Arc<FabricHealth>) -> Self {
        let (generation, routes) = (health.generation(), health.routes());
        Self(Some(Known { health, routes, generation }))
    }

    /// Takes the newest routes and returns whether any node is reached indirectly. Cost: one load.
    #[inline]
    pub(super) fn go_round(&mut self) -> bool {
        let Some(known) = &mut self.0 else { return false };
        let generation = known.health.generation();
        if generation != known.generation {
            (known.generation, known.routes) = (generation, known.health.routes());
        }
        !known.routes.is_direct()
    }

    /// The address to use instead of `mac`, if the direct path is broken and the frame is not indirect already.
    pub(super) fn round(&self, mac: FabricMac) -> Option<FabricMac> {
        let relay = self.0.as_ref()?.routes.via(mac.node)?;
        (!mac.phase.is_indirect() && mac.phase != Phase::Probe).then(|| mac.by_way_of(relay))
    }

    /// VLB: whether `intermediate` is known or assumed to reach `node`.
    pub(super) fn leads_over(&self, intermediate: NodeId, node: NodeId) -> bool {
        self.0.as_ref().is_none_or(|known| known.routes.leads_over(intermediate, node))
    }
}
