//! A reader concurrent with the writer, both with the table's own code, in the interleavings of loom's memory
//! model.

use super::*;
use crate::reclaim::loom_shims::check;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// An address under a prefix in the root gets its own route in a new block, the block is copied for another
/// route, and both routes are removed. The reader finds each answer that was valid, in order, and no other.
#[test]
fn loom_a_reader_sees_one_side_of_each_change() {
    let prefix = |text: &str| text.parse::<Prefix<Ipv4Addr>>().unwrap();
    let hop = |index| NextHop::new(index).unwrap();
    check(2, move || {
        let table = Arc::new(Lpm::new(Params::new(1, 3 * 64).unwrap()));
        table.insert(prefix("0.0.0.0/0"), hop(0)).unwrap();
        let reader = {
            let mut reader = LpmReader::new(Arc::clone(&table));
            loom::thread::spawn(move || {
                let mut last = 0;
                for _ in 0..2 {
                    let mut hops = [None; 1];
                    reader.lookup_batch(&[Ipv4Addr::new(64, 0, 0, 1)], &mut hops);
                    // The default route, the route's first hop, its second hop, the default route again.
                    let step = match hops[0].map(NextHop::index) {
                        Some(0) if last == 0 => 0,
                        Some(0) => 3,
                        Some(step @ 1..=2) => step,
                        other => unreachable!("{other:?}"),
                    };
                    assert!(step >= last, "{step} after {last}");
                    last = step;
                }
            })
        };
        table.insert(prefix("64.0.0.0/8"), hop(1)).unwrap();
        table.insert(prefix("32.0.0.0/8"), hop(7)).unwrap();
        table.insert(prefix("64.0.0.0/8"), hop(2)).unwrap();
        table.remove(prefix("32.0.0.0/8")).unwrap();
        table.remove(prefix("64.0.0.0/8")).unwrap();
        table.insert(prefix("16.0.0.0/8"), hop(7)).unwrap();
        reader.join().unwrap();
    });
}
