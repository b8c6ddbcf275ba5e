//! Devices that meet the system's own network: taps, packet sockets, XDP sockets. Each test makes a network namespace of
//! its own, which takes rights; where they are missing it says so and passes, unless `REQUIRE_NAMESPACES` is set.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use common::{eal, frame, pool, receive};
use rustix::thread::UnshareFlags;
use scalebricks_dpdk::{Mbuf, Port, PortConfig, Started};
use scalebricks_io::{Burst, PacketBuf, RxPort, TxPort};
use std::io::{self, Write};
use std::process::Command;
use std::time::{Duration, Instant};

/// Puts the calling thread into a network namespace of its own.
fn namespace() -> bool {
    // DPDK's own threads must not be born in it.
    let _ = eal();
    // SAFETY: a new network for this thread touches no memory and no open file.
    #[allow(unsafe_code, reason = "see SAFETY")]
    let done = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) };
    match done {
        Ok(()) => true,
        Err(error) if std::env::var_os("REQUIRE_NAMESPACES").is_none() => {
            let _ = writeln!(io::stderr(), "skipped: no network namespace ({error}); run as root");
            false
        }
        Err(error) => panic!("no network namespace: {error}"),
    }
}

fn ip(arguments: &str) {
    let out = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(out.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Two ends of a cable.
fn cable() {
    ip("link add near type veth peer name far");
    for end in ["near", "far"] {
        ip(&format!("link set {end} addrgenmode none up"));
    }
}

/// Sends frames of all sizes from one port to the other, and back.
fn exchange(near: &mut Started, far: &mut Started, pool_name: &str) {
    let mut pool = pool(pool_name);
    for (from, to) in [(0, 1), (1, 0)] {
        let ends = [&mut *near, &mut *far];
        for round in 0..20_u8 {
            let lens = |number: u8| 60 + usize::from(round) * 60 + usize::from(number);
            let mut burst: Burst<Mbuf> =
                (0..32).map(|number| frame(&mut pool, number, lens(number))).collect();
            let began = Instant::now();
            while !burst.is_empty() {
                assert!(began.elapsed() < Duration::from_secs(60), "frames are not taken");
                ends[from].tx[0].tx_burst(&mut burst);
            }
            let got = receive(&mut ends[to].rx[0], 32);
            let lengths: Vec<_> = got.iter().map(|packet| packet.data().len()).collect();
            assert_eq!(lengths, (0..32).map(lens).collect::<Vec<_>>());
            for (number, packet) in (0..32_u8).zip(&got) {
                assert!(packet.data()[14..].iter().all(|&byte| byte == number));
            }
        }
    }
}

fn start(device: &str, pool_name: &str) -> Started {
    Port::start(eal(), device, &PortConfig::default(), pool(pool_name)).unwrap()
}

#[test]
fn packet_sockets_carry_frames_over_a_cable() {
    if !namespace() {
        return;
    }
    cable();
    let mut near = start("net_af_packet0,iface=near,blocksz=4096,framesz=2048,framecnt=512", "afp near");
    let mut far = start("net_af_packet1,iface=far,blocksz=4096,framesz=2048,framecnt=512", "afp far");
    exchange(&mut near, &mut far, "afp frames");
    assert!(near.port.stats().unwrap().tx_packets >= 640);
    assert!(near.port.link().unwrap().up);
}

#[test]
fn xdp_sockets_carry_frames_over_a_cable() {
    if !namespace() {
        return;
    }
    cable();
    let mut near = start("net_af_xdp0,iface=near", "xdp near");
    let mut far = start("net_af_xdp1,iface=far", "xdp far");
    exchange(&mut near, &mut far, "xdp frames");
}

#[test]
fn a_tap_is_an_interface_of_the_system() {
    if !namespace() {
        return;
    }
    let mut tap = start("net_tap0,iface=sbtap", "tap");
    ip("link set sbtap addrgenmode none up");
    let mut other = start("net_af_packet2,iface=sbtap,blocksz=4096,framesz=2048,framecnt=512", "afp tap");
    exchange(&mut tap, &mut other, "tap frames");
}

/// The kernel hands the tag of a VLAN to packet sockets beside the frame, not in it.
#[test]
fn a_vlan_tag_is_in_the_frame_as_on_the_wire() {
    if !namespace() {
        return;
    }
    cable();
    let mut near = start("net_af_packet3,iface=near,blocksz=4096,framesz=2048,framecnt=512", "vlan near");
    let mut far = start("net_af_packet4,iface=far,blocksz=4096,framesz=2048,framecnt=512", "vlan far");
    let mut pool = pool("vlan frames");
    let tagged = |mut packet: Mbuf| {
        packet.data_mut()[12..18].copy_from_slice(&[0x81, 0, 0, 7, 0x88, 0xB5]);
        packet
    };
    let mut burst: Burst<Mbuf> = (0..8).map(|number| tagged(frame(&mut pool, number, 100))).collect();
    let sent: Vec<Vec<u8>> = burst.iter().map(|packet| packet.data().to_vec()).collect();
    while !burst.is_empty() {
        far.tx[0].tx_burst(&mut burst);
    }
    let (began, mut came) = (Instant::now(), Vec::new());
    while came.len() < 8 && began.elapsed() < Duration::from_secs(60) {
        let mut burst = Burst::new();
        near.rx[0].rx_burst(&mut burst);
        let ours = burst.iter().filter(|packet| packet.data().get(16..18) == Some(&[0x88, 0xB5]));
        came.extend(ours.map(|packet| packet.data().to_vec()));
    }
    assert_eq!(came, sent);
    assert_eq!(near.port.stats().unwrap().rx_unusable, 0);
}
