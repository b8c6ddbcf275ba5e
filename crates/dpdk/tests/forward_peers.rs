//! The inner loop of l3fwd, with packets from a pool.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, reason = "a test")]

use scalebricks_dpdk::forward_peers::L3fwd;
use scalebricks_dpdk::route_peers::{EntryBytes, Room, RteFib, RteLpm};
use scalebricks_dpdk::{Eal, EalConfig, Mbuf, Memory, Pool, PoolConfig};
use scalebricks_io::{Burst, PacketBuf, PacketSource};

const ROOM: Room = Room { routes: 64, groups: 64 };

/// A packet to an address; its header's checksum is right.
fn packet(pool: &mut Pool, dst: u32) -> Mbuf {
    let mut frame = [0xAB; 60];
    frame[12..34].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0]);
    frame[30..34].copy_from_slice(&dst.to_be_bytes());
    let sum = !sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let mut packet = pool.alloc().unwrap();
    packet.append(&frame).unwrap();
    packet
}

/// The one's-complement sum of a header.
fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    (sum % 0xFFFF) as u16 // congruent
}

#[test]
fn packets_leave_by_the_port_of_the_longest_prefix_with_its_addresses() {
    let memory = Memory::Ordinary { mib: 512 };
    let eal = Eal::start(&EalConfig { memory, ..EalConfig::default() }).unwrap();
    let mut pool = Pool::new(eal, "l3fwd", &PoolConfig { packets: 1023, ..PoolConfig::default() }).unwrap();
    let (mut lpm, mut fib) =
        (RteLpm::new(eal, "lpm", ROOM).unwrap(), RteFib::new(eal, "fib", ROOM, EntryBytes::Four).unwrap());
    for (address, length, port) in [(0x1400_0000, 8, 2), (0x1401_0000, 16, 3), (0x1500_0000, 8, 63)] {
        lpm.add(address, length, port).unwrap();
        fib.add(address, length, port).unwrap();
    }
    let before = pool.in_use();
    for is_lpm in [true, false] {
        let mut l3fwd = L3fwd::new(&[[0; 12], [1; 12], [2; 12], [3; 12]]);
        let (mut left, mut out) = ([0; 4], Burst::new());
        for round in 0..10_u32 {
            // No multiple of four; the last ones: a port that does not exist, and not marked as IPv4.
            let mut burst: Burst<Mbuf> = (0..29)
                .map(|number| packet(&mut pool, 0x1400_0000 + (number % 2) * 0x1_0000 + round))
                .collect();
            burst.push(packet(&mut pool, 0x1500_0001));
            burst.iter_mut().for_each(L3fwd::mark);
            burst.push(packet(&mut pool, 0x1400_0001));
            if is_lpm {
                l3fwd.lpm(&lpm, &mut burst, 1);
            } else {
                l3fwd.fib(&fib, &mut burst);
            }
            assert!(burst.is_empty());
            for (port, left) in left.iter_mut().enumerate() {
                l3fwd.take(port, if round < 9 { 32 } else { 1 }, &mut out);
                while !out.is_empty() {
                    for packet in out.drain(..) {
                        let data = packet.data();
                        let expected = if data[31] == 1 { 3 } else { 2 };
                        assert_eq!((port, data.len()), (expected, 60));
                        assert_eq!(data[..12], [port as u8; 12]);
                        assert_eq!((&data[12..14], data[22]), (&[8, 0][..], 63));
                        assert_eq!(sum(&data[14..34]), 0, "a wrong checksum");
                        *left += 1;
                    }
                    l3fwd.take(port, if round < 9 { 32 } else { 1 }, &mut out);
                }
            }
        }
        assert_eq!((left, l3fwd.dropped()), ([0, 0, 150, 140], 20));
    }
    // A loop that is dropped returns what waits.
    let mut l3fwd = L3fwd::new(&[[0; 12]; 4]);
    let mut burst: Burst<Mbuf> = [packet(&mut pool, 0x1400_0000)].into_iter().collect();
    L3fwd::mark(&mut burst[0]);
    l3fwd.lpm(&lpm, &mut burst, 1);
    assert_eq!(pool.in_use(), before + 1);
    drop(l3fwd);
    assert_eq!(pool.in_use(), before);
}
