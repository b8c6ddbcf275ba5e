//! The same ports over huge pages. Where the system has none free it says so and passes, unless `REQUIRE_HUGE_PAGES` is
//! set: `echo 128 > /proc/sys/vm/nr_hugepages`.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, reason = "a test")]

use scalebricks_dpdk::{Eal, EalConfig, Mbuf, Memory, Pool, PoolConfig, Port, PortConfig};
use scalebricks_io::{Burst, PacketBuf, PacketSource, RxPort, TxPort};
use std::io::Write;

/// Pages that DPDK's own tables and the pool of this test take.
const NEEDED: u64 = 64;

fn free_pages() -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = memory.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn packets_lie_on_huge_pages_and_pass_a_ring() {
    let (free, required) = (free_pages(), std::env::var_os("REQUIRE_HUGE_PAGES").is_some());
    if free < NEEDED && !required {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {free} huge pages are free, {NEEDED} needed (echo 128 > /proc/sys/vm/nr_hugepages)"
        );
        return;
    }
    let eal = Eal::start(&EalConfig { memory: Memory::HugePages, ..EalConfig::default() }).unwrap();
    assert!(eal.has_huge_pages());
    let mut pool = Pool::new(eal, "huge", &PoolConfig::default()).unwrap();
    assert!(free_pages() < free, "the pool took some");
    let mut ring = Port::start(eal, "net_ring0", &PortConfig::default(), pool).unwrap();
    let mut burst: Burst<Mbuf> = (0..32_u8)
        .map(|number| {
            let mut packet = pool.alloc().unwrap();
            packet.append(&[number; 60]).unwrap();
            packet
        })
        .collect();
    assert_eq!(ring.tx[0].tx_burst(&mut burst), 32);
    let mut got = Burst::new();
    assert_eq!(ring.rx[0].rx_burst(&mut got), 32);
    assert!((0..32_u8).zip(&got).all(|(number, packet)| packet.data() == [number; 60]));
}
