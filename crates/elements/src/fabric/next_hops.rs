//! The next hops of a node, by number: their addresses and MAC addresses.

use super::mac::ExternalPort;
use scalebricks_wire::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// A cell's bit that tells an address from none.
const PRESENT: u64 = 1 << 48;

/// The number of no next hop: the packet's destination is itself the neighbour. The output node resolves it.
pub const CONNECTED: u16 = u16::MAX;

/// A router or host at an external port of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbour {
    /// The port.
    pub port: ExternalPort,
    /// Its address.
    pub address: IpAddr,
}

/// Why a next hop was not defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NextHopError {
    /// The table has no such number.
    #[error("the table of next hops has numbers below {count}, not {number}")]
    NoNumber {
        /// The number.
        number: u16,
        /// Numbers in the table.
        count: usize,
    },
    /// The number is [`CONNECTED`].
    #[error("the number {CONNECTED} stands for destinations that are neighbours themselves")]
    Reserved,
    /// No packet can be sent to it alone.
    #[error("a next hop is a single host, not {0}")]
    NotAHost(IpAddr),
}

/// A neighbour in atomic words, each read as a whole: a reader that meets a change sees none.
#[derive(Debug, Default)]
struct Cell {
    /// 0 during a change; else bit 0 set, bit 1 set if there is a neighbour, bit 2 for IPv6, the port from bit 8 on and the
    /// number of the change from bit 16 on.
    state: AtomicU64,
    address: [AtomicU64; 2],
}

const THERE: u64 = 2;
const V6: u64 = 4;

impl Cell {
    fn set(&self, neighbour: Option<Neighbour>, change: u64) {
        self.state.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        let (flags, port, bits) = match neighbour {
            None => (1, 0, 0),
            Some(Neighbour { port, address: IpAddr::V4(ip) }) => {
                (1 | THERE, port.get(), u128::from(ip.to_bits()))
            }
            Some(Neighbour { port, address: IpAddr::V6(ip) }) => (1 | THERE | V6, port.get(), ip.to_bits()),
        };
        self.address[0].store((bits >> 64) as u64, Ordering::Relaxed);
        self.address[1].store(bits as u64, Ordering::Relaxed); // the low half
        self.state.store(flags | u64::from(port) << 8 | change << 16, Ordering::Release);
    }

    fn get(&self) -> Option<Neighbour> {
        let state = self.state.load(Ordering::Acquire);
        if state & THERE == 0 {
            return None;
        }
        let [high, low] = [&self.address[0], &self.address[1]].map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if self.state.load(Ordering::Relaxed) != state {
            return None;
        }
        let address = if state & V6 == 0 {
            IpAddr::V4(Ipv4Addr::from_bits(low as u32)) // it was stored from 32 bits
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)))
        };
        Some(Neighbour { port: ExternalPort::new((state >> 8) as u8 & 0x3f)?, address })
    }
}

/// Next hops by number. Control [defines](Self::define) them, an output node resolves their MAC addresses, and other
/// threads read both meanwhile; each read sees an address as a whole. 32 bytes per number.
#[derive(Debug)]
pub struct NextHops {
    macs: Box<[AtomicU64]>,
    neighbours: Box<[Cell]>,
    /// Counts changes of neighbours.
    changes: AtomicU64,
    writer: Mutex<()>,
}

impl NextHops {
    /// A table without addresses for numbers below `count`, of which 65,535 are used at most: [`CONNECTED`] is none.
    pub fn new(count: usize) -> Self {
        let count = count.min(usize::from(CONNECTED));
        Self {
            macs: (0..count).map(|_| AtomicU64::new(0)).collect(),
            neighbours: (0..count).map(|_| Cell::default()).collect(),
            changes: AtomicU64::new(0),
            writer: Mutex::new(()),
        }
    }

    /// Numbers in the table.
    pub const fn count(&self) -> usize {
        self.macs.len()
    }

    /// Defines the neighbour of a number, or removes it. Its MAC address is forgotten, and the output node resolves it
    /// ahead of traffic. Nothing changes if it is already defined so.
    ///
    /// # Errors
    /// [`NextHopError`].
    pub fn define(&self, number: u16, neighbour: Option<Neighbour>) -> Result<(), NextHopError> {
        if number == CONNECTED {
            return Err(NextHopError::Reserved);
        }
        let wrong = NextHopError::NoNumber { number, count: self.count() };
        let cell = self.neighbours.get(usize::from(number)).ok_or(wrong)?;
        if let Some(Neighbour { address, .. }) = neighbour
            && (address.is_unspecified() || address.is_multicast() || address == Ipv4Addr::BROADCAST)
        {
            return Err(NextHopError::NotAHost(address));
        }
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner); // a change is made as a whole
        if cell.get() != neighbour {
            let change = self.changes.load(Ordering::Relaxed) + 1;
            cell.set(neighbour, change);
            self.set(number, None);
            self.changes.store(change, Ordering::Release);
        }
        Ok(())
    }

    /// The neighbour of a number; also `None` while it changes.
    pub fn neighbour(&self, number: u16) -> Option<Neighbour> {
        self.neighbours.get(usize::from(number))?.get()
    }

    /// Increased with each change of a neighbour.
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Sets or removes the MAC address of a number, if it still has this neighbour.
    pub fn resolve(&self, number: u16, neighbour: Neighbour, mac: Option<MacAddr>) {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner); // a change is made as a whole
        if self.neighbour(number) == Some(neighbour) {
            self.set(number, mac);
        }
    }

    /// Sets or removes an address; `false` if the table has no such number.
    pub fn set(&self, number: u16, mac: Option<MacAddr>) -> bool {
        let Some(cell) = self.macs.get(usize::from(number)) else { return false };
        cell.store(mac.map_or(0, |mac| mac.bits() | PRESENT), Ordering::Relaxed);
        true
    }

    /// The MAC address of a number. Cost: one load.
    #[inline(always)]
    pub fn get(&self, number: u16) -> Option<MacAddr> {
        let bits = self.macs.get(usize::from(number))?.load(Ordering::Relaxed);
        let [a, b, c, d, e, f, _, _] = bits.to_le_bytes();
        (bits & PRESENT != 0).then_some(MacAddr([a, b, c, d, e, f]))
    }

    /// Number of MAC addresses.
    pub fn len(&self) -> usize {
        self.macs.iter().filter(|cell| cell.load(Ordering::Relaxed) != 0).count()
    }

    /// Whether there is no MAC address.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_full_table_and_the_reserved_number_are_errors() {
        let table = NextHops::new(usize::MAX);
        assert_eq!(table.count(), 65_535);
        let hop =
            Some(Neighbour { port: ExternalPort::new(0).unwrap(), address: Ipv4Addr::LOCALHOST.into() });
        assert_eq!(table.define(CONNECTED, hop), Err(NextHopError::Reserved));
        assert!(!table.set(CONNECTED, Some(MacAddr([2; 6]))));
        assert_eq!(NextHops::new(7).define(7, hop), Err(NextHopError::NoNumber { number: 7, count: 7 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

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

        #[test]
        fn neighbours_are_a_map_and_a_new_one_has_no_mac_address(
            changes in prop::collection::vec((0..40u16, 0..64u8, any::<Option<IpAddr>>()), 0..60),
        ) {
            let (table, mut map) = (NextHops::new(32), HashMap::new());
            for (number, port, address) in changes {
                let port = ExternalPort::new(port).unwrap();
                let neighbour = address.map(|address| Neighbour { port, address });
                let is_host = address.is_none_or(|ip| !ip.is_multicast() && !ip.is_unspecified() && ip != Ipv4Addr::BROADCAST);
                let before = table.changes();
                let done = table.define(number, neighbour);
                prop_assert_eq!(done.is_ok(), number < 32 && is_host);
                if done.is_ok() {
                    let old = map.insert(number, neighbour).flatten();
                    prop_assert_eq!(table.changes() != before, old != neighbour);
                    prop_assert_eq!(table.get(number).is_some(), old == neighbour && old.is_some());
                    if let Some(neighbour) = neighbour {
                        table.resolve(number, neighbour, Some(MacAddr([2; 6])));
                        let other = Neighbour { address: Ipv4Addr::LOCALHOST.into(), ..neighbour };
                        table.resolve(number, other, None);
                        prop_assert_eq!(table.get(number).is_some(), other != neighbour);
                        table.resolve(number, neighbour, Some(MacAddr([2; 6])));
                    }
                }
            }
            for number in 0..50 {
                prop_assert_eq!(table.neighbour(number), map.get(&number).copied().flatten());
            }
        }

        /// A thread that reads during changes sees one of them, or none.
        #[test]
        fn readers_see_neighbours_as_a_whole(first: u128, second: u128) {
            let table = NextHops::new(1);
            let port = |number| ExternalPort::new(number).unwrap();
            let all = [first | 1, second | 2].map(|bits| Ipv6Addr::from_bits(bits & !(0xff << 120)));
            let all = [0, 1].map(|at: usize| Neighbour { port: port(at as u8), address: all[at].into() });
            std::thread::scope(|scope| {
                scope.spawn(|| (0..2_000).for_each(|at| table.define(0, Some(all[at % 2])).unwrap()));
                for _ in 0..2_000 {
                    let seen = table.neighbour(0);
                    assert!(seen.is_none_or(|seen| all.contains(&seen)), "{seen:?}");
                }
            });
        }
    }
}
