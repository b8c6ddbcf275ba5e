//! The machine against a twin that keeps every probe and looks through all of them.

use super::*;
use crate::gateway::fabric::health::probe::{Kind, Probe};
use proptest::prelude::*;

const ME: NodeId = NodeId::new(1);
const NODES: usize = 5;
const CLOCK: StampClock = StampClock::new(u64::MAX - 2_000_000_000); // stamps wrap on the way

fn size() -> ClusterSize {
    ClusterSize::new(NODES).unwrap()
}

/// A probe as the others are made to say it: whom it hears and reaches is ignored in comparisons with the twin.
fn probe(from: NodeId, stamp: u64, answers: u64) -> Probe {
    let sets = NodeSet::EMPTY;
    Probe {
        kind: Kind::Probe,
        from,
        to: ME,
        life: 1,
        epoch: 0,
        stamp,
        answers,
        answers_life: 0,
        hears: sets,
        reaches: sets,
        grants: sets,
    }
}

/// The slow twin.
#[derive(Default)]
struct Twin {
    seen: Vec<(Receipt, u64)>,
    life: u64,
}

impl Twin {
    fn of(&self, node: NodeId) -> impl DoubleEndedIterator<Item = &(Receipt, u64)> {
        self.seen.iter().filter(move |(receipt, _)| receipt.probe.from == node)
    }

    fn is_heard(&self, node: NodeId, now: Duration) -> bool {
        self.of(node).any(|(receipt, _)| now.saturating_sub(receipt.at) <= HEARING)
    }

    /// When the newest own stamp was made that came back within [`HEARING`].
    fn is_reached(&self, node: NodeId, now: Duration) -> bool {
        self.of(node).any(|(receipt, _)| {
            (0..=600).map(Duration::from_millis).filter(|passed| *passed <= receipt.at).any(|passed| {
                CLOCK.stamp(receipt.at.saturating_sub(passed)) == receipt.probe.answers
                    && now.saturating_sub(receipt.at.saturating_sub(passed)) <= HEARING
            })
        })
    }

    /// The probe that was sent last, of those that arrived.
    fn newest(&self, node: NodeId) -> Option<&(Receipt, u64)> {
        self.of(node).rev().max_by_key(|(receipt, _)| receipt.probe.stamp)
    }

    fn grants(&self, node: NodeId, now: Duration) -> Option<Duration> {
        let (receipt, life_then) = self.newest(node)?;
        let Receipt { at, probe } = receipt;
        let is_answer = (0..=600)
            .map(Duration::from_millis)
            .any(|passed| *at >= passed && CLOCK.stamp(at.saturating_sub(passed)) == probe.answers);
        let is_mine = probe.answers_life == self.life && *life_then == self.life && probe.grants.contains(ME);
        (is_answer && is_mine && now.saturating_sub(*at) <= HEARING).then_some(*at)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    /// From whom, how long ago it was sent, and which of this node's stamps it answers: one of so many ms ago.
    Receive {
        from: u8,
        delay: u64,
        answers: u64,
        is_echo: bool,
        grants: bool,
        to_life: u64,
    },
    NewLife,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..400_u64).prop_map(Step::Wait),
        8 => (0..6_u8, 0..300_u64, 0..900_u64, any::<bool>(), any::<bool>(), 0..3_u64).prop_map(
            |(from, delay, answers, is_echo, grants, to_life)| Step::Receive { from, delay, answers, is_echo, grants, to_life }
        ),
        1 => Just(Step::NewLife),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_known_is_what_the_probes_say(steps in prop::collection::vec(step(), 1..120)) {
        let (mut peers, mut twin) = (Peers::new(ME, size(), CLOCK), Twin::default());
        let mut now = Duration::from_secs(1);
        let mut stamps = 0;
        for step in steps {
            match step {
                Step::Wait(ms) => now += Duration::from_millis(ms),
                Step::NewLife => {
                    twin.life += 1;
                    peers.set_identity(twin.life, 0, []);
                }
                Step::Receive { from, delay, answers, is_echo, grants, to_life } => {
                    // The others' clocks begin anywhere, and no two probes of a node have one stamp.
                    stamps += 1;
                    let sent = now.saturating_sub(Duration::from_millis(delay));
                    let stamp = 1_000_000_000_000 + nanos(sent) + stamps;
                    let answers = CLOCK.stamp(now.saturating_sub(Duration::from_millis(answers)));
                    let kind = if is_echo { Kind::Echo } else { Kind::Probe };
                    let grants = if grants { [ME].into_iter().collect() } else { NodeSet::EMPTY };
                    let probe = Probe { kind, grants, answers_life: to_life, ..probe(NodeId::new(from), stamp, answers) };
                    let receipt = Receipt { at: now, probe };
                    peers.receive(receipt);
                    if usize::from(from) < NODES {
                        twin.seen.push((receipt, twin.life));
                    }
                }
            }
            let nodes = || size().nodes();
            prop_assert_eq!(peers.hears(now), nodes().filter(|node| twin.is_heard(*node, now)).collect());
            prop_assert_eq!(peers.reaches(now), nodes().filter(|node| twin.is_reached(*node, now)).collect());
            let granted: Vec<_> = nodes().filter_map(|node| Some((node, twin.grants(node, now)?))).collect();
            prop_assert_eq!(peers.grants_to_me(now).collect::<Vec<_>>(), granted);
        }
    }
}

const MS: Duration = Duration::from_millis(1);
const START: Duration = Duration::from_secs(9);

fn node(number: u8) -> NodeId {
    NodeId::new(number)
}

#[test]
fn a_member_is_granted_its_lease_in_the_life_in_which_it_is_heard() {
    let mut peers = Peers::new(ME, size(), CLOCK);
    peers.set_identity(7, 3, [(ME, 7), (node(0), 5), (node(2), 2), (node(3), 1)]);
    for (from, life) in [(0, 5), (2, 1), (4, 1)] {
        let probe = Probe { life, ..probe(node(from), 1, 0) };
        peers.receive(Receipt { at: START, probe });
    }
    let said = peers.refresh(START).0;
    assert_eq!((said.life, said.epoch), (7, 3));
    assert_eq!(said.hears, [node(0), node(2), node(4)].into_iter().collect());
    // Not node 2, which is heard in another life; not 3, which is not heard; not 4, which is no member.
    assert_eq!(said.grants, [node(0)].into_iter().collect());
    assert_eq!((said.newest[0], said.newest[3]), ((1, 5), (0, 0)));
    assert_eq!(peers.refresh(START + HEARING + MS).0.grants, NodeSet::EMPTY, "not heard any more");
}

#[test]
fn stamps_of_an_earlier_process_answer_nothing() {
    let mut peers = Peers::new(ME, size(), CLOCK);
    let grants = [ME].into_iter().collect();
    let before = START.saturating_sub(MS);
    let earlier = StampClock::new(77).stamp(before);
    let cases = [(earlier, false), (CLOCK.stamp(START + MS), false), (CLOCK.stamp(before), true)];
    for (stamp, (answers, is_reached)) in (1..).zip(cases) {
        peers.receive(Receipt { at: START, probe: Probe { grants, ..probe(node(2), stamp, answers) } });
        assert_eq!(peers.reaches(START).contains(node(2)), is_reached);
        assert_eq!(peers.grants_to_me(START).count(), usize::from(is_reached));
        assert!(peers.hears(START).contains(node(2)));
    }
}

#[test]
fn a_process_that_starts_again_is_believed_at_once() {
    let mut peers = Peers::new(ME, size(), CLOCK);
    for (at, life, stamp) in [(START, 3, 1 << 60), (START + MS, 4, 5)] {
        peers.receive(Receipt { at, probe: Probe { life, ..probe(node(2), stamp, 0) } });
        assert_eq!(peers.refresh(at).0.newest[2], (stamp, life));
    }
}
