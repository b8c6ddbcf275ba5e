//! Sending packets, and everything else that a running element may do.

use crate::graph::Part;
use crate::per_packet::Verdict;
use crate::slot::{SLOTS, Slot, SlotList};
use crate::spec::{CounterId, DropId, RUN_DROPS, run};
use crate::timers::{TimerId, Timers};
use scalebricks_io::BURST;
use std::time::Duration;

/// Once in this many turns, a burst is reserved for each source that had nothing last time.
const TURNS_A_BURST: u64 = 8;

/// The current turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn {
    /// Time since a fixed moment, the same for all turns.
    pub now: Duration,
    /// Turns before this one.
    pub number: u64,
}

/// The origin of a drop: element, part of a fusion, and index among all drop reasons there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DropOrigin {
    pub(crate) node: u16,
    pub(crate) part: u8,
    pub(crate) reason: u8,
}

/// State that elements share during a turn.
#[derive(Debug)]
pub(crate) struct TurnState {
    pub(crate) turn: Turn,
    /// Packets to drop, in order.
    pub(crate) dropped: SlotList,
    pub(crate) why: Box<[DropOrigin; SLOTS]>,
    /// One bit per element that raises back-pressure.
    pub(crate) raised: Vec<u64>,
    /// Number of packets that each of them keeps.
    pub(crate) kept: Vec<usize>,
    pub(crate) timers: Timers,
    /// Elements that were pulled from and have packets to send.
    pub(crate) touched: Vec<u16>,
    /// Sources and schedulers not yet called in this turn.
    pub(crate) begins_left: usize,
    /// Those of them that brought packets last time.
    pub(crate) busy_left: usize,
    /// Packets that may still pass back edges in this turn.
    pub(crate) backs_left: usize,
    /// Packets that sources brought in this turn.
    pub(crate) brought: usize,
    /// Number of times a packet reached an element in this turn.
    pub(crate) moved: usize,
}

impl TurnState {
    pub(crate) fn new(timers: usize) -> Self {
        Self {
            turn: Turn::default(),
            dropped: SlotList::new(),
            why: Box::new([DropOrigin::default(); SLOTS]),
            raised: Vec::new(),
            kept: Vec::new(),
            timers: Timers::new(timers),
            touched: Vec::new(),
            begins_left: 0,
            busy_left: 0,
            backs_left: 0,
            brought: 0,
            moved: 0,
        }
    }

    /// Packets that one source may bring in, with `used` slots in use.
    pub(crate) fn intake(&self, used: usize) -> usize {
        let left = crate::frame::INTAKE.saturating_sub(used);
        // An idle source waits for its burst a few turns at most.
        let keeps = self.turn.number.is_multiple_of(TURNS_A_BURST);
        let idle_left = if keeps { self.begins_left - self.busy_left } else { 0 };
        let equal = left.div_ceil(self.begins_left + 1);
        let beside_idle = left.saturating_sub(idle_left * BURST).div_ceil(self.busy_left + 1);
        equal.max(beside_idle)
    }

    #[inline]
    pub(crate) fn drop(&mut self, slot: Slot, why: DropOrigin) {
        self.why[self.dropped.len() % SLOTS] = why;
        self.dropped.push(slot);
    }
}

/// A running element's outputs, counters and timers, and its view of the turn.
#[derive(Debug)]
pub struct Out<'a> {
    pub(crate) lists: &'a mut [SlotList],
    pub(crate) parts: &'a [Part],
    pub(crate) turn_state: &'a mut TurnState,
    /// The elements whose back-pressure it sees, one bit each.
    pub(crate) watches: &'a [u64],
    /// Its bit among the elements that raise back-pressure.
    pub(crate) pressure: Option<u16>,
    pub(crate) node: u16,
    pub(crate) part: u8,
}

impl Out<'_> {
    /// Number of outputs of the element.
    #[inline(always)]
    pub fn outputs(&self) -> usize {
        self.lists.len()
    }

    /// Sends a packet. If the element has no such output, it is dropped as `unconnected`.
    #[inline(always)]
    pub fn push(&mut self, output: usize, slot: Slot) {
        match self.lists.get_mut(output) {
            Some(list) => list.push(slot),
            None => self.drop_run(slot, run::UNCONNECTED),
        }
    }

    /// The list of an output, to add slots to; `None` if the element has no such output.
    #[inline(always)]
    pub fn list(&mut self, output: usize) -> Option<&mut SlotList> {
        self.lists.get_mut(output)
    }

    /// Sends all packets of a list. Cost: a swap if the output's list is empty.
    #[inline(always)]
    pub fn all(&mut self, output: usize, batch: &mut SlotList) {
        match self.lists.get_mut(output) {
            Some(list) => list.append(batch),
            None => batch.drain().for_each(|slot| self.drop_run(slot, run::UNCONNECTED)),
        }
    }

    /// Sends or drops each packet of a batch, as `way` says for each in order. Those that leave where the first does are
    /// passed on as one list: cheap where most packets of a batch go one way.
    #[inline(always)]
    pub fn split(&mut self, batch: &mut SlotList, mut way: impl FnMut(&Slot) -> Verdict) {
        let Some(first) = batch.iter().next().map(&mut way) else { return };
        let Verdict::Out(output) = first else {
            return batch.drain().enumerate().for_each(|(at, slot)| {
                let verdict = if at == 0 { first } else { way(&slot) };
                self.go(slot, verdict);
            });
        };
        batch.filter_map_from(1, |slot| {
            let verdict = way(&slot);
            if verdict == first {
                return Some(slot);
            }
            self.go(slot, verdict);
            None
        });
        self.all(output, batch);
    }

    /// Sends or drops a packet.
    #[inline(always)]
    fn go(&mut self, slot: Slot, verdict: Verdict) {
        match verdict {
            Verdict::Out(output) => self.push(output, slot),
            Verdict::Drop(reason) => self.drop(slot, reason),
        }
    }

    /// Drops a packet for a drop reason of the element's class.
    #[inline(always)]
    pub fn drop(&mut self, slot: Slot, reason: DropId) {
        self.drop_run(slot, RUN_DROPS.len() + usize::from(reason.0));
    }

    /// Drops all packets of a list.
    pub fn drop_all(&mut self, batch: &mut SlotList, reason: DropId) {
        batch.drain().for_each(|slot| self.drop(slot, reason));
    }

    #[inline]
    fn drop_run(&mut self, slot: Slot, reason: usize) {
        self.turn_state.drop(slot, DropOrigin { node: self.node, part: self.part, reason: reason as u8 });
    }

    /// Counts drops of packets that the element kept outside the frame.
    #[inline]
    pub fn count_drops(&self, reason: DropId, n: u64) {
        if let Some(part) = self.parts.get(usize::from(self.part)) {
            part.cells.count_drops(reason, n);
        }
    }

    /// Adds to a counter.
    #[inline(always)]
    pub fn count(&self, counter: CounterId, n: u64) {
        if let Some(part) = self.parts.get(usize::from(self.part)) {
            part.cells.count(counter, n);
        }
    }

    /// Sets a counter that is a level.
    #[inline(always)]
    pub fn set(&self, counter: CounterId, value: u64) {
        if let Some(part) = self.parts.get(usize::from(self.part)) {
            part.cells.set(counter, value);
        }
    }

    /// The current turn.
    #[inline(always)]
    pub fn turn(&self) -> Turn {
        self.turn_state.turn
    }

    /// Time since a fixed moment, the same for all turns.
    #[inline(always)]
    pub fn now(&self) -> Duration {
        self.turn_state.turn.now
    }

    /// Packets that the element may bring into the frame in this [`begin`](crate::Element::begin), with `used` slots in
    /// use: its share of the intake. Unused shares go to elements called later. For a source that brought nothing last
    /// time, a burst is reserved in one turn of eight.
    pub fn intake(&self, used: usize) -> usize {
        self.turn_state.intake(used)
    }

    /// Whether an element downstream, up to the next queue, raises back-pressure.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.watches.iter().zip(&self.turn_state.raised).any(|(watched, raised)| watched & raised != 0)
    }

    /// Raises or lowers back-pressure: all upstream sources, up to the next queue, see it until it is lowered. Has no
    /// effect unless the class declares [`Hook::Pressure`](crate::spec::Hook::Pressure).
    #[inline]
    pub fn set_pressure(&mut self, is_raised: bool) {
        let Some(bit) = self.pressure else { return };
        if let Some(word) = self.turn_state.raised.get_mut(usize::from(bit / 64)) {
            *word = (*word & !(1 << (bit % 64))) | u64::from(is_raised) << (bit % 64);
        }
    }

    /// Reports how many packets the element keeps, for elements that [watch](crate::spec::Hook::Watches) it. Has no
    /// effect unless the class declares [`Hook::Pressure`](crate::spec::Hook::Pressure).
    #[inline]
    pub fn set_kept(&mut self, packets: usize) {
        let Some(bit) = self.pressure else { return };
        if let Some(kept) = self.turn_state.kept.get_mut(usize::from(bit)) {
            *kept = packets;
        }
    }

    /// Number of packets kept by the watched elements, as last reported.
    pub fn kept(&self) -> usize {
        let is_watched =
            |bit: usize| self.watches.get(bit / 64).is_some_and(|word| word & (1 << (bit % 64)) != 0);
        let kept = self.turn_state.kept.iter().enumerate().filter(|(bit, _)| is_watched(*bit));
        kept.map(|(_, kept)| kept).sum()
    }

    /// Calls [`Element::timer`](crate::Element::timer) in the first turn at `at` or later. `None` if the worker has
    /// no timer left.
    pub fn wake_at(&mut self, at: Duration, token: u64) -> Option<TimerId> {
        self.turn_state.timers.set(at, self.node, token)
    }

    /// Like [`wake_at`](Self::wake_at), relative to now.
    pub fn wake_in(&mut self, time: Duration, token: u64) -> Option<TimerId> {
        self.wake_at(self.turn_state.turn.now.saturating_add(time), token)
    }

    /// Cancels a timer. `false` if it has expired or was cancelled.
    pub fn cancel(&mut self, timer: TimerId) -> bool {
        self.turn_state.timers.cancel(timer)
    }
}
