//! The order in which young flows began.

use std::collections::VecDeque;

/// Entries that are looked at per new one: each new entry pays for the removal of others.
const PACE: usize = 4;

/// A queue of flows by key and number, oldest first. Flows that are not young any more are removed little by little.
#[derive(Debug)]
pub(super) struct Ages<K> {
    /// Entries that were looked at in this round; older than all others.
    older: VecDeque<(K, u64)>,
    newer: VecDeque<(K, u64)>,
}

impl<K: Copy> Ages<K> {
    pub(super) const fn new() -> Self {
        Self { older: VecDeque::new(), newer: VecDeque::new() }
    }

    /// The oldest entry, whose flow may not be young any more, or be gone.
    pub(super) fn pop(&mut self) -> Option<(K, u64)> {
        self.older.pop_front().or_else(|| self.newer.pop_front())
    }

    pub(super) fn push(&mut self, key: K, serial: u64) {
        self.newer.push_back((key, serial));
    }

    pub(super) fn len(&self) -> usize {
        self.older.len() + self.newer.len()
    }

    /// Looks at a few entries, and removes those whose flows are not young.
    pub(super) fn trim(&mut self, is_young: impl Fn(&K, u64) -> bool) {
        for _ in 0..PACE {
            if self.newer.is_empty() {
                std::mem::swap(&mut self.older, &mut self.newer);
            }
            let Some((key, serial)) = self.newer.pop_front() else { return };
            if is_young(&key, serial) {
                self.older.push_back((key, serial));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_order_while_others_are_removed() {
        let mut ages = Ages::new();
        for serial in 0..1_000 {
            ages.push((), serial);
            if ages.len() > 100 {
                ages.trim(|(), serial| serial % 20 == 0);
            }
            assert!(ages.len() <= 110, "{} entries", ages.len());
        }
        let left: Vec<u64> = std::iter::from_fn(|| ages.pop()).map(|((), serial)| serial).collect();
        assert!(left.is_sorted());
        assert!((0..1_000).step_by(20).all(|serial| left.contains(&serial)));
    }
}
