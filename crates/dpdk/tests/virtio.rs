//! A virtio port and the vhost port behind it, in one process: what a virtual machine's port is, without the machine.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use common::{eal, frame, pool, receive};
use scalebricks_dpdk::{Pool, Port, PortConfig, Started};
use scalebricks_io::{Burst, PacketBuf, TxPort};
use std::time::{Duration, Instant};

/// Bursts that go there and come back.
const ROUNDS: u8 = 20;

fn wait_for_link(end: &Started) {
    let began = Instant::now();
    while !end.port.link().unwrap().up {
        assert!(began.elapsed() < Duration::from_secs(60), "the other end did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends so many frames, and receives them at the other end.
fn pass(frames: &mut Pool, from: &mut Started, to: &mut Started, round: u8) {
    let len = |number: u8| 60 + usize::from(round) * 60 + usize::from(number);
    let mut burst: Burst<_> = (0..32).map(|number| frame(frames, number, len(number))).collect();
    let began = Instant::now();
    while !burst.is_empty() {
        from.tx[0].tx_burst(&mut burst);
        assert!(began.elapsed() < Duration::from_secs(60), "frames are not taken");
    }
    let came = receive(&mut to.rx[0], 32);
    assert_eq!(came.len(), 32);
    for (number, packet) in (0..32_u8).zip(&came) {
        assert_eq!(packet.data().len(), len(number));
        assert!(packet.data()[14..].iter().all(|&byte| byte == number));
    }
}

#[test]
fn frames_pass_between_virtio_and_vhost() {
    let folder = std::env::temp_dir().join(format!("virtio-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("socket").to_str().unwrap().to_owned();
    let start =
        |device: &str, name: &str| Port::start(eal(), device, &PortConfig::default(), pool(name)).unwrap();
    let mut host = start(&format!("net_vhost0,iface={socket}"), "host");
    let mut guest = start(&format!("net_virtio_user0,path={socket}"), "guest");
    wait_for_link(&host);
    wait_for_link(&guest);
    let mut frames = pool("frames");
    for round in 0..ROUNDS {
        pass(&mut frames, &mut host, &mut guest, round);
        pass(&mut frames, &mut guest, &mut host, round);
    }
    drop((guest, host));
    std::fs::remove_dir_all(&folder).unwrap();
}
