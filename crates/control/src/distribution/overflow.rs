//! Keys that a full FIB does not hold.

use super::replica::Tables;
use scalebricks_tables::{FibError, FibValue};
use scalebricks_types::FlowKey;
use std::collections::HashMap;

/// Keys of one partition that are this node's and that its FIB had no room for: 60 bytes each. Packets to them are dropped here, and
/// counted, until there is room; nothing else waits for them.
#[derive(Debug, Default)]
pub(super) struct Overflow(HashMap<FlowKey, FibValue>);

impl Overflow {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sets a key in the FIB, or keeps it for later. Whether it is in the FIB; `None` if it can never be.
    pub(super) fn set(&mut self, tables: &mut impl Tables, key: &FlowKey, value: FibValue) -> Option<bool> {
        match tables.set(key, value) {
            Ok(()) => {
                self.0.remove(key);
                Some(true)
            }
            Err(FibError::Full { .. }) => {
                // An outdated value must not be used.
                tables.remove(key);
                self.0.insert(*key, value);
                Some(false)
            }
            Err(_) => None,
        }
    }

    /// A key is not this node's any longer.
    pub(super) fn forget(&mut self, key: &FlowKey) {
        self.0.remove(key);
    }

    /// The keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = FlowKey> {
        self.0.keys().copied()
    }

    /// Tries keys again, until one finds no room. Whether all that are left may be tried once more.
    pub(super) fn retry(&mut self, tables: &mut impl Tables) -> bool {
        let mut is_full = false;
        self.0.retain(|key, value| {
            is_full = is_full || tables.set(key, *value).is_err();
            is_full
        });
        !is_full
    }
}
