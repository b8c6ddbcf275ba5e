//! The addresses that a node answers for on the outside links: its own once it has caught up, and those of dead or
//! suspended nodes for which the view names it as stand-in. Neighbours go on sending to the addresses they know.
//!
//! A node takes an address over by announcing it on the link ([`Claims`]). A node that comes back announces its
//! addresses when its tables are complete; until then its stand-in answers.

use super::config::{Role, TakeoverFile};
use super::running::Running;
use super::slow_path::SlowPath;
use super::source::Source;
use crate::runtime::periodic::Periodic;
use scalebricks_cluster::ControlPlane;
use scalebricks_control::membership::View;
use scalebricks_elements::gateway::OutputPort;
use scalebricks_elements::gateway::local::{AdoptedAddress, Claims};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Time between two reads of the view.
const UPDATE_EVERY: Duration = Duration::from_millis(20);

/// How long a stand-in answers after another node should, while that node is not heard: it may still have to catch up,
/// or its announcements were lost.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Decides which addresses to claim, from the view and the time; does no I/O.
#[derive(Debug)]
pub struct Takeover {
    me: NodeId,
    addresses: BTreeMap<NodeId, Vec<(OutputPort, IpAddr)>>,
    /// Nodes that this node stands in for, and the time since which it need not any more.
    held: BTreeMap<NodeId, Option<Duration>>,
}

impl Takeover {
    /// Creates the state of a node that stands in for no other.
    pub fn new(me: NodeId, others: &TakeoverFile) -> Self {
        let port = |role: &Role| match role {
            Role::BaseStation => OutputPort::BaseStation,
            Role::Internet | Role::Fabric => OutputPort::Internet,
        };
        let addresses = others.addresses.iter().map(|(node, addresses)| {
            (*node, addresses.iter().map(|(role, address)| (port(role), *address)).collect())
        });
        Self { me, addresses: addresses.collect(), held: BTreeMap::new() }
    }

    /// The claims of a node that has no view or no flows yet.
    pub const fn nothing() -> Claims {
        Claims { own: None, others: Vec::new() }
    }

    /// The addresses that the node answers for now. A node that is not in the view, is suspended, has not caught up in
    /// this incarnation, or has no lease (`may_claim`) answers for none.
    pub fn claims(&mut self, view: &View, may_claim: bool, now: Duration) -> Claims {
        let me = view.member(self.me).filter(|_| view.answers_for_itself(self.me) && may_claim);
        let Some(me) = me else {
            self.held.clear();
            return Self::nothing();
        };
        for node in self.addresses.keys() {
            if view.stand_in(*node) == Some(self.me) {
                self.held.insert(*node, None);
            } else if let Some(since) = self.held.get_mut(node) {
                let since = *since.get_or_insert(now);
                if now >= since.saturating_add(PATIENCE) {
                    self.held.remove(node);
                }
            }
        }
        let others = self.held.iter().flat_map(|(node, since)| {
            let addresses = self.addresses.get(node).into_iter().flatten();
            let is_due_to_another = since.is_some();
            addresses.map(move |&(port, address)| AdoptedAddress { port, address, is_due_to_another })
        });
        Claims { own: Some(me.life), others: others.collect() }
    }

    /// The nodes that this node stands in for, ascending.
    pub fn stands_in_for(&self) -> impl Iterator<Item = NodeId> {
        self.held.iter().filter(|(_, since)| since.is_none()).map(|(node, _)| *node)
    }
}

/// Starts a thread that updates the claimed addresses, if the control plane feeds the node. To be called before the
/// workers start: the node claims no address until it has caught up.
///
/// # Errors
/// The error of the system.
pub fn start(running: &Running) -> io::Result<Option<Periodic>> {
    let node = &running.configuration.file;
    let Source::Control(daemon) = &running.tables else { return Ok(None) };
    let others = node.control.as_ref().and_then(|control| control.takeover.clone());
    let others = others.unwrap_or_else(|| TakeoverFile { addresses: BTreeMap::new() });
    let (slow_path, start, plane) = (Arc::clone(&running.slow_path), running.started, daemon.later());
    slow_path.claim(&Takeover::nothing(), start.elapsed());
    let mut takeover = Takeover::new(node.id, &others);
    let mut claimed = Takeover::nothing();
    let mut before: Vec<NodeId> = Vec::new();
    let update = move || {
        let Some(plane) = plane.get() else { return };
        let now = start.elapsed();
        let claims = takeover.claims(&plane.view(), may_claim(plane, &slow_path, now), now);
        if claims != claimed {
            slow_path.claim(&claims, now);
            let nodes: Vec<NodeId> = takeover.stands_in_for().collect();
            log_changes(claimed.own, claims.own, &before, &nodes);
            (claimed, before) = (claims, nodes);
        }
    };
    Periodic::start("takeover", UPDATE_EVERY, update).map(Some)
}

/// Whether the node may claim addresses if it is alive in the view: its tables are complete, and it has a lease.
fn may_claim(plane: &ControlPlane, slow_path: &SlowPath, now: Duration) -> bool {
    plane.has_caught_up() && slow_path.lease().may_claim(now)
}

/// Logs what changed.
fn log_changes(own_before: Option<u64>, own: Option<u64>, before: &[NodeId], nodes: &[NodeId]) {
    match own {
        None => tracing::warn!("this node claims none of its addresses; a stand-in answers for them"),
        Some(life) if own_before != own => tracing::info!(life, "answering for this node's addresses"),
        Some(_) => {}
    }
    for node in nodes.iter().filter(|node| !before.contains(node)) {
        tracing::warn!(node = node.get(), "answering for the addresses of a dead or suspended node");
    }
    for node in before.iter().filter(|node| !nodes.contains(node)) {
        tracing::info!(node = node.get(), "no longer answering for the addresses of a node");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scalebricks_control::membership::{Fitness, Suspension, Unfitness};
    use scalebricks_control::version::Version;
    use scalebricks_types::PartitionCount;

    const NODES: u8 = 8;

    fn address(node: NodeId) -> IpAddr {
        IpAddr::from([192, 0, 2, 10 + node.get()])
    }

    fn all() -> impl Iterator<Item = NodeId> {
        (0..NODES).map(NodeId::new)
    }

    fn takeover(me: NodeId) -> Takeover {
        let others = all().filter(|node| *node != me);
        let addresses = others.map(|node| (node, vec![(Role::Internet, address(node))])).collect();
        Takeover::new(me, &TakeoverFile { addresses })
    }

    fn empty_view() -> View {
        View::empty(PartitionCount::new(16).unwrap())
    }

    /// Whether a claim is for this address, and not on its way to another.
    fn has(claims: &Claims, node: NodeId) -> bool {
        claims.others.iter().any(|other| other.address == address(node) && !other.is_due_to_another)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Nodes come, go, are suspended, and catch up late: of all that are there, exactly one claims what a dead or
        /// suspended node had, another's addresses are claimed by itself alone, and who is suspended or has not caught
        /// up claims nothing.
        #[test]
        fn exactly_one_claims_a_dead_node_s_addresses(
            steps in prop::collection::vec((0..NODES, 0..5_u8, any::<u8>(), 0..70_000_u64), 1..40),
        ) {
            let mut machines: Vec<Takeover> = all().map(takeover).collect();
            let mut view = empty_view();
            let mut now = Duration::ZERO;
            let unfit = Suspension::Unfit(Fitness::FIT.with(Unfitness::RanLink));
            for (life, (node, what, ready, wait)) in (1..).zip(steps) {
                let node = NodeId::new(node);
                view = match what {
                    0 | 1 => view.with(node, life, Version::NEWEST),
                    2 => view.with_suspended(node, unfit),
                    3 => view.without_suspension(node),
                    _ => view.without(node),
                };
                now += Duration::from_millis(wait);
                let is_ready = |node: NodeId| ready & 1 << node.get() != 0;
                let claims: Vec<Claims> = machines
                    .iter_mut()
                    .zip(all())
                    .map(|(machine, node)| machine.claims(&view, is_ready(node), now))
                    .collect();
                for node in all() {
                    let claimants: Vec<NodeId> = all().filter(|other| has(&claims[other.index()], node)).collect();
                    let stand_in = view.stand_in(node).filter(|other| is_ready(*other));
                    prop_assert_eq!(&claimants, &stand_in.into_iter().collect::<Vec<_>>());
                    let member = view.member(node).filter(|_| view.answers_for_itself(node) && is_ready(node));
                    prop_assert_eq!(claims[node.index()].own, member.map(|member| member.life));
                    prop_assert!(member.is_some() || claims[node.index()].others.is_empty());
                }
            }
        }
    }

    /// It releases the addresses at once. The node that took over keeps them until this one announces its return.
    #[test]
    fn an_unfit_node_claims_nothing_until_it_takes_flows_again() {
        let view = all().fold(empty_view(), |view, node| view.with(node, 1, Version::NEWEST));
        let (unfit, now) = (NodeId::new(3), Duration::from_secs(100));
        let without = view.with_suspended(unfit, Suspension::Unfit(Fitness::FIT.with(Unfitness::Worker)));
        let stand_in = without.stand_in(unfit).unwrap();
        let (mut machine, mut other) = (takeover(unfit), takeover(stand_in));
        assert_eq!(machine.claims(&view, true, now).own, Some(1));
        assert_eq!(machine.claims(&without, true, now), Takeover::nothing());
        assert!(has(&other.claims(&without, true, now), unfit));
        let back = without.without_suspension(unfit);
        assert_eq!(machine.claims(&back, true, now).own, Some(1));
        let claims = other.claims(&back, true, now);
        assert!(claims.others.len() == 1 && claims.others[0].is_due_to_another);
    }

    #[test]
    fn a_stand_in_goes_on_for_a_while_when_the_node_is_back() {
        let view = all().fold(empty_view(), |view, node| view.with(node, 1, Version::NEWEST));
        let dead = NodeId::new(3);
        let without = view.without(dead);
        let stand_in = without.stand_in(dead).unwrap();
        let mut machine = takeover(stand_in);
        let now = Duration::from_secs(100);
        assert_eq!(machine.claims(&view, true, now), Claims { own: Some(1), others: vec![] });
        assert!(has(&machine.claims(&without, true, now), dead));
        assert_eq!(machine.stands_in_for().collect::<Vec<_>>(), [dead]);
        let back = without.with(dead, 2, Version::NEWEST);
        for seconds in [1, 60] {
            let claims = machine.claims(&back, true, now + Duration::from_secs(seconds));
            assert!(claims.others.len() == 1 && claims.others[0].is_due_to_another);
        }
        assert_eq!(machine.claims(&back, true, now + Duration::from_secs(61)).others, []);
        assert_eq!(machine.stands_in_for().count(), 0);
        // A node that was removed itself releases them at once, because another node has taken over.
        assert!(has(&machine.claims(&without, true, now), dead));
        assert_eq!(machine.claims(&without.without(stand_in), false, now), Takeover::nothing());
        assert_eq!(
            machine.claims(&without.without(stand_in).with(stand_in, 2, Version::NEWEST), false, now),
            Takeover::nothing()
        );
    }
}
