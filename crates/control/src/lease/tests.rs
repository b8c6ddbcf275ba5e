//! The lease against a slow, obvious twin, and its rules by name.

use super::*;
use crate::version::Version;
use proptest::prelude::*;
use scalebricks_types::PartitionCount;

const ME: NodeId = NodeId::new(0);

fn times() -> LeaseTimes {
    LeaseTimes::default()
}

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn no_members() -> View {
    View::empty(PartitionCount::new(4).unwrap())
}

/// Nodes 0 to `nodes`, all in their first life.
fn view(nodes: u8) -> View {
    (0..nodes).fold(no_members(), |view, node| view.with(NodeId::new(node), 1, Version::NEWEST))
}

/// A lease of node 0 among so many, in its first life.
fn lease(nodes: u8) -> (Lease, View) {
    let view = view(nodes);
    let mut lease = Lease::new(ME, times());
    lease.viewed(&view, 1);
    (lease, view)
}

/// Everything that was ever said, kept.
#[derive(Debug, Default)]
struct Twin {
    views: Vec<(View, u64)>,
    /// By whom, of which epoch, since when, and how many views were known.
    grants: Vec<(NodeId, u64, Duration, usize)>,
    /// Reads that had the node alive in the life it was in.
    reads: Vec<Duration>,
}

impl Twin {
    fn is_alive_in(view: &View, life: u64) -> bool {
        view.member(ME).is_some_and(|me| me.is_alive && me.life == life)
    }

    /// The time from which the newest renewal counts: for each moment of the past, the quorum that there was then.
    fn renewed(&self) -> Option<Duration> {
        let mut newest = self.reads.iter().max().copied();
        for moment in 1..=self.views.len() {
            let (view, life) = &self.views[moment - 1];
            if !Self::is_alive_in(view, *life) {
                continue;
            }
            // The unbroken run of views with the node in this life, up to then.
            let run = self.views[..moment].iter().rev();
            let run: Vec<&(View, u64)> =
                run.take_while(|(view, of)| of == life && Self::is_alive_in(view, *of)).collect();
            let first = moment - run.len();
            let joined = self.views[first].0.epoch();
            let others: Vec<NodeId> = view.alive().filter(|node| *node != ME).collect();
            let grants = || {
                self.grants.iter().filter(|(by, epoch, _, known)| {
                    // Said by then, while the node was in, by a member that has been one since.
                    let was_member =
                        |(view, _): &(View, u64)| view.member(*by).is_some_and(|member| member.is_alive);
                    *known <= moment
                        && *known > first
                        && *epoch >= joined
                        && self.views[*known - 1..moment].iter().all(was_member)
                })
            };
            // Counted only when somebody says something under this view.
            if !self
                .grants
                .iter()
                .any(|(by, epoch, _, known)| *known == moment && *epoch >= joined && others.contains(by))
            {
                continue;
            }
            for (_, _, since, _) in grants() {
                let granted = |other: &&NodeId| grants().any(|(by, _, at, _)| by == *other && at >= since);
                let count = others.iter().filter(granted).count();
                if count > 0 && 2 * count >= others.len() {
                    newest = newest.max(Some(*since));
                }
            }
        }
        newest
    }
}

#[derive(Debug, Clone)]
enum Event {
    Joins(u8),
    Leaves(u8),
    Grants { by: u8, epochs_ago: u64, ago: u64 },
    Reads { ago: u64 },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => (0..6_u8).prop_map(Event::Joins),
        1 => (0..6_u8).prop_map(Event::Leaves),
        8 => (1..6_u8, 0..3_u64, 0..2_000_u64)
            .prop_map(|(by, epochs_ago, ago)| Event::Grants { by, epochs_ago, ago }),
        1 => (0..2_000_u64).prop_map(|ago| Event::Reads { ago }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any joins, leaves and grants: exactly the quorums renew the lease.
    #[test]
    fn a_lease_is_renewed_by_half_of_the_others_or_the_engine(
        events in prop::collection::vec((event(), 0..3_000_u64), 1..60),
    ) {
        let (mut lease, mut view) = lease(4);
        let (mut now, mut life) = (at(10_000), 1);
        let mut twin = Twin { views: vec![(view.clone(), life)], ..Twin::default() };
        for (event, wait) in events {
            now += at(wait);
            match event {
                Event::Joins(0) => view = view.with(ME, life, Version::NEWEST),
                Event::Joins(node) => {
                    let node = NodeId::new(node);
                    let next = view.member(node).map_or(1, |member| member.life + 1);
                    view = view.with(node, next, Version::NEWEST);
                }
                Event::Leaves(node) => {
                    view = view.without(NodeId::new(node));
                    life += u64::from(node == 0);
                }
                Event::Grants { by, epochs_ago, ago } => {
                    let (by, epoch) = (NodeId::new(by), view.epoch().saturating_sub(epochs_ago));
                    lease.granted(by, epoch, now.saturating_sub(at(ago)));
                    twin.grants.push((by, epoch, now.saturating_sub(at(ago)), twin.views.len()));
                }
                Event::Reads { ago } => {
                    if lease.read(&view, now.saturating_sub(at(ago))) {
                        twin.reads.push(now.saturating_sub(at(ago)));
                    }
                }
            }
            if twin.views.last() != Some(&(view.clone(), life)) {
                lease.viewed(&view, life);
                twin.views.push((view.clone(), life));
            }
            prop_assert_eq!(lease.renewed, twin.renewed());
            let deadlines = lease.deadlines(true, now);
            prop_assert!(deadlines.claim_until <= deadlines.forward_until);
            let allowed = lease.renewed.map_or(Duration::ZERO, |renewed| renewed + times().forward);
            prop_assert!(deadlines.forward_until <= allowed);
        }
    }
}

#[test]
fn a_node_alone_needs_the_engine() {
    let (mut lease, view) = lease(1);
    assert_eq!(lease.deadlines(true, at(0)), Deadlines::default());
    assert!(lease.read(&view, at(500)));
    let deadlines = lease.deadlines(true, at(600));
    assert_eq!(deadlines, Deadlines { claim_until: at(3_500), forward_until: at(10_500) });
    let states = [600, 3_499, 3_500, 10_499, 10_500].map(|now| deadlines.state(at(now)).name());
    assert_eq!(states, ["held", "held", "claims_lapsed", "claims_lapsed", "expired"]);
}

#[test]
fn half_of_the_other_members_renew_it_and_fewer_do_not() {
    for (nodes, enough) in [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3)] {
        let (mut lease, view) = lease(nodes);
        for by in 1..enough {
            lease.granted(NodeId::new(by), view.epoch(), at(1_000));
        }
        assert_eq!(lease.deadlines(true, at(1_000)), Deadlines::default(), "{nodes} nodes");
        lease.granted(NodeId::new(enough), view.epoch(), at(900));
        assert_eq!(lease.deadlines(true, at(1_000)).forward_until, at(10_900), "from the oldest that counts");
    }
}

#[test]
fn grants_of_a_life_before_do_not_renew_it() {
    let (mut lease, view) = lease(3);
    lease.granted(NodeId::new(1), view.epoch(), at(1_000));
    let without = view.without(ME);
    lease.viewed(&without, 2);
    let back = without.with(ME, 2, Version::NEWEST);
    lease.viewed(&back, 2);
    // A member that has not read of the removal yet.
    lease.granted(NodeId::new(1), view.epoch(), at(2_000));
    assert_eq!(lease.deadlines(true, at(2_000)).forward_until, at(11_000));
    lease.granted(NodeId::new(1), back.epoch(), at(3_000));
    assert_eq!(lease.deadlines(true, at(3_000)).forward_until, at(13_000));
    assert!(!lease.read(&view, at(4_000)), "a life that is over");
}

#[test]
fn a_node_that_is_removed_keeps_what_it_had() {
    let (mut lease, view) = lease(3);
    assert!(lease.read(&view, at(1_000)));
    lease.viewed(&view.without(ME), 2);
    assert_eq!(lease.deadlines(false, at(2_000)).forward_until, at(11_000));
}

#[test]
fn after_it_expired_a_node_forwards_again_when_it_has_caught_up() {
    let (mut lease, view) = lease(3);
    assert!(lease.read(&view, at(1_000)));
    assert_eq!(lease.deadlines(false, at(1_000)).forward_until, at(11_000), "never expired");
    assert!(lease.read(&view, at(11_000)), "the lease had expired unnoticed");
    assert_eq!(lease.deadlines(false, at(11_000)), Deadlines::default());
    assert_eq!(lease.deadlines(true, at(11_100)).forward_until, at(21_000));
    assert_eq!(lease.deadlines(false, at(20_999)).forward_until, at(21_000), "it had caught up before");
    assert_eq!(lease.deadlines(true, at(21_000)), Deadlines::default());
}

#[test]
fn owners_wait_longer_than_a_slow_clock_forwards() {
    let times = times();
    // The owner's clock is fast by a tenth, the node's is slow by as much.
    let waited = times.rebind_after().mul_f64(1.0 / 1.1);
    assert!(waited + Duration::from_micros(1) >= (times.forward + ADOPTION).mul_f64(1.0 / 0.9));
    assert!(times.rebind_after() < Duration::from_secs(14), "below the time that callers wait");
}
