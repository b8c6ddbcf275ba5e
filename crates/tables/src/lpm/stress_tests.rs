//! Readers concurrent with a writer: every answer is the address's next hop before or after the change in
//! progress.

use super::*;
use crate::isa::Isa;
use crate::tests::readers::{WatchedKeys, check_beside};
use scalebricks_types::KeyHash;
use std::net::Ipv4Addr;
use std::sync::Arc;

fn hop(index: u32) -> NextHop {
    NextHop::new(index).unwrap()
}

/// Addresses in the form that the test harness stores.
fn hash_of(address: Ipv4Addr) -> KeyHash {
    KeyHash::new(u64::from(u32::from(address)) << 32)
}

fn reader_of(lpm: &Arc<Lpm<Ipv4Addr>>, isa: Isa) -> impl FnMut(&[KeyHash], &mut [u16]) + use<> {
    let mut reader = LpmReader::with_isa(Arc::clone(lpm), isa).unwrap();
    move |hashes, values| {
        let addresses: Vec<_> = hashes.iter().map(|hash| Ipv4Addr::from((hash.get() >> 32) as u32)).collect();
        let mut hops = vec![None; addresses.len()];
        reader.lookup_batch(&addresses, &mut hops);
        for (value, hop) in values.iter_mut().zip(hops) {
            *value = hop.map_or(u16::MAX, |hop| hop.index() as u16);
        }
    }
}

/// Addresses under one /8 prefix. Those with odd numbers have their own route, which is added, changed and
/// removed. Other routes beside them are added and removed, which copies, adds and removes the blocks on the
/// path. Halfway, a table with entries of two bytes gets a next hop that needs four.
fn churn(root_bits: u8, entries: EntryBytes, isa: Isa, what: &str, addresses: u32, rounds: u32) {
    let room = if cfg!(miri) { 64 * 24 } else { 1 << 16 };
    let params = Params::new(root_bits, room).unwrap().with_entries(entries);
    let lpm = Arc::new(Lpm::<Ipv4Addr>::new(params));
    lpm.insert("10.0.0.0/8".parse().unwrap(), hop(1)).unwrap();
    let watched_at = |n: u32| Ipv4Addr::from(0x0A00_0000 | (n % 5) << 16 | (n % 7) << 8 | n << 1);
    let kept: Vec<_> = (0..addresses).map(|n| (hash_of(watched_at(n)), 1u16)).collect();
    let watched = WatchedKeys::new(&kept);
    check_beside(
        &watched,
        what,
        isa,
        || reader_of(&lpm, isa),
        || {
            for round in 0..rounds {
                if round == rounds / 2 {
                    assert_eq!(lpm.stats().entry_bytes, entries);
                    lpm.insert("192.0.2.0/24".parse().unwrap(), hop(NextHop::MAX)).unwrap();
                    assert_eq!(lpm.stats().entry_bytes, EntryBytes::Four);
                }
                let at = (round * 2 + 1) % addresses;
                let own = Prefix::of(watched_at(at), 32).unwrap();
                let new = if watched.value(at as usize) == 1 { 2 + (round % 100) as u16 } else { 1 };
                watched.change(at as usize, new, || {
                    if new == 1 {
                        lpm.remove(own).unwrap();
                    } else {
                        lpm.insert(own, hop(new.into())).unwrap();
                    }
                });
                // No watched address has the last bit set.
                let beside = Ipv4Addr::from(u32::from(watched_at(round * 7 % addresses)) | 1);
                let beside = Prefix::of(beside, 32).unwrap();
                if lpm.remove(beside).is_none() {
                    lpm.insert(beside, hop(9)).unwrap();
                }
            }
        },
    );
}

#[test]
#[cfg_attr(miri, ignore = "too slow to interleave; loom checks the protocol")]
fn readers_see_before_or_after_and_others_unchanged() {
    for isa in Isa::available() {
        for entries in [EntryBytes::Two, EntryBytes::Four] {
            churn(8, entries, isa, "lpm", 120, 20_000);
            // Here readers read the root without a pin.
            churn(24, entries, isa, "lpm", 120, 20_000);
        }
    }
}

/// A few addresses and changes, each to memory used before: for the interpreter (Miri).
#[test]
fn a_reader_beside_a_writer() {
    for isa in Isa::available().take(2) {
        for entries in [EntryBytes::Two, EntryBytes::Four] {
            churn(8, entries, isa, "lpm tiny", 4, 12);
        }
    }
}

/// Other routes take all room. Then routes are removed from a block that still has others: the block becomes
/// smaller by way of the reserve, and the remaining routes answer at every moment.
fn crowd(entries: EntryBytes, isa: Isa, what: &str, rounds: u32) {
    let params = Params::new(8, 64 * 12).unwrap().with_entries(entries);
    let lpm = Arc::new(Lpm::<Ipv4Addr>::new(params));
    let host = |last: u32| Prefix::of(Ipv4Addr::from(0x0A00_0000 | last), 32).unwrap();
    for (n, index) in (0..4).zip(0..) {
        lpm.insert(host(n << 6), hop(index)).unwrap();
    }
    let kept: Vec<_> = (0..4u16).map(|n| (hash_of(host(u32::from(n) << 6).address()), n)).collect();
    let watched = WatchedKeys::new(&kept);
    check_beside(
        &watched,
        what,
        isa,
        || reader_of(&lpm, isa),
        || {
            for round in 0..rounds {
                let others = [round * 2 % 64 + 1, 255 - round * 2 % 62].map(host);
                for other in others {
                    lpm.insert(other, hop(9)).unwrap();
                }
                // One line each, until there is none left.
                let full = (20..).map(|first| Prefix::of(Ipv4Addr::new(first, 0, 0, 0), 16).unwrap());
                let full: Vec<_> = full.take_while(|&prefix| lpm.insert(prefix, hop(8)).is_ok()).collect();
                for prefix in others.into_iter().chain(full) {
                    lpm.remove(prefix).unwrap();
                }
                assert!(lpm.control().writer.spares.reserve.is_some(), "the reserve was used");
            }
        },
    );
    assert_eq!(lpm.len(), 4);
}

#[test]
#[cfg_attr(miri, ignore = "slow under the interpreter, which has a smaller test")]
fn routes_that_stay_answer_while_there_is_no_room() {
    for isa in Isa::available().take(2) {
        crowd(EntryBytes::Two, isa, "lpm crowded", 2000);
        crowd(EntryBytes::Four, isa, "lpm crowded", 2000);
    }
}

#[test]
fn routes_that_stay_answer_while_there_is_no_room_for_few() {
    for isa in Isa::available().take(2) {
        crowd(EntryBytes::Two, isa, "lpm crowded tiny", 2);
        crowd(EntryBytes::Four, isa, "lpm crowded tiny", 2);
    }
}
