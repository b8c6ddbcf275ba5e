use super::*;
use proptest::prelude::*;

const STEP: Duration = Duration::from_millis(50);
/// A difference from a healthy node.
type Change<'a> = &'a dyn Fn(&mut Observation);

const MS: fn(u64) -> Duration = Duration::from_millis;

/// A node of two workers that is well at this moment.
fn well(now: Duration) -> Observation {
    Observation { now, workers: vec![now, now], links: [Some(true); 3], ..Observation::default() }
}

/// Samples every 50 ms for a while; `change` says what is different. The first moment at which the fitness is another.
fn first_change(
    health: &mut Health,
    from: Duration,
    time: Duration,
    change: impl Fn(&mut Observation),
) -> Option<Duration> {
    let before = health.fitness();
    let mut now = from;
    while now < from + time {
        now += STEP;
        let mut look = well(now);
        change(&mut look);
        health.observe(&look);
        if health.fitness() != before {
            return Some(now.saturating_sub(from));
        }
    }
    None
}

/// One that ran well for ten seconds.
fn running() -> (Health, Duration) {
    let mut health = Health::new();
    assert_eq!(first_change(&mut health, Duration::ZERO, MS(10_000), |_| {}), None);
    (health, MS(10_000))
}

#[test]
fn each_reason_is_found_in_its_time_and_goes_after_a_second() {
    let from = MS(10_000);
    let silence = |at: usize| {
        move |look: &mut Observation| {
            look.silences[at] = Some(LinkSilence { since: from, asked: vec![[192, 0, 2, 1].into()] });
        }
    };
    let link = |port: PortRole| move |look: &mut Observation| look.links[port as usize] = Some(false);
    let missing = vec![NodeId::new(1), NodeId::new(3)];
    let cases: [(Unfitness, Duration, &str, Change<'_>); 7] = [
        (Unfitness::Worker, MS(500), "worker 1 made no turn for 0.5 s", &|look| look.workers[1] = from),
        (Unfitness::FabricLink, MS(150), "the fabric link is down", &link(PortRole::Fabric)),
        (
            Unfitness::Fabric,
            MS(550),
            "1 of 3 other members reached over the fabric, not node 1, 3",
            &|look| look.reach = Some(Reach { others: 3, missing: missing.clone() }),
        ),
        (Unfitness::InternetLink, MS(150), "the internet link is down", &link(PortRole::Internet)),
        (
            Unfitness::InternetNextHop,
            MS(50),
            "no answer from 192.0.2.1 on the internet link for 0.1 s",
            &silence(0),
        ),
        (Unfitness::RanLink, MS(150), "the base-station link is down", &link(PortRole::BaseStation)),
        (
            Unfitness::RanNextHop,
            MS(50),
            "no answer from 192.0.2.1 on the base-station link for 0.1 s",
            &silence(1),
        ),
    ];
    for (reason, time, detail, change) in cases {
        let (mut health, from) = running();
        assert_eq!(first_change(&mut health, from, MS(5_000), change), Some(time), "{reason:?}");
        let [Condition { reason: found, detail: said, .. }] = &health.conditions()[..] else {
            panic!("{reason:?}: {:?}", health.conditions())
        };
        assert_eq!((*found, said.as_str()), (reason, detail));
        let back = health.last_observed.unwrap();
        assert_eq!(first_change(&mut health, back, MS(5_000), |_| {}), Some(RECOVERY), "{reason:?}");
        assert!(health.conditions().is_empty());
    }
}

#[test]
fn half_of_the_others_are_enough() {
    let (mut health, from) = running();
    let reach = |others, missing: u8| {
        move |look: &mut Observation| {
            look.reach = Some(Reach { others, missing: (0..missing).map(NodeId::new).collect() });
        }
    };
    for (others, missing) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2)] {
        assert_eq!(
            first_change(&mut health, from, MS(5_000), reach(others, missing)),
            None,
            "{missing} of {others}"
        );
    }
    for (others, missing) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
        let (mut health, from) = running();
        assert!(
            first_change(&mut health, from, MS(5_000), reach(others, missing)).is_some(),
            "{missing} of {others}"
        );
    }
}

#[test]
fn a_link_that_flickers_for_less_than_100_ms_is_not_down() {
    let (mut health, mut now) = running();
    for _ in 0..100 {
        for is_up in [false, false, true] {
            now += STEP;
            let mut look = well(now);
            look.links[0] = Some(is_up);
            health.observe(&look);
            assert!(health.fitness().is_fit());
            assert!(!health.is_down(PortRole::Internet));
        }
    }
}

#[test]
fn a_link_that_flaps_makes_one_change() {
    let (mut health, mut now) = running();
    let (mut changes, mut before) = (0, Fitness::FIT);
    for round in 0..200 {
        now += STEP;
        let is_up = round % 10 >= 5;
        let mut look = well(now);
        look.links[0] = Some(is_up);
        health.observe(&look);
        changes += u32::from(health.fitness() != before);
        before = health.fitness();
        assert!(!(is_up && health.is_down(PortRole::Internet)), "frames go as soon as the link carries them");
    }
    assert_eq!(changes, 1);
}

/// The process is stopped: its workers made no turn, its probes were not echoed. It is not unfit for that when it goes
/// on.
#[test]
fn a_process_that_was_stopped_is_given_time() {
    for seconds in [1, 15, 3_600] {
        let (mut health, stopped) = running();
        let woke = stopped + Duration::from_secs(seconds);
        let mut now = woke;
        for look in 0..10 {
            now = woke + STEP * look;
            // The workers take a little to be scheduled, the first echoes a little more.
            let turned = if look < 8 { stopped } else { now };
            let reach = Some(Reach { others: 2, missing: vec![NodeId::new(1), NodeId::new(2)] });
            health.observe(&Observation { workers: vec![turned, turned], reach, ..well(now) });
            assert!(health.fitness().is_fit(), "{seconds} s, look {look}: {:?}", health.conditions());
        }
        assert_eq!(first_change(&mut health, now, MS(5_000), |_| {}), None);
        // One that stays stuck is found all the same.
        let stuck = |look: &mut Observation| look.workers[0] = stopped;
        assert!(first_change(&mut health, now, MS(700), stuck).is_some());
    }
}

#[test]
fn what_nobody_knows_is_not_held_against_the_node() {
    let mut health = Health::new();
    for n in 0..1_000 {
        health.observe(&Observation { now: STEP * n, ..Observation::default() });
        assert!(health.fitness().is_fit());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A link goes up and down at random, looked at every 50 ms. The slow twin keeps the whole history: the link is
    /// held to be down from the moment on at which all looks of the last 100 ms saw it down, until all looks of the
    /// last second saw it up.
    #[test]
    fn a_link_is_judged_by_its_history(spans in prop::collection::vec((any::<bool>(), 1_usize..40), 1..30)) {
        let ups: Vec<bool> = spans.into_iter().flat_map(|(is_up, looks)| std::iter::repeat_n(is_up, looks)).collect();
        let (mut health, from) = running();
        let mut is_held = false;
        for (at, is_up) in ups.iter().enumerate() {
            let now = from + STEP * (at as u32 + 1);
            let mut look = well(now);
            look.links[2] = Some(*is_up);
            health.observe(&look);
            let last = |looks: usize, wanted: bool| {
                at + 1 >= looks && ups[at + 1 - looks..=at].iter().all(|up| *up == wanted)
            };
            // Down at three looks: for 100 ms. Up at 20 looks: the last that saw it down is a second old.
            is_held = if is_held { !last(20, true) } else { last(3, false) };
            prop_assert_eq!(health.fitness().has(Unfitness::FabricLink), is_held);
            prop_assert_eq!(health.is_down(PortRole::Fabric), is_held && !is_up);
        }
    }
}
