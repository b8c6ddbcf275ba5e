//! DPDK's tables for longest-prefix match, each filled with nested routes.
#![cfg(feature = "dpdk")]
#![allow(clippy::unwrap_used, reason = "a test")]

use scalebricks_dpdk::route_peers::{EntryBytes, Room, RteFib, RteFib6, RteLpm, RteLpm6};
use scalebricks_dpdk::{Eal, EalConfig, Memory};

const ROOM: Room = Room { routes: 64, groups: 64 };

#[test]
fn the_longest_prefix_answers_in_all_tables() {
    let memory = Memory::Ordinary { mib: 768 };
    let eal = Eal::start(&EalConfig { memory, ..EalConfig::default() }).unwrap();
    let v4 = [(0x0A00_0000, 8, 1), (0x0A01_0000, 16, 2), (0x0A01_0200, 25, 3)];
    // More than a vector, and some left over.
    let addresses: Vec<u32> = [0x0AFF_FFFF, 0x0A01_FFFF, 0x0A01_0201, 0x0A01_0281, 0x0B00_0000].repeat(7);
    let wanted = [Some(1), Some(2), Some(3), Some(2), None].repeat(7);
    let mut lpm = RteLpm::new(eal, "lpm", ROOM).unwrap();
    for &(address, length, hop) in &v4 {
        lpm.add(address, length, hop).unwrap();
    }
    let mut entries = vec![0; addresses.len()];
    lpm.find(&addresses, &mut entries);
    assert_eq!(entries.into_iter().map(RteLpm::hop).collect::<Vec<_>>(), wanted);
    lpm.remove(0x0A01_0000, 16).unwrap();
    assert!(lpm.remove(0x0A01_0000, 16).is_err());

    for (name, entry) in [("fib2", EntryBytes::Two), ("fib4", EntryBytes::Four)] {
        let mut fib = RteFib::new(eal, name, ROOM, entry).unwrap();
        for &(address, length, hop) in &v4 {
            fib.add(address, length, hop).unwrap();
        }
        for is_wide in [false, true] {
            assert!(!is_wide || fib.select_avx512(eal) || !is_x86_feature_detected!("avx512f"));
            let mut hops = vec![u64::MAX; addresses.len()];
            fib.find(&addresses, &mut hops);
            let found = hops.into_iter().map(|hop| (hop != entry.no_hop()).then_some(hop as u32));
            assert_eq!(found.collect::<Vec<_>>(), wanted, "{name} {is_wide}");
        }
        fib.remove(0x0A00_0000, 8).unwrap();
    }

    let six = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let v6 = [("2001:db8::", 32, 1), ("2001:db8:1::", 48, 2), ("2001:db8:1::1", 128, 3)];
    let addresses: Vec<_> =
        ["2001:db8:2::", "2001:db8:1::2", "2001:db8:1::1", "2001:db9::"].map(six).repeat(9);
    let wanted = [Some(1), Some(2), Some(3), None].repeat(9);
    let mut lpm = RteLpm6::new(eal, "lpm6", ROOM).unwrap();
    for &(text, length, hop) in &v6 {
        lpm.add(&six(text), length, hop).unwrap();
    }
    let mut hops = vec![0; addresses.len()];
    lpm.find(&addresses, &mut hops);
    assert_eq!(hops.into_iter().map(|hop| u32::try_from(hop).ok()).collect::<Vec<_>>(), wanted);
    lpm.remove(&six("2001:db8::"), 32).unwrap();

    for (name, entry) in [("fib6-2", EntryBytes::Two), ("fib6-4", EntryBytes::Four)] {
        let mut fib = RteFib6::new(eal, name, ROOM, entry).unwrap();
        for &(text, length, hop) in &v6 {
            fib.add(&six(text), length, hop).unwrap();
        }
        for is_wide in [false, true] {
            assert!(!is_wide || fib.select_avx512(eal) || !is_x86_feature_detected!("avx512f"));
            let mut hops = vec![u64::MAX; addresses.len()];
            fib.find(&addresses, &mut hops);
            let found = hops.into_iter().map(|hop| (hop != entry.no_hop()).then_some(hop as u32));
            assert_eq!(found.collect::<Vec<_>>(), wanted, "{name} {is_wide}");
        }
        fib.remove(&six("2001:db8::"), 32).unwrap();
    }
}
