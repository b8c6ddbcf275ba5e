//! Changes of keys, and their effect on where flows are counted.

use super::{FlowTables, FlowTablesError, PinnedState};
use scalebricks_elements::gateway::flow::FlowCounters;
use scalebricks_tables::compact::Table;
use scalebricks_tables::fib::PartialFib;
use scalebricks_tables::{Fib, FibError};
use scalebricks_types::{FlowIndex, FlowKey, KeyHash, NodeId, Teid};
use std::collections::HashMap;

/// Placeholder for a flow that is counted elsewhere.
const NO_PLACE: FlowIndex = FlowIndex(0);

/// A change of one key, for [`FlowTables::apply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// As [`FlowTables::set`].
    Set(FlowKey, NodeId, PinnedState),
    /// As [`FlowTables::remove`].
    Remove(FlowKey),
}

impl Change {
    /// The key that is changed.
    pub const fn key(&self) -> &FlowKey {
        match self {
            Self::Set(key, ..) | Self::Remove(key) => key,
        }
    }
}

impl FlowTables {
    /// Sets a key to this flow, which is handled at `node`, whether or not the key existed. The key is stored wherever
    /// the architecture requires it here; a node that should not hold it removes it from its FIB.
    ///
    /// By itself this changes no GPT that takes deltas: such a GPT must stop naming this node before a key leaves it.
    ///
    /// A key with a new uplink TEID belongs to that other flow and counts there from now on; what it has counted stays
    /// with the old flow. Cost: a microsecond or two; occasionally that of doubling a map of all local flows, some 100
    /// ms with 4 M of them, during which readers continue.
    ///
    /// # Errors
    /// [`FibError::Full`] if a table is at its key limit or cannot grow further, or with 2^26 local flows;
    /// [`FibError::ZeroKey`] for a key that no constructor makes. Nothing is changed then.
    pub fn set(&mut self, key: &FlowKey, node: NodeId, state: &PinnedState) -> Result<(), FibError> {
        let hash = self.hasher.hash(key);
        self.put(key, hash, node, state)?;
        if !self.holds(node) {
            self.take_out(key, hash);
        }
        Ok(())
    }

    /// Removes a key, if present. Cost: two lookups.
    pub fn remove(&mut self, key: &FlowKey) {
        let hash = self.hasher.hash(key);
        self.take_out(key, hash);
        if let Some(locations) = self.node_lookup.locations(self.id, hash) {
            let _missing = locations.remove(key, hash);
        }
    }

    /// Applies changes such that no packet of a continuing flow is lost here: first all additions are made, then `gpt`
    /// changes the compact table, if there is one, and then removals are made. Of several changes of one key only the
    /// last counts.
    ///
    /// # Errors
    /// The error of [`FlowTables::set`] or `gpt`. Some changes are then made; any may be repeated.
    pub fn apply(
        &mut self,
        changes: &[Change],
        gpt: impl FnOnce(&Table) -> Result<(), FlowTablesError>,
    ) -> Result<(), FlowTablesError> {
        let last: HashMap<&FlowKey, usize> =
            changes.iter().enumerate().map(|(at, change)| (change.key(), at)).collect();
        let is_last = |at: usize, change: &Change| last.get(change.key()) == Some(&at);
        let changes = || changes.iter().enumerate().filter(|(at, change)| is_last(*at, change));
        let mut left = Vec::new();
        for (_, change) in changes() {
            let Change::Set(key, node, state) = change else { continue };
            let hash = self.hasher.hash(key);
            self.put(key, hash, *node, state)
                .map_err(|error| FlowTablesError::Fib { node: self.id, error })?;
            if !self.holds(*node) {
                left.push((key, hash));
            }
        }
        if let Some(table) = self.node_lookup.table() {
            gpt(table)?;
        }
        for (key, hash) in left {
            self.take_out(key, hash);
        }
        for (_, change) in changes() {
            if let Change::Remove(key) = change {
                self.remove(key);
            }
        }
        Ok(())
    }

    /// Whether this node's FIB holds the flows of a node.
    fn holds(&self, node: NodeId) -> bool {
        node == self.id || self.node_lookup.is_fib()
    }

    /// Stores a key wherever it belongs here, and removes it nowhere. Returns whether it was in one of the tables.
    pub(super) fn put(
        &mut self,
        key: &FlowKey,
        hash: KeyHash,
        node: NodeId,
        state: &PinnedState,
    ) -> Result<bool, FibError> {
        let locations = self.node_lookup.locations(self.id, hash).cloned();
        let location = locations.as_deref().map(|table| (table, state.at(node, NO_PLACE).encode()));
        // A new location misdirects no packet, so it goes first, as it may be refused. Others follow the flow's state.
        let new_location = location.filter(|(table, _)| table.get(key, hash).is_none());
        let mut was_there = location.is_some() && new_location.is_none();
        if let Some((table, value)) = new_location {
            self.has_room(table)?;
            table.insert(key, hash, value)?;
        }
        if self.holds(node) {
            match self.put_flow(key, hash, node, state) {
                Ok(was_in_fib) => was_there |= was_in_fib,
                Err(error) => {
                    if let Some((table, _)) = new_location {
                        let _there = table.remove(key, hash);
                    }
                    return Err(error);
                }
            }
        }
        if let Some((table, value)) = location.filter(|_| new_location.is_none()) {
            table.update(key, hash, value)?;
        }
        Ok(was_there)
    }

    /// Stores a key in the FIB. Returns whether it was there.
    fn put_flow(
        &mut self,
        key: &FlowKey,
        hash: KeyHash,
        node: NodeId,
        state: &PinnedState,
    ) -> Result<bool, FibError> {
        let entry = self.fib.get(key, hash);
        if entry.is_none() {
            self.has_room(&self.fib)?;
        }
        let before = entry.and_then(|entry| self.place(entry));
        let is_here = node == self.id;
        let known = self.flows.index(state.uplink_teid).filter(|_| is_here);
        let place = match known {
            None if is_here => Some(self.add_flow(state.uplink_teid)?),
            known => known,
        };
        let value = state.at(node, place.unwrap_or(NO_PLACE)).encode();
        let done = match entry {
            Some(_) => self.fib.update(key, hash, value).map(drop),
            None => self.fib.insert(key, hash, value),
        };
        if let Err(error) = done {
            if let Some(place) = place.filter(|_| known.is_none()) {
                self.flows.cancel(place);
            }
            return Err(error);
        }
        if before != place {
            if let Some(place) = place {
                self.flows.join(place);
            }
            if let Some(before) = before {
                self.flows.leave(before);
            }
        }
        Ok(entry.is_some())
    }

    /// Removes a key from the FIB, if present.
    fn take_out(&mut self, key: &FlowKey, hash: KeyHash) {
        if let Ok(entry) = self.fib.remove(key, hash)
            && let Some(place) = self.place(entry)
        {
            self.flows.leave(place);
        }
    }

    fn has_room(&self, table: &PartialFib) -> Result<(), FibError> {
        let len = table.len();
        if len < self.max_keys { Ok(()) } else { Err(FibError::Full { len, slots: self.max_keys }) }
    }

    /// Allocates counters for a flow.
    fn add_flow(&mut self, uplink: Teid) -> Result<FlowIndex, FibError> {
        let (places, has_free) = self.flows.places();
        if places >= FlowCounters::MAX_FLOWS && !has_free {
            return Err(FibError::Full { len: self.fib.len(), slots: self.fib.short_slots() });
        }
        let index = self.flows.add(uplink);
        for counters in &self.counters {
            if !has_free {
                counters.reserve(places + 1);
            }
            counters.reset(index);
        }
        Ok(index)
    }
}
