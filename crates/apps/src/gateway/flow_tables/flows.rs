//! Which flows are here, and which counters each uses.

use scalebricks_types::{FlowIndex, Teid};
use std::collections::HashMap;

/// A counter slot and its owner.
#[derive(Debug, Clone, Copy)]
struct CounterPlace {
    uplink: Teid,
    keys: u32,
    /// Whether it is listed as leaving.
    is_leaving: bool,
}

/// The flows of a node by uplink TEID, and their counter slots.
///
/// A slot passes to another flow as follows: the last key leaves, [`Flows::begin_grace`] is called, then
/// [`Flows::end_grace`]. A flow that returns in between finds its slot unchanged.
///
/// Memory: 12 bytes per slot, and per flow 9 bytes, at a load of at most 7/8, in a map whose size is a power of two.
#[derive(Debug, Default)]
pub(super) struct Flows {
    places: Vec<CounterPlace>,
    by_uplink: HashMap<Teid, FlowIndex>,
    /// Number of flows with keys.
    here: usize,
    free: Vec<FlowIndex>,
    /// Slots whose last key has left, once each.
    leaving: Vec<FlowIndex>,
    /// Slots in their grace period.
    in_grace: Vec<FlowIndex>,
}

impl Flows {
    pub(super) fn index(&self, uplink: Teid) -> Option<FlowIndex> {
        self.by_uplink.get(&uplink).copied()
    }

    /// The flow that owns a slot.
    pub(super) fn uplink(&self, index: FlowIndex) -> Option<Teid> {
        self.places.get(index.0 as usize).map(|place| place.uplink)
    }

    /// Number of flows with keys, and of others that still have a slot.
    pub(super) fn here_and_leaving(&self) -> (usize, usize) {
        (self.here, self.by_uplink.len() - self.here)
    }

    /// Allocates a slot for a flow, without keys so far.
    pub(super) fn add(&mut self, uplink: Teid) -> FlowIndex {
        let place = CounterPlace { uplink, keys: 0, is_leaving: false };
        let index = if let Some(index) = self.free.pop() {
            self.places[index.0 as usize] = place;
            index
        } else {
            self.places.push(place);
            FlowIndex(self.places.len() as u32 - 1) // as many as there are counters: below 2^32
        };
        self.by_uplink.insert(uplink, index);
        index
    }

    /// Undoes [`Flows::add`] before any key or worker uses the slot.
    pub(super) fn cancel(&mut self, index: FlowIndex) {
        self.by_uplink.remove(&self.places[index.0 as usize].uplink);
        self.free.push(index);
    }

    /// Total number of slots, and whether one is free.
    pub(super) fn places(&self) -> (usize, bool) {
        (self.places.len(), !self.free.is_empty())
    }

    /// Counts a new key of the flow.
    pub(super) fn join(&mut self, index: FlowIndex) {
        let keys = &mut self.places[index.0 as usize].keys;
        self.here += usize::from(*keys == 0);
        *keys += 1;
    }

    /// Counts a key less of the flow. A damaged FIB entry may name any slot: one without keys is not changed until
    /// [`Flows::recount`].
    pub(super) fn leave(&mut self, index: FlowIndex) {
        let Some(place) = self.places.get_mut(index.0 as usize).filter(|place| place.keys > 0) else {
            return;
        };
        place.keys -= 1;
        self.here -= usize::from(place.keys == 0);
        if place.keys == 0 && !place.is_leaving {
            place.is_leaving = true;
            self.leaving.push(index);
        }
    }

    /// Sets the number of keys of each slot.
    pub(super) fn recount(&mut self, keys: &[u32]) {
        for (at, (place, keys)) in self.places.iter_mut().zip(keys).enumerate() {
            let had = std::mem::replace(&mut place.keys, *keys);
            self.here = self.here + usize::from(*keys > 0) - usize::from(had > 0);
            // A slot without keys has departed already, or is about to.
            if had > 0 && *keys == 0 && !place.is_leaving {
                place.is_leaving = true;
                self.leaving.push(FlowIndex(at as u32)); // as many as there are counters: below 2^32
            }
        }
    }

    /// Starts the grace period of all leaving slots, if the previous one is over. Returns whether there are any.
    pub(super) fn begin_grace(&mut self) -> bool {
        if !self.in_grace.is_empty() {
            return false;
        }
        std::mem::swap(&mut self.leaving, &mut self.in_grace);
        for index in &self.in_grace {
            self.places[index.0 as usize].is_leaving = false;
        }
        !self.in_grace.is_empty()
    }

    /// Ends the grace period of slots that left before [`Flows::begin_grace`]: of at most `most`, frees those whose
    /// flows have not returned, after calling `last` for each. Returns whether there are more.
    pub(super) fn end_grace(&mut self, most: usize, mut last: impl FnMut(Teid, FlowIndex)) -> bool {
        let rest = self.in_grace.len().saturating_sub(most);
        for index in self.in_grace.drain(rest..) {
            let place = self.places[index.0 as usize];
            // The flow returned; or it returned and left again, and gets a new grace period.
            if place.keys > 0 || place.is_leaving {
                continue;
            }
            last(place.uplink, index);
            self.by_uplink.remove(&place.uplink);
            self.free.push(index);
        }
        if rest == 0 {
            self.in_grace.shrink_to(SPARE);
        }
        rest > 0
    }

    /// Bytes of memory held; for the map its entries, with one byte of overhead each.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.free.capacity() + self.leaving.capacity() + self.in_grace.capacity();
        self.places.capacity() * size_of::<CounterPlace>()
            + lists * size_of::<FlowIndex>()
            + self.by_uplink.capacity() * 8 / 7 * (size_of::<(Teid, FlowIndex)>() + 1)
    }
}

/// Entries for which a list keeps its memory.
const SPARE: usize = 1_024;
