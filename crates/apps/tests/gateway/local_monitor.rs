//! Next hops that stop answering are detected within 1.3 s, replaced, and found again, with few requests.

#![allow(clippy::unwrap_used, reason = "a test helper fails by panicking")]

use crate::gateway::lab::*;
use proptest::prelude::*;
use scalebricks_elements::gateway::local::{Claims, LinkSilence, LocalConfig, NeighbourState};
use scalebricks_elements::gateway::{BaseStationId, NextHop};
use scalebricks_wire::MacAddr;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// If a station dies right after a reply: 300 ms to the next request, three rounds, and the step of these tests.
const FOUND_OUT: Duration = Duration::from_millis(1_220);

/// Advances time in steps of 10 ms, in which the stations in `there` answer. Returns the frames sent.
fn pass_with(lab: &mut Lab, time: Duration, there: impl Fn(IpAddr) -> bool) -> Sent {
    let until = lab.now + time;
    let mut all = Sent::new();
    while lab.now < until {
        let sent = lab.pass(MS * 10);
        let heard = sent.iter().filter(|(_, frame)| target(frame).is_some_and(&there)).cloned().collect();
        lab.answer_all(&heard);
        lab.sent();
        all.extend(sent);
    }
    all
}

fn is_router(address: IpAddr) -> bool {
    ROUTERS.map(IpAddr::V4).contains(&address) || address == IpAddr::V6(ROUTER6)
}

fn via(address: Ipv4Addr) -> NextHop {
    NextHop::Via(MacAddr(mac_of(address)))
}

#[test]
fn a_link_whose_next_hops_all_died_is_silent_within_1_300_ms() {
    let mut lab = Lab::resolved();
    pass_with(&mut lab, SECOND * 60, |_| true);
    assert_eq!((lab.local.silence(INTERNET), lab.local.silence(RAN)), (None, None));
    let died = lab.now;
    pass_with(&mut lab, FOUND_OUT, |address| !is_router(address));
    let LinkSilence { since, asked } = lab.local.silence(INTERNET).unwrap().clone();
    assert!(died <= since + MS * 310, "{died:?}, {since:?}");
    let routers: BTreeSet<IpAddr> = asked.into_iter().collect();
    assert_eq!(routers.len(), 3);
    assert!(routers.into_iter().all(is_router));
    assert_eq!(lab.local.silence(RAN), None, "the other link is well");
    // One of them suffices, and is found at its next request.
    pass_with(&mut lab, MS * 310, |address| !is_router(address) || address == IpAddr::V6(ROUTER6));
    assert_eq!(lab.local.silence(INTERNET), None);
    assert_eq!(lab.local.stats().links_silent, 1);
}

#[test]
fn a_silent_link_is_found_again_however_long_it_was_silent() {
    for seconds in [2, 20, 3_600] {
        let mut lab = Lab::resolved();
        pass_with(&mut lab, SECOND * seconds, |address| !is_router(address));
        assert!(lab.local.silence(INTERNET).is_some());
        pass_with(&mut lab, MS * 320, |_| true);
        assert_eq!(lab.local.silence(INTERNET), None, "after {seconds} s");
        let mac = lab.neighbour(ROUTERS[0]).unwrap().mac;
        assert_eq!(mac, Some(MacAddr(mac_of(ROUTERS[0]))), "and used again");
    }
}

#[test]
fn of_two_routers_the_dead_one_is_left_within_1_600_ms() {
    let mut lab = Lab::resolved();
    let used = |lab: &Lab| {
        let all = lab.local.adjacencies();
        let ways = (0..64).map(|hash| all.internet([8, 8, 8, 8].into(), hash)).collect::<Vec<_>>();
        ROUTERS.map(|router| ways.contains(&via(router)))
    };
    pass_with(&mut lab, SECOND * 10, |_| true);
    assert_eq!(used(&lab), [true, true]);
    pass_with(&mut lab, MS * 1_600, |address| address != IpAddr::V4(ROUTERS[1]));
    assert_eq!(used(&lab), [true, false]);
    assert_eq!(lab.local.silence(INTERNET), None);
    pass_with(&mut lab, SECOND * 10, |_| true);
    assert_eq!(used(&lab), [true, true], "and it is used again when it is back");
}

#[test]
fn a_next_hop_that_never_answered_makes_no_link_silent() {
    let mut lab = Lab::new(config());
    pass_with(&mut lab, SECOND * 60, |_| false);
    assert_eq!((lab.local.silence(INTERNET), lab.local.silence(RAN)), (None, None));
    assert_eq!(lab.local.stats().next_hops_checked, 0);
}

#[test]
fn a_node_that_answers_for_no_address_of_its_own_still_finds_out() {
    let mut lab = Lab::resolved();
    lab.local.claim(&Claims { own: None, others: vec![] }, lab.now);
    pass_with(&mut lab, SECOND * 5, |_| true);
    assert_eq!(lab.local.silence(INTERNET), None);
    pass_with(&mut lab, FOUND_OUT, |address| !is_router(address));
    assert!(lab.local.silence(INTERNET).is_some());
    let sent = pass_with(&mut lab, MS * 320, |_| true);
    assert_eq!(lab.local.silence(INTERNET), None);
    for arp in sent.iter().filter_map(|(_, frame)| read_arp(frame)) {
        assert_eq!(arp.sender_ipv4, [0; 4], "asks as one who has no address");
    }
}

/// The process was stopped: the replies wait in the port, and the clock went on.
#[test]
fn a_node_that_was_stopped_does_not_blame_its_next_hops() {
    for stopped in [1, 5, 30] {
        let mut lab = Lab::resolved();
        for _ in 0..20 {
            let before = lab.poll();
            lab.now += SECOND * stopped;
            // It resumes, polls first, and then receives the frames that arrived meanwhile.
            let after = lab.poll();
            assert_eq!((lab.local.silence(INTERNET), lab.local.silence(RAN)), (None, None));
            lab.answer_all(&before);
            lab.answer_all(&after);
            lab.sent();
        }
    }
}

/// A base-station link with this many stations, and no router.
fn stations(count: u8) -> LocalConfig {
    let base_stations = (1..=count).map(|n| Ipv4Addr::new(10, 254, 0, 100 + n)).collect();
    LocalConfig { base_stations, routes: vec![], ..config() }
}

#[test]
fn a_rack_of_base_stations_that_dies_makes_the_link_not_silent() {
    let mut lab = Lab::new(stations(60));
    lab.settle();
    let is_dead = |address: IpAddr| matches!(address, IpAddr::V4(v4) if v4.octets()[3] <= 130);
    for _ in 0..3_000 {
        pass_with(&mut lab, MS * 10, |address| !is_dead(address));
        assert_eq!(lab.local.silence(RAN), None);
    }
    let all = lab.local.adjacencies();
    assert!(matches!(all.base_station(BaseStationId(0), 1), Some((_, NextHop::Ask(_)))));
    assert!(matches!(all.base_station(BaseStationId(59), 1), Some((_, NextHop::Via(_)))));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Stations die and return at any time. The reference knows when each request was sent and answered. A link counts
    /// as silent after three rounds without a reply, and only then. The number of requests stays within its limit.
    #[test]
    fn a_link_is_silent_exactly_when_three_rounds_were_not_answered(
        count in 1_u8..12,
        steps in prop::collection::vec((any::<u16>(), 0_u64..4_000), 1..20),
    ) {
        let mut lab = Lab::new(stations(count));
        lab.settle();
        let from = (lab.now, lab.local.stats().next_hops_checked);
        let (mut rounds, mut checked) = (0, from.1);
        let mut dead_since = None;
        for (there, millis) in steps {
            let is_there = |address: IpAddr| match address {
                IpAddr::V4(v4) => there >> (v4.octets()[3] - 101) & 1 != 0,
                IpAddr::V6(_) => false,
            };
            let any = (1..=count).any(|n| is_there(Ipv4Addr::new(10, 254, 0, 100 + n).into()));
            dead_since = if any { None } else { dead_since.or(Some(lab.now)) };
            for _ in 0..millis / 10 {
                let sent = lab.pass(MS * 10);
                let asked = lab.local.stats().next_hops_checked;
                rounds += u64::from(asked > checked);
                checked = asked;
                let is_silent = lab.local.silence(RAN).is_some();
                prop_assert_eq!(is_silent, rounds > 3, "{} rounds", rounds);
                let heard: Sent = sent
                    .into_iter()
                    .filter(|(port, frame)| *port == RAN && target(frame).is_some_and(is_there))
                    .collect();
                lab.answer_all(&heard);
                lab.sent();
                if !heard.is_empty() {
                    rounds = 0;
                    prop_assert!(lab.local.silence(RAN).is_none());
                }
                if dead_since.is_some_and(|since| lab.now >= since + FOUND_OUT) {
                    prop_assert!(lab.local.silence(RAN).is_some());
                }
                let intervals = lab.now.saturating_sub(from.0).as_millis() / 300 + 1;
                prop_assert!(u128::from(checked - from.1) <= 4 * intervals);
            }
        }
        // In the end, the stations that are present are found and used.
        pass_with(&mut lab, SECOND * 40, |_| true);
        prop_assert!(lab.local.silence(RAN).is_none());
        prop_assert!(lab.local.neighbours().all(|n| n.state == NeighbourState::Reachable));
    }
}
