//! Actions and their numbers.

use super::super::action::{Action, ActionId, Actions, MAX_ACTIONS, NumberedAction};
use std::collections::HashMap;

/// Actions in use, with the number of names of each. Numbers are assigned in ascending order and never reused: see
/// `Actions::meaning`.
#[derive(Debug, Default)]
pub(super) struct Interner {
    ids: HashMap<Action, ActionId>,
    slots: Vec<Slot>,
    /// Whether a number was assigned or became unused since readers were last updated.
    is_changed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    action: Action,
    names: u64,
}

impl Interner {
    /// Actions in use.
    pub(super) fn live(&self) -> usize {
        self.ids.len()
    }

    /// Numbers assigned so far, including unused ones.
    pub(super) fn given(&self) -> usize {
        self.slots.len()
    }

    /// The action of a number that was given.
    pub(super) fn action(&self, id: ActionId) -> Option<Action> {
        self.slots.get(usize::from(id.0)).map(|slot| slot.action)
    }

    pub(super) fn has(&self, action: &Action) -> bool {
        self.ids.contains_key(action)
    }

    /// Number of names with this action.
    pub(super) fn names(&self, id: ActionId) -> u64 {
        self.slots.get(usize::from(id.0)).map_or(0, |slot| slot.names)
    }

    /// Counts one more name with this action. `None` if no number is left.
    pub(super) fn acquire(&mut self, action: Action) -> Option<ActionId> {
        if let Some(&id) = self.ids.get(&action) {
            self.slots[usize::from(id.0)].names += 1;
            return Some(id);
        }
        if self.slots.len() >= MAX_ACTIONS {
            return None;
        }
        let id = ActionId(self.slots.len() as u16); // below MAX_ACTIONS
        self.slots.push(Slot { action, names: 1 });
        self.is_changed = true;
        self.ids.insert(action, id);
        Some(id)
    }

    /// Counts one name less with this action.
    pub(super) fn release(&mut self, id: ActionId) {
        let Some(slot) = self.slots.get_mut(usize::from(id.0)) else { return };
        slot.names = slot.names.saturating_sub(1);
        if slot.names == 0 && self.ids.get(&slot.action) == Some(&id) {
            self.ids.remove(&slot.action);
            self.is_changed = true;
        }
    }

    /// The readers' data, if it changed since the last call.
    pub(super) fn news(&mut self) -> Option<Actions> {
        std::mem::take(&mut self.is_changed).then(|| self.export())
    }

    /// The readers' data.
    pub(super) fn export(&self) -> Actions {
        let numbered =
            self.slots.iter().map(|slot| NumberedAction { action: slot.action, is_live: slot.names > 0 });
        let live = (0..=u16::MAX).zip(&self.slots).filter(|(_, slot)| slot.names > 0);
        Actions { numbered: numbered.collect(), live: live.map(|(id, _)| ActionId(id)).collect() }
    }
}
