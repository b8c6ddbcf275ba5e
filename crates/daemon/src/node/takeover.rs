//! Whose addresses a node answers for on the outside links: its own once it has caught up, and those of dead nodes for which
//! and suspended nodes for which
//! the view names it. Neighbours go on sending to the address they know, and need not notice that a node died.
//!
//! An address goes to another node when that one has said so on the link ([`Claims`]). A node that comes back says so when its
//! tables hold all they are to hold; until then its stand-in goes on.

use super::config::{Role, TakeoverFile};
use super::running::Running;
use super::slow_path::SlowPath;
use super::source::Source;
use scalebricks_cluster::ControlPlane;
use scalebricks_control::membership::View;
use scalebricks_elements::gateway::OutputPort;
use scalebricks_elements::gateway::local::{AdoptedAddress, Claims};
use scalebricks_types::NodeId;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at the view.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a stand-in goes on answering when another node is to, and is not heard: it may still have to catch up, or its
/// announcements were lost.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What decides. A machine without I/O: the view and the time go in.
#[derive(Debug)]
pub struct Takeover {
    me: NodeId,
    addresses: BTreeMap<NodeId, Vec<(OutputPort, IpAddr)>>,
    /// Nodes that this one stands in for, and since when it need not any more.
    held: BTreeMap<NodeId, Option<Duration>>,
}

impl Takeover {
    /// A node that stands in for nobody yet.
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

    /// What a node answers for that has no view yet, or no flows.
    pub const fn nothing() -> Claims {
        Claims { own: None, others: Vec::new() }
    }

    /// What the node answers for now. One that is not in the view, is suspended, has not caught up in this life, or has no lease
    /// (`may_claim`), answers for nothing.
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

    /// The nodes that it stands in for, ascending.
    pub fn stands_in_for(&self) -> impl Iterator<Item = NodeId> {
        self.held.iter().filter(|(_, since)| since.is_none()).map(|(node, _)| *node)
    }
}

/// A thread that looks who is alive, and has the slow path answer. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins, if the control plane feeds the node: it answers for nothing until it has caught up. To be called before its workers
    /// start.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(running: &Running) -> io::Result<Option<Self>> {
        let node = &running.configuration.node;
        let Source::Control(daemon) = &running.tables else { return Ok(None) };
        let others = node.control.as_ref().and_then(|control| control.takeover.clone());
        let others = others.unwrap_or_else(|| TakeoverFile { addresses: BTreeMap::new() });
        let slow_path = Arc::clone(&running.slow_path);
        slow_path.claim(&Takeover::nothing(), running.started.elapsed());
        Self::start(Takeover::new(node.id, &others), daemon.later(), slow_path, running.started).map(Some)
    }

    /// Begins. `start` is the moment from which the slow path's times are counted.
    fn start(
        mut takeover: Takeover,
        plane: Arc<OnceLock<ControlPlane>>,
        slow_path: Arc<SlowPath>,
        start: Instant,
    ) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let mut told = Takeover::nothing();
            let mut before: Vec<NodeId> = Vec::new();
            while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let Some(plane) = plane.get() else { continue };
                let now = start.elapsed();
                let claims = takeover.claims(&plane.view(), may_claim(plane, &slow_path, now), now);
                if claims == told {
                    continue;
                }
                slow_path.claim(&claims, now);
                let nodes: Vec<NodeId> = takeover.stands_in_for().collect();
                tell(told.own, claims.own, &before, &nodes);
                (told, before) = (claims, nodes);
            }
        };
        let thread = std::thread::Builder::new().name("takeover".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// Whether the node may claim addresses, if the view has it alive: its tables are there, and it has a lease.
fn may_claim(plane: &ControlPlane, slow_path: &SlowPath, now: Duration) -> bool {
    plane.has_caught_up() && slow_path.lease().may_claim(now)
}

/// Says what has changed.
fn tell(own_before: Option<u64>, own: Option<u64>, before: &[NodeId], nodes: &[NodeId]) {
    match own {
        None => tracing::warn!("others answer for this node's addresses"),
        Some(life) if own_before != own => tracing::info!(life, "answering for this node's addresses"),
        Some(_) => {}
    }
    for node in nodes.iter().filter(|node| !before.contains(node)) {
        tracing::warn!(node = node.get(), "answering for the addresses of a node that cannot");
    }
    for node in before.iter().filter(|node| !nodes.contains(node)) {
        tracing::info!(node = node.get(), "leaving a node's addresses to another");
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

    fn nobody() -> View {
        View::empty(PartitionCount::new(16).unwrap())
    }

    /// Whether a claim is for this address, and not on its way to another.
    fn has(claims: &Claims, node: NodeId) -> bool {
        claims.others.iter().any(|other| other.address == address(node) && !other.is_due_to_another)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Nodes come, go, are suspended, and catch up late: of all that are there, exactly one claims what a dead or suspended node
        /// had, another's addresses are claimed by itself alone, and who is suspended or has not caught up claims nothing.
        #[test]
        fn exactly_one_claims_a_dead_node_s_addresses(
            steps in prop::collection::vec((0..NODES, 0..5_u8, any::<u8>(), 0..70_000_u64), 1..40),
        ) {
            let mut machines: Vec<Takeover> = all().map(takeover).collect();
            let mut view = nobody();
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

    /// It lets go at once, and its stand-in goes on until it has said that it is back.
    #[test]
    fn an_unfit_node_claims_nothing_until_it_takes_flows_again() {
        let view = all().fold(nobody(), |view, node| view.with(node, 1, Version::NEWEST));
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
        let view = all().fold(nobody(), |view, node| view.with(node, 1, Version::NEWEST));
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
        // A node that was given up itself lets go at once: another stands in now.
        assert!(has(&machine.claims(&without, true, now), dead));
        assert_eq!(machine.claims(&without.without(stand_in), false, now), Takeover::nothing());
        assert_eq!(
            machine.claims(&without.without(stand_in).with(stand_in, 2, Version::NEWEST), false, now),
            Takeover::nothing()
        );
    }
}
