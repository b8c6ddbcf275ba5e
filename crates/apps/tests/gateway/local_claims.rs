//! Takeover of addresses: a node answers for another, the other returns, and neighbours get announcements. An
//! independent library parses all frames.

#![allow(clippy::unwrap_used, reason = "a test helper fails by panicking")]

use crate::gateway::lab::*;
use etherparse::ArpOperation;
use proptest::prelude::*;
use scalebricks_elements::gateway::OutputPort;
use scalebricks_elements::gateway::local::{AdoptedAddress, Claims};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const OTHER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 11);
const OTHER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x11);
const OTHER_RAN: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 11);

fn stand_in(port: OutputPort, address: impl Into<IpAddr>, is_due_to_another: bool) -> AdoptedAddress {
    AdoptedAddress { port, address: address.into(), is_due_to_another }
}

fn claims(is_due_to_another: bool) -> Claims {
    let others = [(INTERNET, OTHER.into()), (INTERNET, IpAddr::V6(OTHER6)), (RAN, OTHER_RAN.into())];
    let others = others.map(|(port, address)| stand_in(port, address, is_due_to_another)).to_vec();
    Claims { own: Some(0), others }
}

fn claim(lab: &mut Lab, claims: &Claims) {
    lab.local.claim(claims, lab.now);
}

/// The announced address, checked octet by octet: a gratuitous ARP request to all, or an overriding advertisement to
/// all nodes.
fn announced(sent: &Sent) -> Vec<(OutputPort, IpAddr, [u8; 6])> {
    let mut found = Vec::new();
    for (port, frame) in sent {
        if let Some(arp) = read_arp(frame).filter(|arp| arp.sender_ipv4 == arp.target_ipv4) {
            assert_eq!(arp.operation, ArpOperation::REQUEST);
            assert_eq!(arp.target_mac, [0; 6]);
            assert_eq!((&frame[..6], &frame[6..12]), (&[0xff; 6][..], &arp.sender_mac[..]));
            found.push((*port, Ipv4Addr::from(arp.sender_ipv4).into(), arp.sender_mac));
        } else if let Some((136, src, dst, body)) = read_icmp6(frame) {
            assert_sound(frame);
            assert_eq!(dst, "ff02::1".parse::<Ipv6Addr>().unwrap());
            assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
            assert_eq!((&body[..16], &body[16..18]), (&src.octets()[..], &[2, 1][..]));
            // Router, unsolicited, override; the hop limit proves that it comes from this link.
            assert_eq!((frame[58], frame[21]), (0xa0, 255));
            found.push((*port, src.into(), body[18..24].try_into().unwrap()));
        }
    }
    found
}

fn all_of_the_other() -> [(OutputPort, IpAddr, [u8; 6]); 3] {
    [
        (INTERNET, OTHER.into(), INTERNET_MAC),
        (INTERNET, OTHER6.into(), INTERNET_MAC),
        (RAN, OTHER_RAN.into(), RAN_MAC),
    ]
}

/// The MAC address that answers a router's request for an address.
fn answers(lab: &mut Lab, port: OutputPort, address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let asker = if port == RAN { RAN_ROUTER } else { ROUTERS[0] };
            let _taken = lab.receive(port, &arp_request(asker, address));
            let sent = lab.sent();
            for (on, frame) in &sent {
                let arp = read_arp(frame).unwrap();
                assert_eq!((*on, arp.operation), (port, ArpOperation::REPLY));
                let own = if port == RAN { RAN_MAC } else { INTERNET_MAC };
                assert_eq!((arp.sender_mac, arp.sender_ipv4), (own, address.octets()));
                assert_eq!((arp.target_mac, arp.target_ipv4), (mac_of(asker), asker.octets()));
                assert_eq!((&frame[..6], &frame[6..12]), (&mac_of(asker)[..], &own[..]));
            }
            !sent.is_empty()
        }
        IpAddr::V6(address) => {
            let _taken = lab.receive(port, &solicitation(ROUTER6, address, Some(mac_of(ROUTER6))));
            let sent = lab.sent();
            for (_, frame) in &sent {
                let (kind, src, dst, body) = read_icmp6(frame).unwrap();
                assert_eq!((kind, src, dst), (136, address, ROUTER6));
                assert_eq!((frame[58], &body[..16]), (0xe0, &address.octets()[..]));
                assert_eq!((&body[16..18], &body[18..]), (&[2, 1][..], &INTERNET_MAC[..]));
            }
            !sent.is_empty()
        }
    }
}

#[test]
fn a_stand_in_announces_at_once_after_one_second_and_after_three_and_answers() {
    let mut lab = Lab::resolved();
    for (port, address, _) in all_of_the_other() {
        assert!(!answers(&mut lab, port, address));
    }
    claim(&mut lab, &claims(false));
    assert_eq!(lab.local.next_deadline(), lab.now);
    assert_eq!(announced(&lab.pass(Duration::ZERO)), all_of_the_other());
    assert_eq!(announced(&lab.pass(SECOND * 999 / 1_000)), []);
    assert_eq!(announced(&lab.pass(SECOND / 1_000)), all_of_the_other());
    assert_eq!(announced(&lab.pass(SECOND * 1_999 / 1_000)), []);
    assert_eq!(announced(&lab.pass(SECOND / 1_000)), all_of_the_other());
    assert_eq!(announced(&lab.pass(SECOND * 3_600)), [], "and then no more");
    for (port, address, _) in all_of_the_other() {
        assert!(answers(&mut lab, port, address));
    }
    assert!(answers(&mut lab, INTERNET, OWN.into()), "its own as before");
    assert!(!answers(&mut lab, RAN, OTHER.into()), "not on the other link");
    // The same claim again changes nothing; after its removal nothing of it remains.
    claim(&mut lab, &claims(false));
    assert_eq!(announced(&lab.pass(SECOND * 10)), []);
    claim(&mut lab, &Claims::default());
    for (port, address, _) in all_of_the_other() {
        assert!(!answers(&mut lab, port, address));
    }
    let stats = lab.local.stats();
    assert_eq!((stats.addresses_taken_over, stats.addresses_let_go), (3, 3));
}

#[test]
fn packets_to_its_addresses_are_for_the_node_itself() {
    let mut lab = Lab::resolved();
    claim(&mut lab, &claims(false));
    lab.settle();
    // A GTP-U echo request of a base station, answered from the address it was sent to.
    let request = udp(RAN_ROUTER, 2_152, OTHER_RAN, 2_152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 9, 0, 0]);
    let frame = lab.one_answer(RAN, &request);
    assert_sound(&frame);
    assert_eq!((&frame[26..30], &frame[30..34]), (&OTHER_RAN.octets()[..], &RAN_ROUTER.octets()[..]));
    assert_eq!(frame[43], 2, "an echo response");
    // The node does not resolve addresses that it has taken over.
    let before = lab.local.stats();
    let _held = lab.hold(INTERNET, OTHER, &[0; 60]);
    assert_eq!(lab.sent(), []);
    assert_eq!(lab.local.stats().dropped_no_route, before.dropped_no_route + 1);
}

#[test]
fn it_answers_until_the_owner_is_heard() {
    let mut lab = Lab::resolved();
    claim(&mut lab, &claims(false));
    lab.pass(SECOND * 10);
    // The owner is back, and has sent nothing yet.
    claim(&mut lab, &claims(true));
    assert_eq!(announced(&lab.pass(SECOND * 10)), []);
    assert!(answers(&mut lab, INTERNET, OTHER.into()) && answers(&mut lab, RAN, OTHER_RAN.into()));
    let announcement = arp_request(OTHER, OTHER);
    lab.no_answer(INTERNET, &announcement);
    assert!(!answers(&mut lab, INTERNET, OTHER.into()), "let go");
    assert!(answers(&mut lab, INTERNET, OTHER6.into()) && answers(&mut lab, RAN, OTHER_RAN.into()));
    let to = [0x33, 0x33, 0, 0, 0, 1];
    let all_nodes = "ff02::1".parse().unwrap();
    lab.no_answer(
        INTERNET,
        &advertisement(mac_of(OTHER6), OTHER6, to, all_nodes, 0xa0, Some(mac_of(OTHER6))),
    );
    assert!(!answers(&mut lab, INTERNET, OTHER6.into()));
    assert_eq!(lab.local.stats().address_conflicts, 0, "all of that was to be expected");
    // It dies again before its entry has expired.
    claim(&mut lab, &claims(false));
    let again = [all_of_the_other()[0], all_of_the_other()[1]];
    assert_eq!(announced(&lab.pass(Duration::ZERO)), again, "the third was held all the time");
    assert!(answers(&mut lab, INTERNET, OTHER.into()));
}

#[test]
fn what_is_nobody_else_s_is_defended_but_not_all_the_time() {
    let mut lab = Lab::resolved();
    claim(&mut lab, &claims(false));
    lab.pass(SECOND * 5);
    // The node that is considered dead still sends requests from its old address.
    let mut defended = 0;
    for _ in 0..100 {
        lab.no_answer(INTERNET, &arp_request(OTHER, ROUTERS[0]));
        defended += announced(&lab.pass(SECOND / 10)).len();
    }
    assert_eq!(defended, 3, "three times in ten seconds");
    assert_eq!(lab.local.stats().address_conflicts, 100);
    assert!(answers(&mut lab, INTERNET, OTHER.into()));
}

#[test]
fn a_node_that_is_not_to_have_its_addresses_is_silent_about_them() {
    let mut lab = Lab::new(config());
    let silent = Claims { own: None, others: vec![] };
    claim(&mut lab, &silent);
    for _ in 0..50 {
        let sent = lab.pass(SECOND / 10);
        assert_eq!(announced(&sent), []);
        for (_, frame) in &sent {
            // It sends requests without an address that another node may have now.
            match (read_arp(frame), read_icmp6(frame)) {
                (Some(arp), _) => assert_eq!(arp.sender_ipv4, [0; 4]),
                (_, Some((kind, src, ..))) => assert_eq!((kind, src), (135, LINK_LOCAL)),
                _ => panic!("{frame:02x?}"),
            }
        }
        lab.answer_all(&sent);
    }
    lab.sent();
    let way = lab.local.adjacencies().internet([8, 8, 8, 8].into(), 1);
    assert!(
        matches!(way, scalebricks_elements::gateway::NextHop::Via(_)),
        "and learns all the same: {way:?}"
    );
    assert!(!answers(&mut lab, INTERNET, OWN.into()) && !answers(&mut lab, RAN, OWN_RAN.into()));
    assert!(!answers(&mut lab, INTERNET, OWN6.into()));
    // Requests to them are still answered.
    let request = udp(RAN_ROUTER, 2_152, OWN_RAN, 2_152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 9, 0, 0]);
    lab.one_answer(RAN, &request);
    // Caught up: announced; and again in a later incarnation.
    for life in [1, 2] {
        claim(&mut lab, &Claims { own: Some(life), others: vec![] });
        let sent = announced(&lab.pass(SECOND * 4));
        assert_eq!(sent.iter().filter(|(_, address, _)| *address == OWN).count(), 3, "life {life}");
        assert_eq!(sent.len(), 3 * 5, "two link-local ones among them");
        assert!(answers(&mut lab, INTERNET, OWN.into()) && answers(&mut lab, INTERNET, OWN6.into()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// For any claims in any order, also with other hosts that answer: a request is answered exactly for what is
    /// claimed and was not let go, and what is remembered is bounded by what was claimed last.
    #[test]
    fn what_is_answered_is_what_is_claimed(
        steps in prop::collection::vec((any::<u8>(), 0..6_u8, any::<bool>(), 0..2_000_u64), 1..40),
    ) {
        let mut lab = Lab::resolved();
        let other = |n: u8| Ipv4Addr::new(198, 51, 100, 100 + n);
        // The reference: of eight addresses, those claimed, and those released meanwhile.
        let (mut held, mut let_go) = (BTreeSet::new(), BTreeSet::new());
        for (set, speaker, is_due, wait) in steps {
            let wanted: BTreeSet<u8> = (0..8).filter(|n| set & 1 << n != 0).collect();
            held.retain(|n| wanted.contains(n));
            if !is_due {
                held.extend(wanted.iter().copied());
                let_go.clear();
            }
            let_go.retain(|n| held.contains(n));
            let others = wanted.iter().map(|n| stand_in(INTERNET, other(*n), is_due)).collect();
            claim(&mut lab, &Claims { own: Some(0), others });
            lab.pass(Duration::from_millis(wait));
            let _taken = lab.receive(INTERNET, &arp_request(other(speaker), ROUTERS[0]));
            if is_due && held.contains(&speaker) {
                let_go.insert(speaker);
            }
            lab.pass(SECOND / 100);
            for n in 0..8 {
                let expected = held.contains(&n) && !let_go.contains(&n);
                prop_assert_eq!(answers(&mut lab, INTERNET, other(n).into()), expected, "{}", n);
            }
        }
    }
}
