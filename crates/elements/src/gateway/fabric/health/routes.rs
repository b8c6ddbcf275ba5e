//! Routes to other nodes: direct, or through one relay where the direct path is broken.

use scalebricks_types::{ClusterSize, HashSeed, KeyHasher, NodeId, NodeSet};
use std::time::Duration;

/// How long a node must be reached directly before its frames go directly again. A link that fails briefly every second
/// thus does not change the route each time.
pub const STEADY: Duration = Duration::from_secs(1);

/// The nodes that this one hears and reaches, each with the nodes that it reports to hear and reach.
pub(super) type Reports = Vec<(NodeId, NodeSet)>;

/// The routes that workers use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    /// By node: the relay, if it is not reached directly.
    via: Box<[Option<NodeId>]>,
    /// By node: the relays through which it can be reached.
    relays: Box<[NodeSet]>,
    is_direct: bool,
}

impl Routes {
    /// Direct routes only, with no known relays.
    pub(super) fn direct(size: ClusterSize) -> Self {
        let (via, relays) = (vec![None; size.get()].into(), vec![NodeSet::EMPTY; size.get()].into());
        Self { via, relays, is_direct: true }
    }

    /// The relay for frames to `node`; `None` means directly.
    #[inline]
    pub fn via(&self, node: NodeId) -> Option<NodeId> {
        self.via.get(node.index()).copied().flatten()
    }

    /// Whether frames for `node` would arrive through `relay`: it is reached, and reports that it hears and reaches
    /// `node`.
    #[inline]
    pub fn leads_over(&self, relay: NodeId, node: NodeId) -> bool {
        self.relays.get(node.index()).is_some_and(|relays| relays.contains(relay))
    }

    /// Whether every route is direct.
    pub const fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// The nodes that are not reached directly, each with its relay.
    pub fn detours(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        (0..=u8::MAX).map(NodeId::new).zip(&self.via).filter_map(|(node, via)| via.map(|via| (node, via)))
    }
}

/// The route to one node.
#[derive(Debug, Clone, Copy, Default)]
struct PeerRoute {
    via: Option<NodeId>,
    /// Since when the direct path works again.
    reached_since: Option<Duration>,
}

/// Chooses routes. A state machine without I/O or clock.
///
/// - A node that was not reached for [`HEARING`](super::HEARING) gets a relay that is reached and reports that it hears and
///   reaches the node. Without such a relay the route stays direct.
/// - The relay stays the same until it fails. Rendezvous hashing over sender and receiver selects it, so that pairs share the
///   load.
/// - The route is direct again after the node was reached for [`STEADY`].
#[derive(Debug)]
pub(super) struct RouteSelector {
    me: NodeId,
    hasher: KeyHasher,
    ways: Box<[PeerRoute]>,
}

impl RouteSelector {
    pub(super) fn new(me: NodeId, size: ClusterSize) -> Self {
        // Not secret: which node relays for which is not secret either.
        let hasher = KeyHasher::new(HashSeed::new(0, 0));
        Self { me, hasher, ways: vec![PeerRoute::default(); size.get()].into() }
    }

    /// The relay for frames to `node`.
    pub(super) fn via(&self, node: NodeId) -> Option<NodeId> {
        self.ways.get(node.index()).and_then(|way| way.via)
    }

    /// The new routes. Until it `is_settled`, all routes stay direct, since silence means nothing yet. Cost: quadratic
    /// in the number of nodes.
    pub(super) fn route(
        &mut self,
        reaches: &NodeSet,
        reports: &Reports,
        is_settled: bool,
        now: Duration,
    ) -> Routes {
        let Self { me, hasher, ways } = self;
        let me = *me;
        let mut relays = vec![NodeSet::EMPTY; ways.len()];
        for ((node, way), relays) in (0..=u8::MAX).map(NodeId::new).zip(ways.iter_mut()).zip(&mut relays) {
            if node == me {
                continue;
            }
            let leads = |(relay, reached): &&(NodeId, NodeSet)| {
                *relay != node && *relay != me && reached.contains(node)
            };
            *relays = reports.iter().filter(leads).map(|(relay, _)| *relay).collect();
            let is_reached = reaches.contains(node);
            way.reached_since = is_reached.then(|| way.reached_since.unwrap_or(now));
            let score = |relay: &NodeId| hasher.hash_bytes(&[me.get(), node.get(), relay.get()]);
            let best = || relays.iter().max_by_key(score);
            way.via = match way.via {
                Some(_) if way.reached_since.is_some_and(|since| now.saturating_sub(since) >= STEADY) => None,
                Some(via) if relays.contains(via) => Some(via),
                Some(_) => best().filter(|_| !is_reached),
                None if is_reached || !is_settled => None,
                None => best(),
            };
        }
        let via: Box<[Option<NodeId>]> = ways.iter().map(|way| way.via).collect();
        let is_direct = via.iter().all(Option::is_none);
        Routes { via, relays: relays.into(), is_direct }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ME: NodeId = NodeId::new(0);
    const NODES: u8 = 5;

    fn set(nodes: &[u8]) -> NodeSet {
        nodes.iter().copied().map(NodeId::new).collect()
    }

    fn router() -> RouteSelector {
        RouteSelector::new(ME, ClusterSize::new(usize::from(NODES)).unwrap())
    }

    /// Which nodes `ME` reaches, and which nodes each of them reports to reach; nodes as bits.
    fn seen(reaches: u8, reached_by: [u8; 5]) -> (NodeSet, Reports) {
        let nodes = |bits: u8| (0..NODES).filter(move |node| bits & 1 << node != 0).map(NodeId::new);
        let reports = nodes(reaches).map(|node| (node, nodes(reached_by[node.index()]).collect()));
        (nodes(reaches).collect(), reports.collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Every route leads somewhere at each moment, a working route stays, and a direct one returns only after a
        /// second.
        #[test]
        fn ways_lead_there_and_do_not_swing(
            steps in prop::collection::vec((1..32_u8, any::<[u8; 5]>(), any::<bool>(), 0..700_u64), 1..60),
        ) {
            let mut router = router();
            let mut now = Duration::ZERO;
            let mut before: Vec<Option<NodeId>> = vec![None; usize::from(NODES)];
            let mut reached_since: Vec<Option<Duration>> = vec![None; usize::from(NODES)];
            for (bits, reached_by, is_settled, wait) in steps {
                now += Duration::from_millis(wait);
                let (reaches, reports) = seen(bits, reached_by);
                let routes = router.route(&reaches, &reports, is_settled, now);
                prop_assert_eq!(routes.via(ME), None);
                for node in (1..NODES).map(NodeId::new) {
                    let at = node.index();
                    let works = |relay: NodeId| relay != node && relay != ME
                        && reports.iter().any(|(known, reached)| *known == relay && reached.contains(node));
                    let relays: Vec<NodeId> = (0..NODES).map(NodeId::new).filter(|relay| works(*relay)).collect();
                    prop_assert!((0..NODES).map(NodeId::new).all(|relay| routes.leads_over(relay, node) == works(relay)));
                    let is_reached = reaches.contains(node);
                    reached_since[at] = is_reached.then(|| reached_since[at].unwrap_or(now));
                    let is_steady = reached_since[at].is_some_and(|since| now.saturating_sub(since) >= STEADY);
                    let via = routes.via(node);
                    if let Some(relay) = via {
                        prop_assert!(works(relay) && !is_steady);
                        prop_assert!(before[at].is_some() || is_settled && !is_reached, "left the direct way too soon");
                    } else if before[at].is_some_and(works) {
                        prop_assert!(is_steady, "back to the direct way too soon");
                    } else {
                        prop_assert!(is_reached || relays.is_empty() || before[at].is_none() && !is_settled);
                    }
                    let stays = before[at].is_some_and(works) && !is_steady;
                    prop_assert!(!stays || via == before[at], "left a node in between that works");
                    before[at] = via;
                }
                prop_assert_eq!(routes.is_direct(), before.iter().all(Option::is_none));
                let detours: Vec<_> = routes.detours().collect();
                let expected = (0..NODES).map(NodeId::new).zip(&before).filter_map(|(node, via)| Some((node, (*via)?)));
                prop_assert_eq!(detours, expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn pairs_share_the_nodes_in_between() {
        let size = ClusterSize::new(32).unwrap();
        let mut loads = [0_u32; 32];
        for me in size.nodes() {
            // It reaches all but node 31, and all reach each other.
            let others: Vec<NodeId> = size.nodes().filter(|node| *node != me && node.get() != 31).collect();
            let all: NodeSet = size.nodes().collect();
            let reports = others.iter().map(|node| (*node, all)).collect();
            let routes = RouteSelector::new(me, size).route(
                &others.into_iter().collect(),
                &reports,
                true,
                Duration::ZERO,
            );
            if let Some(relay) = routes.via(NodeId::new(31)) {
                loads[relay.index()] += 1;
            }
        }
        assert_eq!(loads.iter().sum::<u32>(), 31);
        assert!(loads.iter().all(|load| *load <= 5), "{loads:?}");
    }

    #[test]
    fn a_dead_node_is_no_reason_to_go_round() {
        let routes =
            router().route(&set(&[1, 2, 3]), &vec![(NodeId::new(1), set(&[0, 2, 3]))], true, Duration::ZERO);
        assert!(routes.is_direct());
    }
}
