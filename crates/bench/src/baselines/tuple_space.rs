//! Tuple space search: a hash table per mask of wildcard rules (Srinivasan, Suri and Varghese, SIGCOMM 1999).
//!
//! A rule matches a header that agrees with it in the bits of its mask. All rules of one mask are in one table,
//! keyed by the masked bits. Exact names have one mask, so this tuple space has one table, and a query reads the
//! mask and the slots of one run.
//!
//! A slot is a cache line: four words of masked header, priority, action. Tables are at most half full and
//! probed linearly.

use super::{Lines, Touch};
use crate::keys::mix;

/// The rules of one mask.
#[derive(Debug)]
pub struct TupleSpace {
    mask: [u64; 4],
    /// A power of two, at least half of them empty.
    slots: Vec<Slot>,
    len: usize,
}

/// A slot for a rule, one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Slot {
    value: [u64; 4],
    /// Priority and action.
    rule: Option<(u32, u16)>,
}

const EMPTY: Slot = Slot { value: [0; 4], rule: None };

/// The priority of all rules: those of one mask and different values never match together.
const PRIORITY: u32 = 1;

impl TupleSpace {
    /// A tuple space without rules.
    pub fn new(mask: [u64; 4]) -> Self {
        Self { mask, slots: vec![EMPTY; 4], len: 0 }
    }

    fn masked(&self, header: &[u64; 4]) -> [u64; 4] {
        std::array::from_fn(|at| header[at] & self.mask[at])
    }

    /// The slots from a value's home to the first empty one, which is included.
    fn run(&self, value: &[u64; 4]) -> impl Iterator<Item = usize> {
        let hash = value.iter().fold(0, |hash, &word| mix(hash ^ word).wrapping_add(1));
        let last = self.slots.len() - 1;
        let home = hash as usize & last;
        (home..=home + last).map(move |at| at & last)
    }

    /// The slot of a value, or the empty one where it belongs.
    fn place(&self, value: &[u64; 4]) -> usize {
        let is_end = |at: &usize| self.slots[*at].rule.is_none() || self.slots[*at].value == *value;
        self.run(value).find(is_end).unwrap_or(0) // half of the slots are empty
    }

    /// Adds a rule, or replaces the one with the same value. The table may double.
    pub fn insert(&mut self, header: &[u64; 4], action: u16) {
        if 2 * (self.len + 1) > self.slots.len() {
            let larger = vec![EMPTY; 2 * self.slots.len()];
            for slot in std::mem::replace(&mut self.slots, larger) {
                if slot.rule.is_some() {
                    let place = self.place(&slot.value);
                    self.slots[place] = slot;
                }
            }
        }
        let value = self.masked(header);
        let place = self.place(&value);
        self.len += usize::from(self.slots[place].rule.is_none());
        self.slots[place] = Slot { value, rule: Some((PRIORITY, action)) };
    }

    /// The action of the rule for a header.
    pub fn look_up(&self, header: &[u64; 4]) -> Option<u16> {
        self.find(header, &mut ())
    }

    /// Cache lines that [`Self::look_up`] reads.
    pub fn lines(&self, header: &[u64; 4]) -> usize {
        let mut lines = Lines::default();
        self.find(header, &mut lines);
        lines.take()
    }

    /// Bytes of memory.
    pub fn table_bytes(&self) -> u64 {
        (self.slots.len() * size_of::<Slot>() + size_of::<Self>()) as u64
    }

    fn find(&self, header: &[u64; 4], touch: &mut impl Touch) -> Option<u16> {
        touch.line(0, 0);
        let value = self.masked(header);
        for at in self.run(&value) {
            touch.line(1, at);
            let (_, action) = self.slots[at].rule?;
            if self.slots[at].value == value {
                return Some(action);
            }
        }
        None
    }
}
