//! Tuple space search: wildcard rules in one hash table per mask (Srinivasan, Suri and Varghese, SIGCOMM
//! 1999).
//!
//! A rule matches a header that agrees with it in the bits of its mask. All rules of one mask are in one
//! table, keyed by the masked bits. A query masks its header for one table after another and takes the
//! matching rule of highest priority. Tables are sorted by their highest priority, so that a query ends when
//! no better rule is possible, as in Open vSwitch.
//!
//! A slot is a cache line: four words of masked header, priority, action. Tables are at most half full and
//! probed linearly.

use super::{Lines, Touch};
use crate::keys::mix;

/// The twelve fields of an `OpenFlow` 1.0 match, 253 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Ingress port.
    pub in_port: u16,
    /// Ethernet source address, 48 bits.
    pub eth_src: u64,
    /// Ethernet destination address, 48 bits.
    pub eth_dst: u64,
    /// `EtherType`.
    pub eth_type: u16,
    /// VLAN, 12 bits.
    pub vlan: u16,
    /// VLAN priority, 3 bits.
    pub vlan_priority: u8,
    /// IPv4 source address.
    pub ip_src: u32,
    /// IPv4 destination address.
    pub ip_dst: u32,
    /// IP protocol.
    pub ip_protocol: u8,
    /// The upper 6 bits of the type of service.
    pub ip_tos: u8,
    /// TCP or UDP source port.
    pub src_port: u16,
    /// TCP or UDP destination port.
    pub dst_port: u16,
}

impl Header {
    /// The header as 256 bits, the last three of them 0. A mask is a header whose relevant bits are 1.
    pub fn words(&self) -> [u64; 4] {
        let low = |value: u64, bits: u32| value & ((1 << bits) - 1);
        [
            low(self.eth_src, 48) << 16 | u64::from(self.in_port),
            low(self.eth_dst, 48) << 16 | u64::from(self.eth_type),
            u64::from(self.ip_src) << 32 | u64::from(self.ip_dst),
            u64::from(self.src_port) << 48
                | u64::from(self.dst_port) << 32
                | low(self.vlan.into(), 12) << 20
                | low(self.vlan_priority.into(), 3) << 17
                | u64::from(self.ip_protocol) << 9
                | low(self.ip_tos.into(), 6) << 3,
        ]
    }
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Bits that must match.
    pub mask: [u64; 4],
    /// Their values.
    pub value: [u64; 4],
    /// The highest priority wins; among equal ones, the lower action.
    pub priority: u32,
    /// The action.
    pub action: u16,
}

impl Rule {
    /// Whether a header matches.
    pub fn fits(&self, header: &[u64; 4]) -> bool {
        masked(header, &self.mask) == masked(&self.value, &self.mask)
    }
}

fn masked(words: &[u64; 4], mask: &[u64; 4]) -> [u64; 4] {
    std::array::from_fn(|at| words[at] & mask[at])
}

/// Rules of one mask.
#[derive(Debug)]
struct Table {
    mask: [u64; 4],
    /// The highest priority of its rules, past ones included.
    best: u32,
    /// A power of two, at least half of them empty.
    slots: Vec<Slot>,
    len: usize,
}

/// A slot for a rule, one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Slot {
    value: [u64; 4],
    what: Option<(u32, u16)>,
}

const EMPTY: Slot = Slot { value: [0; 4], what: None };

impl Table {
    fn new(mask: [u64; 4]) -> Self {
        Self { mask, best: 0, slots: vec![EMPTY; 4], len: 0 }
    }

    fn home(&self, value: &[u64; 4]) -> usize {
        let hash = value.iter().fold(0, |hash, &word| mix(hash ^ word).wrapping_add(1));
        hash as usize & (self.slots.len() - 1)
    }

    /// The slots from a value's home to the first empty one.
    fn run(&self, value: &[u64; 4]) -> impl Iterator<Item = (usize, &Slot)> {
        let (home, last) = (self.home(value), self.slots.len() - 1);
        (home..=home + last).map(move |at| at & last).map(|at| (at, &self.slots[at]))
    }

    fn add(&mut self, value: [u64; 4], priority: u32, action: u16) {
        if 2 * (self.len + 1) > self.slots.len() {
            let larger = vec![EMPTY; 2 * self.slots.len()];
            let old = std::mem::replace(&mut self.slots, larger);
            for slot in old.into_iter().filter(|slot| slot.what.is_some()) {
                self.put(slot);
            }
        }
        self.put(Slot { value, what: Some((priority, action)) });
        self.len += 1;
        self.best = self.best.max(priority);
    }

    /// Writes a rule into the first empty slot of its run.
    fn put(&mut self, slot: Slot) {
        let place = self.run(&slot.value).find(|(_, slot)| slot.what.is_none()).map(|(at, _)| at);
        if let Some(place) = place {
            self.slots[place] = slot;
        }
    }

    fn place(&self, value: &[u64; 4], priority: u32) -> Option<usize> {
        let run = self.run(value).take_while(|(_, slot)| slot.what.is_some());
        let mut same =
            run.filter(|(_, slot)| slot.value == *value && slot.what.is_some_and(|(of, _)| of == priority));
        same.next().map(|(at, _)| at)
    }
}

/// All rules.
#[derive(Debug, Default)]
pub struct TupleSpace {
    /// Sorted by highest priority.
    tables: Vec<Table>,
}

impl TupleSpace {
    /// An empty tuple space.
    pub const fn new() -> Self {
        Self { tables: Vec::new() }
    }

    /// Adds a rule and replaces one with the same mask, value and priority, as `OpenFlow` requires. Changes
    /// one table, which may double.
    pub fn insert(&mut self, rule: &Rule) {
        let value = masked(&rule.value, &rule.mask);
        let at = self.tables.iter().position(|table| table.mask == rule.mask).unwrap_or_else(|| {
            self.tables.push(Table::new(rule.mask));
            self.tables.len() - 1
        });
        let table = &mut self.tables[at];
        if let Some(place) = table.place(&value, rule.priority) {
            table.slots[place].what = Some((rule.priority, rule.action));
            return;
        }
        table.add(value, rule.priority, rule.action);
        self.tables.sort_by_key(|table| std::cmp::Reverse(table.best));
    }

    /// Priority and action of the rule for a header.
    pub fn look_up(&self, header: &[u64; 4]) -> Option<(u32, u16)> {
        self.find(header, &mut ())
    }

    /// Cache lines that [`Self::look_up`] reads: one per queried table for its mask, and its slots.
    pub fn lines(&self, header: &[u64; 4]) -> usize {
        let mut lines = Lines::default();
        self.find(header, &mut lines);
        lines.take()
    }

    /// Bytes of memory.
    pub fn table_bytes(&self) -> u64 {
        let slots: usize = self.tables.iter().map(|table| table.slots.len()).sum();
        (slots * size_of::<Slot>() + self.tables.len() * size_of::<Table>()) as u64
    }

    fn find(&self, header: &[u64; 4], touch: &mut impl Touch) -> Option<(u32, u16)> {
        let mut found: Option<(u32, u16)> = None;
        for (number, table) in self.tables.iter().enumerate() {
            if found.is_some_and(|(priority, _)| priority > table.best) {
                break;
            }
            touch.line(0, number * size_of::<Table>() / 64);
            let value = masked(header, &table.mask);
            for (at, slot) in table.run(&value) {
                touch.line(1 + number, at);
                let Some((priority, action)) = slot.what else { break };
                let is_better = found.is_none_or(|(best, of)| (priority, of) > (best, action));
                if slot.value == value && is_better {
                    found = Some((priority, action));
                }
            }
        }
        found
    }
}
