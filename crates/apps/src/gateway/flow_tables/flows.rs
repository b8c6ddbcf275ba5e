//! Which flows are here, and where each one counts.

use scalebricks_types::{FlowIndex, Teid};
use std::collections::HashMap;

/// A place of counters, and whose it is.
#[derive(Debug, Clone, Copy)]
struct CounterPlace {
    uplink: Teid,
    keys: u32,
    /// Whether it stands among those that have just left.
    is_leaving: bool,
}

/// The flows of a node by uplink TEID, and the places of their counters.
///
/// A place goes from one flow to another as follows: the last key leaves, [`Flows::begin_grace`] is called, later
/// [`Flows::end_grace`]. A flow that comes back meanwhile finds its place as it left it.
///
/// Memory: 12 bytes a place, and 9 bytes at 7/8 load at most a flow in a map whose size is a power of two.
#[derive(Debug, Default)]
pub(super) struct Flows {
    places: Vec<CounterPlace>,
    by_uplink: HashMap<Teid, FlowIndex>,
    /// Those that have keys.
    here: usize,
    free: Vec<FlowIndex>,
    /// Those whose last key has left, once each.
    leaving: Vec<FlowIndex>,
    /// The same of those that are waited for.
    in_grace: Vec<FlowIndex>,
}

impl Flows {
    pub(super) fn index(&self, uplink: Teid) -> Option<FlowIndex> {
        self.by_uplink.get(&uplink).copied()
    }

    /// The flow whose place it is.
    pub(super) fn uplink(&self, index: FlowIndex) -> Option<Teid> {
        self.places.get(index.0 as usize).map(|place| place.uplink)
    }

    /// Flows that have keys, and others that have a place still.
    pub(super) fn here_and_leaving(&self) -> (usize, usize) {
        (self.here, self.by_uplink.len() - self.here)
    }

    /// A place for a flow that has none, without keys as yet.
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

    /// Takes back an [`Flows::add`]: no key has come to the place, and no worker knows of it.
    pub(super) fn cancel(&mut self, index: FlowIndex) {
        self.by_uplink.remove(&self.places[index.0 as usize].uplink);
        self.free.push(index);
    }

    /// The places there are in all, and whether one of them is free.
    pub(super) fn places(&self) -> (usize, bool) {
        (self.places.len(), !self.free.is_empty())
    }

    /// A key of the flow has come.
    pub(super) fn join(&mut self, index: FlowIndex) {
        let keys = &mut self.places[index.0 as usize].keys;
        self.here += usize::from(*keys == 0);
        *keys += 1;
    }

    /// A key of the flow has left. An entry of the FIB that is damaged may name any place: one without keys stays as it is, until
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

    /// Each place has so many keys, whatever was counted before.
    pub(super) fn recount(&mut self, keys: &[u32]) {
        for (at, (place, keys)) in self.places.iter_mut().zip(keys).enumerate() {
            let had = std::mem::replace(&mut place.keys, *keys);
            self.here = self.here + usize::from(*keys > 0) - usize::from(had > 0);
            // Without keys before it has departed, or is about to.
            if had > 0 && *keys == 0 && !place.is_leaving {
                place.is_leaving = true;
                self.leaving.push(FlowIndex(at as u32)); // as many as there are counters: below 2^32
            }
        }
    }

    /// What has left by now is waited for from now on, if all that was waited for before is dealt with. Whether there is
    /// anything.
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

    /// Nobody counts any more for what left before [`Flows::begin_grace`]: of `most` of these, frees the places of flows
    /// that have not come back, after `last` has looked at them. Whether there are more.
    pub(super) fn end_grace(&mut self, most: usize, mut last: impl FnMut(Teid, FlowIndex)) -> bool {
        let rest = self.in_grace.len().saturating_sub(most);
        for index in self.in_grace.drain(rest..) {
            let place = self.places[index.0 as usize];
            // It came back; or it came back and left again, and is waited for again.
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

    /// Bytes of memory held; of the map what its entries take, with the byte that std's map has beside each.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.free.capacity() + self.leaving.capacity() + self.in_grace.capacity();
        self.places.capacity() * size_of::<CounterPlace>()
            + lists * size_of::<FlowIndex>()
            + self.by_uplink.capacity() * 8 / 7 * (size_of::<(Teid, FlowIndex)>() + 1)
    }
}

/// Entries for which a list keeps its memory.
const SPARE: usize = 1_024;
