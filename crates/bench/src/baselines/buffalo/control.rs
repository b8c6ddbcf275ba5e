//! BUFFALO's slow memory: a filter that counts for each action, and the names.

use super::{Buffalo, Sizes};
use crate::baselines::BaselineError;

use scalebricks_tables::filter::{CountingFilter, FilterDelta};
use scalebricks_types::KeyHash;
use std::collections::HashMap;

/// What changes are made to.
#[derive(Debug)]
pub struct BuffaloControl {
    filters: Vec<CountingFilter>,
    names: HashMap<KeyHash, u16>,
    /// Actions whose filters have changed since the last deltas.
    changed: Vec<u16>,
    sizes: Sizes,
}

impl BuffaloControl {
    /// Without names.
    pub fn new(sizes: Sizes) -> Self {
        let filters = sizes.filters().iter().map(|&params| CountingFilter::new(params)).collect();
        Self { filters, names: HashMap::new(), changed: Vec::new(), sizes }
    }

    /// Names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Bytes of counters: four times the bits.
    pub fn control_bytes(&self) -> usize {
        self.filters.iter().map(CountingFilter::control_bytes).sum()
    }

    /// Adds a name.
    ///
    /// # Errors
    /// [`BaselineError::Action`]; [`BaselineError::Twice`] if it has an action already.
    pub fn insert(&mut self, name: KeyHash, action: u16) -> Result<(), BaselineError> {
        if self.names.contains_key(&name) {
            return Err(BaselineError::Twice(name));
        }
        self.filter(action)?.insert(name);
        self.names.insert(name, action);
        Ok(())
    }

    /// Takes a name out.
    ///
    /// # Errors
    /// [`BaselineError::Missing`].
    pub fn remove(&mut self, name: KeyHash) -> Result<(), BaselineError> {
        let action = self.names.remove(&name).ok_or(BaselineError::Missing(name))?;
        self.filter(action)?.remove(name).map_err(|_| BaselineError::Missing(name))
    }

    /// Gives a name another action.
    ///
    /// # Errors
    /// [`BaselineError::Missing`], [`BaselineError::Action`].
    pub fn change(&mut self, name: KeyHash, action: u16) -> Result<(), BaselineError> {
        if usize::from(action) >= self.filters.len() {
            return Err(BaselineError::Action { action, actions: self.filters.len() });
        }
        self.remove(name)?;
        self.insert(name, action)
    }

    /// What became of the bits since the last time: deltas of the actions that have changed, to be applied in this order. All
    /// that is set comes first, so that a name that goes from one action to another is unknown at no moment.
    pub fn take_deltas(&mut self) -> Vec<(u16, FilterDelta)> {
        self.changed.sort_unstable();
        self.changed.dedup();
        let (mut deltas, mut cleared) = (Vec::new(), Vec::new());
        for action in self.changed.drain(..) {
            if let Some(filter) = self.filters.get_mut(usize::from(action)) {
                let [set, clear] = filter.take_delta().split();
                deltas.push((action, set));
                cleared.push((action, clear));
            }
        }
        deltas.append(&mut cleared);
        deltas.retain(|(_, delta)| !delta.is_empty());
        deltas
    }

    /// Fast memory as it is now.
    pub fn export(&self) -> Buffalo {
        let filters = self.filters.iter().map(CountingFilter::export).collect();
        Buffalo { filters, seed: self.sizes.seed() }
    }

    /// Whether the filter of an action has a name.
    #[cfg(test)]
    pub(in crate::baselines) fn filters_have(&self, name: KeyHash, action: u16) -> bool {
        self.filters[usize::from(action)].contains(name)
    }

    /// The filter of an action, which is about to change.
    fn filter(&mut self, action: u16) -> Result<&mut CountingFilter, BaselineError> {
        let actions = self.filters.len();
        let filter = self.filters.get_mut(usize::from(action));
        let filter = filter.ok_or(BaselineError::Action { action, actions })?;
        self.changed.push(action);
        Ok(filter)
    }
}
