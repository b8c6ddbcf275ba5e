//! The MAC addresses of next hops, by number.

use scalebricks_wire::MacAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A cell's bit that tells an address from none.
const PRESENT: u64 = 1 << 48;

/// MAC addresses of next hops by number. Control changes it while an output node reads it; each read sees an address
/// as a whole. 8 bytes per number.
#[derive(Debug)]
pub struct NextHops(Box<[AtomicU64]>);

impl NextHops {
    /// A table without addresses for numbers below `count`, of which 65,536 are used at most.
    pub fn new(count: usize) -> Self {
        Self((0..count.min(1 << 16)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Sets or removes an address; `false` if the table has no such number.
    pub fn set(&self, number: u16, mac: Option<MacAddr>) -> bool {
        let Some(cell) = self.0.get(usize::from(number)) else { return false };
        cell.store(mac.map_or(0, |mac| mac.bits() | PRESENT), Ordering::Relaxed);
        true
    }

    /// An address. Cost: one load.
    #[inline(always)]
    pub fn get(&self, number: u16) -> Option<MacAddr> {
        let bits = self.0.get(usize::from(number))?.load(Ordering::Relaxed);
        let [a, b, c, d, e, f, _, _] = bits.to_le_bytes();
        (bits & PRESENT != 0).then_some(MacAddr([a, b, c, d, e, f]))
    }

    /// Number of addresses.
    pub fn len(&self) -> usize {
        self.0.iter().filter(|cell| cell.load(Ordering::Relaxed) != 0).count()
    }

    /// Whether there is no address.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_is_a_map(changes in prop::collection::vec((0..40u16, any::<Option<[u8; 6]>>()), 0..60)) {
            let (table, mut map) = (NextHops::new(32), HashMap::new());
            for (number, mac) in changes {
                let mac = mac.map(MacAddr);
                prop_assert_eq!(table.set(number, mac), number < 32);
                if number < 32 {
                    map.insert(number, mac);
                }
            }
            for number in 0..50 {
                prop_assert_eq!(table.get(number), map.get(&number).copied().flatten());
            }
            prop_assert_eq!(table.len(), map.values().flatten().count());
        }
    }
}
