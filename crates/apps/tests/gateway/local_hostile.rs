//! Arbitrary frames in any order and at any time: no panic, no unbounded growth, no reply from an address of another
//! host, and an independent library accepts every frame sent.

use crate::gateway::lab::*;
use etherparse::ArpOperation;
use proptest::prelude::*;
use scalebricks_elements::gateway::local::{
    FrameKind, HoldOutcome, LocalConfig, LocalLimits, NeighbourState, Outbox, Rate,
};
use scalebricks_elements::gateway::{NextHop, OutputPort};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const LIMITS: LocalLimits = LocalLimits {
    neighbours: 5,
    held_a_neighbour: 3,
    held_frames: 8,
    held_bytes: 600,
    asks: Rate { per_second: 20, burst: 4 },
    demand_asks: Rate { per_second: 40, burst: 8 },
    neighbour_answers: Rate { per_second: 50, burst: 10 },
    echo_replies: Rate { per_second: 50, burst: 10 },
    gtpu_answers: Rate { per_second: 50, burst: 10 },
    error_indications: Rate { per_second: 50, burst: 10 },
    error_indications_a_peer: Rate { per_second: 20, burst: 4 },
    unreachables: Rate { per_second: 50, burst: 10 },
    unreachables_a_peer: Rate { per_second: 20, burst: 4 },
};

/// Marks frames handed over to hold: the slow path did not write their content.
const HELD: [u8; 2] = [0x88, 0xb5];

/// Addresses that are relevant, and some that are not.
fn v4(n: u8) -> Ipv4Addr {
    let known =
        [OWN, OWN_RAN, ROUTERS[0], ROUTERS[1], RAN_ROUTER, STATIONS[0], STATIONS[1], GATEWAY, [0; 4].into()];
    match known.get(usize::from(n)) {
        Some(address) => *address,
        None if n & 1 == 0 => Ipv4Addr::new(198, 51, 100, n),
        None if n & 2 == 0 => Ipv4Addr::new(10, 254, 0, n),
        None => Ipv4Addr::new(n, n, 1, 1),
    }
}

fn v6(n: u8) -> Ipv6Addr {
    let all: Ipv6Addr = "ff02::1".parse().unwrap_or(Ipv6Addr::UNSPECIFIED);
    let known = [OWN6, LINK_LOCAL, ROUTER6, GATEWAY6, Ipv6Addr::UNSPECIFIED, all];
    match known.get(usize::from(n)) {
        Some(address) => *address,
        None if n & 1 == 0 => Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, u16::from(n)),
        None if n & 2 == 0 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(n)),
        None => Ipv6Addr::new(0x2001, 0xdb8, u16::from(n), 0, 0, 0, 0, 1),
    }
}

fn mac(n: u8) -> [u8; 6] {
    match n {
        0 => INTERNET_MAC,
        1 => RAN_MAC,
        2 => [0xff; 6],
        3 => [0; 6],
        n if n & 1 == 0 => mac_of(v4(n >> 1)),
        n => mac_of(v6(n >> 1)),
    }
}

/// Mostly one of these, else any address.
fn mostly(these: &'static [u8]) -> impl Strategy<Value = u8> + Clone {
    prop_oneof![3 => prop::sample::select(these), 1 => 0u8..24]
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    // Own addresses, peers, their MAC addresses: indexes into the lists above.
    const OWN_V4: &[u8] = &[0, 1, 7];
    const PEERS_V4: &[u8] = &[2, 3, 4, 5, 6, 10, 12];
    const OWN_V6: &[u8] = &[0, 1];
    const PEERS_V6: &[u8] = &[2, 6, 8];
    const MACS: &[u8] = &[4, 6, 8, 10, 12, 20];
    let data = || prop::collection::vec(any::<u8>(), 0..40);
    let arp = (any::<bool>(), mostly(PEERS_V4), mostly(OWN_V4), mostly(MACS), mostly(&[0, 1, 2])).prop_map(
        |(is_reply, sender, target, from, to)| {
            let operation = if is_reply { ArpOperation::REPLY } else { ArpOperation::REQUEST };
            arp(operation, mac(from), v4(sender), mac(to), v4(target), mac(to))
        },
    );
    let peer = mostly(PEERS_V6);
    let nd = (133u8..138, mostly(PEERS_V6), 0u8..24, 0u8..8, any::<u8>(), prop::option::of(mostly(MACS)))
        .prop_map(|(kind, src, dst, target, flags, option)| {
            let option = option.map_or(vec![], |n| [&[1 + (kind & 1 ^ 1), 1][..], &mac(n)].concat());
            let body = [&v6(target).octets()[..], &option].concat();
            let (dst, to) =
                if dst & 1 == 0 { solicited_node(v6(target)) } else { (v6(dst >> 2), INTERNET_MAC) };
            let hop_limit = if flags & 15 == 15 { 64 } else { 255 };
            icmp6((mac_of(v6(src)), to), v6(src), dst, hop_limit, (kind, [flags, 0, 0, 0]), &body)
        });
    let echo6 = (peer, mostly(OWN_V6), 127u8..131, data()).prop_map(|(src, dst, kind, data)| {
        icmp6((mac_of(v6(src)), INTERNET_MAC), v6(src), v6(dst), 64, (kind, [1, 2, 3, 4]), &data)
    });
    let echo = (mostly(PEERS_V4), mostly(OWN_V4), 0u8..8, data()).prop_map(|(src, dst, to, data)| {
        let mut frame = Vec::new();
        let to = [INTERNET_MAC, RAN_MAC, [0xff; 6]][usize::from(to) / 3];
        let _ = etherparse::PacketBuilder::ethernet2(mac_of(v4(src)), to)
            .ipv4(v4(src).octets(), v4(dst).octets(), 64)
            .icmpv4_echo_request(1, 2)
            .write(&mut frame, &data);
        frame
    });
    let kinds = prop::sample::select(vec![1u8, 2, 26, 31, 254, 255, 9]);
    let flags = prop_oneof![3 => Just(0u8), 2 => Just(2u8), 1 => 0u8..8];
    let gtpu = (mostly(&[4, 5, 6]), mostly(&[1, 7]), any::<u16>(), flags, kinds, data()).prop_map(
        |(src, dst, port, flags, kind, mut data)| {
            data.splice(..0, [0, 9, 0, if flags & 4 == 0 { 0 } else { 0x81 }, 1, 0, 0, 0]);
            let message = [&[0x30 | flags, kind, 0, data.len() as u8, 0, 0, 0, 7][..], &data].concat();
            udp(v4(src), port, v4(dst), 2152, &message)
        },
    );
    prop_oneof![arp, nd, echo6, echo, gtpu, prop::collection::vec(any::<u8>(), 0..120)]
}

#[derive(Debug, Clone)]
enum Step {
    Receive(bool, Vec<u8>),
    /// A received frame with some octets changed, and truncated.
    Damaged(bool, Vec<u8>, Vec<(usize, u8)>, usize),
    Hold(bool, bool, u8, usize),
    UnknownTunnel(Vec<u8>),
    UnknownUser(Vec<u8>),
    Pass(u64),
    /// The stations that were asked answer.
    Answer,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), frame()).prop_map(|(port, frame)| Step::Receive(port, frame)),
        2 => (any::<bool>(), frame(), prop::collection::vec((0usize..90, any::<u8>()), 1..4), 0usize..200)
            .prop_map(|(port, frame, edits, cut)| Step::Damaged(port, frame, edits, cut)),
        3 => (any::<bool>(), any::<bool>(), 0u8..60, 0usize..300).prop_map(|(p, v, a, l)| Step::Hold(p, v, a, l)),
        1 => frame().prop_map(Step::UnknownTunnel),
        1 => frame().prop_map(Step::UnknownUser),
        4 => prop_oneof![0u64..30, 0u64..2_000, 0u64..40_000].prop_map(Step::Pass),
        2 => Just(Step::Answer),
    ]
}

fn port_of(is_ran: bool) -> OutputPort {
    if is_ran { RAN } else { INTERNET }
}

/// Packets handed over to hold, and those sent or lost since.
#[derive(Default)]
struct Books {
    given: usize,
    gone: usize,
}

impl Books {
    /// Collects the frames of the outbox. Each packet appears once.
    fn close(&mut self, lab: &mut Lab) -> Sent {
        self.gone += lab.out.drain_lost().count();
        let sent: Vec<_> = lab.out.drain().collect();
        self.gone += sent.iter().filter(|(_, _, kind)| *kind == FrameKind::Packet).count();
        // Replies of the node itself may be held as well.
        assert!(self.gone <= self.given && self.given <= self.gone + lab.local.occupancy().held_frames);
        sent.into_iter().map(|(port, frame, _)| (port, frame)).collect()
    }
}

fn take(lab: &mut Lab, step: Step, asked: &Sent, books: &mut Books) {
    match step {
        Step::Receive(is_ran, frame) => {
            let _ = lab.receive(port_of(is_ran), &frame);
        }
        Step::Damaged(is_ran, mut frame, edits, cut) => {
            for (at, bits) in edits {
                if let Some(octet) = frame.get_mut(at) {
                    *octet ^= bits;
                }
            }
            frame.truncate(cut);
            let _ = lab.receive(port_of(is_ran), &frame);
        }
        Step::Hold(is_ran, is_v6, address, len) => {
            let frame = [&[0; 12][..], &HELD, &vec![7; len]].concat();
            let next_hop = if is_v6 { IpAddr::V6(v6(address)) } else { IpAddr::V4(v4(address)) };
            books.given += 1;
            books.gone += usize::from(lab.hold(port_of(is_ran), next_hop, &frame) != HoldOutcome::Accepted);
        }
        Step::UnknownTunnel(frame) => lab.local.unknown_tunnel(&frame, lab.now, &mut lab.out),
        Step::UnknownUser(frame) => lab.local.unknown_user(&frame, lab.now, &mut lab.out),
        Step::Pass(millis) => {
            lab.now += Duration::from_millis(millis);
            lab.local.poll(lab.now, &mut lab.out);
            assert!(lab.local.next_deadline() > lab.now || lab.out.is_full());
        }
        Step::Answer => lab.answer_all(asked),
    }
}

/// Every frame that left is valid, and the node may send it.
fn check_frame(port: OutputPort, frame: &[u8]) {
    if frame.get(12..14) == Some(&HELD) {
        return;
    }
    assert_sound(frame);
    let (own_mac, mtu) = if port == RAN { (RAN_MAC, 1_600) } else { (INTERNET_MAC, 1_500) };
    assert!(frame.len() <= 14 + mtu);
    assert_eq!(frame[6..12], own_mac);
    let own = |address: IpAddr| {
        let addresses: &[IpAddr] =
            if port == RAN { &[OWN_RAN.into()] } else { &[OWN.into(), OWN6.into(), LINK_LOCAL.into()] };
        let link_local =
            matches!(address, IpAddr::V6(v6) if v6.segments() == [0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 0x202]);
        addresses.contains(&address) || (port == RAN && link_local)
    };
    if let Some(arp) = read_arp(frame) {
        assert!(own(Ipv4Addr::from(arp.sender_ipv4).into()));
        assert_eq!(arp.sender_mac, own_mac);
        return;
    }
    let ip = etherparse::SlicedPacket::from_ethernet(frame).map(|packet| packet.net);
    let (src, dst): (IpAddr, IpAddr) = match ip {
        Ok(Some(etherparse::NetSlice::Ipv4(ip))) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        Ok(Some(etherparse::NetSlice::Ipv6(ip))) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        other => unreachable!("{other:?}"),
    };
    assert!(own(src) || src == IpAddr::from(GATEWAY) || src == IpAddr::from(GATEWAY6), "{src}");
    assert!(!own(dst) && !dst.is_unspecified() && !dst.is_loopback(), "{dst}");
    let is_group = frame[0] & 1 != 0;
    assert_eq!(is_group, dst.is_multicast(), "{dst}: groups are spoken to as groups, others alone");
    if let Some((136, _, _, body)) = read_icmp6(frame) {
        assert!(own(Ipv6Addr::from(*body.first_chunk::<16>().unwrap_or(&[0; 16])).into()));
    }
}

fn check_state(lab: &Lab) {
    let taken = lab.local.occupancy();
    assert!(taken.learnt <= LIMITS.neighbours);
    assert!(taken.held_frames <= LIMITS.held_frames && taken.held_bytes <= LIMITS.held_bytes);
    let (pinned, learnt): (Vec<_>, Vec<_>) = lab.local.neighbours().partition(|n| n.is_pinned);
    assert_eq!((pinned.len(), learnt.len()), (5, taken.learnt));
    for n in pinned.iter().chain(&learnt) {
        let used =
            matches!(n.state, NeighbourState::Reachable | NeighbourState::Stale | NeighbourState::Probe);
        assert_eq!(used, n.mac.is_some());
        let own = if n.port == RAN { RAN_MAC } else { INTERNET_MAC };
        assert!(n.mac.is_none_or(|mac| !mac.is_multicast() && mac.octets() != [0; 6] && mac.octets() != own));
    }
    let stats = lab.local.stats();
    let gone = stats.held_sent
        + stats.dropped_held_replaced
        + stats.dropped_held_unanswered
        + stats.dropped_held_forgotten;
    assert_eq!(stats.dropped_outbox_full, 0);
    assert_eq!(stats.held, gone + taken.held_frames as u64, "every held frame is accounted for");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn whatever_comes(steps in prop::collection::vec(step(), 1..120)) {
        let mut lab = Lab::new(LocalConfig { limits: LIMITS, ..config() });
        lab.out = Outbox::new(10_000);
        let (mut asked, mut books) = (Sent::new(), Books::default());
        for step in steps {
            take(&mut lab, step, &asked, &mut books);
            let sent = books.close(&mut lab);
            for (port, frame) in &sent {
                check_frame(*port, frame);
            }
            asked.extend(sent);
            asked.drain(..asked.len().saturating_sub(12));
            check_state(&lab);
        }
        // At rest, the snapshot has all that the slow path knows.
        lab.pass(Duration::from_millis(10));
        let all = lab.local.adjacencies();
        for n in lab.local.neighbours() {
            let next_hop = match (n.port, n.address) {
                (RAN, address) => all.ran(address, 0),
                (_, IpAddr::V6(v6)) if v6.is_unicast_link_local() => continue,
                (_, address) => all.internet(address, 0),
            };
            prop_assert_eq!(next_hop, n.mac.map_or(NextHop::Ask(n.address), NextHop::Via));
        }
    }
}
