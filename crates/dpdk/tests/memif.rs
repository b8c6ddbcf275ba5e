//! Shared memory between two processes: the test is one end, and runs itself again to be the other.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use common::{eal, frame, pool, receive};
use scalebricks_dpdk::{Mbuf, Port, PortConfig, Started};
use scalebricks_io::{Burst, PacketBuf, TxPort};
use std::process::Command;
use std::time::{Duration, Instant};

/// Where the other end is told of its socket.
const SOCKET: &str = "MEMIF_TEST_SOCKET";

/// Bursts that go there and come back.
const ROUNDS: u8 = 20;

fn start(role: &str, socket: &str) -> Started {
    let device = format!("net_memif0,role={role},socket={socket},socket-abstract=no");
    Port::start(eal(), &device, &PortConfig::default(), pool("memif")).unwrap()
}

fn wait_for_link(end: &Started) {
    let began = Instant::now();
    while !end.port.link().unwrap().up {
        assert!(began.elapsed() < Duration::from_secs(60), "the other end did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn send(end: &mut Started, mut burst: Burst<Mbuf>) {
    let began = Instant::now();
    while !burst.is_empty() {
        end.tx[0].tx_burst(&mut burst);
        assert!(began.elapsed() < Duration::from_secs(60), "frames are not taken");
    }
}

#[test]
fn frames_go_to_another_process_and_come_back() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        return other_end(socket.to_str().unwrap());
    }
    let folder = std::env::temp_dir().join(format!("memif-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("socket").to_str().unwrap().to_owned();
    let mut server = start("server", &socket);
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "frames_go_to_another_process_and_come_back"])
        .env(SOCKET, &socket)
        .spawn()
        .unwrap();
    wait_for_link(&server);
    for _ in 0..ROUNDS {
        let came = receive(&mut server.rx[0], 32);
        assert_eq!(came.len(), 32);
        send(&mut server, came.into_iter().collect());
    }
    assert!(other.wait().unwrap().success(), "the other end is content");
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Sends, and compares what comes back.
fn other_end(socket: &str) {
    let mut client = start("client", socket);
    wait_for_link(&client);
    let mut pool = pool("memif frames");
    for round in 0..ROUNDS {
        let len = |number: u8| 60 + usize::from(round) * 60 + usize::from(number);
        let burst = (0..32).map(|number| frame(&mut pool, number, len(number))).collect();
        send(&mut client, burst);
        let back = receive(&mut client.rx[0], 32);
        assert_eq!(
            back.iter().map(|packet| packet.data().len()).collect::<Vec<_>>(),
            (0..32).map(len).collect::<Vec<_>>()
        );
        for (number, packet) in (0..32_u8).zip(&back) {
            assert!(packet.data()[14..].iter().all(|&byte| byte == number));
        }
    }
}
