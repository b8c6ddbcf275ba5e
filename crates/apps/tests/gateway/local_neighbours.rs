//! Neighbours on the links: resolved, trusted for some time, and resolved again.

use crate::gateway::lab::*;
use etherparse::ArpOperation;
use scalebricks_elements::gateway::local::{Consumed, FrameKind, HoldOutcome, NeighbourState};
use scalebricks_elements::gateway::{BaseStationId, DropReason, NextHop};
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn via(address: impl Into<IpAddr>) -> NextHop {
    NextHop::Via(MacAddr(mac_of(address)))
}

fn asked_for(sent: &Sent) -> Vec<IpAddr> {
    let mut asked: Vec<IpAddr> = sent.iter().filter_map(|(_, frame)| target(frame)).collect();
    asked.sort();
    asked
}

#[test]
fn announces_itself_and_asks_for_all_next_hops_at_once() {
    let mut lab = Lab::new(config());
    assert_eq!(lab.local.next_deadline(), lab.now);
    let sent = lab.poll();
    for (_, frame) in &sent {
        assert_sound(frame);
    }
    let mut wanted: Vec<IpAddr> = ROUTERS.map(IpAddr::V4).to_vec();
    wanted.extend([IpAddr::from(ROUTER6), RAN_ROUTER.into(), STATIONS[0].into()]);
    wanted.sort();
    assert_eq!(asked_for(&sent), wanted);
    let announced: Vec<_> = sent
        .iter()
        .filter_map(|(port, frame)| read_arp(frame).map(|arp| (*port, arp)))
        .filter(|(_, arp)| arp.sender_ipv4 == arp.target_ipv4)
        .map(|(port, arp)| (port, Ipv4Addr::from(arp.sender_ipv4), arp.sender_mac))
        .collect();
    assert_eq!(announced, [(INTERNET, OWN, INTERNET_MAC), (RAN, OWN_RAN, RAN_MAC)]);
    let stats = lab.local.stats();
    assert_eq!((stats.arp_announcements_out, stats.neighbour_announcements_out), (2, 3));
    lab.pass(SECOND * 60);
    let stats = lab.local.stats();
    assert_eq!((stats.arp_announcements_out, stats.neighbour_announcements_out), (6, 9), "three times");
}

#[test]
fn the_snapshot_knows_what_answered() {
    let mut lab = Lab::new(config());
    let before = lab.local.adjacencies();
    let outside = IpAddr::from([8, 8, 8, 8]);
    let outside6: IpAddr = "2001:db8:ffff::1".parse().unwrap();
    assert_eq!(before.internet(outside, 1), NextHop::Ask(ROUTERS[0].into()));
    assert_eq!(before.internet(outside6, 1), NextHop::Ask(ROUTER6.into()));
    assert_eq!(
        before.base_station(BaseStationId(1), 1),
        Some((STATIONS[1], NextHop::Ask(RAN_ROUTER.into())))
    );
    let generation = lab.local.generation();
    lab.settle();
    assert!(lab.local.generation() > generation);
    let all = lab.local.adjacencies();
    let ways: std::collections::HashSet<_> =
        (0..64).map(|hash| format!("{:?}", all.internet(outside, hash))).collect();
    assert_eq!(ways.len(), 2, "both routers are used");
    assert_eq!(all.internet(outside6, 1), via(ROUTER6));
    assert_eq!(all.base_station(BaseStationId(0), 1), Some((STATIONS[0], via(STATIONS[0]))));
    assert_eq!(all.base_station(BaseStationId(1), 1), Some((STATIONS[1], via(RAN_ROUTER))));
    assert_eq!(all.base_station(BaseStationId(2), 1), Some((STATIONS[2], NextHop::NoRoute)));
    assert_eq!(all.base_station(BaseStationId(3), 1), None);
    assert_eq!(all.ran(STATIONS[1].into(), 1), via(RAN_ROUTER));
    // Destinations on the link are their own next hop; its first and last address and the node have none.
    let near = IpAddr::from([198, 51, 100, 77]);
    assert_eq!(all.internet(near, 1), NextHop::Ask(near));
    for unknown in [OWN, [198, 51, 100, 0].into(), [198, 51, 100, 255].into(), [224, 0, 0, 1].into()] {
        assert_eq!(all.internet(unknown.into(), 1), NextHop::NoRoute);
    }
    assert_eq!(all.internet("fe80::5".parse().unwrap(), 1), NextHop::NoRoute);
}

#[test]
fn a_router_less_is_a_way_less() {
    let mut lab = Lab::resolved();
    // Router 2 stops answering: this is detected, it is asked for again, and then given up.
    let (from, until) = (lab.now, lab.now + SECOND * 60);
    let mut lost_at = None;
    while lab.now < until {
        let sent = lab.pass(SECOND / 10);
        let others: Sent =
            sent.into_iter().filter(|s| !asked_for(&vec![s.clone()]).contains(&ROUTERS[1].into())).collect();
        lab.answer_all(&others);
        let known = lab.neighbour(ROUTERS[1]).unwrap().mac.is_some();
        if !known && lost_at.is_none() {
            lost_at = Some(lab.now);
        }
        let all = lab.local.adjacencies();
        let used = (0..64).any(|hash| all.internet([8, 8, 8, 8].into(), hash) == via(ROUTERS[1]));
        assert_eq!(used, known, "used while it is probed, not afterwards");
        assert!((0..64).all(|hash| matches!(all.internet([8, 8, 8, 8].into(), hash), NextHop::Via(_))));
    }
    let lost_at = lost_at.unwrap().saturating_sub(from);
    assert!((SECOND * 9 / 10..SECOND * 2).contains(&lost_at), "{lost_at:?}");
    assert_eq!(lab.neighbour(ROUTERS[1]).unwrap().state, NeighbourState::Missing);
    assert_eq!(lab.local.stats().neighbours_lost, 1);
}

#[test]
fn a_missing_peer_costs_little_and_is_found_when_it_comes_back() {
    let mut lab = Lab::new(config());
    let hour = lab.pass(SECOND * 3_600);
    let questions = asked_for(&hour).iter().filter(|to| **to == IpAddr::from(STATIONS[0])).count();
    assert!((100..150).contains(&questions), "{questions}: once in 30 s");
    // It answers the next request.
    let asked_at = lab.now;
    while lab.neighbour(STATIONS[0]).unwrap().mac.is_none() {
        let next = lab.pass(SECOND / 10);
        lab.answer_all(&next);
    }
    assert!(lab.now <= asked_at + SECOND * 31);
    assert_eq!(lab.neighbour(STATIONS[0]).unwrap().state, NeighbourState::Reachable);
    lab.settle();
    lab.pass(SECOND * 340);
    assert_eq!(lab.neighbour(RAN_ROUTER).unwrap().state, NeighbourState::Missing);
    // Another host announces itself: it is trusted, and probed at its own address.
    assert_eq!(lab.receive(RAN, &arp_request(RAN_ROUTER, RAN_ROUTER)), Consumed::Yes);
    assert_eq!(lab.neighbour(RAN_ROUTER).unwrap().state, NeighbourState::Stale);
    lab.pass(SECOND / 50);
    assert_eq!(lab.local.adjacencies().ran(STATIONS[1].into(), 0), via(RAN_ROUTER));
    let probe = lab.pass(SECOND);
    let probe: Sent = probe.into_iter().filter(|(_, frame)| frame[..6] == mac_of(RAN_ROUTER)).collect();
    let asked = asked_for(&probe);
    assert!(!asked.is_empty() && asked.iter().all(|address| *address == IpAddr::from(RAN_ROUTER)));
    lab.answer_all(&probe);
    assert_eq!(lab.neighbour(RAN_ROUTER).unwrap().state, NeighbourState::Reachable);
}

#[test]
fn what_waits_is_sent_when_the_answer_comes() {
    let mut lab = Lab::resolved();
    let near = Ipv4Addr::new(198, 51, 100, 77);
    let near6: Ipv6Addr = "2001:db8:1::77".parse().unwrap();
    for (next_hop, ethertype) in [(IpAddr::from(near), [8, 0]), (near6.into(), [0x86, 0xdd])] {
        let frame = |n: u8| [&[0; 6][..], &INTERNET_MAC, &ethertype, &[n; 50]].concat();
        assert!((0..20).all(|n| lab.hold(INTERNET, next_hop, &frame(n)) == HoldOutcome::Accepted));
        let question = lab.sent();
        assert_eq!(asked_for(&question), [next_hop], "asked once");
        lab.answer_all(&question);
        let sent = lab.sent();
        let want: Sent =
            (4..20).map(|n| (INTERNET, [&mac_of(next_hop)[..], &frame(n)[6..]].concat())).collect();
        assert_eq!(sent, want, "the newest 16, in order");
        assert_eq!(lab.hold(INTERNET, next_hop, &frame(99)), HoldOutcome::Accepted);
        assert_eq!(lab.sent()[0].1[..6], mac_of(next_hop), "known by now");
        lab.pass(SECOND / 50);
        assert_eq!(lab.local.adjacencies().internet(next_hop, 3), via(next_hop));
    }
    let stats = lab.local.stats();
    assert_eq!(
        (stats.held, stats.held_sent, stats.dropped_held_replaced, stats.sent_at_once),
        (40, 32, 8, 2)
    );
    assert_eq!(lab.local.occupancy().held_frames, 0);
}

/// A burst of Error Indications to a base station does not displace a packet to it.
#[test]
fn answers_of_the_node_take_no_place_of_packets_that_wait() {
    let mut lab = Lab::resolved();
    let near = Ipv4Addr::new(198, 51, 100, 79);
    let frame = |n: u8| [&[0; 6][..], &INTERNET_MAC, &[8, 0], &[n; 50]].concat();
    let hold = |lab: &mut Lab, frames: std::ops::Range<u8>, kind| {
        let now = lab.now;
        let held = frames.map(|n| lab.local.hold(INTERNET, near.into(), &frame(n), kind, now, &mut lab.out));
        held.filter(|held| *held == HoldOutcome::Accepted).count()
    };
    assert_eq!(hold(&mut lab, 0..10, FrameKind::Packet), 10);
    assert_eq!(hold(&mut lab, 100..120, FrameKind::Other), 20, "the newest six answers wait");
    assert_eq!(hold(&mut lab, 10..20, FrameKind::Packet), 10, "six answers make room, then four packets");
    assert_eq!(hold(&mut lab, 120..125, FrameKind::Other), 0, "no packet makes room");
    let question = lab.sent();
    lab.answer_all(&question);
    let sent: Vec<_> = lab.sent().iter().map(|(_, frame)| frame[14]).collect();
    assert_eq!(sent, (4..20).collect::<Vec<u8>>());
    let stats = lab.local.stats();
    assert_eq!((stats.held, stats.dropped_held_replaced, stats.dropped_held_full), (40, 24, 5));
}

#[test]
fn what_waits_for_nobody_is_dropped_by_name() {
    let mut lab = Lab::resolved();
    let near = Ipv4Addr::new(198, 51, 100, 78);
    assert_eq!(lab.hold(INTERNET, near, &[7; 60]), HoldOutcome::Accepted);
    let sent = lab.pass(SECOND * 5);
    assert_eq!(asked_for(&sent).iter().filter(|to| **to == IpAddr::from(near)).count(), 3);
    assert_eq!(lab.neighbour(near), None, "no packet waits for it any more");
    assert_eq!(lab.local.stats().dropped_held_unanswered, 1);
    let lost: Vec<_> = lab.out.drain_lost().collect();
    assert_eq!(lost, [(vec![7; 60], DropReason::Unresolved)]);
    let nowhere = HoldOutcome::Dropped(DropReason::NoRoute);
    assert_eq!(lab.hold(INTERNET, Ipv4Addr::new(8, 8, 8, 8), &[0; 60]), nowhere);
    assert_eq!(lab.hold(INTERNET, OWN, &[0; 60]), nowhere);
    assert_eq!(lab.hold(INTERNET, Ipv4Addr::new(198, 51, 100, 255), &[0; 60]), nowhere);
    assert_eq!(lab.hold(RAN, near, &[0; 60]), nowhere);
    assert_eq!(lab.local.stats().dropped_no_route, 4);
    assert_eq!(lab.hold(INTERNET, near, &[0; 13]), HoldOutcome::Dropped(DropReason::Truncated));
    assert_eq!(lab.local.stats().dropped_malformed, 1);
    assert_eq!(lab.sent(), []);
}

#[test]
fn a_missing_base_station_with_traffic_is_asked_once_a_second() {
    let mut lab = Lab::new(config());
    lab.pass(SECOND * 600);
    let before = lab.local.stats();
    let mut questions = 0;
    for _ in 0..1_000 {
        assert_eq!(lab.hold(RAN, STATIONS[0], &[0; 60]), HoldOutcome::Dropped(DropReason::Unresolved));
        questions += lab.pass(SECOND / 100).len();
    }
    let stats = lab.local.stats();
    assert!((9..=14).contains(&questions), "{questions}");
    assert_eq!(stats.dropped_missing - before.dropped_missing, 1_000, "none is held meanwhile");
}

#[test]
fn nobody_is_learnt_who_was_not_asked_for() {
    let mut lab = Lab::resolved();
    let before = lab.local.neighbours().count();
    let stranger = Ipv4Addr::new(198, 51, 100, 99);
    let stranger6: Ipv6Addr = "2001:db8:1::99".parse().unwrap();
    let reply = arp(ArpOperation::REPLY, mac_of(stranger), stranger, INTERNET_MAC, OWN, INTERNET_MAC);
    assert_eq!(lab.receive(INTERNET, &reply), Consumed::Yes);
    assert_eq!(lab.receive(INTERNET, &arp_request(stranger, stranger)), Consumed::Yes);
    let unasked =
        advertisement(mac_of(stranger6), stranger6, INTERNET_MAC, OWN6, 0x60, Some(mac_of(stranger6)));
    assert_eq!(lab.receive(INTERNET, &unasked), Consumed::Yes);
    lab.one_answer(INTERNET, &solicitation(stranger6, OWN6, Some(mac_of(stranger6))));
    lab.one_answer(INTERNET, &arp_request(stranger, OWN));
    assert_eq!(lab.local.neighbours().count(), before);
    assert_eq!(lab.local.stats().dropped_unsolicited, 2);
}

#[test]
fn a_router_that_moves_is_followed_and_asked_whether_it_did() {
    let mut lab = Lab::resolved();
    let other = [0x0a, 0xbb, 0, 0, 0, 1];
    let moved = arp(ArpOperation::REQUEST, other, ROUTERS[0], [0; 6], ROUTERS[0], [0xff; 6]);
    assert_eq!(lab.receive(INTERNET, &moved), Consumed::Yes);
    lab.pass(SECOND / 50);
    let all = lab.local.adjacencies();
    assert!((0..64).any(|hash| all.internet([8, 8, 8, 8].into(), hash) == NextHop::Via(MacAddr(other))));
    // The announcement was false: that host does not answer, the real one answers the broadcast request.
    for _ in 0..80 {
        let sent = lab.pass(SECOND / 10);
        let to_others = sent.into_iter().filter(|(_, frame)| frame[..6] != other).collect();
        lab.answer_all(&to_others);
    }
    let all = lab.local.adjacencies();
    assert!((0..64).all(|hash| all.internet([8, 8, 8, 8].into(), hash) != NextHop::Via(MacAddr(other))));
    assert_eq!(lab.neighbour(ROUTERS[0]).unwrap().mac, Some(MacAddr(mac_of(ROUTERS[0]))));
}

#[test]
fn a_flood_of_lies_costs_a_question_a_second() {
    let mut lab = Lab::resolved();
    let mut asked = 0;
    for n in 0..1_000_u32 {
        let [_, _, a, b] = n.to_be_bytes();
        let mac = [0x0a, 0xbb, 0, 0, a, b];
        let lie = arp(ArpOperation::REQUEST, mac, ROUTERS[0], [0; 6], ROUTERS[0], [0xff; 6]);
        assert_eq!(lab.receive(INTERNET, &lie), Consumed::Yes);
        let sent = lab.pass(SECOND / 100);
        asked += asked_for(&sent).iter().filter(|address| **address == IpAddr::from(ROUTERS[0])).count();
    }
    // In addition to the checks of next hops, one every 300 ms.
    assert!(asked < 20 + 34, "{asked}");
}
