//! What the tests of all devices need.
#![allow(dead_code, reason = "not every test needs everything")]

use scalebricks_dpdk::{Eal, EalConfig, Mbuf, Memory, Pool, PoolConfig, RxQueue};
use scalebricks_io::{Burst, PacketBuf, PacketSource, RxPort};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// DPDK starts once in a process, and all tests of a file are one.
pub fn eal() -> Eal {
    static EAL: OnceLock<Eal> = OnceLock::new();
    *EAL.get_or_init(|| {
        Eal::start(&EalConfig { memory: Memory::Ordinary { mib: 512 }, ..EalConfig::default() }).unwrap()
    })
}

/// A pool of this name.
pub fn pool(name: &str) -> Pool {
    Pool::new(eal(), name, &PoolConfig { packets: 8191, ..PoolConfig::default() }).unwrap()
}

/// A frame of so many bytes, of an experimental type, that tells its number.
pub fn frame(pool: &mut Pool, number: u8, len: usize) -> Mbuf {
    let mut packet = pool.alloc().unwrap();
    let mut bytes = vec![number; len];
    bytes[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5]);
    packet.append(&bytes).unwrap();
    packet
}

/// Whether it is such a frame.
pub fn is_ours(packet: &Mbuf) -> bool {
    packet.data().get(12..14) == Some(&[0x88, 0xB5])
}

/// Receives until so many frames of ours have come, for a minute at the most.
pub fn receive(rx: &mut RxQueue, wanted: usize) -> Vec<Mbuf> {
    let (mut got, start) = (Vec::new(), Instant::now());
    while got.len() < wanted && start.elapsed() < Duration::from_secs(60) {
        let mut burst = Burst::new();
        if rx.rx_burst(&mut burst) == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
        got.extend(burst.into_iter().filter(is_ours));
    }
    got
}
