//! Forged, malformed and excessive packets.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use super::packets::*;
use scalebricks_flows::nat::{Allocation, Config, ConfigError, Refusal, Timeouts};
use std::net::Ipv4Addr;
use std::time::Duration;

#[test]
fn forged_and_malformed_packets_are_refused_by_name() {
    let mut rig = Rig::new(|_| {});
    let (inside, far) = ((host(1), 5_000), (remote(1), 80));
    let public = rig.udp(inside, far).unwrap();
    let stranger = (Ipv4Addr::new(10, 0, 0, 1), 9);
    assert_eq!(rig.udp(stranger, far), Err(Refusal::NotInside));
    assert_eq!(rig.back(&udp(inside, public, b"")), Err(Refusal::ForgedSource));
    assert_eq!(rig.back(&udp(public, public, b"")), Err(Refusal::ForgedSource));
    assert_eq!(rig.back(&udp(far, inside, b"")), Err(Refusal::NotPublic));
    assert_eq!(rig.back(&udp(far, (public.0, 80), b"")), Err(Refusal::NoMapping));
    assert_eq!(rig.out(&ip(132, host(1), far.0, &[0; 16])), Err(Refusal::Sctp));
    assert_eq!(rig.out(&ip(47, host(1), far.0, &[0; 16])), Err(Refusal::Protocol));
    assert_eq!(rig.out(&ip(UDP, host(1), far.0, &[0; 7])), Err(Refusal::MalformedTransport));
    assert_eq!(rig.out(&ip(UDP, host(1), far.0, &[0; 3])), Err(Refusal::MalformedTransport));
    assert_eq!(rig.out(&ip(ICMP, host(1), far.0, &[8, 0, 0, 0])), Err(Refusal::MalformedTransport));
    assert_eq!(rig.out(&query(0, host(1), far.0, 1)), Err(Refusal::IcmpType));
    assert_eq!(rig.back(&query(8, far.0, public.0, public.1)), Err(Refusal::IcmpType));
    assert_eq!(rig.out(&[0x60; 40]), Err(Refusal::MalformedIp));
    assert_eq!(rig.out(b""), Err(Refusal::MalformedIp));
    let mut wrong = udp(inside, far, b"abc");
    wrong[30] ^= 1;
    assert_eq!(rig.out(&wrong), Err(Refusal::TransportChecksum));
    wrong[10] ^= 1;
    assert_eq!(rig.out(&wrong), Err(Refusal::IpChecksum));
    assert_eq!(rig.nat.mappings(), 1);
    assert_eq!(rig.nat.refusals().total(), 16);
}

#[test]
fn errors_that_are_not_about_a_session_are_refused_by_name() {
    let mut rig = Rig::new(|_| {});
    let (inside, far) = ((host(1), 5_000), (remote(1), 80));
    let sent = rig.out(&udp(inside, far, b"data")).unwrap();
    let (public, _) = ends(&sent);
    let router = remote(9);
    // A redirect; another port; another destination; to someone else; about an error; cut.
    assert_eq!(rig.back(&error(5, router, public.0, &sent, 8)), Err(Refusal::IcmpType));
    let other = udp((public.0, public.1 ^ 2), far, b"data");
    assert_eq!(rig.back(&error(3, router, public.0, &other, 8)), Err(Refusal::UnrelatedError));
    let other = udp(public, (remote(3), 80), b"data");
    assert_eq!(rig.back(&error(3, router, public.0, &other, 8)), Err(Refusal::UnrelatedError));
    let elsewhere = Ipv4Addr::from_bits(public.0.to_bits() ^ 1);
    assert_eq!(rig.back(&error(3, router, elsewhere, &sent, 8)), Err(Refusal::ErrorQuote));
    let about = error(3, public.0, far.0, &sent, 8);
    assert_eq!(rig.back(&error(3, router, public.0, &about, 40)), Err(Refusal::ErrorQuote));
    assert_eq!(rig.back(&error(3, router, public.0, &sent[..19], 0)), Err(Refusal::ErrorQuote));
    let mut wrong = error(3, router, public.0, &sent, 8);
    wrong[50] ^= 1;
    assert_eq!(rig.back(&wrong), Err(Refusal::ErrorChecksum));
    let mut quoted = sent.clone();
    quoted[4] ^= 1;
    assert_eq!(rig.back(&error(3, router, public.0, &quoted, 8)), Err(Refusal::ErrorChecksum));
    assert_eq!(
        rig.out(&error(3, host(1), far.0, &udp(far, (host(1), 9), b""), 8)),
        Err(Refusal::UnrelatedError)
    );
    assert_eq!(rig.nat.mappings(), 1);
}

/// One host that tries everything takes nothing from another.
#[test]
fn a_flood_from_one_host_leaves_others_their_ports() {
    let mut rig = Rig::new(|config| {
        config.sessions = 1_000;
        config.young_sessions = 200;
        config.subscriber_sessions = 100;
    });
    let other = ((host(2), 7), (remote(1), 80));
    rig.connect(other.0, other.1);
    for at in 0..20_000_u32 {
        let to = (Ipv4Addr::from_bits(at), 80);
        let _ = rig.out(&tcp((host(1), at as u16), to, (1, 0, SYN), b""));
    }
    assert!(rig.nat.mappings() <= 65 && rig.nat.tracker().flows() <= 101);
    assert!(rig.nat.refusals().get(Refusal::NoPort) + rig.nat.refusals().get(Refusal::SessionLimit) > 19_000);
    rig.out(&tcp(other.0, other.1, (101, 501, ACK), b"go on")).unwrap();
    rig.udp((host(3), 1), (remote(1), 1)).unwrap();
}

/// Forged inside addresses use up blocks by name; those that have blocks go on.
#[test]
fn forged_inside_addresses_take_free_blocks_only() {
    let mut rig = Rig::with_plan(plan(2_048), |_| {});
    let known = rig.udp((host(255), 7), (remote(1), 1)).unwrap();
    let blocks = rig.nat.config().plan.blocks() as usize;
    let refused = (0..255).filter(|at| rig.udp((host(*at), 1), (remote(1), 1)).is_err()).count();
    assert_eq!((rig.nat.blocks_in_use(), refused), (blocks, 256 - blocks));
    assert_eq!(rig.udp((host(255), 7), (remote(2), 1)), Ok(known));
    rig.wait(301);
    rig.wait(120);
    assert_eq!((rig.nat.blocks_in_use(), rig.nat.subscribers(), rig.nat.tracker().flows()), (0, 0, 0));
}

/// The sizing of docs/nat.md.
#[test]
fn sessions_take_as_much_memory_as_documented() {
    let mut rig = Rig::new(|config| config.sessions = 1 << 16);
    let memory = rig.nat.tracker_mut().table_v4().memory();
    let bytes = memory.total_bytes() >> 16;
    assert!((550..=750).contains(&bytes), "{bytes} bytes per session");
}

#[test]
fn configurations_that_break_the_rules_are_refused() {
    let config = || Config::new(plan(2_048));
    assert_eq!(config().check(), Ok(()));
    let short = Timeouts { udp: Duration::from_secs(119), ..Timeouts::default() };
    let wrong = Config { timeouts: short, ..config() };
    assert_eq!(wrong.check(), Err(ConfigError::TooShort { of: "UDP", least_s: 120 }));
    let wrong = Config { allocation: Allocation::Deterministic, ..config() };
    assert_eq!(wrong.check(), Err(ConfigError::TooFewBlocks { inside: 256, blocks: 124 }));
    assert_eq!(Config { sessions: 0, ..config() }.check(), Err(ConfigError::Zero));
}
