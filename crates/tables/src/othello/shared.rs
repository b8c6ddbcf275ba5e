//! One control structure for several switches: the same names everywhere, with separate actions at each
//! switch.
//!
//! As in Concise, the graph is a function of the names, and a switch's actions for the names are only in its
//! bits. So the controller of a network stores names and graph once, and for each switch only the bits that
//! the switch itself has. A name is found, added or removed once for all switches; then the few slots on one
//! side of it are flipped for each switch. An action that changes at one switch does not affect the others.
//!
//! ```
//! use scalebricks_tables::othello::{OthelloBuilder, Params, SharedControl};
//! use scalebricks_types::{KeyHash, PartitionCount};
//!
//! let names: Vec<KeyHash> = (1..=1000).map(|i| KeyHash::new(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(i))).collect();
//! let params = Params::for_keys(1000, 4, PartitionCount::ONE)?;
//! // The first switch sends all names out of port 0, the second out of a port that the name's hash tells.
//! let first: Vec<_> = names.iter().map(|&name| (name, 0)).collect();
//! let mut network = SharedControl::new(OthelloBuilder::new(params).build(&first)?)?;
//! let second = network.add_switch(|name| (name.get() % 16) as u16)?;
//! let table = network.export(second)?;
//!
//! let delta = network.update(second, names[7], 3)?; // for this switch alone
//! table.apply(&delta)?;
//! let deltas = network.remove(names[8])?; // one for each switch
//! table.apply(&deltas[second])?;
//! assert_eq!(network.get(second, names[7])?, Some(3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::control::{OthelloControl, Stats, whole};
use super::layout::Layout;
use super::params::Params;
use super::payload::PayloadWriter;
use super::structure::{Op, Othello, OthelloStructure};
use super::switch_bits::{SwitchBits, SwitchRange};
use crate::published::UpdateError;
use crate::published::control::{state, step};
use scalebricks_types::{Delta, KeyHash, PartitionId};

/// Why an operation failed; nothing is changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SharedError {
    /// No switch has this number.
    #[error("switch {switch} is none of {switches}")]
    NoSwitch {
        /// The number.
        switch: usize,
        /// Number of switches.
        switches: usize,
    },
    /// The number of actions differs from the number of switches.
    #[error("{got} actions for {switches} switches")]
    Actions {
        /// Number of actions given.
        got: usize,
        /// Number of switches.
        switches: usize,
    },
    /// The control structure is being reshaped: finish that first.
    #[error("the control structure is being reshaped")]
    Reshaping,
    /// The error of a control structure with one switch.
    #[error(transparent)]
    Update(#[from] UpdateError),
}

/// The control structure of several switches that have the same names. It stores names and graph once, about
/// 26 bytes per name, and for each switch its bits, as many as its query structure has (2.33 slots per name).
///
/// Switches are numbered from 0. Each has its own stream of deltas for every partition. Its bits and its
/// deltas equal, bit for bit, those of a separate [`OthelloControl`] with the same history of names. Adding
/// and removing names costs the work on one graph, and a few flipped slots for each switch.
///
/// It keeps the shape that it was built with. When it returns [`Full`](super::Full), build a new one with
/// more ranges, and restart the switches' tables ([`Othello::restart`]).
#[derive(Debug)]
pub struct SharedControl {
    /// The graph, and the bits of switch 0.
    control: OthelloControl,
    /// The bits of the other switches.
    planes: Vec<SwitchBits>,
    changed: Vec<u32>,
    side: Vec<u32>,
}

impl SharedControl {
    /// Makes the switch of this control structure switch 0.
    ///
    /// # Errors
    /// [`SharedError::Reshaping`] while the control structure is in two shapes.
    pub fn new(control: OthelloControl) -> Result<Self, SharedError> {
        if control.keys.next.is_some() {
            return Err(SharedError::Reshaping);
        }
        Ok(Self { control, planes: Vec::new(), changed: Vec::new(), side: Vec::new() })
    }

    /// Adds a switch with these actions for the names, and returns its number. Its partitions are at position
    /// 1, as those of a table that was built.
    ///
    /// Cost: one pass over the existing graph, which writes a slot for each name.
    ///
    /// # Errors
    /// [`UpdateError::Value`] if an action does not fit the value bits.
    pub fn add_switch(&mut self, mut action: impl FnMut(KeyHash) -> u16) -> Result<usize, SharedError> {
        let mut plane = SwitchBits::empty(&self.control.keys.parts);
        let (params, mut wide) = (*self.control.params(), None);
        let Self { control, changed, side, .. } = self;
        for (at, store) in
            control.keys.parts.iter().enumerate().filter_map(|(at, part)| Some((at, part.as_ref()?)))
        {
            for range in 0..params.ranges_per_partition() {
                let at = (PartitionId(at as u16), range); // at most 2^16
                let mut follower = plane.follower(at, store, changed, side);
                follower.paint(|hash| {
                    let action = action(KeyHash::new(hash));
                    wide = wide.or(Some(action).filter(|&action| !params.is_value(action)));
                    action
                });
            }
        }
        if let Some(value) = wide {
            return Err(UpdateError::Value { op: 0, value, bits: params.value_bits() }.into());
        }
        self.planes.push(plane);
        Ok(self.planes.len())
    }

    /// Adds a name, with an action for each switch in the order of the switches. Returns a delta for each
    /// switch, in the same order. Cost: as [`OthelloControl::insert`], and the slots of one tree for each
    /// further switch.
    ///
    /// # Errors
    /// [`SharedError`]; nothing is then changed anywhere.
    pub fn insert(&mut self, name: KeyHash, actions: &[u16]) -> Result<Vec<Delta>, SharedError> {
        let ([first, others @ ..], true) = (actions, actions.len() == self.switches()) else {
            return Err(SharedError::Actions { got: actions.len(), switches: self.switches() });
        };
        if let Some(&value) = others.iter().find(|&&action| !self.control.params().is_value(action)) {
            return Err(UpdateError::Value { op: 0, value, bits: self.control.params().value_bits() }.into());
        }
        let (partition, range) = self.control.params().locate(name);
        let seed = |control: &OthelloControl| control.part(partition).map(|store| store.head(range).seed);
        let old = seed(&self.control);
        let delta = self.control.insert(name, *first)?;
        let reseeded = old.filter(|_| old != seed(&self.control));
        Ok(self.followed(delta, (partition, range), reseeded.is_some(), |switch, follower| match reseeded {
            Some(old) => follower.reseed(old, (name.get(), others[switch])),
            None => follower.set(name.get(), others[switch]),
        }))
    }

    /// Removes a name. Returns a delta for each switch, in the order of the switches. Cost: as
    /// [`OthelloControl::remove`], and the slots of one tree for each further switch.
    ///
    /// # Errors
    /// [`SharedError`]; nothing is then changed anywhere.
    pub fn remove(&mut self, name: KeyHash) -> Result<Vec<Delta>, SharedError> {
        let at = self.control.params().locate(name);
        let delta = self.control.remove(name)?;
        Ok(self.followed(delta, at, false, |_, follower| follower.part(name.get())))
    }

    /// Changes the action of one switch for a name. Cost: follows the slots below the name in its tree.
    ///
    /// # Errors
    /// [`SharedError`]; nothing is then changed.
    pub fn update(&mut self, switch: usize, name: KeyHash, action: u16) -> Result<Delta, SharedError> {
        let deltas = self.update_all(switch, &[(name, action)])?;
        deltas.into_iter().next().ok_or(SharedError::NoSwitch { switch, switches: self.switches() })
    }

    /// Changes the actions of one switch for many names, one after the other: all of them, or none. Returns
    /// one delta for each touched partition, ascending. This is the update that a switch needs when a link
    /// fails or a link weight changes.
    ///
    /// # Errors
    /// [`SharedError`]; nothing is then changed.
    pub fn update_all(
        &mut self,
        switch: usize,
        changes: &[(KeyHash, u16)],
    ) -> Result<Vec<Delta>, SharedError> {
        self.check(switch)?;
        let Some(plane) = switch.checked_sub(1) else {
            let ops: Vec<Op> = changes.iter().map(|&(name, action)| Op::Update(name, action)).collect();
            return Ok(self.control.batch(&ops)?);
        };
        let mut order = self.order(changes)?;
        order.sort_unstable();
        let Self { control, planes, changed, side } = self;
        let (layout, plane) = (Layout::of(control.params()), &mut planes[plane]);
        let mut scratch = std::mem::take(&mut control.scratch);
        let mut deltas = Vec::new();
        for of_partition in order.chunk_by(|one, next| one.0 == next.0) {
            let partition = of_partition[0].0;
            let Some(store) = control.part(partition) else { continue };
            let ranges = || of_partition.chunk_by(|one, next| one.1 == next.1);
            let mut writer = PayloadWriter::of_changes(&layout, ranges().count() as u32, scratch); // all at most
            for of_range in ranges() {
                let range = of_range[0].1;
                let mut follower = plane.follower((partition, range), store, changed, side);
                for &(_, _, op) in of_range {
                    let (name, action) = changes[op];
                    follower.set(name.get(), action);
                }
                changed.sort_unstable();
                changed.dedup();
                writer.slots(range, changed, plane.range(partition, &layout, range));
            }
            let at = &mut plane.positions[usize::from(partition.0)];
            let payload;
            (payload, scratch) = writer.finish();
            deltas.push(step::<OthelloStructure>(partition, at, payload, None));
        }
        control.scratch = scratch;
        Ok(deltas)
    }

    /// The partition and range of each changed name, with its index in `changes`; or the first error.
    fn order(&self, changes: &[(KeyHash, u16)]) -> Result<Vec<(PartitionId, u32, usize)>, UpdateError> {
        let params = self.control.params();
        let place = |(op, &(name, value)): (usize, &(KeyHash, u16))| {
            let (partition, range) = params.locate(name);
            let store = self.control.part(partition).ok_or(UpdateError::NotHeld { op, partition })?;
            if !params.is_value(value) {
                return Err(UpdateError::Value { op, value, bits: params.value_bits() });
            }
            store.get(range, name.get()).ok_or(UpdateError::Missing { op })?;
            Ok((partition, range, op))
        };
        changes.iter().enumerate().map(place).collect()
    }

    /// Applies to the other switches what the graph and switch 0 did in a range. Returns all deltas.
    fn followed(
        &mut self,
        first: Delta,
        at: (PartitionId, u32),
        is_whole: bool,
        follow: impl Fn(usize, &mut SwitchRange<'_>),
    ) -> Vec<Delta> {
        let Self { control, planes, changed, side } = self;
        let layout = Layout::of(control.params());
        let mut deltas = Vec::with_capacity(planes.len() + 1);
        deltas.push(first);
        let (partition, range) = at;
        let Some(store) = control.keys.parts[usize::from(partition.0)].as_ref() else { return deltas };
        for (switch, plane) in planes.iter_mut().enumerate() {
            follow(switch, &mut plane.follower(at, store, changed, side));
            let mut writer = PayloadWriter::of_changes(&layout, 1, std::mem::take(&mut control.scratch));
            let words = plane.range(partition, &layout, range);
            if is_whole {
                writer.range(range, store.head(range).seed, words);
            } else {
                changed.sort_unstable();
                writer.slots(range, changed, words);
            }
            let at = &mut plane.positions[usize::from(partition.0)];
            let (payload, scratch) = writer.finish();
            control.scratch = scratch;
            deltas.push(step::<OthelloStructure>(partition, at, payload, None));
        }
        deltas
    }

    /// The exact action of a switch for a name. `None` if the name is not stored here.
    ///
    /// # Errors
    /// [`SharedError::NoSwitch`].
    pub fn get(&self, switch: usize, name: KeyHash) -> Result<Option<u16>, SharedError> {
        self.check(switch)?;
        let Some(plane) = switch.checked_sub(1) else { return Ok(self.control.get(name)) };
        let (partition, range) = self.control.params().locate(name);
        let Some(store) = self.control.part(partition) else { return Ok(None) };
        let held = store.get(range, name.get());
        Ok(held.map(|_| self.planes[plane].get(store, (partition, range), name.get())))
    }

    /// A query structure for a switch, which can apply the switch's deltas.
    ///
    /// # Errors
    /// [`SharedError::NoSwitch`].
    pub fn export(&self, switch: usize) -> Result<Othello, SharedError> {
        self.check(switch)?;
        let Some(plane) = switch.checked_sub(1) else { return Ok(self.control.export()) };
        let plane = &self.planes[plane];
        let control = &self.control;
        let unit = |partition, range| {
            let store = control.part(partition)?;
            Some((plane.range(partition, store.layout(), range), store.head(range).seed))
        };
        Ok(control.export_of(unit, &plane.positions))
    }

    /// The absolute state of a partition of a switch as a delta from position 0, as
    /// [`OthelloControl::export_partition`].
    ///
    /// # Errors
    /// [`SharedError::NoSwitch`].
    pub fn export_partition(
        &self,
        switch: usize,
        partition: PartitionId,
    ) -> Result<Option<Delta>, SharedError> {
        self.check(switch)?;
        let Some(plane) = switch.checked_sub(1) else { return Ok(self.control.export_partition(partition)) };
        let (plane, Some(store)) = (&self.planes[plane], self.control.part(partition)) else {
            return Ok(None);
        };
        let position = plane.positions[usize::from(partition.0)];
        let payload = || whole(store, plane.words(partition), Vec::new()).finish().0;
        Ok(state::<OthelloStructure>(partition, position, payload))
    }

    const fn check(&self, switch: usize) -> Result<(), SharedError> {
        if switch >= self.switches() {
            return Err(SharedError::NoSwitch { switch, switches: self.switches() });
        }
        Ok(())
    }

    /// Number of switches.
    pub const fn switches(&self) -> usize {
        self.planes.len() + 1
    }

    /// The parameters of the graph.
    pub fn params(&self) -> &Params {
        self.control.params()
    }

    /// All stored names, ascending. Cost: sorts range by range.
    pub fn names(&self) -> impl Iterator<Item = KeyHash> + '_ {
        self.control.iter().map(|(name, _)| name)
    }

    /// Sizes and counters of the graph and of switch 0.
    pub fn stats(&self) -> Stats {
        self.control.stats()
    }

    /// Bytes of memory used for names, graph, and the bits of all switches.
    pub fn control_bytes(&self) -> usize {
        self.control.control_bytes() + self.planes.iter().map(SwitchBits::bytes).sum::<usize>()
    }
}
