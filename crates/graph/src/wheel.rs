//! A worker's timers: a timing wheel of four levels.
//!
//! Time is divided into ticks of 2^20 ns. Level 0 has a slot for each of the next 64 ticks, level 1 for each of the
//! next 64 × 64, and so on; a timer moves down a level when its time comes near. Setting, cancelling and expiring cost
//! a few memory accesses each, whatever the number of timers.

use std::time::Duration;

const BITS: u32 = 6;
const PLACES: usize = 1 << BITS;
const LEVELS: usize = 4;
/// How many ticks ahead the wheel covers; a timer further away is placed again when this time has passed.
const HORIZON: u64 = 1 << (BITS * LEVELS as u32);
const NONE: u32 = u32::MAX;

/// Most timers that expire per turn. Others wait for the next turn.
pub const TIMERS_A_TURN: usize = 64;

/// A timer that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId {
    at: u32,
    life: u32,
}

/// A timer that expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) node: u16,
    pub(crate) token: u64,
}

/// A timer, in the doubly linked list of its slot.
#[derive(Debug)]
struct Entry {
    tick: u64,
    token: u64,
    next: u32,
    before: u32,
    /// The list it is in: a slot, [`DUE`], or [`FREE`].
    list: u16,
    node: u16,
    /// Counts the timers that have used this entry.
    life: u32,
}

const DUE: u16 = (LEVELS * PLACES) as u16;
const FREE: u16 = DUE + 1;

#[derive(Debug, Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Wheel {
    entries: Vec<Entry>,
    most: usize,
    lists: Vec<List>,
    /// The last tick processed.
    tick: u64,
    /// Number of timers set.
    len: usize,
    /// Number of timers at each level.
    by_level: [usize; LEVELS],
}

fn tick_of(at: Duration) -> u64 {
    u64::try_from(at.as_nanos() >> 20).unwrap_or(u64::MAX - 1)
}

impl Wheel {
    /// A wheel for up to `most` timers.
    pub(crate) fn new(most: usize) -> Self {
        let lists = vec![List { first: NONE, last: NONE }; usize::from(FREE) + 1];
        Self {
            entries: Vec::new(),
            most: most.min(NONE as usize),
            lists,
            tick: 0,
            len: 0,
            by_level: [0; LEVELS],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Sets a timer: it expires in the first tick that begins at `at` or later and was not processed yet.
    pub(crate) fn set(&mut self, at: Duration, node: u16, token: u64) -> Option<TimerId> {
        let free = self.lists[usize::from(FREE)].first;
        let entry = if free != NONE {
            self.unlink(free);
            free
        } else if self.entries.len() < self.most {
            let entry = Entry { tick: 0, token, next: NONE, before: NONE, list: FREE, node, life: 0 };
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        } else {
            return None;
        };
        let is_whole = at.as_nanos().trailing_zeros() >= 20;
        let tick = tick_of(at).saturating_add(u64::from(!is_whole)).max(self.tick + 1);
        let timer = &mut self.entries[entry as usize];
        (timer.tick, timer.node, timer.token) = (tick, node, token);
        timer.life = timer.life.wrapping_add(1);
        let id = TimerId { at: entry, life: timer.life };
        self.place(entry);
        self.len += 1;
        Some(id)
    }

    pub(crate) fn cancel(&mut self, timer: TimerId) -> bool {
        let is_set = |entry: &Entry| entry.life == timer.life && entry.list != FREE;
        let is_set = self.entries.get(timer.at as usize).is_some_and(is_set);
        if is_set {
            self.release(timer.at);
        }
        is_set
    }

    /// Advances to `now` and removes an expired timer, earliest first; timers of the same tick expire in the order in
    /// which they were set. Call it until it returns `None`, or stop earlier: expired timers stay.
    pub(crate) fn expired(&mut self, now: Duration) -> Option<Expired> {
        let now = tick_of(now);
        loop {
            let due = self.lists[usize::from(DUE)].first;
            if due != NONE {
                let entry = &self.entries[due as usize];
                let expired = Expired { node: entry.node, token: entry.token };
                self.release(due);
                return Some(expired);
            }
            if self.len == 0 {
                self.tick = self.tick.max(now);
            }
            if self.tick >= now {
                return None;
            }
            self.advance(now);
        }
    }

    /// Advances to the next tick that may have timers, up to `now`.
    fn advance(&mut self, now: u64) {
        // While all levels below one are empty, nothing can be due before that level's next slot, so a long pause takes
        // few steps.
        let empty = self.by_level.iter().take_while(|timers| **timers == 0).count().min(LEVELS - 1) as u32;
        let row_end = self.tick | ((1 << (BITS * empty.max(1))) - 1);
        let is_set = |tick: &u64| self.lists[index(0, *tick)].first != NONE;
        let row = if empty == 0 { (self.tick + 1..=row_end.min(now)).find(is_set) } else { None };
        self.tick = match row {
            Some(tick) => tick,
            None if row_end < now => row_end + 1,
            None => now,
        };
        for level in (1..LEVELS).rev() {
            if self.tick.is_multiple_of(1 << (BITS * level as u32)) {
                self.cascade(index(level, self.tick));
            }
        }
        self.move_all(index(0, self.tick), |wheel, entry| wheel.link(entry, DUE));
    }

    fn cascade(&mut self, list: usize) {
        self.move_all(list, Self::place);
    }

    /// Moves all timers that a list has now elsewhere.
    fn move_all(&mut self, list: usize, to: impl Fn(&mut Self, u32)) {
        let mut entry = std::mem::replace(&mut self.lists[list], List { first: NONE, last: NONE }).first;
        while entry != NONE {
            let next = self.entries[entry as usize].next;
            self.leave(list as u16);
            to(self, entry);
            entry = next;
        }
    }

    /// Puts a timer into the slot of its tick. A timer that is due now goes to the current tick's slot, which is
    /// processed next.
    fn place(&mut self, entry: u32) {
        let tick = self.entries[entry as usize].tick;
        let seen = tick.min(self.tick.saturating_add(HORIZON - 1));
        // The highest digit in which the tick differs from now determines the level.
        let digits = (seen ^ self.tick).checked_ilog2().unwrap_or(0) / BITS;
        let level = (digits as usize).min(LEVELS - 1);
        self.link(entry, index(level, seen) as u16);
    }

    fn link(&mut self, entry: u32, list: u16) {
        if let Some(level) = self.by_level.get_mut(usize::from(list) / PLACES) {
            *level += 1;
        }
        let last = self.lists[usize::from(list)].last;
        let timer = &mut self.entries[entry as usize];
        (timer.before, timer.next, timer.list) = (last, NONE, list);
        match self.entries.get_mut(last as usize) {
            Some(last) => last.next = entry,
            None => self.lists[usize::from(list)].first = entry,
        }
        self.lists[usize::from(list)].last = entry;
    }

    fn unlink(&mut self, entry: u32) {
        let Entry { next, before, list, .. } = self.entries[entry as usize];
        self.leave(list);
        match self.entries.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.lists[usize::from(list)].first = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(next) => next.before = before,
            None => self.lists[usize::from(list)].last = before,
        }
    }

    /// Updates the counts when a timer leaves a list.
    fn leave(&mut self, list: u16) {
        if let Some(level) = self.by_level.get_mut(usize::from(list) / PLACES) {
            *level -= 1;
        }
    }

    fn release(&mut self, entry: u32) {
        self.unlink(entry);
        self.link(entry, FREE);
        self.len -= 1;
    }

    /// Reassigns timers to other elements; those of an element mapped to `None` are cancelled.
    pub(crate) fn renumber(&mut self, to: impl Fn(u16) -> Option<u16>) {
        for entry in 0..self.entries.len() {
            if self.entries[entry].list == FREE {
                continue;
            }
            match to(self.entries[entry].node) {
                Some(node) => self.entries[entry].node = node,
                None => self.release(entry as u32),
            }
        }
    }
}

const fn index(level: usize, tick: u64) -> usize {
    level * PLACES + ((tick >> (BITS * level as u32)) as usize) % PLACES
}

#[cfg(test)]
#[path = "wheel_tests.rs"]
mod tests;
