//! What is demanded of a world.

use crate::membership::world::{Change, NOTICED, World, id};
use scalebricks_control::membership::{HEARING, PULSELESS, Suspension};
use std::time::Duration;

impl World {
    /// Whether `a` has heard `b` for long enough that everybody has noticed.
    fn hears_steadily(&self, a: usize, b: usize) -> bool {
        let (hears, since) = self.hears[a][b];
        let is_steady =
            |number: usize| self.is_running(number) && self.now >= self.nodes[number].steady_since + NOTICED;
        hears && self.now >= since + NOTICED && is_steady(a) && is_steady(b)
    }

    /// A node that most of the other members hear is not removed, unless no node that reaches the engine can distinguish it from a dead one:
    /// it does not reach the engine itself.
    pub fn judge(&self, before: &[usize], change: &Change) {
        for removed in &change.removed {
            let others = || before.iter().filter(|other| *other != removed);
            let hearing = others().filter(|other| self.hears_steadily(**other, *removed)).count();
            let node = &self.nodes[*removed];
            // The last pulse may have come just before, and clocks differ.
            let is_pulseless = !node.has_engine && self.now >= node.engine_since + PULSELESS * 2 / 3;
            assert!(
                hearing * 2 <= others().count() || is_pulseless,
                "{:?}: {removed} is removed, and {hearing} of {before:?} hear it",
                self.now,
            );
        }
    }

    /// A node is suspended only if it is unfit, others are not, and some node is left.
    pub fn judge_suspensions(&self, change: &Change) {
        let Some((_, view)) = &self.record else { return };
        for &suspended in &change.suspended {
            let Some(suspension) = view.suspension(id(suspended)) else { continue };
            assert!(!self.able().is_empty(), "{:?}: no node is left without {suspended}", self.now);
            let Suspension::Unfit(reasons) = suspension else { continue };
            // It may have been fit since its last report, and others may be unfit since theirs.
            let lately = |number: usize| self.now < self.nodes[number].fitness_since + HEARING * 2;
            let node = &self.nodes[suspended];
            let others = self.alive().into_iter().filter(|other| *other != suspended);
            let others: Vec<usize> = others.collect();
            for reason in reasons.reasons() {
                assert!(node.fitness.has(reason) || lately(suspended), "{:?}: {suspended} is fit", self.now);
                let better = others
                    .iter()
                    .filter(|other| lately(**other) || reason.is_better(self.nodes[**other].fitness))
                    .count();
                assert!(better * 2 >= others.len(), "{:?}: {suspended} is no worse than others", self.now);
            }
        }
    }

    /// How often a node was suspended, and how often that was lifted, since a time.
    pub fn suspensions(&self, node: usize, since: Duration) -> (usize, usize) {
        let changes = || self.changes.iter().filter(|change| change.at >= since);
        let suspended = changes().filter(|change| change.suspended.contains(&node)).count();
        (suspended, changes().filter(|change| change.lifted.contains(&node)).count())
    }

    /// How often a node was removed, and how often it returned, since a time.
    pub fn count(&self, node: usize, since: Duration) -> (usize, usize) {
        let changes = || self.changes.iter().filter(|change| change.at >= since);
        let removed = changes().filter(|change| change.removed.contains(&node)).count();
        (removed, changes().filter(|change| change.joined.contains(&node)).count())
    }

    /// Since this time each member was removed at most once, and returned at most once.
    pub fn assert_calm(&self, since: Duration) {
        for node in 0..self.size() {
            let (removed, returned) = self.count(node, since);
            assert!(removed <= 1 && returned <= 1, "node {node} since {since:?}: {:#?}", self.changes);
            let (suspended, lifted) = self.suspensions(node, since);
            assert!(suspended <= 1 && lifted <= 1, "node {node} since {since:?}: {:#?}", self.changes);
        }
    }

    /// Nothing has changed since this time.
    pub fn assert_still(&self, since: Duration) {
        let last = self.changes.iter().find(|change| change.at >= since);
        assert!(last.is_none(), "not still since {since:?}: {last:?}");
    }

    pub fn are_all_in(&self) -> bool {
        let running: Vec<usize> =
            (0..self.size()).filter(|number| self.nodes[*number].machine.is_some()).collect();
        self.alive() == running && running.iter().all(|number| self.machine(*number).is_in())
    }
}
