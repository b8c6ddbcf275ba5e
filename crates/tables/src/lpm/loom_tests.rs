//! A reader concurrent with the writer, both with the table's own code, in the interleavings of loom's memory
//! model.

use super::*;
use crate::reclaim::loom_shims::check;
use std::net::Ipv4Addr;
use std::sync::Arc;

fn prefix(text: &str) -> Prefix<Ipv4Addr> {
    text.parse().unwrap()
}

fn hop(index: u32) -> NextHop {
    NextHop::new(index).unwrap()
}

fn table(entries: EntryBytes) -> Arc<Lpm<Ipv4Addr>> {
    Arc::new(Lpm::new(Params::new(1, 3 * 64).unwrap().with_entries(entries)))
}

/// A thread that looks an address up twice. It finds next hops of `expected` in this order, where the last may be the
/// first again, and no others.
fn reader(
    table: &Arc<Lpm<Ipv4Addr>>,
    address: Ipv4Addr,
    expected: &'static [u32],
) -> loom::thread::JoinHandle<()> {
    let mut reader = LpmReader::new(Arc::clone(table));
    loom::thread::spawn(move || {
        let mut last = 0;
        for _ in 0..2 {
            let mut hops = [None; 1];
            reader.lookup_batch(&[address], &mut hops);
            let found = hops[0].map(NextHop::index);
            let step = expected[last..].iter().position(|&index| Some(index) == found);
            last += step.unwrap_or_else(|| unreachable!("{found:?} after {last} of {expected:?}"));
        }
    })
}

/// An address under a prefix in the root gets its own route in a new block, the block is copied for another
/// route, and both routes are removed.
fn a_reader_sees_one_side_of_each_change(entries: EntryBytes) {
    check(2, move || {
        let table = table(entries);
        table.insert(prefix("0.0.0.0/0"), hop(0)).unwrap();
        let reader = reader(&table, Ipv4Addr::new(64, 0, 0, 1), &[0, 1, 2, 0]);
        table.insert(prefix("64.0.0.0/8"), hop(1)).unwrap();
        table.insert(prefix("32.0.0.0/8"), hop(7)).unwrap();
        table.insert(prefix("64.0.0.0/8"), hop(2)).unwrap();
        table.remove(prefix("32.0.0.0/8")).unwrap();
        table.remove(prefix("64.0.0.0/8")).unwrap();
        table.insert(prefix("16.0.0.0/8"), hop(7)).unwrap();
        reader.join().unwrap();
        assert_eq!(table.stats().entry_bytes, entries);
    });
}

#[test]
fn loom_a_reader_sees_one_side_of_each_change_of_two_bytes() {
    a_reader_sees_one_side_of_each_change(EntryBytes::Two);
}

#[test]
fn loom_a_reader_sees_one_side_of_each_change_of_four_bytes() {
    a_reader_sees_one_side_of_each_change(EntryBytes::Four);
}

/// A next hop needs entries of four bytes, so a reader changes over to other memory between changes of its answer. The
/// old memory has a block of the same line with other contents.
#[test]
fn loom_a_reader_sees_one_side_of_a_widening() {
    const WIDE: u32 = EntryBytes::Two.max_next_hop() + 1;
    check(2, || {
        let table = table(EntryBytes::Two);
        table.insert(prefix("64.0.0.0/8"), hop(1)).unwrap();
        let reader = reader(&table, Ipv4Addr::new(64, 0, 0, 1), &[1, 2, WIDE, 3]);
        table.insert(prefix("64.0.0.0/8"), hop(2)).unwrap();
        table.insert(prefix("64.0.0.0/8"), hop(WIDE)).unwrap();
        table.insert(prefix("16.0.0.0/8"), hop(7)).unwrap();
        table.insert(prefix("64.0.0.0/8"), hop(3)).unwrap();
        reader.join().unwrap();
        assert_eq!(table.stats().entry_bytes, EntryBytes::Four);
    });
}
