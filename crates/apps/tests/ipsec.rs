//! Both ends of the example tunnel, over captures.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use crate::router::{Frames, arp, routed_by};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const MILLISECOND: u64 = 1_000_000;
/// The hosts inside, left and right.
const HOST: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 9], [2, 0, 0, 0, 2, 9]];
const HOST_IP: [[u8; 4]; 2] = [[10, 0, 1, 9], [10, 0, 2, 9]];
const INSIDE: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 0], [2, 0, 0, 0, 2, 0]];
const INSIDE_IP: [[u8; 4]; 2] = [[10, 0, 1, 1], [10, 0, 2, 1]];
const OUTSIDE: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 2, 1]];
const OUTSIDE_IP: [[u8; 4]; 2] = [[192, 0, 2, 1], [192, 0, 2, 2]];

/// The configuration of an end, with a copy of the keys that only its owner may read.
fn end(at: usize, folder: &Path) -> String {
    let keys = folder.join("sa.toml");
    std::fs::write(&keys, include_str!("../../../examples/router/sa.toml")).unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = include_str!("../../../examples/router/ipsec.click")
        .replace("$KEYS examples/router/sa.toml", &format!("$KEYS {}", keys.display()));
    if at == 0 {
        return text;
    }
    [
        ("$INSIDE 10.0.1.1/24", "$INSIDE 10.0.2.1/24"),
        ("$INSIDE_MAC 02:00:00:00:01:00", "$INSIDE_MAC 02:00:00:00:02:00"),
        ("$OUTSIDE 192.0.2.1/24", "$OUTSIDE 192.0.2.2/24"),
        ("$OUTSIDE_MAC 02:00:00:00:01:01", "$OUTSIDE_MAC 02:00:00:00:02:01"),
        ("$SENDS left-to-right", "$SENDS right-to-left"),
        ("$RECEIVES right-to-left", "$RECEIVES left-to-right"),
    ]
    .iter()
    .fold(text, |text, (from, to)| text.replace(from, to))
}

fn udp(to: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let packet = PacketBuilder::ethernet2(HOST[0], INSIDE[0]).ipv4(HOST_IP[0], to, ttl);
    packet.udp(1_000, 2_000).write(&mut frame, payload).unwrap();
    frame
}

#[test]
fn packets_cross_the_example_tunnel_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let secret = b"a payload that nobody on the way may read";
    let mut sent: Frames = (0..20).map(|n| (n * MILLISECOND, udp(HOST_IP[1], 64, secret))).collect();
    sent.push((20 * MILLISECOND, udp([10, 0, 3, 9], 64, secret))); // outside the selectors
    sent.push((21 * MILLISECOND, udp(HOST_IP[1], 1, secret)));
    sent.push((22 * MILLISECOND, arp(INSIDE[0], 2, (HOST[0], HOST_IP[0]), (INSIDE[0], INSIDE_IP[0]))));
    let found = arp(OUTSIDE[0], 2, (OUTSIDE[1], OUTSIDE_IP[1]), (OUTSIDE[0], OUTSIDE_IP[0]));
    let [inside, tunnel] =
        routed_by(&end(0, folder.path()), [&sent, &vec![(MILLISECOND / 2, found)]], folder.path());
    let is_ip = |frame: &Vec<u8>| frame[12..14] == [8, 0];
    let secured: Frames = tunnel.into_iter().filter(|(_, frame)| is_ip(frame)).collect();
    assert_eq!(secured.len(), 20);
    for (_, frame) in &secured {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("{packet:?}") };
        assert_eq!(
            (ip.header().protocol().0, ip.header().destination(), ip.header().ttl()),
            (50, OUTSIDE_IP[1], 64)
        );
        assert!(!frame.windows(8).any(|window| secret.windows(8).any(|clear| clear == window)));
    }
    let errors = inside.iter().filter(|(_, frame)| is_ip(frame)).count();
    assert_eq!(errors, 1, "the time of one packet was exceeded");
    // The far end gets each packet twice: the second is a replay.
    let twice: Frames = secured.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
    let known = arp(INSIDE[1], 2, (HOST[1], HOST_IP[1]), (INSIDE[1], INSIDE_IP[1]));
    let [came, back] =
        routed_by(&end(1, folder.path()), [&vec![(4 * MILLISECOND, known)], &twice], folder.path());
    let came: Vec<Vec<u8>> = came.into_iter().map(|(_, frame)| frame).filter(is_ip).collect();
    assert_eq!(came.len(), 20);
    for frame in &came {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = packet.net else { panic!("{packet:?}") };
        assert_eq!(
            (ip.header().destination(), ip.header().ttl(), frame[..6].to_vec()),
            (HOST_IP[1], 62, HOST[1].to_vec())
        );
        assert!(frame.ends_with(secret));
    }
    assert_eq!(back.iter().filter(|(_, frame)| is_ip(frame)).count(), 0);
}
