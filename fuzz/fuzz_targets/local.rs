//! Frames, times and frames to hold, in any order, at a slow path. Its tables stay bounded, it sends only from its own
//! addresses, and every frame that it sends parses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scalebricks_elements::gateway::OutputPort;
use scalebricks_elements::gateway::local::{
    FrameKind, HoldOutcome, Interface, LocalStack, LocalConfig, LocalLimits, Outbox, Route,
};
use scalebricks_fuzz::mend;
use scalebricks_wire::arp::Arp;
use scalebricks_wire::ethernet::ETHERTYPE_ARP;
use scalebricks_wire::{MacAddr, icmp_echo, ipv4_header_checksum_ok, nd, parse_frame, parse_ip, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 1, 1]), MacAddr([2, 0, 0, 0, 2, 2])];
const OWN: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 51, 100, 10), Ipv4Addr::new(10, 254, 0, 10)];
const OWN6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x10);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 255, 0, 1);
const GATEWAY6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x5b, 0, 0, 0, 0, 0, 1);
/// Sources of frames to hold, which are not addresses of the slow path.
const HELD: [u8; 2] = [0x88, 0xb5];
const MTU: u16 = 1_500;

fn config() -> LocalConfig {
    let interface = |port: usize, more: &[(IpAddr, u8)]| Interface {
        mac: MACS[port],
        addresses: [&[(OWN[port].into(), 24)], more].concat(),
        mtu: MTU,
    };
    let route = |port, to: IpAddr, len, via: IpAddr| Route { port, to: (to, len), via: vec![via] };
    let (internet, ran) = (OutputPort::Internet, OutputPort::BaseStation);
    let router6 = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
    LocalConfig {
        internet: interface(0, &[(OWN6.into(), 64)]),
        base_station: interface(1, &[]),
        routes: vec![
            route(internet, [0, 0, 0, 0].into(), 0, [198, 51, 100, 1].into()),
            route(internet, Ipv6Addr::UNSPECIFIED.into(), 0, router6.into()),
            route(ran, [10, 20, 0, 0].into(), 16, [10, 254, 0, 1].into()),
        ],
        base_stations: vec![[10, 254, 0, 21].into(), [10, 20, 0, 5].into()],
        gateway: GATEWAY,
        gateway_v6: GATEWAY6,
        limits: LocalLimits {
            neighbours: 4,
            held_a_neighbour: 2,
            held_frames: 6,
            held_bytes: 4_000,
            ..LocalLimits::default()
        },
    }
}

/// Every frame that the slow path sends parses, and has one of its own addresses as source.
fn check(port: OutputPort, frame: &[u8]) {
    if frame.get(12..14) == Some(&HELD) {
        return;
    }
    let link = port as usize;
    let header = parse_frame(frame).unwrap();
    assert_eq!(header.src, MACS[link]);
    let payload = &frame[header.l3_offset..];
    assert!(payload.len() <= usize::from(MTU));
    if header.ethertype == ETHERTYPE_ARP {
        let arp = Arp::parse(payload).unwrap();
        assert_eq!((arp.sender_mac, arp.sender_ip), (MACS[link], OWN[link]));
        return;
    }
    let packet = parse_ip(payload).unwrap();
    let own: [IpAddr; 5] =
        [OWN[link].into(), OWN6.into(), nd::link_local(MACS[link]).into(), GATEWAY.into(), GATEWAY6.into()];
    assert!(own.contains(&packet.summary.src), "{:?}", packet.summary);
    assert!(!packet.summary.is_ipv4() || ipv4_header_checksum_ok(payload));
    assert!(packet.summary.protocol == protocol::UDP || icmp_echo::checksum_ok(&packet));
    if let Ok(Some(nd::Message::Advertisement(said))) = nd::parse(payload) {
        assert!(own.contains(&said.target.into()) && said.target_mac == Some(MACS[link]));
    }
}

/// Hands over a packet to hold. Returns whether it was lost at once.
fn hold(
    local: &mut LocalStack,
    port: OutputPort,
    to: IpAddr,
    frame: &[u8],
    now: Duration,
    out: &mut Outbox,
) -> bool {
    matches!(local.hold(port, to, frame, FrameKind::Packet, now, out), HoldOutcome::Dropped(_))
}

fuzz_target!(|bytes: &[u8]| {
    let mut now = Duration::from_secs(1);
    // Packets handed over to hold, and those that left again.
    let (mut given, mut gone) = (0_usize, 0_usize);
    let (mut local, mut out) = (LocalStack::new(config(), now), Outbox::new(64));
    local.poll(now, &mut out);
    let mut rest = bytes;
    // The action, the delay, the length of the frame, the frame.
    while let [what, later, len, behind @ ..] = rest {
        let (frame, behind) = behind.split_at(usize::from(*len).min(behind.len()));
        rest = behind;
        let mut frame = frame.to_vec();
        let port = OutputPort::ALL[usize::from(what >> 7)];
        now += Duration::from_millis(u64::from(*later) * u64::from(*later));
        if what & 0x40 != 0 && frame.len() >= 6 {
            frame[..6].copy_from_slice(&MACS[port as usize].octets());
        }
        if what & 0x20 != 0 {
            mend(&mut frame);
        }
        match what & 7 {
            0 => local.unknown_tunnel(&frame, now, &mut out),
            1 => local.unknown_user(&frame, now, &mut out),
            2 => {
                let host = frame.first().copied().unwrap_or(0);
                let frame = [&[0; 12][..], &HELD, &frame].concat();
                let [a, b, c, _] = OWN[port as usize].octets();
                given += 1;
                gone += usize::from(hold(&mut local, port, [a, b, c, host].into(), &frame, now, &mut out));
            }
            3 => {
                let mut address = OWN6.octets();
                address[15] = frame.first().copied().unwrap_or(0);
                let frame = [&[0; 12][..], &HELD, &frame].concat();
                given += 1;
                gone += usize::from(hold(
                    &mut local,
                    port,
                    Ipv6Addr::from(address).into(),
                    &frame,
                    now,
                    &mut out,
                ));
            }
            4 => local.poll(now, &mut out),
            _ => {
                let _ = local.receive(port, &frame, now, &mut out);
            }
        }
        gone += out.drain_lost().count();
        for (port, frame, kind) in out.drain() {
            check(port, &frame);
            gone += usize::from(kind == FrameKind::Packet);
        }
        let taken = local.occupancy();
        // Replies of the node itself may be held as well.
        assert!(gone <= given && given <= gone + taken.held_frames);
        assert!(taken.learnt <= 4 && taken.held_frames <= 6 && taken.held_bytes <= 4_000);
        assert_eq!(local.neighbours().count(), 4 + taken.learnt);
    }
});
