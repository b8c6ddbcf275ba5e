//! Packet sockets between the ends of a cable in a network namespace of its own. That takes rights; where they are missing
//! the test says so and passes, unless `REQUIRE_NAMESPACES` is set.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use scalebricks_io::packet_socket::{PacketRx, PacketTx, PortDrops, open_port};
use scalebricks_io::{
    Burst, Heard, LinkType, Packet, PacketBuf, PacketSocket, PacketSocketConfig, Pool, RxPort, TxPort,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn ip(arguments: &str) -> Result<(), String> {
    let out = Command::new("ip").args(arguments.split(' ')).output().map_err(|error| error.to_string())?;
    let said = || format!("ip {arguments}: {}", String::from_utf8_lossy(&out.stderr));
    if out.status.success() { Ok(()) } else { Err(said()) }
}

/// A namespace; removed on drop.
struct Namespace(String);

impl Namespace {
    /// Creates one with a cable and an interface of IP packets, and moves this thread into it.
    fn enter() -> Result<Self, String> {
        let made = Self(format!("sb-io-{}", std::process::id()));
        ip(&format!("netns add {}", made.0))?;
        ip(&format!("-n {} link add near mtu 1500 type veth peer name far mtu 1500", made.0))?;
        for end in ["near", "far"] {
            ip(&format!("-n {} link set {end} addrgenmode none up", made.0))?;
        }
        ip(&format!("-n {} tuntap add dev packets mode tun", made.0))?;
        let file = File::open(format!("/run/netns/{}", made.0)).map_err(|error| error.to_string())?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| error.to_string())?;
        Ok(made)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _gone = ip(&format!("netns del {}", self.0));
    }
}

fn open(name: &str, pool: &Pool) -> (PacketRx, PacketTx, Arc<PortDrops>) {
    let config = PacketSocketConfig { heard: Heard::Incoming, ..PacketSocketConfig::default() };
    open_port(name, &config, pool.clone()).unwrap()
}

/// A frame of the type for experiments (IEEE 802), which the kernel leaves alone.
fn frame(pool: &mut Pool, mark: u8, len: usize) -> Packet {
    let mut bytes = vec![mark; len];
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    pool.packet(&bytes).unwrap()
}

/// Sends one frame.
fn send(port: &mut PacketTx, packet: Packet) {
    let mut burst: Burst<Packet> = std::iter::once(packet).collect();
    assert_eq!(port.tx_burst(&mut burst), 1);
}

/// Bytes of received frames, until there are so many or a minute has passed.
fn receive(port: &mut PacketRx, count: usize) -> Vec<Vec<u8>> {
    let (began, mut got) = (Instant::now(), Vec::new());
    while got.len() < count && began.elapsed() < Duration::from_secs(60) {
        let mut burst = Burst::new();
        port.rx_burst(&mut burst);
        got.extend(burst.iter().map(|packet| packet.data().to_vec()));
    }
    got
}

#[test]
fn frames_pass_a_cable_in_order_and_losses_are_counted() {
    let _namespace = match Namespace::enter() {
        Ok(namespace) => namespace,
        Err(error) if std::env::var_os("REQUIRE_NAMESPACES").is_none() => {
            let _ = writeln!(io::stderr(), "skipped: no network namespace ({error}); run as root");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut pool = Pool::new(200, 2_000).unwrap();
    let (mut near_rx, mut near_tx, near_drops) = open("near", &pool);
    let (mut far_rx, mut far_tx, far_drops) = open("far", &pool);
    let count =
        |drops: &PortDrops, of: &str| drops.counters().into_iter().find(|(name, _)| *name == of).unwrap().1;
    for (tx, rx) in [(&mut near_tx, &mut far_rx), (&mut far_tx, &mut near_rx)] {
        for round in 0..10_u8 {
            let len = |number: u8| 60 + usize::from(round) * 140 + usize::from(number);
            let mut burst: Burst<Packet> =
                (0..32).map(|number| frame(&mut pool, number, len(number))).collect();
            let began = Instant::now();
            while !burst.is_empty() {
                assert!(began.elapsed() < Duration::from_secs(60), "frames are not taken");
                tx.tx_burst(&mut burst);
            }
            let got = receive(rx, 32);
            assert_eq!(got.len(), 32);
            for (number, bytes) in (0_u8..).zip(&got) {
                assert_eq!(bytes.len(), len(number));
                assert!(bytes[14..].iter().all(|byte| *byte == number), "{bytes:?}");
            }
        }
    }
    // Longer than the MTU: refused, and the next one is sent.
    let mut burst: Burst<Packet> = [1_900, 100].map(|len| frame(&mut pool, 7, len)).into_iter().collect();
    assert_eq!(near_tx.tx_burst(&mut burst), 2);
    assert_eq!(receive(&mut far_rx, 1)[0].len(), 100);
    assert_eq!(count(&near_drops, "refused"), 1);
    // Longer than a buffer. Both sockets at this end receive all frames.
    let (mut short_rx, _, short_drops) = open("far", &Pool::new(8, 100).unwrap());
    send(&mut near_tx, frame(&mut pool, 9, 1_000));
    send(&mut near_tx, frame(&mut pool, 9, 90));
    assert_eq!(receive(&mut short_rx, 1)[0].len(), 90);
    assert_eq!((count(&short_drops, "too_long"), count(&short_drops, "no_buffer")), (1, 0));
    assert_eq!(receive(&mut far_rx, 2).len(), 2);
    // No buffer is free.
    let taken: Vec<Packet> = std::iter::from_fn(|| pool.packet(&[0; 60])).collect();
    assert_eq!(taken.len(), 200);
    send(&mut near_tx, frame(&mut Pool::new(1, 2_000).unwrap(), 9, 90));
    let began = Instant::now();
    while count(&far_drops, "no_buffer") == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "the frame is not counted");
        assert_eq!(far_rx.rx_burst(&mut Burst::new()), 0);
    }
    drop(taken);
    // An interface without Ethernet, nor a hardware address: it can be heard, but is no port.
    let config = PacketSocketConfig::default();
    assert_eq!(PacketSocket::open("packets", &config).unwrap().link(), LinkType::RAW);
    let error = open_port("packets", &config, pool.clone()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("packets: it is no Ethernet interface"), "{error}");
}
